//! The manifest of a conversation: a file with one record per line.
//!
//! Appending needs an exclusive `flock` on the file. The file only grows until compaction replaces
//! it with a shorter one. Readers take no lock: they index complete lines and skip a line that is
//! truncated or not a record. A thread that waits for the lock never holds the index.
//!
//! In a server, the threads that serve requests take turns with the lock
//! ([`Manifest::lock_in_turn`]) and never wait for another process. If another process holds the
//! lock, the call fails, and the server repeats the request later.

mod index;

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, BufWriter, Write as _};
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::{ArcMutexGuard, Mutex, MutexGuard, RawMutex};
use rustix::fs::{OFlags, RenameFlags};

use crate::file_lock::LockedLines;
use crate::manifest::index::ManifestIndex;
use crate::{Dir, StoreError, if_there, layout};
use ctxfs_core::model::{Record, RelPath};

pub use index::{RecordPosition, StoredRecords};

/// Number of bytes of records that are collected before they are appended in one write.
const PIECE: usize = 1 << 20;

/// The records of one conversation.
///
/// Each call first reads the records that any process has appended since the last call. If there
/// are none, this costs one `stat`. Only an index of hashes is held in memory; the records
/// themselves are read from the file.
#[derive(Debug)]
pub struct Manifest {
    dir: Arc<Dir>,
    path: PathBuf,
    index: Mutex<ManifestIndex>,
    /// The mutex by which threads of this process take turns with the lock. A thread may hold it
    /// only briefly.
    turn: Arc<Mutex<()>>,
}

impl Manifest {
    pub(super) fn new(dir: Arc<Dir>, path: PathBuf) -> Self {
        Self { dir, path, index: Mutex::default(), turn: Arc::default() }
    }

    /// Returns the last record of `path`. Returns `None` if there is no record, or if the file is
    /// gone according to the record.
    pub(super) fn record(&self, path: &str) -> Result<Option<Record>, StoreError> {
        let index = self.refreshed_index()?;
        let Some((file, line)) = index.find(path) else { return Ok(None) };
        let bytes = line.read(file).map_err(|error| self.error("read", error))?;
        Ok(index::parse(&bytes))
    }

    /// Returns the position of the record of the file at `path`, or `None` if it has no record.
    /// Equal positions mean the same record. Costs one `stat` if the manifest has not changed.
    pub fn position(&self, path: &RelPath) -> Result<Option<RecordPosition>, StoreError> {
        Ok(self.refreshed_index()?.position(&path.to_text()))
    }

    pub(super) fn created<P: AsRef<str>>(
        &self,
        paths: impl Iterator<Item = P>,
    ) -> Result<Vec<Option<i64>>, StoreError> {
        let index = self.refreshed_index()?;
        Ok(paths.map(|path| index.created(path.as_ref())).collect())
    }

    /// Returns, for each of `paths`, in order, whether the artifact is live according to its
    /// record. Reads no records, because the index contains the state.
    pub fn live<P: AsRef<str>>(
        &self,
        paths: impl Iterator<Item = P>,
    ) -> Result<Vec<bool>, StoreError> {
        let index = self.refreshed_index()?;
        Ok(paths.map(|path| index.is_live(path.as_ref())).collect())
    }

    /// Returns, for each of `paths`, in order, whether the artifact is far according to its record.
    pub(super) fn are_far<P: AsRef<str>>(
        &self,
        paths: impl Iterator<Item = P>,
    ) -> Result<Vec<bool>, StoreError> {
        let index = self.refreshed_index()?;
        Ok(paths.map(|path| index.is_far(path.as_ref())).collect())
    }

    pub(super) fn records(&self) -> Result<StoredRecords, StoreError> {
        let lines = self.refreshed_index()?.current();
        Ok(StoredRecords::new(lines, self.path.clone()))
    }

    /// Returns the traces, in the order of the file. A trace is the record of write-once content
    /// that was removed or renamed. It is kept even if its path gets a later record.
    pub fn traces(&self) -> Result<StoredRecords, StoreError> {
        let lines = self.refreshed_index()?.traces();
        Ok(StoredRecords::new(lines, self.path.clone()))
    }

    /// Returns the last record of each path whose bytes are not on this disk, oldest first. If
    /// `dir` is given, returns only the records of paths directly in that directory. Reads no other
    /// records.
    pub fn far(&self, dir: Option<&str>) -> Result<StoredRecords, StoreError> {
        let lines = self.refreshed_index()?.far(dir);
        Ok(StoredRecords::new(lines, self.path.clone()))
    }

    /// Returns the last record of each path that is `path` with `~` and digits added to the name,
    /// such as `x~3f09ab.txt` for `x.txt`, oldest first. Costs one `stat` if there are none.
    pub(super) fn with_digits(&self, path: &str) -> Result<StoredRecords, StoreError> {
        let lines = self.refreshed_index()?.with_digits(path);
        Ok(StoredRecords::new(lines, self.path.clone()))
    }

    /// Returns the last record of each output of the command `run` (see `Provenance::run`) that was
    /// created before `created`, oldest first. Includes records of removed content. Reads no other
    /// records.
    pub fn runs(&self, run: &str, created: i64) -> Result<StoredRecords, StoreError> {
        let lines = self.refreshed_index()?.runs(run, created);
        Ok(StoredRecords::new(lines, self.path.clone()))
    }

    /// Returns true if there are traces; see [`Self::traces`]. Reads no records.
    pub fn has_traces(&self) -> Result<bool, StoreError> {
        Ok(self.refreshed_index()?.has_traces())
    }

    /// Appends `records` in one write. No record of another thread or process comes between them.
    /// Compacts the file if most of it is outdated.
    pub fn append(&self, records: &[Record]) -> Result<(), StoreError> {
        if records.is_empty() {
            return Ok(());
        }
        let locked = LockedLines::lock(&self.dir, layout::MANIFEST);
        let appended = locked.and_then(|lines| append(&lines, records));
        appended.map_err(|error| self.error("append to", error))?;
        self.compact_if_wasteful();
        Ok(())
    }

    /// Waits for the lock. While it is held, no other thread or process can append.
    ///
    /// A process that has been stopped may hold the lock for long. While waiting, the caller must
    /// not hold anything that views need.
    pub fn lock(&self) -> Result<ManifestLock, StoreError> {
        let lines = LockedLines::lock(&self.dir, layout::MANIFEST);
        let lines = lines.map_err(|error| self.error("lock", error))?;
        Ok(ManifestLock { lines, path: self.path.clone(), _turn: None })
    }

    /// Takes the lock as [`Self::lock`] does, or returns `None` if another thread or process holds
    /// it.
    pub fn lock_at_once(&self) -> Result<Option<ManifestLock>, StoreError> {
        let lines = LockedLines::try_lock(&self.dir, layout::MANIFEST);
        let lines = lines.map_err(|error| self.error("lock", error))?;
        Ok(lines.map(|lines| ManifestLock { lines, path: self.path.clone(), _turn: None }))
    }

    /// Takes the lock, in turn with the other threads of this process that use this method. The
    /// caller must hold it only briefly. Fails with EAGAIN if the lock is held by another process,
    /// or by a thread that took it through another method.
    pub fn lock_in_turn(&self) -> Result<ManifestLock, StoreError> {
        let turn = Mutex::lock_arc(&self.turn);
        let locked = self.lock_at_once()?;
        let locked = locked.ok_or_else(|| self.error("lock", rustix::io::Errno::AGAIN.into()))?;
        Ok(ManifestLock { _turn: Some(turn), ..locked })
    }

    /// Compacts the file if most of it is outdated. The caller must not hold the lock. Ignores a
    /// failure, because the file then still contains all records.
    pub fn compact_if_wasteful(&self) {
        if self.is_wasteful() {
            // All records are in the file; if there is no room for the rewrite, nothing is lost.
            let _compacted = self.compact();
        }
    }

    /// Rewrites the file so that it contains only the current records and the traces. Does nothing
    /// if another thread or process holds the lock. [`Self::append`] compacts automatically if most
    /// of the file is outdated.
    pub fn compact(&self) -> Result<(), StoreError> {
        self.rewrite().map_err(|error| self.error("rewrite", error))
    }

    fn rewrite(&self) -> io::Result<()> {
        // The process that holds the lock may be stopped, so this does not wait. A later append
        // compacts the file.
        let Some(locked) = LockedLines::try_lock(&self.dir, layout::MANIFEST)? else {
            return Ok(());
        };
        let mut index = self.index.lock();
        index.refresh(&self.dir)?;
        let Some((file, lines)) = index.kept() else { return Ok(()) };
        drop(index);
        let flags = OFlags::WRONLY | OFlags::TRUNC;
        let new = self.dir.create_file(layout::NEW_MANIFEST.as_ref(), flags, layout::FILE_MODE)?;
        let mut new = BufWriter::new(new);
        for line in lines {
            new.write_all(&line.read(&file)?)?;
            new.write_all(b"\n")?;
        }
        new.into_inner()?.sync_all()?;
        let (from, to) = (layout::NEW_MANIFEST.as_ref(), layout::MANIFEST.as_ref());
        self.dir.rename(from, &self.dir, to, RenameFlags::empty())?;
        self.dir.sync()?;
        drop(locked);
        self.index.lock().refresh(&self.dir)
    }

    /// Clears the index, so that the next call reads the file from its start. The caller must do
    /// this after [`ManifestLock::take_back`], which does not shorten the file, so the index cannot
    /// detect the change.
    pub fn read_again(&self) {
        *self.index.lock() = ManifestIndex::default();
    }

    /// Returns a number that changes whenever the records may have changed, or 0 if there is no
    /// manifest. Costs one `stat`.
    pub fn version(&self) -> Result<u64, StoreError> {
        let found = if_there(self.dir.stat(layout::MANIFEST.as_ref()));
        let found = found.map_err(|error| self.error("look at", error))?;
        let Some(stat) = found else { return Ok(0) };
        let mut hasher = DefaultHasher::new();
        (stat.dev, stat.ino, stat.size, stat.mtime).hash(&mut hasher);
        Ok(hasher.finish())
    }

    /// Returns true if most of the file was outdated when the index was last updated. Makes no
    /// system call.
    pub fn may_be_wasteful(&self) -> bool {
        self.index.lock().is_wasteful()
    }

    /// Returns true if most of the file is outdated. Updates the index only if most of the indexed
    /// part was outdated before. A process that only appends therefore never loads the index.
    fn is_wasteful(&self) -> bool {
        let mut index = self.index.lock();
        index.is_wasteful() && index.refresh(&self.dir).is_ok() && index.is_wasteful()
    }

    fn refreshed_index(&self) -> Result<MutexGuard<'_, ManifestIndex>, StoreError> {
        let mut index = self.index.lock();
        index.refresh(&self.dir).map_err(|error| self.error("read", error))?;
        Ok(index)
    }

    fn error(&self, action: &'static str, source: io::Error) -> StoreError {
        StoreError::io(action, &self.path, source)
    }
}

/// The lock on a manifest. No other thread or process can append to the manifest until this value
/// is dropped.
pub struct ManifestLock {
    lines: LockedLines,
    path: PathBuf,
    _turn: Option<ArcMutexGuard<RawMutex, ()>>,
}

impl std::fmt::Debug for ManifestLock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ManifestLock").field("path", &self.path).finish_non_exhaustive()
    }
}

impl ManifestLock {
    /// Appends `records` in one write. After appending many records, the caller should call
    /// [`Manifest::compact_if_wasteful`] once the lock is dropped.
    pub fn append(&self, records: &[Record]) -> Result<(), StoreError> {
        let appended = append(&self.lines, records);
        appended.map_err(|error| StoreError::io("append to", &self.path, error))?;
        Ok(())
    }

    /// Appends any number of `records`, either all or none. If the caller fails later, it can pass
    /// the result to [`Self::take_back`]. After an error, it must call [`Manifest::read_again`].
    ///
    /// The records are appended in pieces, each in one write. Only one piece, about a mebibyte, is
    /// in memory at a time.
    pub fn append_all(
        &self,
        mut records: impl Iterator<Item = Result<Record, StoreError>>,
    ) -> Result<Appended, StoreError> {
        let mut appended = Appended { start: None };
        let done = self.append_pieces(&mut records, &mut appended);
        if let (Err(_), Some(_)) = (&done, appended.start) {
            // If this fails, the records stay in the file, as after a crash.
            let _taken = self.take_back(&appended);
        }
        done.map(|()| appended)
    }

    fn append_pieces(
        &self,
        records: &mut dyn Iterator<Item = Result<Record, StoreError>>,
        appended: &mut Appended,
    ) -> Result<(), StoreError> {
        let failed = |error| StoreError::io("append to", &self.path, error);
        let mut records = records.peekable();
        while records.peek().is_some() {
            let mut piece = Vec::new();
            while piece.len() < PIECE
                && let Some(record) = records.next()
            {
                index::print(&[record?], &mut piece).map_err(failed)?;
            }
            let start = self.lines.append(&piece).map_err(failed)?;
            appended.start.get_or_insert(start);
        }
        Ok(())
    }

    /// Overwrites the records in `appended` with blanks. They must be the last records in the file.
    /// Readers can continue at their offsets. The caller must then call [`Manifest::read_again`].
    pub fn take_back(&self, appended: &Appended) -> Result<(), StoreError> {
        let taken = appended.start.map_or(Ok(()), |start| self.lines.take_back(start));
        taken.map_err(|error| StoreError::io("write", &self.path, error))
    }

    pub(super) fn sync(&self) -> Result<(), StoreError> {
        self.lines.file().sync_data().map_err(|error| StoreError::io("sync", &self.path, error))
    }
}

/// Records that were appended. While the lock is held, [`ManifestLock::take_back`] can blank them.
#[derive(Debug)]
pub struct Appended {
    start: Option<u64>,
}

fn append(lines: &LockedLines, records: &[Record]) -> io::Result<u64> {
    let mut printed = Vec::new();
    index::print(records, &mut printed)?;
    lines.append(&printed)
}

#[cfg(test)]
mod tests;
