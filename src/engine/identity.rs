//! What identifies a file: for what is computed from it and kept, and on the disk.

use std::ffi::OsStr;
use std::fs::File;
use std::io;

use rustix::fs::OFlags;

use crate::{EngineError, Result};
use ctxfs_core::model::Record;
use ctxfs_store::{Dir, Stat, Time, stat_file};

/// The identity of the bytes of a file, for all that is computed from them and kept.
///
/// What depends on more than the bytes has to be kept by that, too: two artifacts with the same
/// bytes have one identity, and each has a record and a place of its own.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Identity {
    /// The bytes with this digest: those of a sealed artifact, whichever local file has them.
    Sealed(String),
    /// The bytes of this local file, of which no record tells. They may change, so whoever keeps
    /// something by this compares length and times.
    Local(FileId),
}

impl Identity {
    /// Returns the identity of the bytes of a file, of which the disk says `stat` and the store
    /// `record`, brought up to date.
    pub fn of(record: &Record, stat: &Stat) -> Self {
        let analysis = record.analysis.as_ref().filter(|_| stat.is_recorded(record));
        match analysis {
            Some(analysis) => Self::Sealed(analysis.digest.clone()),
            None => Self::Local(FileId::of(stat)),
        }
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use ctxfs_core::materialize::Analyzer;
    use ctxfs_core::model::ArtifactState;

    /// Returns a file with this inode number, and the record of its sealing with these bytes.
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
}
