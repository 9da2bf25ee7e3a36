//! The records of a manifest, read one at a time.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::{io, vec};

use crate::artifact::read_full_at;
use crate::error::StoreError;
use crate::manifest::index::RecordLine;
use crate::manifest::line;
use crate::manifest::line::IndexedRecord;
use ctxfs_core::model::Record;

/// The bytes of lines that are read at once, unless one alone has more.
const BLOCK: u64 = 64 << 10;
/// The bytes between two lines that are read for nothing, rather than by another call.
const GAP: u64 = 4 << 10;

/// Records of a manifest at one moment, whatever is appended later. Each is read when it is asked
/// for, or a little before, so any number of them take 24 bytes each.
#[derive(Debug, Clone)]
pub struct StoredRecords {
    /// The file, if there is one.
    file: Option<Arc<File>>,
    lines: vec::IntoIter<RecordLine>,
    /// The path of the file, for error messages.
    path: PathBuf,
    block: Block,
}

/// A part of the file.
#[derive(Debug, Clone, Default)]
struct Block {
    start: u64,
    bytes: Vec<u8>,
}

impl StoredRecords {
    pub(super) fn new(lines: Option<(Arc<File>, Vec<RecordLine>)>, path: PathBuf) -> Self {
        let (file, lines) = lines.map_or((None, Vec::new()), |(file, lines)| (Some(file), lines));
        Self { file, lines: lines.into_iter(), path, block: Block::default() }
    }

    /// Returns those of them whose path `is_wanted`. Reads all of them.
    pub(crate) fn with_paths(
        mut self,
        is_wanted: impl Fn(&str) -> bool,
    ) -> Result<Self, StoreError> {
        let mut wanted = Vec::new();
        while let Some(line) = self.lines.next() {
            let bytes = self.read(line)?;
            if IndexedRecord::of(bytes).is_some_and(|record| is_wanted(record.path())) {
                wanted.push(line);
            }
        }
        Ok(Self { lines: wanted.into_iter(), ..self })
    }

    /// Reads a line, and those that follow closely.
    fn read(&mut self, line: RecordLine) -> Result<&[u8], StoreError> {
        let Some(file) = &self.file else { return Ok(&[]) };
        if !self.block.has(line) {
            let read = self.block.read(file, line, self.lines.as_slice());
            read.map_err(|error| StoreError::io("read", &self.path, error))?;
        }
        Ok(self.block.line(line))
    }
}

impl Block {
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

    /// Returns the bytes of a line: fewer if the file has become shorter.
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
                    if let Some(record) = line::parse(bytes) {
                        return Some(Ok(record));
                    }
                }
                Err(error) => return Some(Err(error)),
            }
        }
        None
    }
}
