//! Shuttle's mutex, with guards that know what they guard, so that a wait can let go of it.

use std::fmt;
use std::ops::Deref;
use std::ops::DerefMut;
use std::sync::LockResult;
use std::sync::PoisonError;

/// As `std::sync::Mutex`. It is never poisoned: its users do not care.
#[derive(Default)]
pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

/// As `std::sync::MutexGuard`.
pub(crate) struct MutexGuard<'a, T> {
    inner: shuttle::sync::MutexGuard<'a, T>,
    of: &'a Mutex<T>,
}

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(shuttle::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        let inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(MutexGuard { inner, of: self })
    }
}

impl<'a, T> MutexGuard<'a, T> {
    pub(super) fn of(&self) -> &'a Mutex<T> {
        self.of
    }

    /// Hands the lock to `wait`, and takes it back.
    pub(super) fn released(
        self,
        wait: impl FnOnce(shuttle::sync::MutexGuard<'a, T>) -> shuttle::sync::MutexGuard<'a, T>,
    ) -> Self {
        Self { inner: wait(self.inner), of: self.of }
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}

impl<T> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mutex").finish_non_exhaustive()
    }
}
