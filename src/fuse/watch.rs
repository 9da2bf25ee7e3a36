//! Watching operations: panics are contained, slow ones and faults are logged.

use std::panic::AssertUnwindSafe;
use std::panic::catch_unwind;
use std::time::Duration;
use std::time::Instant;

use crate::engine::Counters;
use crate::fs::FsError;
use crate::fs::Level;

/// An operation that takes longer is worth a line in the log.
const SLOW: Duration = Duration::from_millis(200);

/// Runs one operation. A panic drops its reply, which then answers EIO; the mount lives on.
pub(super) fn watch(operation: &'static str, counters: &Counters, run: impl FnOnce()) {
    let started = Instant::now();
    if catch_unwind(AssertUnwindSafe(run)).is_err() {
        tracing::error!(operation, "panicked; the caller got EIO");
    }
    let took = started.elapsed();
    if took >= SLOW {
        Counters::add(&counters.slow_operations, 1);
        tracing::warn!(operation, ?took, "slow");
    }
}

/// Logs a refusal as loudly as it deserves, and gives its number.
pub(super) fn refuse(operation: &'static str, error: &FsError) -> fuser::Errno {
    let errno = error.errno();
    match error.level() {
        Level::Debug => tracing::debug!(operation, errno = errno.0, %error, "refused"),
        Level::Warn => tracing::warn!(operation, errno = errno.0, %error, "failed"),
    }
    fuser::Errno::from_i32(errno.0)
}
