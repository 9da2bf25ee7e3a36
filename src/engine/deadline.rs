//! Views that take longer than their readers can wait.
//!
//! If a text can be kept on disk, its readers get the beginning at the deadline, and the rest is
//! still computed for the next reader. Only one view at a time goes on like this; another one that
//! is late meanwhile stops at its deadline.

use std::cell::OnceCell;
use std::time::Duration;
use std::time::Instant;

use crate::engine::sync::atomic::AtomicBool;
use crate::engine::sync::atomic::Ordering::Relaxed;

/// The one slot for a view that is computed past its deadline.
#[derive(Debug, Default)]
pub(crate) struct LateSlot {
    taken: AtomicBool,
    closed: AtomicBool,
}

/// Permission to compute past the deadline. Dropping it frees the slot.
pub(crate) struct LatePermit<'a>(&'a LateSlot);

impl LateSlot {
    /// Takes the slot, unless another view has it.
    pub(crate) fn take(&self) -> Option<LatePermit<'_>> {
        let taken = self.is_closed() || self.taken.swap(true, Relaxed);
        (!taken).then_some(LatePermit(self))
    }

    /// Stops all late views, as the server is ending.
    pub(crate) fn close(&self) {
        self.closed.store(true, Relaxed);
    }

    /// Returns true if the server is ending.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Relaxed)
    }
}

impl Drop for LatePermit<'_> {
    fn drop(&mut self) {
        self.0.taken.store(false, Relaxed);
    }
}

/// Returns a function that returns true once `limit` has passed.
pub(crate) fn deadline(limit: Duration) -> impl Fn() -> bool {
    let started = Instant::now();
    move || started.elapsed() >= limit
}

/// Returns a function that returns true when time has run out. That is after `limit`, unless
/// `begin` then gives permission to go on; with permission, as soon as `goes_on` returns false.
pub(crate) fn extended_deadline<'a>(
    limit: Duration,
    begin: impl Fn() -> Option<LatePermit<'a>>,
    goes_on: impl Fn() -> bool,
) -> impl Fn() -> bool {
    let is_due = deadline(limit);
    let permit = OnceCell::new();
    move || {
        if !is_due() {
            return false;
        }
        if permit.get().is_none()
            && let Some(permission) = begin()
        {
            permit.get_or_init(|| permission);
        }
        permit.get().is_none() || !goes_on()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn one_at_a_time_computes_on() {
        let slot = LateSlot::default();
        let goes_on = Cell::new(true);
        let late = || extended_deadline(Duration::ZERO, || slot.take(), || goes_on.get());
        let (first, second) = (late(), late());
        assert!(!first());
        assert!(second());
        assert!(!first());
        goes_on.set(false);
        assert!(first());
        drop(first);
        goes_on.set(true);
        let third = late();
        assert!(!third());
        drop(third);
        slot.close();
        assert!(late()());
    }

    #[test]
    fn nobody_is_late_before_the_time_is_up() {
        let time = extended_deadline(Duration::from_hours(1), || panic!("not yet"), || false);
        assert!(!time());
    }
}
