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
mod neighbourhood;
mod prefilter;
mod prefix;
mod rule_set;
mod rules;
mod scanner;
mod search_terms;
mod shape;
mod starts;
mod verdicts;
mod vocabulary;

use crate::materialize::block::Block;
use crate::materialize::failure::best::BestLines;
use crate::materialize::failure::expectation::Expectation;
use crate::materialize::failure::prefilter::CONTEXT_BYTES;
use crate::materialize::failure::rules::Rank;
use crate::materialize::failure::search_terms::SearchTerms;
use crate::materialize::failure::verdicts::{RankedLine, Told, Verdicts};
use crate::materialize::likeness::LikenessHasher;
use crate::materialize::open_line::OpenLine;
use crate::model::{ErrorLine, Errors};

pub use crate::materialize::failure::comparison::{is_comparison, is_side};
pub use crate::materialize::failure::error_lines::{ErrorMatch, error_lines};
pub use crate::materialize::failure::prefix::bare;
pub(super) use crate::materialize::failure::scanner::{ErrorScanner, FoundError};

/// Bytes of a line that are examined, and the most of `ErrorLine::length`.
const LINE_BYTES: usize = 4096;

/// Finds the error lines of a stream.
#[derive(Debug, Clone, Default)]
pub(super) struct FailureDetector {
    open: OpenLine<{ LINE_BYTES + CONTEXT_BYTES }>,
    scanner: ErrorScanner,
    /// Room for what is found in a block.
    scanned: Vec<FoundError>,
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
    pub(super) fn push(&mut self, block: Block<'_>) {
        let mut scanned = std::mem::take(&mut self.scanned);
        self.scanner.scan(block, &mut scanned);
        self.push_scanned(block, &scanned);
        self.scanned = scanned;
    }

    /// Takes the next bytes with what an [`ErrorScanner`] found in them.
    pub(super) fn push_scanned(&mut self, block: Block<'_>, scanned: &[FoundError]) {
        let Block { bytes, newlines } = block;
        let [first, ..] = newlines else {
            return self.open.push(bytes);
        };
        let mut line = 0;
        if !self.open.is_empty() {
            self.open.push(&bytes[..*first as usize]);
            self.end_open();
            line = 1;
        }
        self.whole_lines(block, line, scanned);
        self.open.push(&bytes[block.last_line()..]);
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
            if found.expectation.is_waiting() || prefilter::is_in(line, LINE_BYTES) {
                found.look(line, number, offset, None);
            }
        });
    }

    /// Takes the whole lines of a block from that of index `first` on.
    fn whole_lines(&mut self, block: Block<'_>, first: usize, scanned: &[FoundError]) {
        let start = first.checked_sub(1).map_or(0, |before| block.newlines[before] as usize + 1);
        let mut scanned = scanned.iter().copied().peekable();
        let mut index = first;
        while index < block.newlines.len() {
            while scanned.next_if(|found| found.line < index).is_some() {}
            if !self.found.expectation.is_waiting() {
                let Some(next) = scanned.peek() else { break };
                index = next.line;
            }
            let known = scanned.next_if(|found| found.line == index);
            let line = block.line(index);
            let number = self.open.lines + (index - first) as u64 + 1;
            let offset = self.open.offset + (line.start - start) as u64;
            let known = known.map(|found| found.verdict);
            self.found.look(&block.bytes[line], number, offset, known);
            index += 1;
        }
        self.open.lines += (block.newlines.len() - first) as u64;
        self.open.offset += (block.last_line() - start) as u64;
    }
}

impl ErrorCollector {
    /// Judges a line, unless `known` is the verdict on it.
    fn look(&mut self, line: &[u8], number: u64, offset: u64, known: Option<RankedLine>) {
        let is_telling = line.len() <= LINE_BYTES || prefilter::is_in(line, LINE_BYTES);
        let was_waiting = self.expectation.is_waiting();
        let (bare, line) = examined(line);
        let announced = self.expectation.expects(bare, number);
        if !was_waiting && !is_telling {
            return;
        }
        let Some((rank, told)) = self.verdict(bare, known, announced) else { return };
        self.expectation.expect(told.announces, number);
        self.count += 1;
        self.search_terms.add(told.terms, rank);
        let length = u32::try_from(line.len()).unwrap_or(u32::MAX);
        let rank_kept = rank.kept();
        let at = ErrorLine { line: number, offset, length, rank: rank_kept, times: 1, last: None };
        let likeness = self.likeness.quick(line.trim_ascii());
        self.best.add(likeness, rank, at);
        if let Some(each) = &mut self.each {
            let place = prefilter::find(line, 0).unwrap_or(0);
            each.push(ErrorMatch { index: number as usize - 1, rank: rank_kept, place });
        }
    }

    /// Returns the rank of `line`, which is `announced` if it was announced, and what it tells.
    fn verdict(
        &mut self,
        line: &[u8],
        known: Option<RankedLine>,
        announced: Option<Rank>,
    ) -> Option<(Rank, Told)> {
        match known.or_else(|| self.verdicts.on(line)) {
            Some(RankedLine { rank, told }) => Some((announced.unwrap_or(rank), told)),
            None => announced.map(|rank| (rank, self.verdicts.told_by(line))),
        }
    }

    fn errors(&self) -> Errors {
        Errors { count: self.count, shown: self.best.best(), words: self.search_terms.best() }
    }
}

/// Returns the line of the program itself, and all that is examined of `line`.
fn examined(line: &[u8]) -> (&[u8], &[u8]) {
    let head = &line[..line.len().min(LINE_BYTES)];
    let line = head.strip_suffix(b"\r").unwrap_or(head);
    (bare(line), line)
}

#[cfg(test)]
mod tests;
