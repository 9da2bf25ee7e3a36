//! The clock that decides between what is concurrent.

use serde::{Deserialize, Serialize};

/// A moment of a hybrid clock: microseconds since the epoch by the clock of a host, or more, if
/// that host had seen a later one. It orders what was done without knowing of each other. Nothing
/// else depends on it, so a wrong clock harms nobody.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Stamp(pub u64);

/// The hybrid clock of a host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Clock {
    last: Stamp,
}

/// The latest stamp that is believed: some five hundred thousand years from now. A host that wrote
/// a later one leaves the others room to go on.
const LATEST: Stamp = Stamp(u64::MAX / 2);

impl Clock {
    /// Returns the latest stamp that was given or seen.
    pub fn last(&self) -> Stamp {
        self.last
    }

    /// Takes notice of a stamp: the next one is later.
    pub fn see(&mut self, stamp: Stamp) {
        self.last = self.last.max(stamp.min(LATEST));
    }

    /// Returns a stamp later than all before, and not before `now`, in microseconds since the
    /// epoch.
    pub fn stamp(&mut self, now: u64) -> Stamp {
        self.last = Stamp((self.last.0 + 1).max(now.min(LATEST.0)));
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stamp_is_later_than_all_that_was_seen() {
        let mut clock = Clock::default();
        let first = clock.stamp(100);
        clock.see(Stamp(500));
        let second = clock.stamp(100);
        assert!(first == Stamp(100) && second == Stamp(501) && clock.stamp(900) == Stamp(900));
        clock.see(Stamp(u64::MAX));
        assert!(clock.stamp(0) > LATEST, "a stamp from nowhere must not stop the clock");
    }
}
