//! Running an operation: on the worker that got it, or elsewhere if it has to wait.

use fuser::ReplyData;

use crate::kernel::adaptor::Adaptor;
use crate::kernel::operation::Operation;
use crate::{ContextFs, Fh, FsError, RequestOrigin, Result};

impl Adaptor {
    /// Runs one operation on this worker, in its span; `run` calls and replies.
    pub(super) fn run(&self, name: &'static str, run: impl FnOnce(Operation)) {
        self.workers.run(|| Operation::run(name, self.fs.counters(), run));
    }

    /// Answers a read that failed. What is not on this disk is read elsewhere, and this worker
    /// serves others.
    pub(super) fn not_read(
        &self,
        operation: Operation,
        (fh, offset, size): (Fh, u64, u32),
        (error, reply): (&FsError, ReplyData),
    ) {
        if !error.is_slow() {
            return reply.error(operation.error(error));
        }
        self.fs.read_elsewhere(fh, (offset, size as usize), move |read| match read {
            Ok(bytes) => reply.data(&bytes),
            Err(error) => reply.error(operation.error(&error)),
        });
    }

    /// Runs an operation that changes nothing, as [`Self::wait`] does. Whoever waits for it may be
    /// interrupted all the while.
    pub(super) fn ask<T: Send + 'static>(
        &self,
        name: &'static str,
        origin: RequestOrigin,
        attempt: impl FnMut(&ContextFs) -> Result<T> + Send + 'static,
        answer: impl FnOnce(Operation, Result<T>) + Send + 'static,
    ) {
        self.run(name, |operation| {
            self.fs.ask_patiently(origin, attempt, move |done| answer(operation, done));
        });
    }

    /// Runs an operation that may have to wait for another process, or for the disk. It then goes
    /// on elsewhere, and this worker serves others.
    pub(super) fn wait<T: 'static>(
        &self,
        name: &'static str,
        origin: RequestOrigin,
        attempt: impl FnMut(&ContextFs) -> Result<T> + Send + 'static,
        answer: impl FnOnce(Operation, Result<T>) + Send + 'static,
    ) {
        self.run(name, |operation| {
            self.fs.patiently(origin, attempt, move |done| answer(operation, done));
        });
    }
}
