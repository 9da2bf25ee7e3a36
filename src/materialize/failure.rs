//! The lines that look like errors, most telling first.
//!
//! A line is a candidate if one of a few dozen fragments occurs in it ([`prefilter`]), or if a line
//! before it announced it ([`expectation`]: the message below `panicked at`, the exception below a
//! Python traceback). It is judged by its [`shape`], in which the names of files are blanked
//! ([`names`]): [`rules`] rank it by the first pattern that matches ([`rule_set`]), and
//! [`verdicts`] remember that. [`best`] keeps the best lines.
//!
//! Only the first [`LINE_BYTES`] bytes of a line are examined.

mod best;
mod comparison;
mod error_lines;
mod expectation;
mod literals;
mod names;
mod prefilter;
mod prefix;
mod rule_set;
mod rules;
mod search_terms;
mod shape;
mod verdicts;
mod vocabulary;

use crate::materialize::failure::best::BestLines;
use crate::materialize::failure::expectation::Expectation;
use crate::materialize::failure::search_terms::SearchTerms;
use crate::materialize::failure::verdicts::Verdicts;
use crate::materialize::likeness::LikenessHasher;
use crate::materialize::open_line::OpenLine;
use crate::model::ErrorLine;
use crate::model::Errors;

pub(crate) use crate::materialize::failure::comparison::is_comparison;
pub(crate) use crate::materialize::failure::comparison::is_side;
pub use crate::materialize::failure::error_lines::ErrorMatch;
pub use crate::materialize::failure::error_lines::error_lines;
pub use crate::materialize::failure::prefix::bare;

/// Bytes of a line that are examined, and the most of `ErrorLine::length`.
const LINE_BYTES: usize = 4096;

/// Finds the error lines of a stream.
#[derive(Debug, Clone, Default)]
pub(super) struct FailureDetector {
    open: OpenLine<LINE_BYTES>,
    found: ErrorCollector,
}

/// The error lines among the lines that have ended.
#[derive(Debug, Clone, Default)]
struct ErrorCollector {
    count: u64,
    expectation: Expectation,
    verdicts: Verdicts,
    best: BestLines,
    search_terms: SearchTerms,
    likeness: LikenessHasher,
    /// All of the lines, if they are wanted.
    each: Option<Vec<ErrorMatch>>,
}

impl FailureDetector {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        if !self.open.is_empty() {
            let Some(end) = memchr::memchr(b'\n', rest) else {
                return self.open.push(rest);
            };
            self.open.push(&rest[..end]);
            self.end_open();
            rest = &rest[end + 1..];
        }
        let whole = memchr::memrchr(b'\n', rest).map_or(0, |end| end + 1);
        self.whole_lines(&rest[..whole]);
        self.open.push(&rest[whole..]);
    }

    /// Returns the error lines so far, including the line that has not ended.
    pub(super) fn finish(&self) -> Errors {
        if self.open.is_empty() {
            return self.found.errors();
        }
        let mut ended = self.clone();
        ended.end_open();
        ended.found.errors()
    }

    fn end_open(&mut self) {
        let found = &mut self.found;
        self.open.end(|line, number, offset| {
            if found.expectation.is_waiting() || prefilter::find(line, 0).is_some() {
                found.look(line, number, offset);
            }
        });
    }

    /// Takes whole lines: `bytes` begins with a line and ends with a newline.
    fn whole_lines(&mut self, bytes: &[u8]) {
        let mut counted = 0;
        let mut at = 0;
        while at < bytes.len() {
            let hit = if self.found.expectation.is_waiting() {
                at
            } else if let Some(hit) = prefilter::find(bytes, at) {
                hit
            } else {
                break;
            };
            let start =
                memchr::memrchr(b'\n', &bytes[at..hit]).map_or(at, |newline| at + newline + 1);
            let end =
                memchr::memchr(b'\n', &bytes[hit..]).map_or(bytes.len(), |length| hit + length);
            self.open.lines += memchr::memchr_iter(b'\n', &bytes[counted..start]).count() as u64;
            counted = start;
            self.found.look(
                &bytes[start..end],
                self.open.lines + 1,
                self.open.offset + start as u64,
            );
            at = end + 1;
        }
        self.open.lines += memchr::memchr_iter(b'\n', &bytes[counted..]).count() as u64;
        self.open.offset += bytes.len() as u64;
    }
}

impl ErrorCollector {
    fn look(&mut self, line: &[u8], number: u64, offset: u64) {
        let head = &line[..line.len().min(LINE_BYTES)];
        let cut = head.len() < line.len();
        let line = head.strip_suffix(b"\r").unwrap_or(head);
        let was_waiting = self.expectation.is_waiting();
        let bare = bare(line);
        let announced = self.expectation.expects(bare, number);
        if cut && !was_waiting && prefilter::find(line, 0).is_none() {
            return;
        }
        let verdict = self.verdicts.on(bare);
        let Some(rank) = announced.or(verdict.rank) else {
            return;
        };
        self.expectation.expect(verdict.announces, number);
        self.count += 1;
        self.search_terms.add(verdict.terms, rank);
        let length = u32::try_from(line.len()).unwrap_or(u32::MAX);
        let rank_kept = rank.kept();
        let at = ErrorLine { line: number, offset, length, rank: rank_kept, times: 1, last: None };
        let likeness = self.likeness.of(line.trim_ascii());
        self.best.add(likeness, rank, at);
        if let Some(each) = &mut self.each {
            let place = prefilter::find(line, 0).unwrap_or(0);
            each.push(ErrorMatch { index: number as usize - 1, rank: rank_kept, place });
        }
    }

    fn errors(&self) -> Errors {
        Errors { count: self.count, shown: self.best.best(), words: self.search_terms.best() }
    }
}

#[cfg(test)]
mod tests;
