//! The lines of the manifest: an index of the last record of each path, and a reader that reads
//! records one at a time.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, BufRead as _, BufReader, Read};
use std::path::PathBuf;
use std::sync::Arc;
use std::vec;

use serde::Deserialize;

use crate::{Dir, Stat, StoreError, if_there, layout, read_full_at, stat_file};
use ctxfs_core::model::{Record, Stage, without_digits};

/// Number of bytes that are read at once. The first refresh reads the whole manifest; later ones
/// usually read only a few bytes at its end.
const READ_BYTES: usize = 128 * 1024;
/// Number of outdated lines up to which a file is never compacted.
const SPARE_LINES: u64 = 1024;
/// Number of outdated lines that each current line adds to [`SPARE_LINES`].
const DEAD_PER_LIVE: u64 = 4;

/// An index of the part of the manifest that has been read. It is empty until the first `refresh`.
/// A path is represented by two keyed 64-bit hashes.
///
/// The index of 100,000 artifacts takes 5 MiB. It also takes 4 MiB for 100,000 traces, 3 MiB for
/// 100,000 artifacts whose bytes are not on this disk, and 5 MiB for 100,000 names with added
/// digits, such as `x~3f09ab.txt`. The runs of commands take 5 MiB for 100,000 outputs.
///
/// Methods that return lines also return the file. The caller can read the lines without holding
/// the index.
#[derive(Debug, Default)]
pub(super) struct ManifestIndex {
    source: Option<IndexedFile>,
    indexed: u64,
    lines: u64,
    last: HashMap<PathKey, RecordLine>,
    far: HashMap<PathKey, HashSet<PathKey>>,
    /// The paths with names such as `x~3f09ab.txt`, which
    /// [`with_digits`](ctxfs_core::model::with_digits) made. Each pair has the hashes of the path
    /// without the digits and of the full path.
    with_digits: BTreeSet<(PathKey, PathKey)>,
    /// The outputs of commands, in the order of their runs: the hash of `Provenance::run`, the time
    /// of creation, and the path. Outdated entries are possible, and are found by the record.
    runs: BTreeSet<(u64, i64, PathKey)>,
    traces: Vec<RecordLine>,
    keys: [RandomState; 2],
}

pub(super) type FileLines = (Arc<File>, Vec<RecordLine>);

type PathKey = [u64; 2];

/// The file that is indexed. It is kept open so that its inode number is not reused.
#[derive(Debug)]
struct IndexedFile {
    number: u64,
    file: Arc<File>,
    stat: Stat,
}

/// The position of a record in a manifest file. In a process, equal positions always mean the same
/// record. Positions in different files are never equal, even if one file replaced the other.
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
        let Some(mut stat) = if_there(dir.stat(name))? else {
            self.clear();
            return Ok(());
        };
        if !self.source.as_ref().is_some_and(|source| source.grows_to(&stat, self.indexed)) {
            self.clear();
            let file = dir.open_file(name, rustix::fs::OFlags::RDONLY)?;
            stat = stat_file(&file)?;
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

    /// Returns the lines of the outputs of the command `run` that were created before `created`,
    /// oldest first.
    pub(super) fn runs(&self, run: &str, created: i64) -> Option<FileLines> {
        let run = self.keys[0].hash_one(run);
        let runs = self.runs.range((run, i64::MIN, [0; 2])..(run, created, [0; 2]));
        let lines = runs.filter_map(|(.., path)| self.last.get(path)).copied().collect();
        Some((Arc::clone(&self.source.as_ref()?.file), lines))
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
        let runs = self.runs.len() * 3 / 2 * size_of::<(u64, i64, PathKey)>();
        (paths + far * size_of::<PathKey>()) * 8 / 7 + with_digits + runs
    }

    fn clear(&mut self) {
        *self = Self { keys: self.keys.clone(), ..Self::default() };
    }

    /// Reads the new lines. A last line without a newline is left for a later call.
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
        if let Some(run) = &record.run {
            let run = (self.keys[0].hash_one(&**run), record.created, key);
            if record.is_gone() {
                self.runs.remove(&run);
            } else {
                self.runs.insert(run);
            }
        }
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
        static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
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

/// A reader that starts at a given offset. It does not use the file cursor, which is shared by all
/// users of the file.
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

/// Number of bytes that are read at once. A longer line is read as a whole.
const BLOCK: u64 = 64 << 10;
/// Maximum gap in bytes between two lines that are read in one call. Reading the gap is cheaper
/// than a second call.
const GAP: u64 = 4 << 10;

/// The fields of a record that the index needs, and all mandatory fields. If a mandatory field is
/// missing, the index skips the line, and the previous record of the path stays valid.
#[derive(Debug, Deserialize)]
pub(super) struct IndexedRecord<'a> {
    #[serde(borrow)]
    pub(super) path: std::borrow::Cow<'a, str>,
    state: Stage,
    #[serde(rename = "generation")]
    _generation: u64,
    #[serde(rename = "size")]
    _size: u64,
    #[serde(rename = "modified")]
    _modified: i64,
    pub(super) created: i64,
    #[serde(default)]
    pub(super) removed: Option<IndexedRemoval>,
    #[serde(default)]
    far: Option<IndexedFar>,
    #[serde(borrow, default)]
    run: Option<std::borrow::Cow<'a, str>>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct IndexedRemoval {
    #[serde(default)]
    stays: bool,
}

#[derive(Debug, Deserialize)]
struct IndexedFar {
    #[serde(default)]
    here: bool,
}

impl<'a> IndexedRecord<'a> {
    pub(super) fn of(line: &'a [u8]) -> Option<Self> {
        serde_json::from_slice(line).ok()
    }

    pub(super) fn is_gone(&self) -> bool {
        self.state == Stage::Gone
    }

    pub(super) fn is_live(&self) -> bool {
        self.state == Stage::Live
    }

    pub(super) fn stays(&self) -> bool {
        self.removed.as_ref().is_some_and(|removed| removed.stays)
    }

    pub(super) fn is_far(&self) -> bool {
        let is_there = !self.is_gone() && self.removed.is_none();
        is_there && self.far.as_ref().is_some_and(|far| !far.here)
    }
}

/// Parses a record. If its analysis cannot be parsed, for example because another version of ctxfs
/// wrote it, returns the record without the analysis. The analysis can be computed again.
pub(super) fn parse(line: &[u8]) -> Option<Record> {
    serde_json::from_slice(line).ok().or_else(|| {
        let mut value: serde_json::Value = serde_json::from_slice(line).ok()?;
        value.as_object_mut()?.remove("analysis")?;
        serde_json::from_value(value).ok()
    })
}

pub(super) fn print(records: &[Record], lines: &mut Vec<u8>) -> io::Result<()> {
    for record in records {
        serde_json::to_writer(&mut *lines, record)?;
        lines.push(b'\n');
    }
    Ok(())
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct RecordLine {
    pub(super) offset: u64,
    pub(super) length: u32,
    pub(super) created: i64,
    pub(super) live: bool,
    pub(super) removed: bool,
}

impl RecordLine {
    pub(super) fn end(self) -> u64 {
        self.offset + u64::from(self.length)
    }

    pub(super) fn read(self, file: &File) -> io::Result<Vec<u8>> {
        let mut line = vec![0; self.length as usize];
        let count = read_full_at(file, self.offset, &mut line)?;
        line.truncate(count);
        Ok(line)
    }
}

/// An iterator over the records of a manifest at one moment. Records that are appended later are
/// not included. A record is read when it is requested, or shortly before. Until then, it takes 24
/// bytes of memory.
#[derive(Debug, Clone)]
pub struct StoredRecords {
    file: Option<Arc<File>>,
    /// The lines that were not read yet.
    pub(crate) lines: vec::IntoIter<RecordLine>,
    path: PathBuf,
    block: LineBlock,
}

#[derive(Debug, Clone, Default)]
struct LineBlock {
    start: u64,
    bytes: Vec<u8>,
}

impl StoredRecords {
    pub(super) fn new(lines: Option<(Arc<File>, Vec<RecordLine>)>, path: PathBuf) -> Self {
        let (file, lines) = lines.map_or((None, Vec::new()), |(file, lines)| (Some(file), lines));
        Self { file, lines: lines.into_iter(), path, block: LineBlock::default() }
    }

    /// Returns the records whose path satisfies `is_wanted`. Reads the paths of all records now.
    pub(crate) fn with_paths(
        mut self,
        is_wanted: impl Fn(&str) -> bool,
    ) -> Result<Self, StoreError> {
        let mut wanted = Vec::new();
        while let Some(line) = self.lines.next() {
            let bytes = self.read(line)?;
            if IndexedRecord::of(bytes).is_some_and(|record| is_wanted(&record.path)) {
                wanted.push(line);
            }
        }
        Ok(Self { lines: wanted.into_iter(), ..self })
    }

    fn parsed(&mut self, line: RecordLine) -> Option<Result<Record, StoreError>> {
        match self.read(line) {
            Ok(bytes) => parse(bytes).map(Ok),
            Err(error) => Some(Err(error)),
        }
    }

    fn read(&mut self, line: RecordLine) -> Result<&[u8], StoreError> {
        let Some(file) = &self.file else { return Ok(&[]) };
        if !self.block.has(line) {
            let read = self.block.read(file, line, self.lines.as_slice());
            read.map_err(|error| StoreError::io("read", &self.path, error))?;
        }
        Ok(self.block.line(line))
    }
}

impl LineBlock {
    fn has(&self, line: RecordLine) -> bool {
        self.start <= line.offset && line.end() <= self.start + self.bytes.len() as u64
    }

    fn read(&mut self, file: &File, line: RecordLine, rest: &[RecordLine]) -> io::Result<()> {
        let (start, mut end) = (line.offset, line.end());
        for next in rest {
            if next.offset < end || next.offset > end + GAP || next.end() > start + BLOCK {
                break;
            }
            end = next.end();
        }
        self.start = start;
        self.bytes.resize((end - start) as usize, 0);
        let read = read_full_at(file, start, &mut self.bytes);
        self.bytes.truncate(*read.as_ref().unwrap_or(&0));
        read.map(drop)
    }

    /// Returns the bytes of a line, or fewer if the file has become shorter.
    fn line(&self, line: RecordLine) -> &[u8] {
        let at = |offset: u64| self.bytes.len().min(offset.saturating_sub(self.start) as usize);
        &self.bytes[at(line.offset)..at(line.end())]
    }
}

impl Iterator for StoredRecords {
    type Item = Result<Record, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        while let Some(line) = self.lines.next() {
            if let Some(record) = self.parsed(line) {
                return Some(record);
            }
        }
        None
    }
}

impl DoubleEndedIterator for StoredRecords {
    fn next_back(&mut self) -> Option<Self::Item> {
        while let Some(line) = self.lines.next_back() {
            if let Some(record) = self.parsed(line) {
                return Some(record);
            }
        }
        None
    }
}
