//! The lines of the manifest: parsing, printing, and reading records one at a time.

use std::borrow::Cow;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::{io, vec};

use serde::Deserialize;

use crate::{StoreError, read_full_at};
use ctxfs_core::model::{Record, Stage};

/// Number of bytes that are read at once. A longer line is read as a whole.
const BLOCK: u64 = 64 << 10;
/// Maximum gap in bytes between two lines that are read in one call. Reading the gap is cheaper
/// than a second call.
const GAP: u64 = 4 << 10;

/// The fields of a record that the index needs, and all mandatory fields. If a mandatory field is
/// missing, the index skips the line, and the previous record of the path stays current.
#[derive(Debug, Deserialize)]
pub(super) struct IndexedRecord<'a> {
    #[serde(borrow)]
    pub(super) path: Cow<'a, str>,
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

    /// Returns true if the line is a trace, which is never dropped.
    pub(super) fn stays(&self) -> bool {
        self.removed.as_ref().is_some_and(|removed| removed.stays)
    }

    /// Returns true if the artifact has bytes but they are not on this disk.
    pub(super) fn is_far(&self) -> bool {
        let is_there = !self.is_gone() && self.removed.is_none();
        is_there && self.far.as_ref().is_some_and(|far| !far.here)
    }
}

/// Parses a record. If its analysis cannot be parsed, for example because another version of ctxfs
/// wrote it, returns the record without the analysis, which can be computed again.
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
pub(super) struct RecordLine {
    pub(super) offset: u64,
    pub(super) length: u32,
    pub(super) created: i64,
    pub(super) live: bool,
    pub(super) removed: bool,
}

impl RecordLine {
    pub(super) fn start(self) -> u64 {
        self.offset
    }

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
/// not included. A record is read when it is requested, or shortly before. A record that has not
/// been read takes 24 bytes of memory.
#[derive(Debug, Clone)]
pub struct StoredRecords {
    file: Option<Arc<File>>,
    lines: vec::IntoIter<RecordLine>,
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
        self.start <= line.start() && line.end() <= self.start + self.bytes.len() as u64
    }

    fn read(&mut self, file: &File, line: RecordLine, rest: &[RecordLine]) -> io::Result<()> {
        let (start, mut end) = (line.start(), line.end());
        for next in rest {
            if next.start() < end || next.start() > end + GAP || next.end() > start + BLOCK {
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

    /// Returns the bytes of a line. They are fewer than recorded if the file has become shorter.
    fn line(&self, line: RecordLine) -> &[u8] {
        let at = |offset: u64| self.bytes.len().min(offset.saturating_sub(self.start) as usize);
        &self.bytes[at(line.start())..at(line.end())]
    }
}

impl Iterator for StoredRecords {
    type Item = Result<Record, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        while let Some(line) = self.lines.next() {
            match self.read(line) {
                Ok(bytes) => {
                    if let Some(record) = parse(bytes) {
                        return Some(Ok(record));
                    }
                }
                Err(error) => return Some(Err(error)),
            }
        }
        None
    }
}
