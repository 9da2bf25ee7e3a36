//! Waiting for what will happen, without sleeping longer than it takes.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;
use std::time::Instant;

/// Longest that anything may take to happen.
const LIMIT: Duration = Duration::from_secs(20);

/// Asks again and again until `happened` says so; panics with `what` when it does not.
pub(crate) fn eventually(what: &str, happened: impl FnMut() -> bool) {
    assert!(comes_true(happened), "not within {LIMIT:?}: {what}");
}

/// Waits for `happened` to return true, and returns false if it does not in time.
pub(crate) fn comes_true(mut happened: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + LIMIT;
    let mut pause = Duration::from_millis(1);
    while !happened() {
        if Instant::now() > deadline {
            return false;
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(30));
    }
    true
}

/// Runs `work` on a thread of its own; `None` when it takes longer than `limit`.
pub(crate) fn within<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (send, receive) = mpsc::channel();
    thread::spawn(move || send.send(work()));
    receive.recv_timeout(limit).ok()
}
