//! Locks, atomics, threads, and the clock that timed waits use.
//!
//! `engine` and `fuse` import all of these from here. In the program, they are the types of
//! `parking_lot`, `dashmap` and `std`. In tests with the feature `shuttle`, they let the test
//! decide which thread runs next (see `fuse/tests/interleaved.rs`). `Arc` and plain counters need
//! no replacement.
//!
//! A panic does not poison a lock. The state that a lock guards is valid after every statement, and
//! the code that catches a panic reports it.

#[cfg(feature = "shuttle")]
mod steered;
#[cfg(feature = "shuttle")]
pub use steered::*;

#[cfg(not(feature = "shuttle"))]
pub use real::*;

#[cfg(not(feature = "shuttle"))]
mod real {
    pub use std::sync::{atomic, mpsc};
    use std::time::Instant;
    pub use std::{thread, thread_local};

    pub use dashmap::DashMap;
    pub use parking_lot::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard};

    use rustix::process::{getpriority_process, setpriority_process};

    use ctxfs_store::{Conversation, ManifestLock, StoreError};

    /// The amount added to the niceness of background threads; see setpriority(2). With 5, such a
    /// thread gets a quarter of a processor beside a process that computes; with 19, it gets a
    /// seventieth. For comparison, 600 outputs of 5 KB were written beside two busy loops on two
    /// processors. Sealing them took 2 s with 5, and 20 to 28 s with 19.
    const BACKGROUND: i32 = 5;

    /// Lowers the priority of the calling thread, which works in the background. On Linux this
    /// affects only that thread.
    pub fn lower_priority() {
        let lowered = getpriority_process(None)
            .and_then(|nice| setpriority_process(None, nice.saturating_add(BACKGROUND)));
        if let Err(error) = lowered {
            tracing::debug!(%error, "a background thread runs at normal priority");
        }
    }

    /// Returns the current time of the clock that timed waits use.
    pub fn now() -> Instant {
        Instant::now()
    }

    /// Locks the manifest of `conversation` for a short time. If another process holds the lock,
    /// waits if `may_wait` is true, and fails with EAGAIN otherwise.
    pub fn lock_manifest(
        conversation: &Conversation,
        may_wait: bool,
    ) -> Result<ManifestLock, StoreError> {
        let manifest = conversation.manifest();
        if may_wait { manifest.lock() } else { manifest.lock_in_turn() }
    }
}
