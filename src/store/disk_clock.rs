//! For tests: the clock that dates files, which moves on in steps of some milliseconds.
#![allow(
    dead_code,
    missing_debug_implementations,
    missing_docs,
    clippy::unwrap_used,
    reason = "a fixture, of which tests of other crates use a part"
)]

use std::thread;
use std::time::Duration;

use crate::stat_file;

/// Waits until a new file is dated later than all before it, in milliseconds as records are.
pub fn moves_on() {
    let now = || stat_file(&tempfile::tempfile().unwrap()).unwrap().created().as_millis();
    let before = now();
    while now() == before {
        thread::sleep(Duration::from_millis(1));
    }
}
