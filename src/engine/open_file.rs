//! Files that are open for reading: a file on this disk, or a remote artifact. Also the identities
//! of files on disk and of their bytes.

use std::fs::File;
use std::io;
use std::sync::{Arc, OnceLock};

use crate::{EngineError, EngineOptions, Result};
use ctxfs_core::model::{Component, Content, FarFile, FarStore, LinesBefore, Provenance, Record};
use ctxfs_store::{FarArtifact, Stat, Time, provenance_of, read_full_at, stat_file};

/// The identity of the bytes of a file. Caches use it as the key of results that depend on the
/// bytes.
///
/// Two artifacts with the same bytes have the same identity. If a cached text also depends on the
/// record or the place, its key must include these.
///
/// - `Sealed`: the bytes of a sealed artifact, identified by their digest. Any local file may hold
///   them.
/// - `Local`: the bytes of a local file without a digest in its record. The bytes may change, so a
///   cache also compares the length and the times.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Identity {
    Sealed(String),
    Local(FileId),
}

impl Identity {
    /// Returns the identity of the bytes of a file with the attributes `stat`. The `record` must be
    /// up to date.
    pub(crate) fn of(record: &Record, stat: &Stat) -> Self {
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
    pub fn of(stat: &Stat) -> Self {
        let born = stat.born.map(Time::as_nanos);
        Self { dev: stat.dev, ino: stat.ino, born }
    }

    /// Checks that the file `opened` by its name has this identity, and returns it. Fails with
    /// [`EngineError::Stale`] if the name led to another file or nowhere. Fails in the same way if
    /// the file has lost its last name, because writes to it would be lost.
    pub fn check(self, opened: io::Result<File>) -> Result<File> {
        let file = match opened {
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

/// The reason why remote bytes cannot be read without a bucket.
const NO_BUCKET: &str = "this process asks no bucket; `ctxfs pull` brings them, and a mount with \
                         `[remote] url` shows them";

#[derive(Debug, Clone)]
pub(crate) enum OpenFile {
    Here(Arc<File>),
    Far(Arc<RemoteFile>),
}

/// A remote artifact that is open for reading. The bytes are requested when they are first read.
#[derive(Debug)]
pub struct RemoteFile {
    /// `None` if this process has no bucket.
    store: Option<Arc<dyn FarStore>>,
    conversation: Component,
    record: Record,
    path: String,
    file: OnceLock<FarFile>,
    pub stat: Stat,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum FileRef<'a> {
    Here(&'a File),
    Far(&'a RemoteFile),
}

/// A prefix of the bytes of an open file. Readers do not see bytes that a writer adds later.
#[derive(Debug, Clone)]
pub(crate) struct FileContent {
    file: OpenFile,
    length: u64,
}

impl OpenFile {
    /// Reads the description of the tool call from the extended attributes. It may be newer than
    /// the description in the record.
    pub(crate) fn provenance(&self) -> io::Result<Provenance> {
        match self {
            Self::Here(file) => provenance_of(file),
            Self::Far(_) => Ok(Provenance::default()),
        }
    }

    pub(crate) fn content(&self, length: u64) -> FileContent {
        FileContent { file: self.clone(), length }
    }

    pub(crate) fn as_ref(&self) -> FileRef<'_> {
        match self {
            Self::Here(file) => FileRef::Here(file),
            Self::Far(far) => FileRef::Far(far),
        }
    }

    pub(crate) fn is_far(&self) -> bool {
        matches!(self, Self::Far(_))
    }

    /// Returns the local file. Fails with [`EngineError::Stale`] if the file is remote.
    pub(crate) fn reader(&self) -> Result<Arc<File>> {
        match self {
            Self::Here(file) => Ok(Arc::clone(file)),
            Self::Far(_) => Err(EngineError::Stale),
        }
    }
}

impl RemoteFile {
    /// Opens a remote artifact of the conversation `id`. Sends no request yet.
    pub fn open(options: &EngineOptions, id: &Component, artifact: &FarArtifact) -> Arc<Self> {
        Arc::new(Self {
            store: options.far.clone(),
            conversation: id.clone(),
            record: artifact.record.clone(),
            path: options.place(id, &artifact.path).file(),
            file: OnceLock::new(),
            stat: artifact.stat,
        })
    }

    /// Returns the remote bytes. May wait for the network. Fails with [`EngineError::Away`] if the
    /// bytes cannot be fetched.
    pub fn file(&self) -> Result<&FarFile> {
        if let Some(file) = self.file.get() {
            return Ok(file);
        }
        let away = |why: String| EngineError::Away { path: self.path.clone(), why };
        let store = self.store.as_ref().ok_or_else(|| away(NO_BUCKET.to_owned()))?;
        let opened = store.open(&self.conversation, &self.record);
        let opened = opened.map_err(|error| match error.raw_os_error() {
            Some(_) => EngineError::Io(error),
            None => away(error.to_string()),
        })?;
        Ok(self.file.get_or_init(|| opened))
    }
}

impl FileRef<'_> {
    /// Reads starting at `offset`. Returns fewer bytes than requested only at the end of the file.
    pub(crate) fn read_at(self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Here(file) => read_full_at(file, offset, buffer),
            Self::Far(far) => far.file()?.content.read_at(offset, buffer),
        }
    }

    pub(crate) fn stat(self) -> io::Result<Stat> {
        match self {
            Self::Here(file) => stat_file(file),
            Self::Far(far) => Ok(far.stat),
        }
    }

    pub(crate) fn is_far(self) -> bool {
        matches!(self, Self::Far(_))
    }
}

impl FileContent {
    pub(crate) fn file(&self) -> &OpenFile {
        &self.file
    }
}

impl Content for FileContent {
    fn len(&self) -> u64 {
        self.length
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.length.saturating_sub(offset)).unwrap_or(usize::MAX);
        let wanted = buffer.len().min(left);
        self.file.as_ref().read_at(offset, &mut buffer[..wanted])
    }

    fn lines_before(&self, offset: u64) -> io::Result<LinesBefore> {
        match &self.file {
            OpenFile::Here(_) => Ok(LinesBefore::default()),
            OpenFile::Far(far) => far.file()?.content.lines_before(offset.min(self.length)),
        }
    }

    fn last_line(&self) -> io::Result<Option<u64>> {
        match &self.file {
            OpenFile::Far(far) if far.stat.size == self.length => far.file()?.content.last_line(),
            OpenFile::Here(_) | OpenFile::Far(_) => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ctxfs_core::materialize::Analyzer;
    use ctxfs_core::model::ArtifactState;

    /// Returns the attributes of a file with this inode number, and the record of the file after it
    /// was sealed with these bytes.
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
