//! The manifest of a conversation: a file of records, one a line.
//!
//! The file only grows, under an exclusive `flock` of the file itself, until compaction replaces it
//! with a shorter one. Readers take no lock: they index whole lines, and skip a line that is cut
//! off or is not a record. A thread that waits for the lock never holds the index.

mod index;
mod line;

use std::fs::File;
use std::hash::DefaultHasher;
use std::hash::Hash as _;
use std::hash::Hasher as _;
use std::io;
use std::io::BufWriter;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use parking_lot::MutexGuard;
use rustix::fs::OFlags;
use rustix::fs::RenameFlags;

use crate::model::Record;
use crate::model::RelPath;
use crate::store::dir::Dir;
use crate::store::error::StoreError;
use crate::store::layout;
use crate::store::locked_lines::LockedLines;
use crate::store::manifest::index::Index;
use crate::store::manifest::index::RecordLine;
pub use crate::store::manifest::index::RecordPosition;

/// The records of one conversation: those on disk at the moment of the call, whichever process
/// wrote them.
#[derive(Debug)]
pub struct Manifest {
    /// The conversation's directory.
    dir: Arc<Dir>,
    /// The path of the file, for error messages.
    path: PathBuf,
    index: Mutex<Index>,
}

impl Manifest {
    /// Creates the manifest of the conversation in `dir`. `path` is the path of the file, for error
    /// messages. Reads nothing yet.
    pub(super) fn new(dir: Arc<Dir>, path: PathBuf) -> Self {
        Self { dir, path, index: Mutex::default() }
    }

    /// Returns the last record of `path`, unless that record says the file is gone.
    pub(super) fn record(&self, path: &str) -> Result<Option<Record>, StoreError> {
        let index = self.refreshed_index()?;
        let Some((file, line)) = index.find(path) else { return Ok(None) };
        let bytes = line.read(file).map_err(|error| self.error("read", error))?;
        Ok(line::parse(&bytes))
    }

    /// Returns the position of the record of the file at `path`, if there is one. Equal positions
    /// mean the same record. Costs one `stat` while the manifest does not change.
    pub fn position(&self, path: &RelPath) -> Result<Option<RecordPosition>, StoreError> {
        Ok(self.refreshed_index()?.position(&path.to_text()))
    }

    /// Returns `Record::created` of each path that has a record, in the order of `paths`.
    pub(super) fn created<P: AsRef<str>>(
        &self,
        paths: impl Iterator<Item = P>,
    ) -> Result<Vec<Option<i64>>, StoreError> {
        let index = self.refreshed_index()?;
        Ok(paths.map(|path| index.created(path.as_ref())).collect())
    }

    /// Reports for each of `paths`, in their order, whether its record says live.
    pub fn live<P: AsRef<str>>(
        &self,
        paths: impl Iterator<Item = P>,
    ) -> Result<Vec<bool>, StoreError> {
        let index = self.refreshed_index()?;
        Ok(paths.map(|path| index.is_live(path.as_ref())).collect())
    }

    /// Returns the last record of every path that is not gone, oldest first.
    pub(super) fn records(&self) -> Result<Vec<Record>, StoreError> {
        let Some((file, lines)) = self.refreshed_index()?.current() else { return Ok(Vec::new()) };
        let mut records = Vec::with_capacity(lines.len());
        for line in lines {
            let bytes = line.read(&file).map_err(|error| self.error("read", error))?;
            records.extend(line::parse(&bytes));
        }
        Ok(records)
    }

    /// Appends `records` in one write, so that nothing another thread or process appends comes
    /// between them. Compacts the file if most of it is outdated.
    pub fn append(&self, records: &[Record]) -> Result<(), StoreError> {
        if records.is_empty() {
            return Ok(());
        }
        let locked = LockedLines::wait(&self.dir, layout::MANIFEST);
        let appended = locked.and_then(|lines| append(&lines, records));
        appended.map_err(|error| self.error("append to", error))?;
        self.compact_if_wasteful();
        Ok(())
    }

    /// Waits for the lock, which keeps every other thread and process from appending.
    ///
    /// The wait may be for a process that has been stopped, so the caller must not hold anything
    /// that views need.
    pub fn lock(&self) -> Result<ManifestLock, StoreError> {
        let lines = LockedLines::wait(&self.dir, layout::MANIFEST);
        let lines = lines.map_err(|error| self.error("lock", error))?;
        Ok(ManifestLock { lines, path: self.path.clone() })
    }

    /// Takes the lock as [`Self::lock`] does, or returns `None` if it is taken.
    #[cfg(all(test, feature = "shuttle"))]
    pub(crate) fn lock_at_once(&self) -> Result<Option<ManifestLock>, StoreError> {
        let lines = LockedLines::at_once(&self.dir, layout::MANIFEST);
        let lines = lines.map_err(|error| self.error("lock", error))?;
        Ok(lines.map(|lines| ManifestLock { lines, path: self.path.clone() }))
    }

    /// Compacts the file if most of it is outdated. The caller must not hold the lock.
    pub fn compact_if_wasteful(&self) {
        if self.is_wasteful() {
            // All records are in; a rewrite that finds no room has lost nothing.
            let _compacted = self.compact();
        }
    }

    /// Rewrites the file with nothing but the current records. [`Self::append`] does so when it
    /// pays.
    pub fn compact(&self) -> Result<(), StoreError> {
        let rewritten = self.rewrite();
        rewritten.map_err(|error| self.error("rewrite", error))
    }

    fn rewrite(&self) -> io::Result<()> {
        let locked = LockedLines::wait(&self.dir, layout::MANIFEST)?;
        let mut index = self.index.lock();
        index.refresh(&self.dir)?;
        let Some((file, lines)) = index.current() else { return Ok(()) };
        drop(index);
        self.write_new(&file, lines)?;
        let (from, to) = (layout::NEW_MANIFEST.as_ref(), layout::MANIFEST.as_ref());
        self.dir.rename(from, &self.dir, to, RenameFlags::empty())?;
        self.dir.sync()?;
        drop(locked);
        self.index.lock().refresh(&self.dir)
    }

    /// Writes `lines` of `file` to the file that is to replace it.
    fn write_new(&self, file: &File, lines: Vec<RecordLine>) -> io::Result<()> {
        let flags = OFlags::WRONLY | OFlags::TRUNC;
        let new = self.dir.create_file(layout::NEW_MANIFEST.as_ref(), flags, layout::FILE_MODE)?;
        let mut new = BufWriter::new(new);
        for line in lines {
            new.write_all(&line.read(file)?)?;
            new.write_all(b"\n")?;
        }
        new.into_inner()?.sync_all()
    }

    /// Returns a number that changes whenever the records may have changed.
    pub fn version(&self) -> Result<u64, StoreError> {
        let stat = match self.dir.stat(layout::MANIFEST.as_ref()) {
            Ok(stat) => stat,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
            Err(error) => return Err(self.error("look at", error)),
        };
        let mut hasher = DefaultHasher::new();
        (stat.dev, stat.ino, stat.size, stat.mtime).hash(&mut hasher);
        Ok(hasher.finish())
    }

    /// Returns true if a rewrite pays. Refreshes the index only if it looks so already: a process
    /// that merely appends never loads the index.
    fn is_wasteful(&self) -> bool {
        let mut index = self.index.lock();
        index.is_wasteful() && index.refresh(&self.dir).is_ok() && index.is_wasteful()
    }

    fn refreshed_index(&self) -> Result<MutexGuard<'_, Index>, StoreError> {
        let mut index = self.index.lock();
        index.refresh(&self.dir).map_err(|error| self.error("read", error))?;
        Ok(index)
    }

    fn error(&self, action: &'static str, source: io::Error) -> StoreError {
        StoreError::io(action, &self.path, source)
    }
}

/// The lock of a manifest: nobody else can append to it until this is dropped.
#[derive(Debug)]
pub struct ManifestLock {
    lines: LockedLines,
    path: PathBuf,
}

impl ManifestLock {
    /// Appends `records` in one write. After many records, call [`Manifest::compact_if_wasteful`]
    /// once the lock is dropped.
    pub fn append(&self, records: &[Record]) -> Result<(), StoreError> {
        let appended = append(&self.lines, records);
        appended.map_err(|error| StoreError::io("append to", &self.path, error))
    }

    /// Syncs the appended records to the disk.
    pub(super) fn sync(&self) -> Result<(), StoreError> {
        self.lines.sync().map_err(|error| StoreError::io("sync", &self.path, error))
    }
}

fn append(lines: &LockedLines, records: &[Record]) -> io::Result<()> {
    let mut printed = Vec::new();
    line::print(records, &mut printed)?;
    lines.append(&printed)
}

#[cfg(test)]
mod tests;
