//! The identity of a file, and the version of its content.

use std::ffi::OsStr;
use std::fs::File;
use std::io;

use rustix::fs::OFlags;

use crate::engine::EngineError;
use crate::engine::Result;
use crate::store::Dir;
use crate::store::Stat;
use crate::store::Time;
use crate::store::stat_file;

/// The identity of a file or directory on disk. It includes the time of birth, so that an inode
/// number that the disk uses again is not taken for the old file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileId {
    dev: u64,
    ino: u64,
    /// In nanoseconds since the epoch.
    born: Option<i64>,
}

impl FileId {
    /// Returns the identity of the file that `stat` describes.
    pub fn of(stat: &Stat) -> Self {
        let born = stat.born.map(Time::as_nanos);
        Self { dev: stat.dev, ino: stat.ino, born }
    }

    /// Opens the file by its `name` in `dir`, or fails with [`EngineError::Stale`] where that leads
    /// to another file, or nowhere. A file without a name is being removed: its bytes would be
    /// written for nobody.
    pub(crate) fn open(self, dir: &Dir, name: &OsStr, flags: OFlags) -> Result<File> {
        let file = match dir.open_file(name, flags) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(EngineError::Stale);
            }
            opened => opened?,
        };
        let stat = stat_file(&file)?;
        let is_it = Self::of(&stat) == self && stat.nlink > 0;
        if is_it { Ok(file) } else { Err(EngineError::Stale) }
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
    /// A number of the bytes while they may change without a change of the times; else 0.
    pub bytes: u64,
}
