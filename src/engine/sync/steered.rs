//! Locks, threads and time as shuttle runs them: one thread at a time, chosen by a schedule.
//!
//! Shuttle has no clock, and its waits never time out. Here the clock moves when a thread waits for
//! it: a wait with a limit gives the other threads a turn, then times out.
#![allow(
    missing_debug_implementations,
    missing_docs,
    reason = "the interface is that of `parking_lot` and `std`, and tests alone use it"
)]

mod mutex;
pub mod thread;

use std::cell::Cell;
use std::sync::{LazyLock, PoisonError};
use std::time::{Duration, Instant};

pub use mutex::{Mutex, MutexGuard};
use shuttle::sync::RwLockWriteGuard;
pub use shuttle::sync::{RwLockReadGuard, atomic, mpsc};
pub use shuttle::thread_local;
pub use shuttle_dashmap::DashMap;

use ctxfs_store::{Conversation, ManifestLock, StoreError};

/// A wait with this limit or more never times out.
const FOR_EVER: Duration = Duration::from_mins(1);

static BEGINNING: LazyLock<Instant> = LazyLock::new(Instant::now);

std::thread_local! {
    /// Shuttle runs all threads of a test on one.
    static PASSED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Returns the time by which waiting threads are woken.
pub fn now() -> Instant {
    *BEGINNING + PASSED.get()
}

/// Does nothing, as the schedule alone decides which thread runs.
pub fn lower_priority() {}

/// Moves the clock, and gives the other threads a turn.
fn pass(time: Duration) {
    PASSED.set(PASSED.get() + time);
    shuttle::thread::yield_now();
}

/// As `parking_lot::RwLock`.
#[derive(Debug, Default)]
pub struct RwLock<T>(shuttle::sync::RwLock<T>);

impl<T> RwLock<T> {
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// As `parking_lot::Condvar`.
#[derive(Default)]
pub struct Condvar(shuttle::sync::Condvar);

/// As `parking_lot::WaitTimeoutResult`.
#[derive(Clone, Copy)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    pub fn timed_out(self) -> bool {
        self.0
    }
}

impl Condvar {
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    pub fn notify_all(&self) {
        self.0.notify_all();
    }

    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        guard.unlocked(|inner| self.0.wait(inner).unwrap_or_else(PoisonError::into_inner));
    }

    pub fn wait_while<T>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        mut waits: impl FnMut(&mut T) -> bool,
    ) {
        while waits(&mut *guard) {
            self.wait(guard);
        }
    }

    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, most: Duration) -> WaitTimeoutResult {
        if most >= FOR_EVER {
            self.wait(guard);
            return WaitTimeoutResult(false);
        }
        guard.released(|| pass(most));
        WaitTimeoutResult(true)
    }

    pub fn wait_while_for<T>(
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
pub fn lock_manifest(
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
