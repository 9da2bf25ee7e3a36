//! The manifest of a conversation: a file of records, one a line.
//!
//! The file only grows, under an exclusive `flock` of the file itself, until compaction replaces it
//! with a shorter one. Readers take no lock: they index whole lines, and skip a line that is cut
//! off or is not a record. A thread that waits for the lock never holds the index.
//!
//! The threads of a server that serve requests take turns with the lock, and never wait for another
//! process: if a process has it, they fail and the request is repeated
//! ([`Manifest::lock_in_turn`]).

mod index;
mod records;

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, BufWriter, Write as _};
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::{ArcMutexGuard, Mutex, MutexGuard, RawMutex};
use rustix::fs::{OFlags, RenameFlags};

use crate::file_lock::LockedLines;
use crate::manifest::index::ManifestIndex;
use crate::{Dir, StoreError, layout};
use ctxfs_core::model::{Record, RelPath};

pub use index::RecordPosition;
pub use records::StoredRecords;

/// Bytes of records that are appended in one write.
const PIECE: usize = 1 << 20;

/// The records of one conversation.
///
/// Each call reads what any process has appended since the last one, at the cost of one `stat`
/// while nothing has. A record is found through an index of hashes, so records of any size take no
/// memory.
#[derive(Debug)]
pub struct Manifest {
    dir: Arc<Dir>,
    path: PathBuf,
    index: Mutex<ManifestIndex>,
    /// The turn among the threads of this process that hold the lock only for a moment.
    turn: Arc<Mutex<()>>,
}

impl Manifest {
    pub(super) fn new(dir: Arc<Dir>, path: PathBuf) -> Self {
        Self { dir, path, index: Mutex::default(), turn: Arc::default() }
    }

    /// Returns the last record of `path`, unless that record says the file is gone.
    pub(super) fn record(&self, path: &str) -> Result<Option<Record>, StoreError> {
        let index = self.refreshed_index()?;
        let Some((file, line)) = index.find(path) else { return Ok(None) };
        let bytes = line.read(file).map_err(|error| self.error("read", error))?;
        Ok(records::parse(&bytes))
    }

    /// Returns the position of the record of the file at `path`, if there is one. Equal positions
    /// mean the same record. Costs one `stat` while the manifest does not change.
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

    /// Returns for each of `paths`, in their order, whether its record says live. No record is
    /// read: the index knows.
    pub fn live<P: AsRef<str>>(
        &self,
        paths: impl Iterator<Item = P>,
    ) -> Result<Vec<bool>, StoreError> {
        let index = self.refreshed_index()?;
        Ok(paths.map(|path| index.is_live(path.as_ref())).collect())
    }

    /// Returns for each of `paths`, in their order, whether its record says that its bytes are not
    /// on this disk.
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

    /// Returns the traces: records of write-once content that was removed or renamed, in their
    /// order. A trace stays, whatever is recorded for its path later.
    pub fn traces(&self) -> Result<StoredRecords, StoreError> {
        let lines = self.refreshed_index()?.traces();
        Ok(StoredRecords::new(lines, self.path.clone()))
    }

    /// Returns the last records of the paths whose bytes are not on this disk, oldest first: of
    /// paths in the directory `dir`, or of all. Reads no other records.
    pub fn far(&self, dir: Option<&str>) -> Result<StoredRecords, StoreError> {
        let lines = self.refreshed_index()?.far(dir);
        Ok(StoredRecords::new(lines, self.path.clone()))
    }

    /// Returns the last records of the paths that are `path` with digits of an origin, oldest
    /// first. Costs one `stat` where there are none.
    pub(super) fn with_digits(&self, path: &str) -> Result<StoredRecords, StoreError> {
        let lines = self.refreshed_index()?.with_digits(path);
        Ok(StoredRecords::new(lines, self.path.clone()))
    }

    /// Returns true if there are traces; see [`Self::traces`]. Reads no record.
    pub fn has_traces(&self) -> Result<bool, StoreError> {
        Ok(self.refreshed_index()?.has_traces())
    }

    /// Appends `records` in one write, so that nothing another thread or process appends comes
    /// between them. Compacts the file if most of it is outdated.
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

    /// Waits for the lock, which keeps every other thread and process from appending.
    ///
    /// The wait may be for a process that has been stopped, so the caller must not hold anything
    /// that views need.
    pub fn lock(&self) -> Result<ManifestLock, StoreError> {
        let lines = LockedLines::lock(&self.dir, layout::MANIFEST);
        let lines = lines.map_err(|error| self.error("lock", error))?;
        Ok(ManifestLock { lines, path: self.path.clone(), _turn: None })
    }

    /// Takes the lock as [`Self::lock`] does, or returns `None` if another thread or process has
    /// it.
    pub fn lock_at_once(&self) -> Result<Option<ManifestLock>, StoreError> {
        let lines = LockedLines::try_lock(&self.dir, layout::MANIFEST);
        let lines = lines.map_err(|error| self.error("lock", error))?;
        Ok(lines.map(|lines| ManifestLock { lines, path: self.path.clone(), _turn: None }))
    }

    /// Takes the lock once the other threads of this process that use this method have had it. They
    /// must hold it for a moment only. Fails with EAGAIN if a process, or a thread that took it in
    /// another way, has it.
    pub fn lock_in_turn(&self) -> Result<ManifestLock, StoreError> {
        let turn = Mutex::lock_arc(&self.turn);
        let locked = self.lock_at_once()?;
        let locked = locked.ok_or_else(|| self.error("lock", rustix::io::Errno::AGAIN.into()))?;
        Ok(ManifestLock { _turn: Some(turn), ..locked })
    }

    /// Compacts the file if most of it is outdated. The caller must not hold the lock. A failure is
    /// ignored: all records are in the file.
    pub fn compact_if_wasteful(&self) {
        if self.is_wasteful() {
            // All records are in; a rewrite that finds no room has lost nothing.
            let _compacted = self.compact();
        }
    }

    /// Rewrites the file with nothing but the current records and the traces, unless another
    /// process has locked it. [`Self::append`] does so when it pays.
    pub fn compact(&self) -> Result<(), StoreError> {
        self.rewrite().map_err(|error| self.error("rewrite", error))
    }

    fn rewrite(&self) -> io::Result<()> {
        // The process that has it may be stopped. A later append compacts.
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

    /// Forgets the index, so that the next call reads the file from its start. Needed after records
    /// were taken back, as the file did not get shorter.
    pub fn read_again(&self) {
        *self.index.lock() = ManifestIndex::default();
    }

    /// Returns a number that changes whenever the records may have changed, or 0 without a
    /// manifest. Costs one `stat`.
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

    /// Returns true if a rewrite may pay, by the index as it was last read. Does no system call.
    pub fn may_be_wasteful(&self) -> bool {
        self.index.lock().is_wasteful()
    }

    /// Returns true if a rewrite pays. Refreshes the index only if it looks so already: a process
    /// that merely appends never loads the index.
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

/// The lock of a manifest: no other thread or process can append to it until this is dropped.
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
    /// Appends `records` in one write. After many records, call [`Manifest::compact_if_wasteful`]
    /// once the lock is dropped.
    pub fn append(&self, records: &[Record]) -> Result<(), StoreError> {
        let appended = append(&self.lines, records);
        appended.map_err(|error| StoreError::io("append to", &self.path, error))?;
        Ok(())
    }

    /// Appends any number of `records`: all of them, or none. Returns the argument of
    /// [`Self::take_back`], for a caller that may fail later. After an error, call
    /// [`Manifest::read_again`].
    ///
    /// Holds about a mebibyte of them at a time. The records of one piece are written at once.
    pub fn append_all(
        &self,
        mut records: impl Iterator<Item = Result<Record, StoreError>>,
    ) -> Result<Appended, StoreError> {
        let mut appended = Appended { start: None };
        let done = self.append_pieces(&mut records, &mut appended);
        if let (Err(_), Some(_)) = (&done, appended.start) {
            // If this fails, the records stay, as after a crash.
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
                records::print(&[record?], &mut piece).map_err(failed)?;
            }
            let start = self.lines.append(&piece).map_err(failed)?;
            appended.start.get_or_insert(start);
        }
        Ok(())
    }

    /// Blanks the records that were appended last, in place, so that readers need not start over.
    /// Call [`Manifest::read_again`] afterwards.
    pub fn take_back(&self, appended: &Appended) -> Result<(), StoreError> {
        let taken = appended.start.map_or(Ok(()), |start| self.lines.take_back(start));
        taken.map_err(|error| StoreError::io("write", &self.path, error))
    }

    pub(super) fn sync(&self) -> Result<(), StoreError> {
        self.lines.file().sync_data().map_err(|error| StoreError::io("sync", &self.path, error))
    }
}

/// Records that were appended and may be taken back, as long as the lock is held.
#[derive(Debug)]
pub struct Appended {
    start: Option<u64>,
}

pub(super) fn digest(record: &Record) -> Option<&str> {
    record.analysis.as_ref().map(|analysis| analysis.digest.as_str())
}

fn append(lines: &LockedLines, records: &[Record]) -> io::Result<u64> {
    let mut printed = Vec::new();
    records::print(records, &mut printed)?;
    lines.append(&printed)
}

#[cfg(test)]
mod tests;
