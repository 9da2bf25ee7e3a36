//! Selects the error lines and search terms that are reported, in bounded memory.

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;

use crate::materialize::failure::rules::Rank;
use crate::model::{ErrorLine, ErrorRank, LinePosition};

// Maximum number of reported lines. `model::Errors` documents this number.
const SHOWN: usize = 48;
/// Number of lines kept of each rank: the first [`FIRST`] and the last [`LAST`]. The first error
/// often causes the others, and the last error is often the outcome.
const FIRST: usize = 12;
const LAST: usize = 4;
/// Number of the [`SHOWN`] places that each rank has. Places that a rank does not need
/// are given to other ranks.
const SHARE: [usize; ErrorRank::COUNT] = [16, 12, 4, 6, 5, 3, 2];

// Maximum number of lines between two headings of one stack trace. The lines between them are
// frames.
const TRACE_LINES: u64 = 300;

/// The first and the last lines of each rank, in bounded memory. Lines of one kind are kept as one.
#[derive(Debug, Clone, Default)]
pub(super) struct BestLines {
    ranks: [RankLines; ErrorRank::COUNT],
    // The last line of a stack trace that may be followed by a deeper cause.
    trace: Option<ErrorCandidate>,
}

#[derive(Debug, Clone, Default)]
struct RankLines {
    first: Vec<ErrorCandidate>,
    last: Vec<ErrorCandidate>,
}

#[derive(Debug, Clone, Copy)]
struct ErrorCandidate {
    at: ErrorLine,
    kind: LineKind,
}

/// Which lines are one kind: lines with equal `likeness`, which ignores numbers, and equal `numbers`,
/// which is a hash of the numbers that matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LineKind {
    pub(super) likeness: u64,
    pub(super) numbers: u64,
}

impl BestLines {
    // Adds a line. In a chain of causes, only the innermost cause is ranked as a cause.
    pub(super) fn add(&mut self, kind: LineKind, rank: Rank, at: ErrorLine) {
        let line = ErrorCandidate { at, kind };
        match rank {
            Rank::Trace if self.trace.is_some_and(|line| at.line - line.at.line <= TRACE_LINES) => {
                self.end_trace(ErrorRank::Outer);
            }
            Rank::Heading | Rank::Trace => self.end_trace(ErrorRank::Cause),
            Rank::Is(rank) => return self.keep(line, rank),
        }
        self.trace = Some(line);
    }

    pub(super) fn best(&self) -> Vec<ErrorLine> {
        let mut ended = self.clone();
        ended.end_trace(ErrorRank::Cause);
        let ranks: Vec<Vec<ErrorCandidate>> = ended.ranks.iter().map(RankLines::lines).collect();
        let mut counts: Vec<usize> =
            ranks.iter().zip(SHARE).map(|(lines, share)| lines.len().min(share)).collect();
        let mut room = SHOWN.saturating_sub(counts.iter().sum());
        for (count, lines) in counts.iter_mut().zip(&ranks) {
            let more = room.min(lines.len() - *count);
            *count += more;
            room -= more;
        }
        let chosen = ranks.iter().zip(counts).flat_map(|(lines, count)| ends(lines, count));
        chosen.map(|line| line.at).collect()
    }

    fn end_trace(&mut self, rank: ErrorRank) {
        if let Some(line) = self.trace.take() {
            self.keep(line, rank);
        }
    }

    // Keeps a line under the given rank. Of similar exit lines, the last one is kept.
    fn keep(&mut self, mut line: ErrorCandidate, rank: ErrorRank) {
        line.at.rank = rank;
        self.ranks[rank as usize].add(line, rank == ErrorRank::Exit);
    }
}

impl RankLines {
    // Adds a line. Among similar lines, the first one is kept, or the last one if `newest` is true.
    fn add(&mut self, mut line: ErrorCandidate, newest: bool) {
        if let Some(kept) = self.like(&line) {
            kept.at.times += line.at.times;
            if !newest {
                kept.at.last = Some(LinePosition { line: line.at.line, offset: line.at.offset });
                return;
            }
            line.at.times = kept.at.times;
            let other = |kept: &ErrorCandidate| kept.kind != line.kind;
            self.first.retain(other);
            self.last.retain(other);
        }
        if self.first.len() < FIRST && self.last.is_empty() {
            self.first.push(line);
        } else {
            self.last.push(line);
            if self.last.len() > LAST {
                self.last.remove(self.least_telling());
            }
        }
    }

    fn like(&mut self, line: &ErrorCandidate) -> Option<&mut ErrorCandidate> {
        let alike = |kept: &&mut ErrorCandidate| kept.kind == line.kind;
        self.first.iter_mut().chain(&mut self.last).find(alike)
    }

    // Returns the first of the last lines that another kept line is like but for numbers, or else the
    // first.
    fn least_telling(&self) -> usize {
        let kept = || self.first.iter().chain(&self.last);
        let times = |likeness| kept().filter(|line| line.kind.likeness == likeness).count();
        let is_like = |line: &ErrorCandidate| times(line.kind.likeness) > 1;
        self.last.iter().position(is_like).unwrap_or(0)
    }

    fn lines(&self) -> Vec<ErrorCandidate> {
        let mut lines: Vec<ErrorCandidate> = self.first.iter().chain(&self.last).copied().collect();
        lines.sort_by_key(|line| line.at.line);
        lines
    }
}

// Returns `count` lines: three quarters from the beginning, and the rest from the end.
fn ends(lines: &[ErrorCandidate], count: usize) -> impl Iterator<Item = ErrorCandidate> {
    let tail = if count < lines.len() { count / 4 } else { 0 };
    let (head, rest) = lines.split_at(count - tail);
    head.iter().chain(&rest[rest.len() - tail..]).copied().collect::<Vec<_>>().into_iter()
}

const MOST_TERMS: usize = 6;
// Better terms come first. A term used as a regular expression matches itself.
pub(super) const SEARCH_TERMS: [&str; 26] = [
    "Caused by",
    "panicked",
    "Traceback",
    "Exception",
    "Error",
    "ERROR",
    "FATAL",
    "fatal",
    "panic",
    "FAILED",
    "FAIL",
    "error",
    "assert",
    "Expected:",
    "ERR!",
    "Killed",
    "Segmentation fault",
    "out of memory",
    "timeout",
    "timed out",
    "refused",
    "Permission denied",
    "No such file",
    "not found",
    "failed",
    "exit code",
];

pub(super) fn terms_in(line: &[u8]) -> u32 {
    let found = TERM_SEARCHER.find_overlapping_iter(line);
    found.fold(0, |terms, found| terms | 1 << found.pattern().as_u32())
}

#[derive(Debug, Clone, Default)]
pub(super) struct SearchTerms {
    occurred: [u32; ErrorRank::COUNT],
}

impl SearchTerms {
    pub(super) fn add(&mut self, terms: u32, rank: Rank) {
        self.occurred[rank.kept() as usize] |= terms;
    }

    /// Returns the terms, beginning with the terms of the most informative rank. If one term
    /// contains another, only the better one is returned.
    pub(super) fn best(&self) -> Vec<String> {
        let mut best: Vec<&str> = Vec::new();
        for occurred in self.occurred {
            for (index, word) in SEARCH_TERMS.iter().enumerate() {
                let is_covered =
                    best.iter().any(|chosen| chosen.contains(word) || word.contains(chosen));
                if occurred >> index & 1 == 1 && !is_covered && best.len() < MOST_TERMS {
                    best.push(word);
                }
            }
        }
        best.into_iter().map(str::to_owned).collect()
    }
}

static TERM_SEARCHER: LazyLock<AhoCorasick> =
    LazyLock::new(|| AhoCorasick::new(SEARCH_TERMS).expect("the candidates are few and short"));
