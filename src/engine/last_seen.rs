//! A file as it was last seen, by which the changes of other processes are noticed.

use ctxfs_store::{FileClock, Stat, Time};

/// A file as this process last saw it.
#[derive(Debug, Default)]
pub struct LastSeen {
    size: u64,
    modified: Time,
    /// True if bytes may have changed since with the same length and time.
    is_recent: bool,
    /// The changes by others.
    changes: u64,
}

impl LastSeen {
    /// Creates a file that is seen for the first time, with the attributes `stat`.
    pub fn new(stat: &Stat) -> Self {
        let mut seen = Self::default();
        seen.left_as(stat);
        seen
    }

    /// Notices a change by another process, if length or time differ from what was last seen, or
    /// could not differ by the `clock` of the disk. Returns true for one.
    ///
    /// A file that this process writes is always recent. So while `is_written`, what others do to
    /// it with the same length and time shows a step of the clock later.
    pub fn notice(&mut self, stat: &Stat, clock: FileClock, is_written: bool) -> bool {
        let is_recent = clock.is_recent(stat);
        let hidden = self.is_recent && !clock.is_fine() && !(is_recent && is_written);
        let changed = hidden || (stat.size, stat.mtime) != (self.size, self.modified);
        if changed {
            self.left_as(stat);
            self.is_recent = is_recent;
            self.changes += 1;
        }
        self.is_recent |= is_recent;
        changed
    }

    /// Records the attributes with which this process leaves the file.
    pub fn left_as(&mut self, stat: &Stat) {
        (self.size, self.modified, self.is_recent) = (stat.size, stat.mtime, true);
    }

    /// Returns the length.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns the number of changes by others that were noticed.
    pub fn changes(&self) -> u64 {
        self.changes
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;

    fn stat(size: u64, seconds: i64) -> Stat {
        let time = Time { seconds, nanos: 0 };
        Stat { size, mtime: time, ctime: time, ..Stat::imagined() }
    }

    fn now() -> Stat {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        stat(10, now.as_secs().cast_signed())
    }

    #[test]
    fn another_length_or_time_is_a_change() {
        let mut seen = LastSeen::new(&stat(10, 1));
        assert!(!seen.notice(&stat(10, 1), FileClock::FINE, false));
        assert!(seen.notice(&stat(11, 1), FileClock::FINE, false));
        assert!(seen.notice(&stat(11, 2), FileClock::FINE, true));
        seen.left_as(&stat(12, 3));
        assert!(!seen.notice(&stat(12, 3), FileClock::FINE, false));
        assert_eq!((seen.changes(), seen.size()), (2, 12));
    }

    /// A change may hide until the clock of the disk has moved on since the last look.
    #[test]
    fn where_a_change_could_hide_there_may_have_been_one() {
        let clock = FileClock::of_steps(Duration::from_hours(1));
        let (past, recent) = (stat(10, 1), now());
        let mut seen = LastSeen::new(&recent);
        assert!(seen.notice(&recent, clock, false));
        assert!(seen.notice(&recent, clock, false), "each look may be at other bytes");
        assert!(seen.notice(&past, clock, false));
        assert!(!seen.notice(&past, clock, false), "it has settled");
        seen.left_as(&recent);
        assert!(!seen.notice(&recent, clock, true), "this process writes it");
        assert!(seen.notice(&recent, clock, false));
    }

    /// The attributes may have been changed a moment ago, and then the bytes.
    #[test]
    fn a_file_that_became_recent_may_change_from_then_on() {
        let clock = FileClock::of_steps(Duration::from_hours(1));
        let mut seen = LastSeen::new(&stat(10, 1));
        assert!(seen.notice(&stat(10, 1), clock, false), "it was just seen for the first time");
        let chmod = Stat { ctime: now().ctime, ..stat(10, 1) };
        assert!(!seen.notice(&chmod, clock, false));
        assert!(seen.notice(&chmod, clock, false));
    }
}
