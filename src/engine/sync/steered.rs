//! Locks, threads and time under shuttle. Shuttle runs one thread at a time, chosen by a schedule.
//!
//! Shuttle has no clock, and its waits never time out. In this module the clock advances when a
//! thread waits: a wait with a time limit gives the other threads a turn and then times out.
#![allow(
    missing_debug_implementations,
    missing_docs,
    reason = "the interface is that of `parking_lot` and `std`, and tests alone use it"
)]

use std::cell::Cell;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{LazyLock, PoisonError};
use std::time::{Duration, Instant};

use shuttle::sync::RwLockWriteGuard;
pub use shuttle::sync::{RwLockReadGuard, atomic, mpsc};
pub use shuttle::thread_local;
pub use shuttle_dashmap::DashMap;

use ctxfs_store::{Conversation, ManifestLock, StoreError};

/// A wait with a limit of at least this time never times out.
const FOR_EVER: Duration = Duration::from_mins(1);

static BEGINNING: LazyLock<Instant> = LazyLock::new(Instant::now);

std::thread_local! {
    /// A thread-local is sufficient, because shuttle runs all threads of a test on one system
    /// thread.
    static PASSED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Returns the current time of the clock that timed waits use.
pub fn now() -> Instant {
    *BEGINNING + PASSED.get()
}

/// Does nothing, because the schedule alone decides which thread runs.
pub fn lower_priority() {}

fn pass(time: Duration) {
    PASSED.set(PASSED.get() + time);
    shuttle::thread::yield_now();
}

/// Replacements for items of `std::thread`.
pub mod thread {
    use std::time::Duration;

    pub use shuttle::thread::{Builder, JoinHandle, current, spawn};

    pub fn sleep(time: Duration) {
        super::pass(time);
    }
}

type InnerGuard<'a, T> = shuttle::sync::MutexGuard<'a, T>;

#[derive(Default)]
pub struct Mutex<T: ?Sized>(shuttle::sync::Mutex<T>);

/// A guard with a reference to its mutex, so that a wait can unlock and relock the mutex.
pub struct MutexGuard<'a, T: ?Sized> {
    /// `None` only while a wait has unlocked the mutex.
    inner: Option<InnerGuard<'a, T>>,
    of: &'a Mutex<T>,
}

impl<T> Mutex<T> {
    pub fn new(value: T) -> Self {
        Self(shuttle::sync::Mutex::new(value))
    }
}

impl<T: ?Sized> Mutex<T> {
    pub fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard { inner: Some(self.lock_inner()), of: self }
    }

    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let inner = self.0.try_lock().ok()?;
        Some(MutexGuard { inner: Some(inner), of: self })
    }

    fn lock_inner(&self) -> InnerGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<'a, T: ?Sized> MutexGuard<'a, T> {
    fn unlocked(&mut self, wait: impl FnOnce(InnerGuard<'a, T>) -> InnerGuard<'a, T>) {
        self.inner = self.inner.take().map(wait);
    }

    fn released(&mut self, wait: impl FnOnce()) {
        self.inner = None;
        wait();
        self.inner = Some(self.of.lock_inner());
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.inner.as_ref().expect("it is locked")
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.inner.as_mut().expect("it is locked")
    }
}

impl<T: ?Sized> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mutex").finish_non_exhaustive()
    }
}

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

#[derive(Default)]
pub struct Condvar(shuttle::sync::Condvar);

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

/// Locks the manifest of `conversation`. Gives the other threads a turn while another thread holds
/// the lock, because waiting for the kernel's lock would block all threads.
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
