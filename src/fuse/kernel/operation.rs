//! The span of one operation: panics are caught, errors and slow operations are logged.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use crate::FsError;
use ctxfs_engine::Counters;

/// An operation that takes longer is logged.
const SLOW: Duration = Duration::from_millis(200);

/// An operation that the kernel has requested, by its name in the log.
#[derive(Debug, Clone, Copy)]
pub(super) struct Operation(&'static str);

impl Operation {
    /// Runs one operation. A panic drops its reply, which then answers EIO; the mount lives on.
    pub(super) fn run(name: &'static str, counters: &Counters, run: impl FnOnce(Self)) {
        let started = Instant::now();
        if catch_unwind(AssertUnwindSafe(|| run(Self(name)))).is_err() {
            tracing::error!(operation = name, "panicked; the caller got EIO");
        }
        let took = started.elapsed();
        if took >= SLOW {
            Counters::add(&counters.slow_operations, 1);
            tracing::warn!(operation = name, ?took, "slow");
        }
    }

    /// Logs an error, as a warning if it is a fault, and returns its errno.
    pub(super) fn error(self, error: &FsError) -> fuser::Errno {
        let (operation, errno) = (self.0, error.errno());
        if error.is_fault() {
            tracing::warn!(operation, errno = errno.0, %error, "failed");
        } else {
            tracing::debug!(operation, errno = errno.0, %error, "refused");
        }
        fuser::Errno::from_i32(errno.0)
    }
}
