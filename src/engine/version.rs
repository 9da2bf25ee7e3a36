//! The identity of a file, and the version of its content.

use crate::store::Stat;

/// The identity of a file or directory on disk. It includes the time of birth, so that an inode
/// number that the disk uses again is not taken for the old file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileId {
    dev: u64,
    ino: u64,
    born: Option<(i64, u32)>,
}

impl FileId {
    /// Returns the identity of the file that `stat` describes.
    pub fn of(stat: &Stat) -> Self {
        let born = stat.born.map(|time| (time.seconds, time.nanos));
        Self { dev: stat.dev, ino: stat.ino, born }
    }
}

/// The version of a source. Equal versions of a source give equal bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Version {
    /// The number of changes that this process has seen, and of views that ran out of time. A
    /// computed file does not change, so it has only the latter.
    pub changes: u64,
    /// The length in bytes.
    pub size: u64,
    /// The last modification, in nanoseconds since the epoch.
    pub modified: i64,
    /// The last change of anything, including names and extended attributes, in nanoseconds since
    /// the epoch.
    pub changed: i64,
    /// A hash of all facts beside the bytes, such as the manifest's record.
    pub facts: u64,
}
