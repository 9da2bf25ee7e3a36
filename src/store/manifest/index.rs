//! Where in the manifest the last record of each path stands.

use std::collections::HashMap;
use std::fs::File;
use std::hash::BuildHasher as _;
use std::hash::RandomState;
use std::io;
use std::io::BufRead as _;
use std::io::BufReader;
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use rustix::fs::OFlags;

use crate::store::artifact::read_full_at;
use crate::store::dir::Dir;
use crate::store::layout;
use crate::store::manifest::line::IndexedRecord;
use crate::store::stat;
use crate::store::stat::Stat;

/// Bytes read at once. An index is loaded from end to end, and usually only its end is new.
const READ_BYTES: usize = 128 * 1024;
/// Lines of no use that are not worth a compaction.
const SPARE_LINES: u64 = 1024;
/// How many lines of no use each useful one may have.
const DEAD_PER_LIVE: u64 = 4;

/// An index of the manifest, as far as it has been read. Empty until the first `refresh`.
///
/// It keeps no paths: two keyed 64-bit hashes stand for one, which makes 100,000 artifacts cost
/// 5 MiB.
#[derive(Debug, Default)]
pub(super) struct Index {
    source: Option<IndexedFile>,
    /// Bytes indexed: the end of the last whole line.
    indexed: u64,
    /// Lines indexed, of use or not.
    lines: u64,
    last: HashMap<[u64; 2], RecordLine>,
    keys: [RandomState; 2],
}

/// The file that is indexed. Kept open, so that its inode is nobody else's.
#[derive(Debug)]
struct IndexedFile {
    /// No other one of this process has it.
    number: u64,
    file: Arc<File>,
    /// As it was when it was last read.
    stat: Stat,
}

/// Where a record stands. Equal ones are the same record, as long as the process lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RecordPosition {
    source: u64,
    offset: u64,
}

/// A line: its newline not counted.
#[derive(Debug, Clone, Copy)]
pub(super) struct RecordLine {
    offset: u64,
    length: u32,
    /// `Record::created`.
    created: i64,
    live: bool,
    removed: bool,
}

impl RecordLine {
    /// The bytes of the line.
    pub(super) fn read(self, file: &File) -> io::Result<Vec<u8>> {
        let mut line = vec![0; self.length as usize];
        let count = read_full_at(file, self.offset, &mut line)?;
        line.truncate(count);
        Ok(line)
    }
}

impl Index {
    /// Takes in what has changed on disk, by whichever process. One `stat`, where nothing has.
    pub(super) fn refresh(&mut self, dir: &Dir) -> io::Result<()> {
        let name = layout::MANIFEST.as_ref();
        let mut stat = match dir.stat(name) {
            Ok(stat) => stat,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.clear();
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        if !self.source.as_ref().is_some_and(|source| source.grows_to(&stat, self.indexed)) {
            self.clear();
            let file = dir.open_file(name, OFlags::RDONLY)?;
            stat = stat::stat_file(&file)?;
            let unread = Stat { size: 0, ..stat };
            self.source = Some(IndexedFile::new(file, unread));
        }
        self.extend(stat)
    }

    /// Where the record of `path` stands.
    pub(super) fn find(&self, path: &str) -> Option<(&File, RecordLine)> {
        let source = self.source.as_ref()?;
        let span = self.last.get(&self.key(path))?;
        Some((&source.file, *span))
    }

    /// As [`Index::find`], without what it takes to read it.
    pub(super) fn position(&self, path: &str) -> Option<RecordPosition> {
        let source = self.source.as_ref()?.number;
        let offset = self.last.get(&self.key(path))?.offset;
        Some(RecordPosition { source, offset })
    }

    /// When the file at `path` was first seen, as its record says.
    pub(super) fn created(&self, path: &str) -> Option<i64> {
        self.last.get(&self.key(path)).filter(|span| !span.removed).map(|span| span.created)
    }

    /// Whether the record of `path` says that it is live.
    pub(super) fn is_live(&self, path: &str) -> bool {
        self.last.get(&self.key(path)).is_some_and(|span| span.live)
    }

    /// The lines that hold, as they stand in the file.
    pub(super) fn current(&self) -> Option<(Arc<File>, Vec<RecordLine>)> {
        let source = self.source.as_ref()?;
        let mut spans: Vec<RecordLine> = self.last.values().copied().collect();
        spans.sort_unstable_by_key(|span| span.offset);
        Some((Arc::clone(&source.file), spans))
    }

    /// Whether most of the file, as far as it has been read, is of no use.
    pub(super) fn is_wasteful(&self) -> bool {
        let live = self.last.len() as u64;
        self.lines - live > SPARE_LINES + DEAD_PER_LIVE * live
    }

    /// Bytes that it takes, the fixed part not counted.
    #[cfg(test)]
    pub(super) fn memory(&self) -> usize {
        self.last.capacity() * size_of::<([u64; 2], RecordLine)>() * 8 / 7
    }

    fn clear(&mut self) {
        *self = Self { keys: self.keys.clone(), ..Self::default() };
    }

    /// Reads the lines that are new. A last line without an end is left for later.
    fn extend(&mut self, stat: Stat) -> io::Result<()> {
        let Some(source) = self.source.as_mut().filter(|source| source.stat.size != stat.size)
        else {
            return Ok(());
        };
        let from = ReadFrom { file: Arc::clone(&source.file), offset: self.indexed };
        let mut reader = BufReader::with_capacity(READ_BYTES, from);
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line)? > 0 && line.ends_with(b"\n") {
            self.take(&line);
            line.clear();
        }
        if let Some(source) = self.source.as_mut() {
            source.stat.size = stat.size;
        }
        Ok(())
    }

    /// Takes one line in, its newline included.
    fn take(&mut self, line: &[u8]) {
        let offset = self.indexed;
        self.indexed += line.len() as u64;
        self.lines += 1;
        let (Some(glance), Ok(length)) = (IndexedRecord::of(line), u32::try_from(line.len() - 1))
        else {
            return;
        };
        let key = self.key(glance.path());
        if glance.is_gone() {
            self.last.remove(&key);
        } else {
            let (live, removed) = (glance.is_live(), glance.is_removed());
            self.last.insert(
                key,
                RecordLine { offset, length, created: glance.created(), live, removed },
            );
        }
    }

    fn key(&self, path: &str) -> [u64; 2] {
        self.keys.each_ref().map(|key| key.hash_one(path))
    }
}

impl IndexedFile {
    fn new(file: File, stat: Stat) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self { number: NEXT.fetch_add(1, Relaxed), file: Arc::new(file), stat }
    }

    /// Whether `stat` is this file with, at most, more at its end.
    fn grows_to(&self, stat: &Stat, indexed: u64) -> bool {
        self.stat.same_file(stat) && stat.size >= self.stat.size.max(indexed)
    }
}

/// Reads on from an offset, without the cursor that all users of a file share.
struct ReadFrom {
    file: Arc<File>,
    offset: u64,
}

impl Read for ReadFrom {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = read_full_at(&self.file, self.offset, buffer)?;
        self.offset += count as u64;
        Ok(count)
    }
}
