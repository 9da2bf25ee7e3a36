//! Parsing and printing the lines of the manifest.

use std::borrow::Cow;
use std::io;

use serde::Deserialize;
use serde_json::Value;

use ctxfs_core::model::{Record, Stage};

/// The fields of a record that the index needs. All mandatory fields are here too, so that a line
/// that lacks one is skipped by the index, and the record before it stays current.
#[derive(Debug, Deserialize)]
pub(super) struct IndexedRecord<'a> {
    #[serde(borrow)]
    path: Cow<'a, str>,
    state: Stage,
    #[serde(rename = "generation")]
    _generation: u64,
    #[serde(rename = "size")]
    _size: u64,
    #[serde(rename = "modified")]
    _modified: i64,
    created: i64,
    #[serde(default)]
    removed: Option<IndexedRemoval>,
    #[serde(default)]
    far: Option<IndexedFar>,
}

/// The field of a `Removal` that the index needs.
#[derive(Debug, Default, Deserialize)]
struct IndexedRemoval {
    #[serde(default)]
    stays: bool,
}

/// The name of a `State`.
#[derive(Debug, Deserialize)]
struct IndexedFar {
    #[serde(default)]
    here: bool,
}

impl<'a> IndexedRecord<'a> {
    /// Parses a line. Returns `None` if it is not a record.
    pub(super) fn of(line: &'a [u8]) -> Option<Self> {
        serde_json::from_slice(line).ok()
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    pub(super) fn created(&self) -> i64 {
        self.created
    }

    pub(super) fn is_gone(&self) -> bool {
        self.state == Stage::Gone
    }

    pub(super) fn is_live(&self) -> bool {
        self.state == Stage::Live
    }

    /// Returns true if the line stays for good.
    pub(super) fn stays(&self) -> bool {
        self.removed.as_ref().is_some_and(|removed| removed.stays)
    }

    pub(super) fn is_removed(&self) -> bool {
        self.removed.is_some()
    }

    /// Returns true if there are bytes, and they are not on this disk.
    pub(super) fn is_far(&self) -> bool {
        let is_there = !self.is_gone() && !self.is_removed();
        is_there && self.far.as_ref().is_some_and(|far| !far.here)
    }
}

/// Parses a record. Leaves out an analysis that cannot be parsed, as that of another version of
/// ctxfs, since it can be computed again.
pub(super) fn parse(line: &[u8]) -> Option<Record> {
    serde_json::from_slice(line).ok().or_else(|| {
        let mut value: Value = serde_json::from_slice(line).ok()?;
        value.as_object_mut()?.remove("analysis")?;
        serde_json::from_value(value).ok()
    })
}

/// Appends the lines of `records` to `lines`, each with its newline.
pub(super) fn print(records: &[Record], lines: &mut Vec<u8>) -> io::Result<()> {
    for record in records {
        serde_json::to_writer(&mut *lines, record)?;
        lines.push(b'\n');
    }
    Ok(())
}
