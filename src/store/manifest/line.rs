//! One line of the manifest.

use std::borrow::Cow;
use std::io;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use crate::model::Record;

/// As much of a record as the index needs. What a record cannot do without is here too, so that a
/// line that lacks it is passed over when it is indexed, and the one before stays in force.
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
    removed: Option<IgnoredAny>,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Stage {
    Live,
    Sealed,
    Incomplete,
    Gone,
}

impl<'a> IndexedRecord<'a> {
    /// Nothing where the line is no record.
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

    pub(super) fn is_removed(&self) -> bool {
        self.removed.is_some()
    }
}

/// The record of a line. An analysis that cannot be understood, which another version of ctxfs may
/// have written, is left out: it can be made again.
pub(super) fn parse(line: &[u8]) -> Option<Record> {
    serde_json::from_slice(line).ok().or_else(|| {
        let mut value: Value = serde_json::from_slice(line).ok()?;
        value.as_object_mut()?.remove("analysis")?;
        serde_json::from_value(value).ok()
    })
}

/// Puts the lines of `records`, each with its newline, after `lines`.
pub(super) fn print(records: &[Record], lines: &mut Vec<u8>) -> io::Result<()> {
    for record in records {
        serde_json::to_writer(&mut *lines, record)?;
        lines.push(b'\n');
    }
    Ok(())
}
