//! An index of the last record of each path in the manifest.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, BufRead as _, BufReader, Read};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use rustix::fs::OFlags;

use crate::manifest::records::{IndexedRecord, RecordLine};
use crate::{Dir, Stat, layout, read_full_at, stat};
use ctxfs_core::model::without_digits;

/// Number of bytes that are read at once. The first refresh reads the whole manifest; later ones
/// usually read only a little at its end.
const READ_BYTES: usize = 128 * 1024;
/// Number of outdated lines that never make a compaction worthwhile.
const SPARE_LINES: u64 = 1024;
/// Number of outdated lines per current line that are tolerated in addition before a compaction.
const DEAD_PER_LIVE: u64 = 4;

/// An index of the part of the manifest that has been read. It is empty until the first `refresh`.
///
/// A path is represented by two keyed 64-bit hashes. 100,000 artifacts take 5 MiB. The same number
/// of traces adds 4 MiB, of artifacts whose bytes are not on this disk 3 MiB, and of names with
/// digits of an origin 5 MiB. Methods that return lines also return the file, so that the lines can
/// be read without holding the index.
#[derive(Debug, Default)]
pub(super) struct ManifestIndex {
    source: Option<IndexedFile>,
    indexed: u64,
    lines: u64,
    last: HashMap<PathKey, RecordLine>,
    far: HashMap<PathKey, HashSet<PathKey>>,
    /// The paths whose names have digits of an origin. Each pair is the path without the digits and
    /// the full path.
    with_digits: BTreeSet<(PathKey, PathKey)>,
    /// The lines that are kept even if later lines have the same path.
    traces: Vec<RecordLine>,
    keys: [RandomState; 2],
}

/// A file, and the positions of lines in the order of the file.
pub(super) type FileLines = (Arc<File>, Vec<RecordLine>);

/// Two keyed hashes of a path, which represent the path.
type PathKey = [u64; 2];

/// The file that is indexed. It is kept open so that its inode number is not reused.
#[derive(Debug)]
struct IndexedFile {
    /// A number that is unique among the files that this process has indexed.
    number: u64,
    file: Arc<File>,
    stat: Stat,
}

/// The position of a record in a manifest file. For the life of the process, equal positions mean
/// the same record. Positions in different files are never equal, even if one file replaced the
/// other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RecordPosition {
    source: u64,
    offset: u64,
}

impl ManifestIndex {
    /// Updates the index with the changes that any process has made on disk. Costs one `stat` if
    /// there are none.
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

    pub(super) fn find(&self, path: &str) -> Option<(&File, RecordLine)> {
        let source = self.source.as_ref()?;
        let span = self.last.get(&self.key(path))?;
        Some((&source.file, *span))
    }

    pub(super) fn position(&self, path: &str) -> Option<RecordPosition> {
        let source = self.source.as_ref()?.number;
        let offset = self.last.get(&self.key(path))?.offset;
        Some(RecordPosition { source, offset })
    }

    pub(super) fn created(&self, path: &str) -> Option<i64> {
        self.last.get(&self.key(path)).filter(|span| !span.removed).map(|span| span.created)
    }

    pub(super) fn is_live(&self, path: &str) -> bool {
        self.last.get(&self.key(path)).is_some_and(|span| span.live)
    }

    pub(super) fn is_far(&self, path: &str) -> bool {
        let paths = self.far.get(&self.key(directory(path)));
        paths.is_some_and(|paths| paths.contains(&self.key(path)))
    }

    pub(super) fn traces(&self) -> Option<FileLines> {
        self.in_order(self.traces.iter())
    }

    pub(super) fn has_traces(&self) -> bool {
        !self.traces.is_empty()
    }

    /// Returns the lines that a rewrite must keep.
    pub(super) fn kept(&self) -> Option<FileLines> {
        self.in_order(self.last.values().chain(&self.traces))
    }

    pub(super) fn current(&self) -> Option<FileLines> {
        self.in_order(self.last.values())
    }

    pub(super) fn far(&self, dir: Option<&str>) -> Option<FileLines> {
        let dirs: Vec<&HashSet<PathKey>> = match dir {
            Some(dir) => self.far.get(&self.key(dir)).into_iter().collect(),
            None => self.far.values().collect(),
        };
        self.in_order(dirs.into_iter().flatten().filter_map(|path| self.last.get(path)))
    }

    pub(super) fn with_digits(&self, path: &str) -> Option<FileLines> {
        let plain = self.key(path);
        let paths = self.with_digits.range((plain, [0; 2])..=(plain, [u64::MAX; 2]));
        self.in_order(paths.filter_map(|(_, path)| self.last.get(path)))
    }

    fn in_order<'a>(&self, lines: impl Iterator<Item = &'a RecordLine>) -> Option<FileLines> {
        let source = self.source.as_ref()?;
        let mut lines: Vec<RecordLine> = lines.copied().collect();
        lines.sort_unstable_by_key(|line| line.offset);
        lines.dedup_by_key(|line| line.offset);
        Some((Arc::clone(&source.file), lines))
    }

    pub(super) fn is_wasteful(&self) -> bool {
        let live = (self.last.len() + self.traces.len()) as u64;
        self.lines.saturating_sub(live) > SPARE_LINES + DEAD_PER_LIVE * live
    }

    #[cfg(test)]
    pub(super) fn memory(&self) -> usize {
        let far: usize = self.far.values().map(HashSet::capacity).sum();
        let paths = self.last.capacity() * size_of::<(PathKey, RecordLine)>();
        let with_digits = self.with_digits.len() * 2 * size_of::<(PathKey, PathKey)>();
        (paths + far * size_of::<PathKey>()) * 8 / 7 + with_digits
    }

    fn clear(&mut self) {
        *self = Self { keys: self.keys.clone(), ..Self::default() };
    }

    /// Reads the new lines. If the last line has no newline yet, leaves it for a later call.
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

    fn take(&mut self, line: &[u8]) {
        let offset = self.indexed;
        self.indexed += line.len() as u64;
        self.lines += 1;
        let (Some(record), Ok(length)) = (IndexedRecord::of(line), u32::try_from(line.len() - 1))
        else {
            return;
        };
        let key = self.key(&record.path);
        self.note_far(&record.path, key, record.is_far());
        self.note_digits(&record.path, key, record.is_gone());
        if record.is_gone() {
            self.last.remove(&key);
        } else {
            let (live, removed) = (record.is_live(), record.removed.is_some());
            let line = RecordLine { offset, length, created: record.created, live, removed };
            self.last.insert(key, line);
            if record.stays() {
                self.traces.push(line);
            }
        }
    }

    fn note_far(&mut self, path: &str, key: PathKey, is_far: bool) {
        if !is_far && self.far.is_empty() {
            return;
        }
        let dir = self.key(directory(path));
        if is_far {
            self.far.entry(dir).or_default().insert(key);
        } else if let Some(paths) = self.far.get_mut(&dir)
            && paths.remove(&key)
            && paths.is_empty()
        {
            self.far.remove(&dir);
        }
    }

    fn note_digits(&mut self, path: &str, key: PathKey, is_gone: bool) {
        let Some(plain) = without_digits(path) else { return };
        let with_digits = (self.key(&plain), key);
        if is_gone {
            self.with_digits.remove(&with_digits);
        } else {
            self.with_digits.insert(with_digits);
        }
    }

    fn key(&self, path: &str) -> PathKey {
        self.keys.each_ref().map(|key| key.hash_one(path))
    }
}

fn directory(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(dir, _)| dir)
}

impl IndexedFile {
    fn new(file: File, stat: Stat) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self {
            number: NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed),
            file: Arc::new(file),
            stat,
        }
    }

    fn grows_to(&self, stat: &Stat, indexed: u64) -> bool {
        self.stat.same_file(stat) && stat.size >= self.stat.size.max(indexed)
    }
}

/// A reader that starts at a given offset. It does not use the file cursor, which all users of the
/// file share.
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
