//! Shuttle's mutex with the interface of `parking_lot`.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::PoisonError;

type InnerGuard<'a, T> = shuttle::sync::MutexGuard<'a, T>;

/// As `parking_lot::Mutex`.
#[derive(Default)]
pub struct Mutex<T>(shuttle::sync::Mutex<T>);

/// As `parking_lot::MutexGuard`. Refers to its mutex, so that a wait can unlock and lock it.
pub struct MutexGuard<'a, T> {
    /// `None` only while a wait has unlocked it.
    inner: Option<InnerGuard<'a, T>>,
    of: &'a Mutex<T>,
}

impl<T> Mutex<T> {
    pub fn new(value: T) -> Self {
        Self(shuttle::sync::Mutex::new(value))
    }

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

impl<'a, T> MutexGuard<'a, T> {
    /// Hands the shuttle guard to `wait`, which returns it.
    pub(super) fn unlocked(&mut self, wait: impl FnOnce(InnerGuard<'a, T>) -> InnerGuard<'a, T>) {
        self.inner = self.inner.take().map(wait);
    }

    /// Unlocks while `wait` runs.
    pub(super) fn released(&mut self, wait: impl FnOnce()) {
        self.inner = None;
        wait();
        self.inner = Some(self.of.lock_inner());
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.inner.as_ref().expect("it is locked")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.inner.as_mut().expect("it is locked")
    }
}

impl<T> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mutex").finish_non_exhaustive()
    }
}
