//! The attributes that the disk has of a file.

use std::fs::File;
use std::io;
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, Statx, StatxFlags, StatxTimestamp};

/// The nanoseconds of a second.
const NANOS: i64 = 1_000_000_000;

/// A point in time, as the disk stores it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time {
    /// Seconds since the epoch, negative before it.
    pub seconds: i64,
    /// Nanoseconds to add, below one billion.
    pub nanos: u32,
}

impl Time {
    /// Returns nanoseconds since the epoch, as in `Record::modified`.
    pub fn as_nanos(self) -> i64 {
        self.seconds.saturating_mul(NANOS).saturating_add(i64::from(self.nanos))
    }

    /// Returns the time so many nanoseconds after the epoch.
    pub fn from_nanos(nanos: i64) -> Self {
        let (seconds, rest) = (nanos.div_euclid(NANOS), nanos.rem_euclid(NANOS));
        Self { seconds, nanos: rest as u32 }
    }

    /// Returns the time since then. `None` if it is yet to come, as after the clock was set back.
    pub fn age(self) -> Option<Duration> {
        let since_epoch = Duration::new(u64::try_from(self.seconds).ok()?, self.nanos);
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH + since_epoch).ok()
    }

    /// Returns milliseconds since the epoch, as in `Record::created`.
    pub fn as_millis(self) -> i64 {
        self.seconds.saturating_mul(1000).saturating_add(i64::from(self.nanos / 1_000_000))
    }
}

/// The attributes of a file or directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// The device number of the disk.
    pub dev: u64,
    /// The inode number.
    pub ino: u64,
    /// The size in bytes.
    pub size: u64,
    /// The blocks of 512 bytes that it takes.
    pub blocks: u64,
    /// The type and the permissions, as in `st_mode`.
    pub mode: u32,
    /// The number of names.
    pub nlink: u32,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// The time of the last read.
    pub atime: Time,
    /// The time of the last change of the bytes.
    pub mtime: Time,
    /// The time of the last change of bytes or attributes.
    pub ctime: Time,
    /// The time of creation, if the disk stores it.
    pub born: Option<Time>,
}

#[cfg(any(test, feature = "testing"))]
impl Stat {
    /// Returns the attributes of a file that is not there, all of them 0 but for its numbers.
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
    /// Returns the type of the file.
    pub fn kind(&self) -> FileType {
        FileType::from(rustix::fs::FileType::from_raw_mode(self.mode))
    }

    /// Returns true if both describe the same file.
    pub fn same_file(&self, other: &Self) -> bool {
        (self.dev, self.ino) == (other.dev, other.ino)
    }

    /// Returns true if both describe the same file and it has not changed in between.
    pub fn is_unchanged(&self, other: &Self) -> bool {
        let moment = |stat: &Self| (stat.size, stat.mtime, stat.ctime);
        self.same_file(other) && moment(self) == moment(other)
    }

    /// Returns the time of creation, or of the last change if the disk does not store it.
    pub fn created(&self) -> Time {
        self.born.unwrap_or(self.mtime)
    }
}

/// The type of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileType {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// Anything else: a link, fifo, socket or device. ctxfs creates none and follows none.
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

/// Returns the attributes of an open file.
pub fn stat_file(file: &File) -> io::Result<Stat> {
    stat_open(file)
}

/// Returns the attributes of an open file or directory.
pub(super) fn stat_open(file: impl std::os::fd::AsFd) -> io::Result<Stat> {
    Ok(Stat::from(rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, WANTED)?))
}

/// The fields to ask the kernel for.
pub(super) const WANTED: StatxFlags = StatxFlags::BASIC_STATS.union(StatxFlags::BTIME);

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
