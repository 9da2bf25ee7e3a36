//! One pass over an artifact that finds all its error lines, and keeps those worth showing.

use std::collections::HashMap;
use std::collections::VecDeque;
use std::io;

use crate::materialize::ErrorLines;
use crate::materialize::ErrorMatch;
use crate::model::Content;
use crate::view::errors::trace;
use crate::view::scan;

/// Error lines that are kept whatever they say: where there are more, they fill a view even alone.
const KEPT: u64 = 4096;
/// Kinds of error lines that are told apart: where there are more, the first of each fill a view.
const KINDS: usize = 1024;
/// Lines around the first of its kind whose errors are kept, so that they can be marked.
const NEAR: u64 = 2 * trace::LONGEST as u64;

/// What there is to show.
#[derive(Default)]
pub(super) struct Census {
    /// Error lines in all.
    pub(super) count: u64,
    /// Words to search for them.
    pub(super) words: Vec<String>,
    /// All of them, where they are few; else those near the first of a kind. In order.
    pub(super) kept: Vec<ErrorMatch>,
    /// The error lines of each kind: those that are alike.
    kinds: HashMap<u64, Kind>,
    /// Those after the last that was kept.
    recent: VecDeque<ErrorMatch>,
    /// The line up to which all are kept.
    near: u64,
    /// Byte and line where time ran out.
    pub(super) stopped: Option<(u64, u64)>,
}

/// Error lines that differ in numbers alone.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kind {
    pub(super) count: u64,
    pub(super) first: u64,
    pub(super) last: u64,
}

impl Census {
    /// Reads `content` to its end, or for as long as there is time.
    pub(super) fn take(content: &dyn Content, expired: &dyn Fn() -> bool) -> io::Result<Self> {
        let mut census = Self::default();
        let mut errors = ErrorLines::new();
        let mut offset = 0;
        let mut block = scan::block(content);
        loop {
            if expired() {
                census.stopped = Some((offset, errors.lines() + 1));
                break;
            }
            let got = content.read_at(offset, &mut block)?;
            if got == 0 {
                errors.end().into_iter().for_each(|seen| census.add(seen));
                break;
            }
            errors.push(&block[..got]).into_iter().for_each(|seen| census.add(seen));
            offset += got as u64;
        }
        census.words = errors.words();
        Ok(census)
    }

    /// Whether all error lines are kept.
    pub(super) fn has_all(&self) -> bool {
        self.count <= KEPT
    }

    /// How many kinds there are; at least, where that is not known.
    pub(super) fn kinds(&self) -> usize {
        self.kinds.len()
    }

    /// Whether there may be more kinds than were told apart.
    pub(super) fn is_crowded(&self) -> bool {
        self.kinds.len() >= KINDS
    }

    /// The kind of an error line, if it is the first of it.
    pub(super) fn begins(&self, seen: &ErrorMatch) -> Option<Kind> {
        self.kinds.get(&seen.likeness).copied().filter(|kind| kind.first == seen.at.line)
    }

    /// Whether a line, near one that is shown, is an error.
    pub(super) fn knows(&self, line: u64) -> bool {
        self.kept.binary_search_by_key(&line, |seen| seen.at.line).is_ok()
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

    /// Whether it is the first of its kind.
    fn classify(&mut self, seen: &ErrorMatch) -> bool {
        let line = seen.at.line;
        if let Some(kind) = self.kinds.get_mut(&seen.likeness) {
            kind.count += 1;
            kind.last = line;
            return false;
        }
        let has_room = self.kinds.len() < KINDS;
        if has_room {
            self.kinds.insert(seen.likeness, Kind { count: 1, first: line, last: line });
        }
        has_room
    }
}
