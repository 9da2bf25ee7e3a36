//! What the disk knows of a file.

use std::fs::File;
use std::io;

use rustix::fs::AtFlags;
use rustix::fs::Statx;
use rustix::fs::StatxFlags;
use rustix::fs::StatxTimestamp;

/// A moment, as the disk keeps it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time {
    /// Seconds since the epoch; negative before it.
    pub seconds: i64,
    /// Nanoseconds on top, below one billion.
    pub nanos: u32,
}

impl Time {
    /// Nanoseconds since the epoch, as `Record::modified` keeps them.
    pub fn as_nanos(self) -> i64 {
        self.seconds.saturating_mul(1_000_000_000).saturating_add(i64::from(self.nanos))
    }

    /// Milliseconds since the epoch, as `Record::created` keeps them.
    pub fn as_millis(self) -> i64 {
        self.seconds.saturating_mul(1000).saturating_add(i64::from(self.nanos / 1_000_000))
    }
}

/// Attributes of a file or directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stat {
    /// The disk it is on.
    pub dev: u64,
    /// Its inode there.
    pub ino: u64,
    /// Bytes.
    pub size: u64,
    /// Blocks of 512 bytes that it takes.
    pub blocks: u64,
    /// FileType and permissions, as `st_mode`.
    pub mode: u32,
    /// Names it has.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Last read.
    pub atime: Time,
    /// Last change of the bytes.
    pub mtime: Time,
    /// Last change of anything.
    pub ctime: Time,
    /// Creation, where the disk keeps it.
    pub born: Option<Time>,
}

impl Stat {
    /// What it is.
    pub fn kind(&self) -> FileType {
        FileType::from(rustix::fs::FileType::from_raw_mode(self.mode))
    }

    /// Whether both are about the same file.
    pub fn same_file(&self, other: &Self) -> bool {
        (self.dev, self.ino) == (other.dev, other.ino)
    }

    /// Whether both are about the same file, and nothing of it has changed in between.
    pub fn is_unchanged(&self, other: &Self) -> bool {
        let moment = |stat: &Self| (stat.size, stat.mtime, stat.ctime);
        self.same_file(other) && moment(self) == moment(other)
    }

    /// When it was made, or, where the disk does not know, last modified.
    pub fn created(&self) -> Time {
        self.born.unwrap_or(self.mtime)
    }
}

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileType {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// Anything else: a link, fifo, socket or device. ctxfs makes none, and follows none.
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

/// The attributes of an open file.
pub fn stat_file(file: &File) -> io::Result<Stat> {
    stat_open(file)
}

pub(super) fn stat_open(file: impl std::os::fd::AsFd) -> io::Result<Stat> {
    Ok(Stat::from(rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, WANTED)?))
}

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
