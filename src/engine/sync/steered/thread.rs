//! Threads, as `std::thread` has them.

use std::time::Duration;

pub(crate) use shuttle::thread::Builder;
pub(crate) use shuttle::thread::JoinHandle;
pub(crate) use shuttle::thread::current;
pub(crate) use shuttle::thread::spawn;

pub(crate) fn sleep(time: Duration) {
    super::pass(time);
}
