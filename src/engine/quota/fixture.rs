//! For tests: quotas that leave a new conversation a certain room.
#![allow(
    dead_code,
    missing_debug_implementations,
    missing_docs,
    clippy::unwrap_used,
    reason = "a fixture, of which tests of other crates use a part"
)]

use ctxfs_core::model::Component;
use ctxfs_store::{SharedRoom, Store, Usage};

/// Returns the quota that leaves `room` bytes to a new conversation.
pub fn of_new_conversation(room: u64) -> u64 {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let conversation = store.create_conversation(&Component::new("c").unwrap()).unwrap();
    SharedRoom::lock(&conversation, true).unwrap().unwrap().set(0, 0).unwrap();
    Usage::of(&conversation).unwrap().bytes + room
}
