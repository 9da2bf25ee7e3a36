//! The patience of a thread: whether its current request may do slow work or wait for another
//! process.
//!
//! A thread that serves requests must do neither. The request then fails with [`EngineError::Slow`]
//! or EAGAIN before it has changed anything, and the caller retries it on another thread.

use std::cell::Cell;
use std::time::{Duration, Instant};

use crate::sync::{now, thread_local};
use crate::{EngineError, Result};

/// The work that a thread may do at the moment.
///
/// - `Waits`: the thread may do slow work and wait for other processes
/// - `Works`: the thread may do slow work, but must not wait for other processes
/// - `Prompt`: the thread must not do anything slow. The request was first tried at this time.
#[derive(Clone, Copy)]
enum ThreadPatience {
    Waits,
    Works,
    Prompt(Instant),
}

thread_local! {
    static PATIENCE: Cell<ThreadPatience> = const { Cell::new(ThreadPatience::Waits) };
}

/// Calls `run` for a request that was first tried at `asked`. In `run`, [`allow_slow`] fails and
/// `may_wait` returns false. Inside [`slowly`], slow work remains allowed.
pub fn promptly<T>(asked: Instant, run: impl FnOnce() -> T) -> T {
    match PATIENCE.with(Cell::get) {
        ThreadPatience::Works => run(),
        ThreadPatience::Waits | ThreadPatience::Prompt(_) => {
            let _restored = Restored::after(ThreadPatience::Prompt(asked));
            run()
        }
    }
}

/// Calls `run` on a thread for slow work. In `run`, [`allow_slow`] succeeds, but `may_wait` returns
/// false, because there are few such threads.
pub fn slowly<T>(run: impl FnOnce() -> T) -> T {
    let _restored = Restored::after(ThreadPatience::Works);
    run()
}

/// Calls `run`, which cannot be retried. On a thread for slow work, `run` may therefore wait.
pub(crate) fn to_the_end<T>(run: impl FnOnce() -> T) -> T {
    match PATIENCE.with(Cell::get) {
        ThreadPatience::Works => {
            let _restored = Restored::after(ThreadPatience::Waits);
            run()
        }
        ThreadPatience::Waits | ThreadPatience::Prompt(_) => run(),
    }
}

/// Restores the patience of the thread when it is dropped, also after a panic.
struct Restored(ThreadPatience);

impl Restored {
    fn after(patience: ThreadPatience) -> Self {
        Self(PATIENCE.with(|now| now.replace(patience)))
    }
}

impl Drop for Restored {
    fn drop(&mut self) {
        PATIENCE.with(|now| now.set(self.0));
    }
}

/// Returns the time for which the current request has waited. `None` on a thread that may do slow
/// work.
pub fn waited() -> Option<Duration> {
    match PATIENCE.with(Cell::get) {
        ThreadPatience::Prompt(asked) => Some(now() - asked),
        ThreadPatience::Waits | ThreadPatience::Works => None,
    }
}

/// Returns true if this thread may wait for another process. Otherwise the caller fails with EAGAIN
/// where it would have to wait.
pub(crate) fn may_wait() -> bool {
    matches!(PATIENCE.with(Cell::get), ThreadPatience::Waits)
}

/// Checks that this thread may do slow work: flush to the disk, or look at every file of a
/// conversation. Fails with [`EngineError::Slow`] inside [`promptly`]. The caller is then called
/// again on another thread, so it must not have changed anything before this call.
pub fn allow_slow() -> Result<()> {
    if matches!(PATIENCE.with(Cell::get), ThreadPatience::Prompt(_)) {
        Err(EngineError::Slow)
    } else {
        Ok(())
    }
}
