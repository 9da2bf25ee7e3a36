//! Threads that must not wait, because others wait for them.

use std::cell::Cell;
use std::time::{Duration, Instant};

use crate::sync::{now, thread_local};
use crate::{EngineError, Result};

/// The patience of a thread with the request that it tries now.
#[derive(Clone, Copy)]
enum Patience {
    /// Wait for other processes.
    Waits,
    /// Slow work, without waiting for other processes.
    Works,
    /// Nothing slow. The request was first tried at this time.
    Prompt(Instant),
}

thread_local! {
    static PATIENCE: Cell<Patience> = const { Cell::new(Patience::Waits) };
}

/// Calls `run`, in which [`allow_slow`] fails and `may_wait` is false, for a request that was
/// first tried at `asked`. Within [`slowly`] slow work stays allowed.
pub fn promptly<T>(asked: Instant, run: impl FnOnce() -> T) -> T {
    match PATIENCE.with(Cell::get) {
        Patience::Works => run(),
        Patience::Waits | Patience::Prompt(_) => with(Patience::Prompt(asked), run),
    }
}

/// Calls `run` on a thread for slow work: [`allow_slow`] succeeds, and `may_wait` is false, as
/// there are few such threads.
pub fn slowly<T>(run: impl FnOnce() -> T) -> T {
    with(Patience::Works, run)
}

/// Calls `run`, which cannot be tried again, and so may wait on a thread for slow work.
pub(crate) fn to_the_end<T>(run: impl FnOnce() -> T) -> T {
    match PATIENCE.with(Cell::get) {
        Patience::Works => with(Patience::Waits, run),
        Patience::Waits | Patience::Prompt(_) => run(),
    }
}

fn with<T>(patience: Patience, run: impl FnOnce() -> T) -> T {
    let before = PATIENCE.with(|now| now.replace(patience));
    let done = run();
    PATIENCE.with(|now| now.set(before));
    done
}

/// Returns how long the request has waited that this thread tries now. Returns `None` on a thread
/// that may take long.
pub fn waited() -> Option<Duration> {
    match PATIENCE.with(Cell::get) {
        Patience::Prompt(asked) => Some(now() - asked),
        Patience::Waits | Patience::Works => None,
    }
}

/// Returns true on a thread that may wait for another process. On others, what has to wait fails
/// with EAGAIN before anything was changed, and is tried again.
pub(crate) fn may_wait() -> bool {
    matches!(PATIENCE.with(Cell::get), Patience::Waits)
}

/// Allows work that flushes to the disk, or looks at every file of a conversation. Fails with
/// [`EngineError::Slow`] inside [`promptly`]: the caller is to be called again elsewhere, so it
/// must not have changed anything yet.
pub fn allow_slow() -> Result<()> {
    if matches!(PATIENCE.with(Cell::get), Patience::Prompt(_)) {
        Err(EngineError::Slow)
    } else {
        Ok(())
    }
}
