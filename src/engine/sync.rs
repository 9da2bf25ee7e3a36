//! Locks, atomics, threads, and the time they wait for.
//!
//! `engine` and `fuse` take all of them from here. In the program they are those of `parking_lot`,
//! `dashmap` and `std`; in tests with the feature `shuttle` they let the test decide which thread
//! runs next (see `fuse/tests/interleaved.rs`). `Arc` and plain counters need no replacement.
//!
//! No lock is poisoned by a panic: the state that a lock guards is valid after every statement, and
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

    /// The niceness that background threads add; see setpriority(2). Beside a process that
    /// computes, such a thread gets a quarter of a processor. With 19 it gets a seventieth: 600
    /// outputs of 5 KB were sealed after 20 to 28 s beside two busy loops on two processors, with 5
    /// after 2 s.
    const BACKGROUND: i32 = 5;

    /// Makes the calling thread one that works in the background. On Linux this affects that thread
    /// alone.
    pub fn lower_priority() {
        let lowered = getpriority_process(None)
            .and_then(|nice| setpriority_process(None, nice.saturating_add(BACKGROUND)));
        if let Err(error) = lowered {
            tracing::debug!(%error, "a background thread runs at normal priority");
        }
    }

    /// Returns the time by which waiting threads are woken.
    pub fn now() -> Instant {
        Instant::now()
    }

    /// Locks the manifest of `conversation` for a moment. If another process has it, waits if the
    /// caller `may_wait`, and fails with EAGAIN otherwise.
    pub fn lock_manifest(
        conversation: &Conversation,
        may_wait: bool,
    ) -> Result<ManifestLock, StoreError> {
        let manifest = conversation.manifest();
        if may_wait { manifest.lock() } else { manifest.lock_in_turn() }
    }
}
