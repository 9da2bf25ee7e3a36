//! What tells a file, and the state of its bytes, from others.

use crate::stat::{Stat, Time};

/// A file of this disk, whatever it is called, and the state of its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileMark {
    /// The inode number.
    pub ino: u64,
    /// The time of birth, in nanoseconds since the epoch; 0 if the disk does not store it.
    pub born: i64,
    /// The size in bytes.
    pub size: u64,
    /// The time of the last change of the bytes, in nanoseconds since the epoch.
    pub modified: i64,
}

impl FileMark {
    /// Returns the mark of the file of which the disk says `stat`.
    pub fn of(stat: &Stat) -> Self {
        Self {
            ino: stat.ino,
            born: stat.born.map_or(0, Time::as_nanos),
            size: stat.size,
            modified: stat.mtime.as_nanos(),
        }
    }
}
