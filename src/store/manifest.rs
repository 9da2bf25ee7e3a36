//! The manifest of a conversation: a file of records, one a line.
//!
//! The file only grows, under an exclusive `flock` of the file itself, until compaction puts a
//! shorter one in its place. Readers take no lock: they index whole lines, and a line that is cut
//! off or is no record counts for nothing. Who waits for the lock never holds the index.

mod index;
mod line;

use std::fs::File;
use std::hash::DefaultHasher;
use std::hash::Hash as _;
use std::hash::Hasher as _;
use std::io;
use std::io::BufWriter;
use std::io::Write as _;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;

use rustix::fs::FlockOperation;
use rustix::fs::OFlags;
use rustix::fs::RenameFlags;

use crate::model::Record;
use crate::store::artifact::read_full_at;
use crate::store::dir::Dir;
use crate::store::layout;
use crate::store::manifest::index::Index;
pub use crate::store::manifest::index::Position;
use crate::store::stat;

/// The records of one conversation. Every method takes that conversation's directory.
#[derive(Debug, Default)]
pub(super) struct Manifest {
    index: Mutex<Index>,
}

impl Manifest {
    /// The last record of `path`, unless that one says it is gone.
    pub(super) fn record(&self, dir: &Dir, path: &str) -> io::Result<Option<Record>> {
        let mut index = self.index();
        index.refresh(dir)?;
        match index.find(path) {
            Some((file, span)) => Ok(line::parse(&span.read(file)?)),
            None => Ok(None),
        }
    }

    /// Where the record of `path` stands: another place whenever it may be another one. No more
    /// than one `stat`, where the manifest has not changed.
    pub(super) fn position(&self, dir: &Dir, path: &str) -> io::Result<Option<Position>> {
        let mut index = self.index();
        index.refresh(dir)?;
        Ok(index.position(path))
    }

    /// `Record::created` of each path that has a record, in their order.
    pub(super) fn created<P: AsRef<str>>(
        &self,
        dir: &Dir,
        paths: impl Iterator<Item = P>,
    ) -> io::Result<Vec<Option<i64>>> {
        let mut index = self.index();
        index.refresh(dir)?;
        Ok(paths.map(|path| index.created(path.as_ref())).collect())
    }

    /// Whether the record of each path says that it is live, in their order.
    pub(super) fn live<P: AsRef<str>>(
        &self,
        dir: &Dir,
        paths: impl Iterator<Item = P>,
    ) -> io::Result<Vec<bool>> {
        let mut index = self.index();
        index.refresh(dir)?;
        Ok(paths.map(|path| index.is_live(path.as_ref())).collect())
    }

    /// The last record of every path that is not gone, oldest first.
    pub(super) fn records(&self, dir: &Dir) -> io::Result<Vec<Record>> {
        let mut index = self.index();
        index.refresh(dir)?;
        let Some((file, spans)) = index.current() else { return Ok(Vec::new()) };
        drop(index);
        let mut records = Vec::with_capacity(spans.len());
        for span in spans {
            records.extend(line::parse(&span.read(&file)?));
        }
        Ok(records)
    }

    /// Adds `records`, whole, in one write, and compacts where most of the file is of no use.
    pub(super) fn append(&self, dir: &Dir, records: &[Record]) -> io::Result<()> {
        if records.is_empty() {
            return Ok(());
        }
        Held::wait(dir)?.add(records)?;
        self.tidy(dir);
        Ok(())
    }

    /// Compacts where most of the file is of no use.
    pub(super) fn tidy(&self, dir: &Dir) {
        if self.is_wasteful(dir) {
            // All records are in; a rewrite that finds no room has lost nothing.
            let _compacted = self.compact(dir);
        }
    }

    /// Writes the file anew with nothing but the current records.
    pub(super) fn compact(&self, dir: &Dir) -> io::Result<()> {
        let held = Held::wait(dir)?;
        let mut index = self.index();
        index.refresh(dir)?;
        let Some((file, spans)) = index.current() else { return Ok(()) };
        drop(index);
        let flags = OFlags::WRONLY | OFlags::TRUNC;
        let new = dir.create_file(layout::NEW_MANIFEST.as_ref(), flags, layout::FILE_MODE)?;
        let mut new = BufWriter::new(new);
        for span in spans {
            new.write_all(&span.read(&file)?)?;
            new.write_all(b"\n")?;
        }
        new.into_inner()?.sync_all()?;
        let (from, to) = (layout::NEW_MANIFEST.as_ref(), layout::MANIFEST.as_ref());
        dir.rename(from, dir, to, RenameFlags::empty())?;
        dir.sync()?;
        drop(held);
        self.index().refresh(dir)
    }

    /// A number that is another one whenever the file is.
    pub(super) fn version(dir: &Dir) -> io::Result<u64> {
        let stat = match dir.stat(layout::MANIFEST.as_ref()) {
            Ok(stat) => stat,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
            Err(error) => return Err(error),
        };
        let mut hasher = DefaultHasher::new();
        (stat.dev, stat.ino, stat.size, stat.mtime).hash(&mut hasher);
        Ok(hasher.finish())
    }

    /// Whether a rewrite pays. The index is asked as it stands, and brought up to date only to make
    /// sure: whoever merely appends never loads it.
    fn is_wasteful(&self, dir: &Dir) -> bool {
        let mut index = self.index();
        index.is_wasteful() && index.refresh(dir).is_ok() && index.is_wasteful()
    }

    fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A manifest that nobody else can add to until this is dropped.
#[derive(Debug)]
pub struct Held(File);

impl Held {
    /// Waits for the lock of the manifest, which is made where it is missing.
    ///
    /// Compaction may put another file in its place meanwhile, and a lock on the old one keeps
    /// nobody out: then it begins again.
    pub(super) fn wait(dir: &Dir) -> io::Result<Self> {
        Self::wait_for(dir, layout::MANIFEST)
    }

    /// As [`Held::wait`], for another file of lines that is kept in the same way.
    pub(super) fn wait_for(dir: &Dir, name: &str) -> io::Result<Self> {
        let name = name.as_ref();
        loop {
            let flags = OFlags::RDWR | OFlags::APPEND;
            let file = dir.create_file(name, flags, layout::FILE_MODE)?;
            rustix::io::retry_on_intr(|| rustix::fs::flock(&file, FlockOperation::LockExclusive))?;
            let mine = stat::stat_file(&file)?;
            match dir.stat(name) {
                Ok(stat) if stat.same_file(&mine) => return Ok(Self(file)),
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(_) | Err(_) => {}
            }
        }
    }

    /// As [`Held::wait`]; none, where somebody else holds it. Nobody compacts meanwhile.
    #[cfg(all(test, feature = "shuttle"))]
    pub(super) fn at_once(dir: &Dir) -> io::Result<Option<Self>> {
        let flags = OFlags::RDWR | OFlags::APPEND;
        let file = dir.create_file(layout::MANIFEST.as_ref(), flags, layout::FILE_MODE)?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Self(file))),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Adds `records` at the end; a line that was cut off there gets its newline first.
    pub(super) fn add(&self, records: &[Record]) -> io::Result<()> {
        let mut lines = Vec::new();
        line::print(records, &mut lines)?;
        self.add_lines(&lines)
    }

    /// Adds whole lines, in the same way.
    pub(super) fn add_lines(&self, lines: &[u8]) -> io::Result<()> {
        if self.ends_with_newline()? {
            return (&self.0).write_all(lines);
        }
        (&self.0).write_all(&[b"\n", lines].concat())
    }

    /// The file.
    pub(super) fn file(&self) -> &File {
        &self.0
    }

    /// Brings what was added to the disk.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn ends_with_newline(&self) -> io::Result<bool> {
        let size = stat::stat_file(&self.0)?.size;
        let mut last = [b'\n'];
        read_full_at(&self.0, size.saturating_sub(1), &mut last)?;
        Ok(last == [b'\n'])
    }
}

#[cfg(test)]
mod tests;
