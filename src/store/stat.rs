//! The attributes of a file. By comparing them, this module decides whether two files are the same,
//! and whether a file still has the recorded bytes. It also has the clock of a disk, from which
//! changes get their times.
//!
//! If a file changes twice within one step of the clock, both changes get the same time, which
//! hides the second one. Since 6.13, Linux gives changes on ext4, xfs, btrfs and tmpfs fine-grained
//! times if the times were read since the previous change. On older kernels, a step is a few
//! milliseconds. On ext2, and on ext4 with small inodes, it is a whole second.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, Statx, StatxFlags, StatxTimestamp};

use ctxfs_core::model::{ArtifactState, LocalFile, Record};

const NANOS: i64 = 1_000_000_000;
pub(super) const WANTED: StatxFlags = StatxFlags::BASIC_STATS.union(StatxFlags::BTIME);

/// A point in time as stored by the disk. `seconds` counts from the epoch; before the epoch, it is
/// negative. `nanos` is added to `seconds` and is below one billion.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "described above")]
pub struct Time {
    pub seconds: i64,
    pub nanos: u32,
}

impl Time {
    /// Returns the nanoseconds since the epoch, as in `Record::modified`.
    pub fn as_nanos(self) -> i64 {
        self.seconds.saturating_mul(NANOS).saturating_add(i64::from(self.nanos))
    }

    /// Returns the time that is `nanos` nanoseconds after the epoch.
    pub fn from_nanos(nanos: i64) -> Self {
        let (seconds, rest) = (nanos.div_euclid(NANOS), nanos.rem_euclid(NANOS));
        Self { seconds, nanos: rest as u32 }
    }

    /// Returns the time that has passed since this point in time. Returns `None` if it is in the
    /// future, for example after the clock was set back.
    pub fn age(self) -> Option<Duration> {
        let since_epoch = Duration::new(u64::try_from(self.seconds).ok()?, self.nanos);
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH + since_epoch).ok()
    }

    /// Returns the milliseconds since the epoch, as in `Record::created`.
    pub fn as_millis(self) -> i64 {
        self.seconds.saturating_mul(1000).saturating_add(i64::from(self.nanos / 1_000_000))
    }
}

/// The attributes of a file or directory, named as in statx(2). A block has 512 bytes. `born` is
/// `None` if the disk does not store the creation time.
///
/// The owner of a file can set `atime` and `mtime`. Only the kernel sets `ctime`, the time of the
/// last change of bytes or attributes. On some disks, `atime` is updated rarely or never.
///
/// Comparing all fields is rarely useful. [`Self::same_file`] compares only the identity of files,
/// [`Self::is_unchanged`] also their bytes and attributes, and [`Self::is_recorded`] compares a
/// file with its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields of statx(2)")]
pub struct Stat {
    pub dev: u64,
    pub ino: u64,
    pub size: u64,
    pub blocks: u64,
    pub mode: u32,
    pub nlink: u32,
    pub uid: u32,
    pub gid: u32,
    pub atime: Time,
    pub mtime: Time,
    pub ctime: Time,
    pub born: Option<Time>,
}

#[cfg(any(test, feature = "testing"))]
impl Stat {
    /// Returns attributes that no real file has: device, inode and link count are 1, and all other
    /// values are 0.
    pub fn imagined() -> Self {
        let zero = Time::default();
        Self {
            dev: 1,
            ino: 1,
            size: 0,
            blocks: 0,
            mode: 0,
            nlink: 1,
            uid: 0,
            gid: 0,
            atime: zero,
            mtime: zero,
            ctime: zero,
            born: None,
        }
    }
}

impl Stat {
    /// Returns true if each user whom the owner and the mode let read the file `other` may also read
    /// this file. The directories of the files are not considered.
    pub fn is_readable_by_readers_of(&self, other: &Self) -> bool {
        const READ: u32 = 0o444;
        (self.uid, self.gid) == (other.uid, other.gid) && other.mode & READ & !self.mode == 0
    }

    /// Returns the type of the file, from its mode.
    pub fn kind(&self) -> FileType {
        FileType::from(rustix::fs::FileType::from_raw_mode(self.mode))
    }

    /// Returns true if both describe the same file: device and inode are equal.
    pub fn same_file(&self, other: &Self) -> bool {
        (self.dev, self.ino) == (other.dev, other.ino)
    }

    /// Returns true if both describe the same file, and neither its bytes nor its attributes have
    /// changed between the two.
    pub fn is_unchanged(&self, other: &Self) -> bool {
        let moment = |stat: &Self| (stat.size, stat.mtime, stat.ctime);
        self.same_file(other) && moment(self) == moment(other)
    }

    /// Returns the time of creation, or the time of the last write if the disk does not store it.
    pub fn created(&self) -> Time {
        self.born.unwrap_or(self.mtime)
    }
}

/// The types of files that ctxfs distinguishes. `Other` is a link, fifo, socket or device. ctxfs
/// neither creates nor follows such files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "described above")]
pub enum FileType {
    File,
    Directory,
    Other,
}

impl From<rustix::fs::FileType> for FileType {
    fn from(kind: rustix::fs::FileType) -> Self {
        match kind {
            rustix::fs::FileType::RegularFile => Self::File,
            rustix::fs::FileType::Directory => Self::Directory,
            _ => Self::Other,
        }
    }
}

/// Returns the attributes of an open file or directory.
pub fn stat_file(file: impl std::os::fd::AsFd) -> io::Result<Stat> {
    Ok(Stat::from(rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, WANTED)?))
}

impl From<Statx> for Stat {
    fn from(from: Statx) -> Self {
        let has_birth = StatxFlags::from_bits_retain(from.stx_mask).contains(StatxFlags::BTIME);
        Self {
            dev: rustix::fs::makedev(from.stx_dev_major, from.stx_dev_minor),
            ino: from.stx_ino,
            size: from.stx_size,
            blocks: from.stx_blocks,
            mode: u32::from(from.stx_mode),
            nlink: from.stx_nlink,
            uid: from.stx_uid,
            gid: from.stx_gid,
            atime: Time::from(from.stx_atime),
            mtime: Time::from(from.stx_mtime),
            ctime: Time::from(from.stx_ctime),
            born: has_birth.then(|| Time::from(from.stx_btime)),
        }
    }
}

impl From<StatxTimestamp> for Time {
    fn from(from: StatxTimestamp) -> Self {
        Self { seconds: from.tv_sec, nanos: from.tv_nsec }
    }
}

impl Stat {
    /// Returns the identity of the file, in the form that its record stores.
    pub fn local_file(&self) -> LocalFile {
        LocalFile {
            dev: self.dev,
            ino: self.ino,
            born: self.born.map(Time::as_nanos),
            changed: self.ctime.as_nanos(),
            copied: None,
        }
    }

    /// Returns true if the file certainly has the bytes that `record` describes. The record must be
    /// sealed or incomplete. The size, the modification time and the change time must match the
    /// recorded file, or its recorded copy.
    pub fn is_recorded(&self, record: &Record) -> bool {
        let changed = record.file.map(|file| file.copied.unwrap_or(file.changed));
        let is_sealed = match record.state {
            ArtifactState::Sealed | ArtifactState::Incomplete(_) => true,
            ArtifactState::Live | ArtifactState::Gone => false,
        };
        let moment = (record.size, record.modified, changed);
        is_sealed && moment == (self.size, self.mtime.as_nanos(), Some(self.ctime.as_nanos()))
    }

    /// Returns `record`, updated after the attributes of the file were changed from `before` to
    /// `self`. The new record describes the same bytes.
    ///
    /// Returns `record` unchanged if it did not describe the bytes before the change, or if the
    /// file was written in the meantime. `sets_time` must be true if the change set `mtime`.
    #[must_use]
    pub fn with_new_attributes(&self, before: &Self, sets_time: bool, record: Record) -> Record {
        let is_same = (self.ino, self.size) == (before.ino, before.size)
            && (sets_time || self.mtime == before.mtime);
        if !is_same || !before.is_recorded(&record) {
            return record;
        }
        let file = record.file.map(|file| self.renewed(file));
        Record { modified: self.mtime.as_nanos(), file, ..record }
    }

    /// Returns the identity `file` with the change time in `self`. The caller must know that the
    /// bytes of the file have not changed.
    pub(super) fn renewed(&self, file: LocalFile) -> LocalFile {
        let changed = self.ctime.as_nanos();
        match file.copied {
            Some(_) => LocalFile { copied: Some(changed), ..file },
            None => LocalFile { changed, ..file },
        }
    }

    /// Returns true if the size and `mtime` are as recorded. This does not prove that the bytes are
    /// the recorded ones, because any program can set `mtime`. [`Self::is_recorded`] does prove it.
    pub(super) fn matches(&self, record: &Record) -> bool {
        (self.size, self.mtime.as_nanos()) == (record.size, record.modified)
    }

    /// Returns the origin of the far artifact of which this file is a fetched copy. Returns `None`
    /// if the file is no such copy, or was written since it was fetched.
    pub fn far_origin<'a>(&self, record: &'a Record) -> Option<&'a str> {
        record.file.filter(|file| file.copied.is_some())?;
        let far = record.far.as_ref().filter(|far| far.here && self.is_recorded(record))?;
        Some(&far.origin)
    }

    /// Returns false if the file cannot be a fetched copy. A copy is created later than its bytes
    /// were last written. For most files, this check makes reading the record unnecessary.
    pub fn may_be_copy(&self) -> bool {
        self.born.is_some_and(|born| born > self.mtime)
    }

    /// Returns the attributes of the file that was originally sealed if, according to `record`,
    /// this file is a copy that replaced it. Otherwise returns `self`.
    #[must_use]
    pub fn original(&self, record: &Record) -> Self {
        match record.file.filter(|file| file.copied.is_some() && self.is_recorded(record)) {
            Some(LocalFile { dev, ino, born, changed, .. }) => Self {
                dev,
                ino,
                born: born.map(Time::from_nanos),
                ctime: Time::from_nanos(changed),
                ..*self
            },
            None => *self,
        }
    }
}

/// A mark that identifies a file of this disk and the state of its bytes. It does not depend on the
/// name of the file. `born` is the time of creation, or 0 if the disk does not store it. Times are
/// in nanoseconds since the epoch.
///
/// If a file still has the same mark, a host assumes that its bytes are unchanged and does not read
/// them. Other attributes are ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "described above")]
pub struct FileMark {
    pub ino: u64,
    pub born: i64,
    pub size: u64,
    pub modified: i64,
}

impl FileMark {
    /// Returns the mark of the file with the attributes `stat`.
    pub fn of(stat: &Stat) -> Self {
        Self {
            ino: stat.ino,
            born: stat.born.map_or(0, Time::as_nanos),
            size: stat.size,
            modified: stat.mtime.as_nanos(),
        }
    }
}

/// Maximum step of a clock that follows the kernel's ticks. There are at least 100 ticks per
/// second. The value is twice the longest tick, because the clock may be adjusted during a tick.
const TICK: Duration = Duration::from_millis(20);
/// Maximum step of a clock that stores whole seconds. FAT stores only even seconds.
const SECONDS: Duration = Duration::from_secs(2);
/// If two times of a clock differ by less than this, the clock does not follow the kernel's ticks,
/// of which there are at most a thousand per second.
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

    /// Measures the clock of the disk by changes of `file`, which must be empty.
    pub(super) fn of_disk(file: &File) -> io::Result<Self> {
        Ok(Self { step: step_of(file)? })
    }

    /// Returns true if a change of the file now could leave its times as they are in `stat`.
    pub fn is_recent(self, stat: &Stat) -> bool {
        self.settles_in(stat).is_some()
    }

    /// Returns the time to wait until a further change of the file is certain to give it other
    /// times than those in `stat`. Returns `None` if this is already the case.
    pub fn settles_in(self, stat: &Stat) -> Option<Duration> {
        // No program can set `ctime`. If it lies in the future, a change made now gets another
        // time.
        let age = if self == Self::FINE { None } else { stat.ctime.age() };
        self.step.checked_sub(age?).filter(|wait| !wait.is_zero())
    }
}

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
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn at(seconds: i64) -> Time {
        Time { seconds, nanos: 7 }
    }

    /// Returns the attributes of a file that was sealed at 20 s.
    fn sealed() -> Stat {
        let (born, mtime, ctime) = (Some(at(10)), at(15), at(20));
        Stat { ino: 5, size: 3, born, mtime, ctime, ..Stat::imagined() }
    }

    fn record() -> Record {
        let (stat, state) = (sealed(), ArtifactState::Sealed);
        let (size, modified) = (stat.size, stat.mtime.as_nanos());
        Record { state, size, modified, file: Some(stat.local_file()), ..Record::default() }
    }

    /// Returns the attributes of a copy that replaced the sealed file at 40 s, and the record of
    /// the copy.
    fn copy() -> (Stat, Record) {
        let copy = Stat { ino: 6, born: Some(at(30)), ctime: at(40), ..sealed() };
        let mut record = record();
        record.file.as_mut().unwrap().copied = Some(copy.ctime.as_nanos());
        (copy, record)
    }

    #[test]
    fn a_file_has_the_recorded_bytes_until_anything_changes() {
        let stat = sealed();
        assert!(stat.is_recorded(&record()));
        for other in [
            Stat { size: 4, ..stat },
            Stat { mtime: at(16), ..stat },
            Stat { ctime: at(21), ..stat },
        ] {
            assert!(!other.is_recorded(&record()), "{other:?}");
        }
        for state in [ArtifactState::Live, ArtifactState::Gone] {
            assert!(!stat.is_recorded(&Record { state, ..record() }));
        }
        assert!(!stat.is_recorded(&Record { file: None, ..record() }));
    }

    #[test]
    fn a_recorded_copy_stands_for_the_file_that_was_sealed() {
        let (copy, record) = copy();
        assert!(copy.is_recorded(&record) && copy.may_be_copy());
        assert_eq!(copy.original(&record), sealed());
        assert!(!sealed().is_recorded(&record), "the record is about the copy now");
    }

    #[test]
    fn a_record_follows_attributes_and_nothing_else() {
        let (copy, of_copy) = copy();
        for (before, of_it) in [(sealed(), record()), (copy, of_copy)] {
            let after = Stat { ctime: at(50), ..before };
            let followed = after.with_new_attributes(&before, false, of_it.clone());
            assert!(after.is_recorded(&followed));
            assert_eq!(after.original(&followed).ino, sealed().ino);
            let touched = Stat { mtime: at(1), ..after };
            assert!(touched.is_recorded(&touched.with_new_attributes(
                &before,
                true,
                of_it.clone()
            )));
            let written = [touched, Stat { size: 4, ..after }, Stat { ino: 9, ..after }];
            for written in written {
                let kept = written.with_new_attributes(&before, false, of_it.clone());
                assert_eq!(kept, of_it);
            }
            let unknown = Stat { ctime: at(49), ..before };
            assert_eq!(after.with_new_attributes(&unknown, false, of_it.clone()), of_it);
        }
    }

    #[test]
    fn any_other_file_stands_for_itself() {
        let (copy, of_copy) = copy();
        assert_eq!(sealed().original(&record()), sealed());
        assert_eq!(copy.original(&record()), copy, "nobody has recorded it");
        let changed = Stat { ctime: at(41), ..copy };
        assert_eq!(changed.original(&of_copy), changed);
        assert!(!sealed().may_be_copy());
        assert!(!Stat { born: None, ..copy }.may_be_copy());
    }

    #[test]
    fn times_before_the_epoch_are_recorded_like_others() {
        for nanos in [-1, 0, 1, -SECOND, SECOND - 1, -SECOND - 1] {
            assert_eq!(Time::from_nanos(nanos).as_nanos(), nanos);
        }
    }

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

    /// Checks, on the disk of the tests, that a change of a file changes its times once `is_recent`
    /// is false.
    #[test]
    fn the_clock_of_a_disk_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let clock = FileClock::of_disk(&tempfile::tempfile_in(dir.path()).unwrap()).unwrap();
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
