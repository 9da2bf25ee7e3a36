//! The patience of a thread: whether the request that it serves may do slow work, or wait for
//! another process.
//!
//! A thread that serves requests fails with [`EngineError::Slow`] or EAGAIN instead, before anything
//! was changed, and its caller tries again on another thread.

use std::cell::Cell;
use std::time::{Duration, Instant};

use crate::error::{EngineError, Result};
use crate::sync::{now, thread_local};

#[derive(Clone, Copy)]
enum ThreadPatience {
    /// May wait for other processes.
    Waits,
    /// May do slow work, without waiting for other processes.
    Works,
    /// May do nothing slow. The request was first tried at this time.
    Prompt(Instant),
}

thread_local! {
    static PATIENCE: Cell<ThreadPatience> = const { Cell::new(ThreadPatience::Waits) };
}

/// Calls `run` for a request that was first tried at `asked`: [`allow_slow`] fails, and `may_wait`
/// is false. Within [`slowly`], slow work stays allowed.
pub fn promptly<T>(asked: Instant, run: impl FnOnce() -> T) -> T {
    match PATIENCE.with(Cell::get) {
        ThreadPatience::Works => run(),
        ThreadPatience::Waits | ThreadPatience::Prompt(_) => {
            with(ThreadPatience::Prompt(asked), run)
        }
    }
}

/// Calls `run` on a thread for slow work: [`allow_slow`] succeeds, but `may_wait` is false, as
/// there are few such threads.
pub fn slowly<T>(run: impl FnOnce() -> T) -> T {
    with(ThreadPatience::Works, run)
}

/// Calls `run`, which cannot be tried again, and so may wait on a thread for slow work.
pub(crate) fn to_the_end<T>(run: impl FnOnce() -> T) -> T {
    match PATIENCE.with(Cell::get) {
        ThreadPatience::Works => with(ThreadPatience::Waits, run),
        ThreadPatience::Waits | ThreadPatience::Prompt(_) => run(),
    }
}

fn with<T>(patience: ThreadPatience, run: impl FnOnce() -> T) -> T {
    let before = PATIENCE.with(|now| now.replace(patience));
    let done = run();
    PATIENCE.with(|now| now.set(before));
    done
}

/// Returns how long the present request has waited. `None` on a thread that may take long.
pub fn waited() -> Option<Duration> {
    match PATIENCE.with(Cell::get) {
        ThreadPatience::Prompt(asked) => Some(now() - asked),
        ThreadPatience::Waits | ThreadPatience::Works => None,
    }
}

/// Returns true if this thread may wait for another process. Otherwise a wait is EAGAIN.
pub(crate) fn may_wait() -> bool {
    matches!(PATIENCE.with(Cell::get), ThreadPatience::Waits)
}

/// Allows work that flushes to the disk, or looks at every file of a conversation. Fails with
/// [`EngineError::Slow`] inside [`promptly`]: the caller is called again on another thread, so it
/// must not have changed anything yet.
pub fn allow_slow() -> Result<()> {
    if matches!(PATIENCE.with(Cell::get), ThreadPatience::Prompt(_)) {
        Err(EngineError::Slow)
    } else {
        Ok(())
    }
}
