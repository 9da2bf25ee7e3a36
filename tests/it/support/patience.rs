//! Waiting for events, without sleeping longer than they take.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

/// The longest wait for an event. Only a test that fails waits that long: beside twenty busy
/// processes, 1,500 outputs were not sealed within a minute.
const LIMIT: Duration = Duration::from_mins(3);

/// Calls `happened` until it returns true. Panics with `what` if it does not in time.
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

/// Waits until a new file is dated later than all before it, in milliseconds as records are. The
/// clock that dates files moves on in steps of some milliseconds.
pub(crate) fn disk_clock_moves_on() {
    let now = || {
        let made = tempfile::tempfile().unwrap().metadata().unwrap().modified().unwrap();
        made.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis()
    };
    let before = now();
    eventually("the clock of the disk moves on", || now() > before);
}

/// Runs `work` on a thread of its own. Returns `None` if it takes longer than `limit`.
pub(crate) fn within<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (send, receive) = mpsc::channel();
    thread::spawn(move || send.send(work()));
    receive.recv_timeout(limit).ok()
}
