//! Finds the lines that look like errors, most informative first.
//!
//! A line is a candidate if it contains one of a few dozen fragments ([`prefilter`]), or if an
//! earlier line announced it ([`expectation`]): for example, the message after `panicked at`, or
//! the exception after a Python traceback. A candidate is judged by its [`shape`], in which file
//! names are blanked ([`noise`]). The first pattern that matches the shape ([`rule_set`]) gives its
//! rank ([`rules`]), and [`verdicts`] cache the result. [`best`] keeps the best lines.
//!
//! Only the first [`LINE_BYTES`] bytes of a line are examined.

mod best;
mod expectation;
mod languages;
mod noise;
mod numbers;
mod prefilter;
mod rule_set;
mod rules;
mod shape;
mod verdicts;

use crate::materialize::block::{ByteBlock, OpenLine};
use crate::materialize::failure::best::{BestLines, LineKind, SearchTerms};
use crate::materialize::failure::expectation::Expectation;
use crate::materialize::failure::prefilter::CONTEXT_BYTES;
use crate::materialize::failure::rules::Rank;
use crate::materialize::failure::verdicts::{LineHints, RankedLine, Verdicts};
use crate::materialize::likeness::LikenessHasher;
use crate::materialize::pattern::Pattern;
use crate::model::{ErrorLine, ErrorRank, Errors};

pub use crate::materialize::failure::expectation::{COMPARISON, SIDE};
pub use crate::materialize::failure::noise::bare;

// Number of bytes of a line that are examined, and maximum of `ErrorLine::length`.
const LINE_BYTES: usize = 4096;

/// Finds the error lines of a stream. Lines must be judged in order, because a line may announce a
/// later one. The fragments are found by an [`ErrorScanner`], which may run ahead on several
/// threads.
#[derive(Debug, Clone, Default)]
pub(super) struct FailureDetector {
    open: OpenLine<{ LINE_BYTES + CONTEXT_BYTES }>,
    scanner: ErrorScanner,
    scanned: Vec<FoundError>,
    found: ErrorCollector,
}

#[derive(Debug, Clone, Default)]
struct ErrorCollector {
    count: u64,
    // Number of the last line of an explanation of pytest.
    explained: u64,
    expectation: Expectation,
    verdicts: Verdicts,
    best: BestLines,
    search_terms: SearchTerms,
    likeness: LikenessHasher,
    // Collects every error line. `None` if the caller needs only the best lines.
    each: Option<Vec<ErrorMatch>>,
}

impl FailureDetector {
    pub(super) fn push(&mut self, block: ByteBlock<'_>) {
        let mut scanned = std::mem::take(&mut self.scanned);
        self.scanner.scan(block, &mut scanned);
        self.push_scanned(block, &scanned);
        self.scanned = scanned;
    }

    /// Takes the next bytes, and the errors that an [`ErrorScanner`] found in them.
    pub(super) fn push_scanned(&mut self, block: ByteBlock<'_>, scanned: &[FoundError]) {
        let ByteBlock { bytes, newlines } = block;
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
            if found.expectation.expected.is_some() || prefilter::has_telling(line, LINE_BYTES) {
                found.judge(line, number, offset, None);
            }
        });
    }

    fn whole_lines(&mut self, block: ByteBlock<'_>, first: usize, scanned: &[FoundError]) {
        let start = first.checked_sub(1).map_or(0, |before| block.newlines[before] as usize + 1);
        let mut scanned = scanned.iter().copied().peekable();
        let mut index = first;
        while index < block.newlines.len() {
            while scanned.next_if(|found| found.line < index).is_some() {}
            if self.found.expectation.expected.is_none() {
                let Some(next) = scanned.peek() else { break };
                index = next.line;
            }
            let known = scanned.next_if(|found| found.line == index);
            let line = block.line(index);
            let number = self.open.lines + (index - first) as u64 + 1;
            let offset = self.open.offset + (line.start - start) as u64;
            let known = known.map(|found| found.verdict);
            self.found.judge(&block.bytes[line], number, offset, known);
            index += 1;
        }
        self.open.lines += (block.newlines.len() - first) as u64;
        self.open.offset += (block.last_line() - start) as u64;
    }
}

impl ErrorCollector {
    // Judges one line. `known` is the verdict of the [`ErrorScanner`] on this line, if there is
    // one.
    fn judge(&mut self, line: &[u8], number: u64, offset: u64, known: Option<RankedLine>) {
        let is_telling = line.len() <= LINE_BYTES || prefilter::has_telling(line, LINE_BYTES);
        let was_waiting = self.expectation.expected.is_some();
        let (bare, line) = examined(line);
        if bare.starts_with(EXPLANATION) {
            let goes_on = self.explained + 1 == number && !EXPLAINED.is_match(bare);
            self.explained = number;
            if goes_on {
                return;
            }
        }
        let announced = self.expectation.expects(bare, number);
        if !was_waiting && !is_telling {
            return;
        }
        let Some((rank, hints)) = self.verdict(bare, known, announced) else { return };
        self.expectation.expect(hints.announces, number);
        self.count += 1;
        self.search_terms.add(hints.terms, rank);
        let length = u32::try_from(line.len()).unwrap_or(u32::MAX);
        let rank_kept = rank.kept();
        let at = ErrorLine { line: number, offset, length, rank: rank_kept, times: 1, last: None };
        let line = line.trim_ascii();
        let numbers = hints.numbers.hash(line);
        self.best.add(LineKind { likeness: self.likeness.quick(line), numbers }, rank, at);
        if let Some(each) = &mut self.each {
            let place = prefilter::find(line, 0).unwrap_or(0);
            each.push(ErrorMatch { index: number as usize - 1, rank: rank_kept, place });
        }
    }

    fn verdict(
        &mut self,
        line: &[u8],
        known: Option<RankedLine>,
        announced: Option<Rank>,
    ) -> Option<(Rank, LineHints)> {
        match known.or_else(|| self.verdicts.on(line)) {
            Some(RankedLine { rank, hints }) => Some((announced.unwrap_or(rank), hints)),
            None => announced.map(|rank| (rank, self.verdicts.hints_of(line))),
        }
    }

    fn errors(&self) -> Errors {
        Errors { count: self.count, shown: self.best.best(), words: self.search_terms.best() }
    }
}

// The beginning of a line with which pytest explains a failure. Only the first of consecutive ones, and
// those that name an exception, are errors.
const EXPLANATION: &[u8] = b"E   ";
static EXPLAINED: Pattern =
    Pattern::new(r"^E\s+([a-zA-Z_]\w*\.)*[A-Z]\w*(Error|Exception|Failed)\b");

// Returns the examined part of a line in two forms: without and with the decoration that [`bare`]
// removes.
fn examined(line: &[u8]) -> (&[u8], &[u8]) {
    let head = &line[..line.len().min(LINE_BYTES)];
    let line = head.strip_suffix(b"\r").unwrap_or(head);
    (bare(line), line)
}

/// An error line that [`error_lines`] found. `index` is the number of the line, counted from 0.
/// `place` is where the fragment that marks the line as an error begins, as an offset in the line,
/// or 0 if the line has no such fragment. A lower `rank` is more informative.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the contract of the type describes its fields")]
pub struct ErrorMatch {
    pub index: usize,
    pub rank: ErrorRank,
    pub place: usize,
}

/// Returns the error lines among `lines`, which must not contain newlines. Unlike the analysis of
/// an output, it returns all error lines, in order.
pub fn error_lines<'l>(lines: impl IntoIterator<Item = &'l [u8]>) -> Vec<ErrorMatch> {
    let mut failures = FailureDetector::default();
    failures.found.each = Some(Vec::new());
    for line in lines {
        failures.push(ByteBlock { bytes: line, newlines: &[] });
        failures.push(ByteBlock { bytes: b"\n", newlines: &[0] });
    }
    failures.found.each.unwrap_or_default()
}

/// Returns true if `line`, which must not contain a newline, looks like an error.
pub(super) fn is_error(line: &[u8]) -> bool {
    prefilter::find(line, 0).is_some() && !error_lines([line]).is_empty()
}

// After this many searches without success, `last_harmless` searches only at every 16th call.
const IN_VAIN: u32 = 16;

/// Finds error lines, judging each line only by its shape. The result depends only on the block, so
/// several blocks may be scanned in parallel.
#[derive(Debug, Clone, Default)]
pub(super) struct ErrorScanner {
    verdicts: Verdicts,
    // Number of calls of `last_harmless` since the last one that found more than one line.
    alone: u32,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct FoundError {
    // The index of the line's newline among the newlines of the block.
    pub(super) line: usize,
    pub(super) verdict: RankedLine,
}

impl ErrorScanner {
    /// Sets `found` to the error lines among the lines that end in `block`, in order. If the first
    /// line began in an earlier block, only its part in `block` is examined.
    pub(super) fn scan(&mut self, block: ByteBlock<'_>, found: &mut Vec<FoundError>) {
        found.clear();
        let bytes = &block.bytes[..block.last_line()];
        let (mut line, mut at) = (0, 0);
        while let Some(hit) = prefilter::find(bytes, at) {
            let rest = &block.newlines[line..];
            line += rest.iter().take_while(|end| (**end as usize) < hit).count();
            let (bare, _) = examined(&bytes[block.line(line)]);
            match self.verdicts.on(bare) {
                Some(verdict) => found.push(FoundError { line, verdict }),
                None => line = self.last_harmless(block, line),
            }
            line += 1;
            at = line.checked_sub(1).map_or(0, |before| block.newlines[before] as usize + 1);
        }
    }

    /// Returns the index of the last line in a run of harmless lines. The run begins with line
    /// `line`, which must be harmless. Only lines whose shapes are known extend the run.
    ///
    /// In some outputs, nearly every line contains a fragment. Recognizing a known shape is then
    /// faster than searching for fragments. After several calls that found no run, most calls
    /// return `line` without examining other lines.
    fn last_harmless(&mut self, block: ByteBlock<'_>, mut line: usize) -> usize {
        if self.alone >= IN_VAIN && !self.alone.is_multiple_of(IN_VAIN) {
            self.alone = self.alone.wrapping_add(1);
            return line;
        }
        let first = line;
        while line + 1 < block.newlines.len() {
            let (bare, _) = examined(&block.bytes[block.line(line + 1)]);
            if !self.verdicts.is_harmless(bare) {
                break;
            }
            line += 1;
        }
        self.alone = if line > first { 0 } else { self.alone.wrapping_add(1) };
        line
    }
}

#[cfg(test)]
mod tests;
