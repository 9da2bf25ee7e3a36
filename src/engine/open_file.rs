//! Files that are open for reading: a file on this disk, or a remote artifact.

use std::fs::File;
use std::io;
use std::sync::{Arc, OnceLock};

use crate::error::{EngineError, Result};
use crate::options::EngineOptions;
use ctxfs_core::model::{Component, Content, FarFile, FarStore, LinesBefore, Provenance, Record};
use ctxfs_store::{FarArtifact, Stat, provenance_of, read_full_at, stat_file};

/// The reason why remote bytes cannot be read without a bucket.
const NO_BUCKET: &str = "this process asks no bucket; `ctxfs pull` brings them, and a mount with \
                         `[remote] url` shows them";

/// A file that is open for reading.
#[derive(Debug, Clone)]
pub enum OpenFile {
    /// A file on this disk.
    Here(Arc<File>),
    /// An artifact whose bytes are in the bucket.
    Far(Arc<RemoteFile>),
}

/// A remote artifact that is open for reading. Its bytes are requested when they are first read.
#[derive(Debug)]
pub struct RemoteFile {
    /// `None` if this process has no bucket.
    store: Option<Arc<dyn FarStore>>,
    conversation: Component,
    record: Record,
    path: String,
    file: OnceLock<FarFile>,
    /// The attributes that a local copy of the file would have.
    pub stat: Stat,
}

/// A borrowed [`OpenFile`].
#[derive(Debug, Clone, Copy)]
pub enum FileRef<'a> {
    /// A file on this disk.
    Here(&'a File),
    /// A remote artifact.
    Far(&'a RemoteFile),
}

/// A prefix of the bytes of an open file. Readers do not see bytes that a writer adds later.
#[derive(Debug, Clone)]
pub(crate) struct FileContent {
    file: OpenFile,
    length: u64,
}

impl OpenFile {
    /// Opens a remote artifact of the conversation `id`. Sends no request yet.
    pub(crate) fn far(options: &EngineOptions, id: &Component, artifact: &FarArtifact) -> Self {
        Self::Far(Arc::new(RemoteFile {
            store: options.far.clone(),
            conversation: id.clone(),
            record: artifact.record.clone(),
            path: options.place(id, &artifact.path).file(),
            file: OnceLock::new(),
            stat: artifact.stat,
        }))
    }

    /// Returns the attributes.
    pub fn stat(&self) -> io::Result<Stat> {
        match self {
            Self::Here(file) => stat_file(file),
            Self::Far(far) => Ok(far.stat),
        }
    }

    /// Returns the description of the tool call in the extended attributes. It may be newer than
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

    /// Borrows the file.
    pub fn as_ref(&self) -> FileRef<'_> {
        match self {
            Self::Here(file) => FileRef::Here(file),
            Self::Far(far) => FileRef::Far(far),
        }
    }

    pub(crate) fn is_far(&self) -> bool {
        matches!(self, Self::Far(_))
    }
}

impl RemoteFile {
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
