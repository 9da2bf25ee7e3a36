//! The clock that a disk uses for the change times of its files.
//!
//! Two changes within one step of the clock get the same time, which hides the second one. Since
//! 6.13, Linux gives changes on ext4, xfs, btrfs and tmpfs fine-grained times if the times were
//! read since the previous change. On older kernels, a step is a few milliseconds; on ext2, and on
//! ext4 with small inodes, it is a whole second.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

use crate::{Dir, Stat, stat_file};

/// Maximum step of a clock that follows the kernel's ticks. There are at least 100 ticks per
/// second; the value is two of the longest ticks, to allow for a clock that is being adjusted.
const TICK: Duration = Duration::from_millis(20);
/// Maximum step of a clock that stores whole seconds. FAT stores only even seconds.
const SECONDS: Duration = Duration::from_secs(2);
/// Two times closer than this come from a clock without ticks: the kernel has at most a thousand
/// ticks per second.
const FINE: Duration = Duration::from_micros(500);
/// Maximum number of changes made to measure the clock. On a busy machine, one change may take
/// longer than a tick.
const TRIES: usize = 8;

/// The clock that a disk uses for the change times of its files.
///
/// A second change within one step of the clock does not change the times. A cache must not trust a
/// file until [`Self::settles_in`] has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileClock {
    step: Duration,
}

impl FileClock {
    /// A clock that gives each change a new time.
    pub const FINE: Self = Self { step: Duration::ZERO };

    /// The coarsest clock. It is assumed for a disk whose clock cannot be measured.
    pub(super) const COARSEST: Self = Self { step: SECONDS };

    /// Returns a clock with steps of length `step`.
    #[cfg(any(test, feature = "testing"))]
    pub const fn of_steps(step: Duration) -> Self {
        Self { step }
    }

    pub(super) fn of_disk(dir: &Dir) -> io::Result<Self> {
        Ok(Self { step: step_of(&dir.nameless_file()?)? })
    }

    /// Returns true if each change gets a new time, even immediately after another change.
    pub fn is_fine(self) -> bool {
        self.step.is_zero()
    }

    /// Returns true if the file with the attributes `stat` could change now and keep the same
    /// times.
    pub fn is_recent(self, stat: &Stat) -> bool {
        self.settles_in(stat).is_some()
    }

    /// Returns the time after which every change of the file with the attributes `stat` changes its
    /// times. Returns `None` if that is already the case.
    pub fn settles_in(self, stat: &Stat) -> Option<Duration> {
        // No program can set ctime. If it lies in the future, a change made now gets a different
        // time.
        let age = if self.is_fine() { None } else { stat.ctime.age() };
        self.step.checked_sub(age?).filter(|wait| !wait.is_zero())
    }
}

/// Returns the step of the clock that dates `file`. Measures it by changing the file.
fn step_of(file: &File) -> io::Result<Duration> {
    let mut times = vec![stat_file(file)?.ctime];
    for _ in 0..TRIES {
        file.write_at(b"?", 0)?;
        let time = stat_file(file)?.ctime;
        let apart = time.as_nanos() - times[times.len() - 1].as_nanos();
        if apart > 0 && Duration::from_nanos(apart.unsigned_abs()) < FINE {
            return Ok(Duration::ZERO);
        }
        times.push(time);
    }
    Ok(if times.iter().all(|time| time.nanos == 0) { SECONDS } else { TICK })
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::Time;

    fn changed_before(age: Duration) -> Stat {
        let then = SystemTime::now().checked_sub(age).unwrap();
        let since_epoch = then.duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let seconds = since_epoch.as_secs().cast_signed();
        let ctime = Time { seconds, nanos: since_epoch.subsec_nanos() };
        Stat { ctime, ..Stat::imagined() }
    }

    #[test]
    fn a_file_is_recent_for_a_step() {
        let clock = FileClock::of_steps(Duration::from_hours(1));
        assert!(clock.is_recent(&changed_before(Duration::from_mins(59))));
        assert!(!clock.is_recent(&changed_before(Duration::from_mins(61))));
        assert!(!FileClock::FINE.is_recent(&changed_before(Duration::ZERO)));
    }

    #[test]
    fn a_change_in_the_future_is_told_from_one_now() {
        let mut stat = changed_before(Duration::ZERO);
        stat.ctime.seconds += 3600;
        assert!(!FileClock::of_steps(SECONDS).is_recent(&stat));
    }

    /// Checks on the disk of the tests that a change of a file that is not recent changes its
    /// times.
    #[test]
    fn the_clock_of_a_disk_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let clock = FileClock::of_disk(&Dir::open(dir.path()).unwrap()).unwrap();
        let file = tempfile::tempfile_in(dir.path()).unwrap();
        for _ in 0..20 {
            file.write_at(b"1", 0).unwrap();
            let before = stat_file(&file).unwrap();
            std::thread::sleep(clock.settles_in(&before).unwrap_or_default());
            file.write_at(b"2", 0).unwrap();
            assert_ne!(before.ctime, stat_file(&file).unwrap().ctime, "{clock:?}");
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
