//! One pass over an artifact that finds all its error lines, and keeps those worth showing.

use std::collections::HashMap;
use std::collections::VecDeque;
use std::io;

use crate::materialize::ErrorLines;
use crate::materialize::ErrorMatch;
use crate::model::Subject;
use crate::view::errors::finding::is_error;
use crate::view::errors::trace;
use crate::view::scan;

/// Error lines that are all kept. More than these fill a view even on their own.
const KEPT: u64 = 4096;
/// Kinds of error lines that are distinguished. The first lines of more kinds than these fill a
/// view.
const KINDS: usize = 1024;
/// Error lines this near to the first of a kind are kept, so that they can be marked.
const NEAR: u64 = 2 * trace::LONGEST as u64;

/// The error lines of an artifact.
#[derive(Default)]
pub(super) struct ErrorIndex {
    /// Error lines in all.
    pub(super) count: u64,
    /// Words that find them in a search.
    pub(super) words: Vec<String>,
    /// All of them if they are few, else those near the first of a kind. In order.
    pub(super) kept: Vec<ErrorMatch>,
    /// The kinds of error lines, by their likeness.
    kinds: HashMap<u64, LineKind>,
    /// Error lines after the last that was kept.
    recent: VecDeque<ErrorMatch>,
    /// The line up to which all are kept.
    near: u64,
    /// The byte and line where time ran out.
    pub(super) stopped: Option<(u64, u64)>,
}

/// Error lines that differ only in numbers.
#[derive(Debug, Clone, Copy)]
pub(super) struct LineKind {
    /// False if the first of them only quotes words of errors.
    is_error: bool,
    pub(super) count: u64,
    pub(super) first: u64,
    pub(super) last: u64,
}

impl ErrorIndex {
    /// Reads the output to its end, or until time runs out.
    pub(super) fn build(subject: &Subject<'_>, expired: &dyn Fn() -> bool) -> io::Result<Self> {
        let content = subject.content;
        let mut index = Self::default();
        let mut errors = ErrorLines::new();
        let mut offset = 0;
        let mut block = scan::block(content);
        loop {
            if expired() {
                index.stopped = Some((offset, errors.lines() + 1));
                break;
            }
            let got = content.read_at(offset, &mut block)?;
            if got == 0 {
                index.add_all(subject, errors.end())?;
                break;
            }
            index.add_all(subject, errors.push(&block[..got]))?;
            offset += got as u64;
        }
        index.words = errors.words();
        Ok(index)
    }

    /// Returns true if all error lines are kept.
    pub(super) fn has_all(&self) -> bool {
        self.count <= KEPT
    }

    /// Returns the number of kinds. It is a lower bound if `is_capped`.
    pub(super) fn kinds(&self) -> usize {
        self.kinds.values().filter(|kind| kind.is_error).count()
    }

    /// Returns true if there may be more kinds than were distinguished.
    pub(super) fn is_capped(&self) -> bool {
        self.kinds.len() >= KINDS
    }

    /// Returns the kind that an error line is the first of, if any.
    pub(super) fn begins(&self, seen: &ErrorMatch) -> Option<LineKind> {
        self.kinds.get(&seen.likeness).copied().filter(|kind| kind.first == seen.at.line)
    }

    /// Returns true if a line near one that is shown is an error.
    pub(super) fn knows(&self, line: u64) -> bool {
        self.kept.binary_search_by_key(&line, |seen| seen.at.line).is_ok()
    }

    fn add_all(&mut self, subject: &Subject<'_>, seen: Vec<ErrorMatch>) -> io::Result<()> {
        for seen in seen {
            if !self.kinds.contains_key(&seen.likeness) && self.kinds.len() < KINDS {
                let is_error = is_error(subject, &seen.at)?;
                let first = seen.at.line;
                self.kinds
                    .insert(seen.likeness, LineKind { is_error, count: 0, first, last: first });
            }
            if self.kinds.get(&seen.likeness).is_none_or(|kind| kind.is_error) {
                self.add(seen);
            }
        }
        Ok(())
    }

    fn add(&mut self, seen: ErrorMatch) {
        let line = seen.at.line;
        self.count += 1;
        let is_new = self.classify(&seen);
        if is_new {
            let near = self.recent.drain(..).filter(|before| line - before.at.line <= NEAR);
            self.kept.extend(near);
            self.near = line + NEAR;
        }
        if is_new || self.count <= KEPT || line <= self.near {
            self.kept.push(seen);
            return;
        }
        if self.recent.len() as u64 == NEAR {
            self.recent.pop_front();
        }
        self.recent.push_back(seen);
    }

    /// Counts an error line. Returns true if it is the first of its kind.
    fn classify(&mut self, seen: &ErrorMatch) -> bool {
        let Some(kind) = self.kinds.get_mut(&seen.likeness) else { return false };
        kind.count += 1;
        kind.last = seen.at.line;
        kind.count == 1
    }
}
