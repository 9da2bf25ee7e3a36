//! Outputs that are a list: the hits of a search, or paths. Their order says little, so they are shown
//! by file and by directory, not by their head and tail.

use std::io;

use crate::clean::TextBudget;
use crate::errors::Findings;
use crate::summary::excerpt::{READ, split};
use crate::summary::hits::Hits;
use crate::summary::paths::PathTree;
use ctxfs_core::model::{Encoding, Json, Subject};

/// The bytes of an output that may be a list. If the output is long, these are whole lines of both
/// ends, and `is_all` is false.
pub(super) struct ListBytes {
    bytes: Vec<u8>,
    is_all: bool,
}

/// A list. `is_all` is false if the list lacks lines of the output.
pub(super) struct Listing<'a> {
    form: ListForm<'a>,
    is_all: bool,
}

enum ListForm<'a> {
    Hits(Hits<'a>),
    Paths(PathTree<'a>),
}

impl ListBytes {
    pub(super) fn read(subject: &Subject<'_>) -> io::Result<Self> {
        let (content, end) = (subject.content, 2 * READ as u64);
        let is_json = !matches!(subject.analysis.json, Json::No);
        let is_text = matches!(subject.analysis.encoding, Encoding::Ascii | Encoding::Utf8);
        if is_json || !is_text {
            return Ok(Self { bytes: Vec::new(), is_all: false });
        }
        if content.len() <= end {
            return Ok(Self { bytes: content.bytes(0, 2 * READ)?, is_all: true });
        }
        let mut bytes = content.bytes(0, READ)?;
        bytes.truncate(memchr::memrchr(b'\n', &bytes).map_or(0, |end| end + 1));
        let last = content.bytes(content.len() - READ as u64, READ)?;
        let start = memchr::memchr(b'\n', &last).map_or(last.len(), |end| end + 1);
        bytes.extend_from_slice(&last[start..]);
        Ok(Self { bytes, is_all: false })
    }
}

impl<'a> Listing<'a> {
    /// Returns the list that `bytes` are. Returns `None` for other output, and for the output of a
    /// failed call whose errors are entries of the list, as those of a linter are.
    pub(super) fn of(
        bytes: &'a ListBytes,
        subject: &Subject<'_>,
        found: &Findings,
    ) -> Option<Self> {
        let lines = split(&bytes.bytes);
        let (form, is_entry): (_, fn(&[u8]) -> bool) = match Hits::of(&lines) {
            Some(hits) => (ListForm::Hits(hits), Hits::is_hit),
            None => (ListForm::Paths(PathTree::of(&lines)?), PathTree::is_path),
        };
        let failed = subject.record.provenance.exit_code.is_some_and(|code| code != 0);
        let is_listed = |offset: u64, length: u32| {
            let line = subject.content.bytes(offset, length as usize);
            line.is_ok_and(|line| is_entry(&line))
        };
        let tells = failed && found.shown.iter().any(|it| is_listed(it.at.offset, it.at.length));
        (!tells).then_some(Self { form, is_all: bytes.is_all })
    }

    /// Returns the line that says what is shown, and the lines of the list that fit.
    pub(super) fn fitted(&self, budget: TextBudget) -> Option<(String, Vec<String>)> {
        let (name, fitted) = match &self.form {
            ListForm::Hits(hits) => ("hits", hits.fitted(budget)),
            ListForm::Paths(tree) => ("paths", tree.fitted(budget)),
        };
        let (what, mut lines) = fitted?;
        let of = if self.is_all { "" } else { " in the first and the last 64 KB" };
        lines.insert(0, format!("--- {name} ---"));
        Some((format!("shown: {what}{of}"), lines))
    }
}
