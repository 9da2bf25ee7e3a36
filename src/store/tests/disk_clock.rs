//! For tests: the clock that dates files, which moves on in steps of some milliseconds.

use std::thread;
use std::time::Duration;

use crate::store::stat_file;

/// Waits until a new file is dated later than all before it, in milliseconds as records are.
pub(crate) fn moves_on() {
    let now = || stat_file(&tempfile::tempfile().unwrap()).unwrap().created().as_millis();
    let before = now();
    while now() == before {
        thread::sleep(Duration::from_millis(1));
    }
}
