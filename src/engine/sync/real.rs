//! Locks, threads and time as the program uses them.

pub use std::sync::{atomic, mpsc};
use std::time::Instant;
pub use std::{thread, thread_local};

pub use dashmap::DashMap;
pub use parking_lot::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard};

use rustix::process::{getpriority_process, setpriority_process};

use ctxfs_store::{Conversation, ManifestLock, StoreError};

/// How much nicer than others threads are that work in the background; see setpriority(2). Beside a
/// process that computes, such a thread gets a quarter of a processor. With 19 it gets a seventieth: 600 outputs of
/// 5 KB were sealed after 20 to 28 s beside two busy loops on two processors, with 5 after 2 s.
const BACKGROUND: i32 = 5;

/// Makes the calling thread one that works in the background. On Linux this affects that thread
/// alone.
pub fn lower_priority() {
    let lowered = getpriority_process(None)
        .and_then(|nice| setpriority_process(None, nice.saturating_add(BACKGROUND)));
    if let Err(error) = lowered {
        tracing::debug!(%error, "a background thread runs at normal priority");
    }
}

/// Returns the time by which waiting threads are woken.
pub fn now() -> Instant {
    Instant::now()
}

/// Locks the manifest of `conversation` for a moment. Waits for another process that has it, if the
/// caller `may_wait`, and fails with EAGAIN otherwise.
pub fn lock_manifest(
    conversation: &Conversation,
    may_wait: bool,
) -> Result<ManifestLock, StoreError> {
    let manifest = conversation.manifest();
    if may_wait { manifest.lock() } else { manifest.lock_in_turn() }
}
