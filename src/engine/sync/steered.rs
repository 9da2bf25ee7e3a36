//! Locks, threads and time as shuttle runs them: one thread at a time, chosen by a schedule.
//!
//! Shuttle has no clock, and its waits never time out. Here the clock moves when a thread waits for
//! it: a wait with a limit gives the other threads a turn, then times out.

mod mutex;
pub(crate) mod thread;

use std::cell::Cell;
use std::sync::LazyLock;
use std::sync::PoisonError;
use std::time::Duration;
use std::time::Instant;

pub(crate) use mutex::Mutex;
pub(crate) use mutex::MutexGuard;
pub(crate) use shuttle::sync::RwLockReadGuard;
use shuttle::sync::RwLockWriteGuard;
pub(crate) use shuttle::sync::atomic;
pub(crate) use shuttle::sync::mpsc;
pub(crate) use shuttle::thread_local;
pub(crate) use shuttle_dashmap::DashMap;

use crate::store::Conversation;
use crate::store::ManifestLock;
use crate::store::StoreError;

/// A wait with this limit or more never times out.
const FOR_EVER: Duration = Duration::from_mins(1);

static BEGINNING: LazyLock<Instant> = LazyLock::new(Instant::now);

std::thread_local! {
    /// Shuttle runs all threads of a test on one.
    static PASSED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Returns the time by which waiting threads are woken.
pub(crate) fn now() -> Instant {
    *BEGINNING + PASSED.get()
}

/// Does nothing, as the schedule alone decides which thread runs.
pub(crate) fn lower_priority() {}

/// Moves the clock, and gives the other threads a turn.
fn pass(time: Duration) {
    PASSED.set(PASSED.get() + time);
    shuttle::thread::yield_now();
}

/// As `parking_lot::RwLock`.
#[derive(Debug, Default)]
pub(crate) struct RwLock<T>(shuttle::sync::RwLock<T>);

impl<T> RwLock<T> {
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// As `parking_lot::Condvar`.
#[derive(Default)]
pub(crate) struct Condvar(shuttle::sync::Condvar);

/// As `parking_lot::WaitTimeoutResult`.
#[derive(Clone, Copy)]
pub(crate) struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    pub(crate) fn timed_out(self) -> bool {
        self.0
    }
}

impl Condvar {
    pub(crate) fn notify_one(&self) {
        self.0.notify_one();
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }

    pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        guard.unlocked(|inner| self.0.wait(inner).unwrap_or_else(PoisonError::into_inner));
    }

    pub(crate) fn wait_while<T>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        mut waits: impl FnMut(&mut T) -> bool,
    ) {
        while waits(&mut *guard) {
            self.wait(guard);
        }
    }

    pub(crate) fn wait_for<T>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        most: Duration,
    ) -> WaitTimeoutResult {
        if most >= FOR_EVER {
            self.wait(guard);
            return WaitTimeoutResult(false);
        }
        guard.released(|| pass(most));
        WaitTimeoutResult(true)
    }

    pub(crate) fn wait_while_for<T>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        mut waits: impl FnMut(&mut T) -> bool,
        most: Duration,
    ) -> WaitTimeoutResult {
        let mut late = WaitTimeoutResult(false);
        while !late.timed_out() && waits(&mut *guard) {
            late = self.wait_for(guard, most);
        }
        late
    }
}

/// Locks the manifest of `conversation`, and gives the other threads a turn while it is taken: the
/// kernel's own lock would stop them all.
pub(crate) fn lock_manifest(
    conversation: &Conversation,
    _may_wait: bool,
) -> Result<ManifestLock, StoreError> {
    loop {
        match conversation.manifest().lock_at_once()? {
            Some(held) => return Ok(held),
            None => pass(Duration::ZERO),
        }
    }
}
