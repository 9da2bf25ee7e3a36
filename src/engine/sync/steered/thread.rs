//! Threads, as `std::thread` has them.

use std::time::Duration;

pub use shuttle::thread::{Builder, JoinHandle, current, spawn};

pub fn sleep(time: Duration) {
    super::pass(time);
}
