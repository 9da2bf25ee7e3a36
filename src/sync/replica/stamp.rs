
use serde::{Deserialize, Serialize};

///+ Time of a hybrid logical clock: microseconds since the epoch by the clock of a host, or more if
///+ that host has seen a later stamp. It only orders concurrent changes, so a wrong clock does no
///+ harm beyond that order.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Stamp(pub u64);

///+ Hybrid clock of a host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Clock {
    last: Stamp,
}

///+ Latest stamp that is believed, about 300,000 years from now. It leaves room for later stamps of
///+ this host if another one has a wrong clock.
const LATEST: Stamp = Stamp(u64::MAX / 2);

impl Clock {
    ///+ Returns the latest stamp that was created or seen.
    pub fn last(&self) -> Stamp {
        self.last
    }

    ///+ Advances the clock past a stamp.
    pub fn see(&mut self, stamp: Stamp) {
        self.last = self.last.max(stamp.min(LATEST));
    }

    ///+ Returns a stamp later than all before, and not before `now` in microseconds since the epoch.
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
