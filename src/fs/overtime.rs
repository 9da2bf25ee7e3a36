//! Views that take longer than their readers can wait.
//!
//! Where the result can be kept, the readers get its beginning when their time is up, and the rest is
//! computed all the same: whoever looks again later finds it. One view at a time has that right;
//! another one that is late meanwhile ends where it is.

use std::cell::OnceCell;
use std::time::Duration;
use std::time::Instant;

use crate::fs::sync::atomic::AtomicBool;
use crate::fs::sync::atomic::Ordering::Relaxed;

/// Who computes on.
#[derive(Debug, Default)]
pub(crate) struct Overtime {
    taken: AtomicBool,
    closed: AtomicBool,
}

/// The right to compute on, until it is dropped.
pub(crate) struct Turn<'a>(&'a Overtime);

impl Overtime {
    /// The right to compute on, if nobody has it.
    pub(crate) fn take(&self) -> Option<Turn<'_>> {
        let taken = self.is_closed() || self.taken.swap(true, Relaxed);
        (!taken).then_some(Turn(self))
    }

    /// Nobody computes on from now on: the mount ends.
    pub(crate) fn close(&self) {
        self.closed.store(true, Relaxed);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Relaxed)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.taken.store(false, Relaxed);
    }
}

/// Says when there is no more time: after `limit`, unless `begin` then gets the right to compute on;
/// from then on, when `goes_on` says so.
pub(crate) fn until<'a>(
    limit: Duration,
    begin: impl Fn() -> Option<Turn<'a>>,
    goes_on: impl Fn() -> bool,
) -> impl Fn() -> bool {
    let started = Instant::now();
    let turn = OnceCell::new();
    move || {
        if started.elapsed() < limit {
            return false;
        }
        if turn.get().is_none()
            && let Some(right) = begin()
        {
            turn.get_or_init(|| right);
        }
        turn.get().is_none() || !goes_on()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn one_at_a_time_computes_on() {
        let overtime = Overtime::default();
        let goes_on = Cell::new(true);
        let late = || until(Duration::ZERO, || overtime.take(), || goes_on.get());
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
        overtime.close();
        assert!(late()());
    }

    #[test]
    fn nobody_is_late_before_the_time_is_up() {
        let time = until(Duration::from_hours(1), || panic!("not yet"), || false);
        assert!(!time());
    }
}
