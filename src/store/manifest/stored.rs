//! The records of a manifest, read one at a time.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::vec;

use crate::model::Record;
use crate::store::error::StoreError;
use crate::store::manifest::index::RecordLine;
use crate::store::manifest::line;
use crate::store::manifest::line::IndexedRecord;

/// Records of a manifest at one moment, whatever is appended later. Each is read when it is asked
/// for, so any number of them take 24 bytes each.
#[derive(Debug, Clone)]
pub struct StoredRecords {
    /// The file, if there is one.
    file: Option<Arc<File>>,
    lines: vec::IntoIter<RecordLine>,
    /// The path of the file, for error messages.
    path: PathBuf,
}

impl StoredRecords {
    pub(super) fn new(lines: Option<(Arc<File>, Vec<RecordLine>)>, path: PathBuf) -> Self {
        let (file, lines) = lines.map_or((None, Vec::new()), |(file, lines)| (Some(file), lines));
        Self { file, lines: lines.into_iter(), path }
    }

    /// Returns those of them whose path `is_wanted`. Reads all of them.
    pub(in crate::store) fn with_paths(
        mut self,
        is_wanted: impl Fn(&str) -> bool,
    ) -> Result<Self, StoreError> {
        let mut wanted = Vec::new();
        while let Some(line) = self.lines.next() {
            let bytes = self.read(line)?;
            if IndexedRecord::of(&bytes).is_some_and(|record| is_wanted(record.path())) {
                wanted.push(line);
            }
        }
        Ok(Self { lines: wanted.into_iter(), ..self })
    }

    fn read(&self, line: RecordLine) -> Result<Vec<u8>, StoreError> {
        let Some(file) = &self.file else { return Ok(Vec::new()) };
        line.read(file).map_err(|error| StoreError::io("read", &self.path, error))
    }
}

impl Iterator for StoredRecords {
    type Item = Result<Record, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        while let Some(line) = self.lines.next() {
            match self.read(line) {
                Ok(bytes) => {
                    if let Some(record) = line::parse(&bytes) {
                        return Some(Ok(record));
                    }
                }
                Err(error) => return Some(Err(error)),
            }
        }
        None
    }
}
