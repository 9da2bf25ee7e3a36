//! The identities of files on disk and of their bytes, and the detection of changes by other
//! processes.

use std::ffi::OsStr;
use std::fs::File;
use std::io;

use rustix::fs::OFlags;

use crate::error::{EngineError, Result};
use ctxfs_core::model::Record;
use ctxfs_store::{Dir, FileClock, Stat, Time, stat_file};

/// The identity of the bytes of a file. Results that are computed from the bytes and kept are
/// stored under it.
///
/// Two artifacts with the same bytes have the same identity. If a cached text also depends on the
/// record or the place, its key must include these.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Identity {
    /// The bytes of a sealed artifact, identified by their digest. They may be in any local file.
    Sealed(String),
    /// The bytes of a local file without a digest in its record. The bytes may change, so a cache
    /// also compares the length and the times.
    Local(FileId),
}

impl Identity {
    /// Returns the identity of the bytes of a file with the attributes `stat`. The `record` must be
    /// up to date.
    pub fn of(record: &Record, stat: &Stat) -> Self {
        let analysis = record.analysis.as_ref().filter(|_| stat.is_recorded(record));
        match analysis {
            Some(analysis) => Self::Sealed(analysis.digest.clone()),
            None => Self::Local(FileId::of(stat)),
        }
    }
}

/// The identity of a file or directory on disk. It includes the time of birth, so that a file with
/// a reused inode number is not mistaken for the old file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileId {
    dev: u64,
    ino: u64,
    /// The time of birth, in nanoseconds since the epoch.
    born: Option<i64>,
}

impl FileId {
    /// Returns the identity of the file that `stat` describes.
    pub fn of(stat: &Stat) -> Self {
        let born = stat.born.map(Time::as_nanos);
        Self { dev: stat.dev, ino: stat.ino, born }
    }

    /// Opens the file by its `name` in `dir`. Fails with [`EngineError::Stale`] if the name leads
    /// to another file or nowhere. Fails in the same way if the file has lost its last name,
    /// because writes to it would be lost.
    pub fn open(self, dir: &Dir, name: &OsStr, flags: OFlags) -> Result<File> {
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

/// The state of a file as this process last saw it. Changes by other processes are detected by
/// comparison with it.
#[derive(Debug, Default)]
pub struct LastSeen {
    size: u64,
    modified: Time,
    /// True if the bytes may have changed since they were last seen without a change of the length
    /// or the time.
    is_recent: bool,
    changes: u64,
}

impl LastSeen {
    /// Creates the state of a file that has the attributes `stat` and was not seen before.
    pub fn new(stat: &Stat) -> Self {
        let mut seen = Self::default();
        seen.left_as(stat);
        seen
    }

    /// Detects a change by another process. Returns true if the length or the modification time
    /// differs from the last one seen, or if the resolution of the disk's `clock` may hide a
    /// change.
    ///
    /// A file that this process writes always has a recent time. While `is_written` is true, a
    /// change by another process that keeps the length and the time is therefore detected one clock
    /// step later.
    pub fn notice(&mut self, stat: &Stat, clock: FileClock, is_written: bool) -> bool {
        let is_recent = clock.is_recent(stat);
        let hidden = self.is_recent && clock != FileClock::FINE && !(is_recent && is_written);
        let changed = hidden || (stat.size, stat.mtime) != (self.size, self.modified);
        if changed {
            self.left_as(stat);
            self.is_recent = is_recent;
            self.changes += 1;
        }
        self.is_recent |= is_recent;
        changed
    }

    /// Records the attributes of the file after a change by this process.
    pub fn left_as(&mut self, stat: &Stat) {
        (self.size, self.modified, self.is_recent) = (stat.size, stat.mtime, true);
    }

    /// Returns the length.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns the number of changes by other processes that were detected.
    pub fn changes(&self) -> u64 {
        self.changes
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;
    use ctxfs_core::materialize::Analyzer;
    use ctxfs_core::model::ArtifactState;

    /// Returns a file with this inode number, and the record of the file as sealed with these
    /// bytes.
    fn sealed(ino: u64, bytes: &[u8]) -> (Stat, Record) {
        let stat = Stat { ino, ..Stat::imagined() };
        let mut analyzer = Analyzer::new();
        analyzer.push(bytes);
        let (state, file) = (ArtifactState::Sealed, Some(stat.local_file()));
        (stat, Record { state, file, analysis: Some(analyzer.finish()), ..Record::default() })
    }

    #[test]
    fn sealed_bytes_are_known_by_their_digest() {
        let ((stat, record), (other, of_other)) = (sealed(1, b"one"), sealed(2, b"one"));
        let digest = record.analysis.as_ref().unwrap().digest.clone();
        assert_eq!(Identity::of(&record, &stat), Identity::Sealed(digest));
        assert_eq!(Identity::of(&record, &stat), Identity::of(&of_other, &other));
        let (third, of_third) = sealed(3, b"two");
        assert_ne!(Identity::of(&record, &stat), Identity::of(&of_third, &third));
    }

    #[test]
    fn bytes_that_no_record_tells_of_are_those_of_a_local_file() {
        let (stat, record) = sealed(1, b"one");
        let local = Identity::Local(FileId::of(&stat));
        let live = Record { state: ArtifactState::Live, ..record.clone() };
        let unread = Record { analysis: None, ..record.clone() };
        for record in [live, unread] {
            assert_eq!(Identity::of(&record, &stat), local);
        }
        let changed = Stat { ctime: Time { seconds: 1, nanos: 0 }, ..stat };
        assert_eq!(Identity::of(&record, &changed), local);
    }

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

    /// A change may be hidden until the clock of the disk has advanced since the file was last
    /// seen.
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

    /// The attributes may have changed a moment ago, and the bytes after them.
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
