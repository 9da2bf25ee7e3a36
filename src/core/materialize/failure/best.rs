//! The best of the error lines, in bounded memory.

use crate::materialize::failure::rules::Rank;
use crate::model::{ErrorLine, ErrorRank, LinePosition};

/// The most lines that are shown, as `model::Errors` promises.
const SHOWN: usize = 48;
/// The first and the last lines of a rank that are kept: the first error often caused the others,
/// and the last one is often the outcome.
const FIRST: usize = 12;
const LAST: usize = 4;
/// The lines that each rank may take before the rest of [`SHOWN`] is divided; [`SHOWN`] in all.
const SHARE: [usize; ErrorRank::COUNT] = [16, 12, 4, 6, 5, 3, 2];

/// The most lines between two parts of one stack trace: the frames of the first part.
const TRACE_LINES: u64 = 300;

/// The first and the last lines of each rank. Lines that differ only in numbers count as one.
#[derive(Debug, Clone, Default)]
pub(super) struct BestLines {
    ranks: [RankLines; ErrorRank::COUNT],
    /// The last line of a stack trace that may have a deeper cause.
    trace: Option<Candidate>,
}

/// The first and the last lines of one rank.
#[derive(Debug, Clone, Default)]
struct RankLines {
    first: Vec<Candidate>,
    last: Vec<Candidate>,
}

/// A line that may be shown.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    at: ErrorLine,
    /// A hash of the text without its numbers.
    likeness: u64,
}

impl BestLines {
    /// Adds a line. In a chain of causes only the innermost is kept as a cause.
    pub(super) fn add(&mut self, likeness: u64, rank: Rank, at: ErrorLine) {
        let line = Candidate { at, likeness };
        match rank {
            Rank::Trace if self.goes_on(at) => self.end_trace(ErrorRank::Outer),
            Rank::Heading | Rank::Trace => self.end_trace(ErrorRank::Cause),
            Rank::Is(rank) => return self.keep(line, rank),
        }
        self.trace = Some(line);
    }

    /// Returns the lines to show, most telling first.
    pub(super) fn best(&self) -> Vec<ErrorLine> {
        let mut ended = self.clone();
        ended.end_trace(ErrorRank::Cause);
        let ranks: Vec<Vec<Candidate>> = ended.ranks.iter().map(RankLines::lines).collect();
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

    fn goes_on(&self, at: ErrorLine) -> bool {
        self.trace.is_some_and(|line| at.line - line.at.line <= TRACE_LINES)
    }

    fn end_trace(&mut self, rank: ErrorRank) {
        if let Some(line) = self.trace.take() {
            self.keep(line, rank);
        }
    }

    /// Keeps a line under its rank. The last exit line is the one that counts.
    fn keep(&mut self, mut line: Candidate, rank: ErrorRank) {
        line.at.rank = rank;
        self.ranks[rank as usize].add(line, rank == ErrorRank::Exit);
    }
}

impl RankLines {
    /// Adds a line. Of lines that look alike the first is kept, or with `newest` the last.
    fn add(&mut self, mut line: Candidate, newest: bool) {
        if let Some(kept) = self.like(&line) {
            kept.at.times += line.at.times;
            if !newest {
                kept.at.last = Some(LinePosition { line: line.at.line, offset: line.at.offset });
                return;
            }
            line.at.times = kept.at.times;
            let other = |kept: &Candidate| kept.likeness != line.likeness;
            self.first.retain(other);
            self.last.retain(other);
        }
        if self.first.len() < FIRST && self.last.is_empty() {
            self.first.push(line);
        } else {
            if self.last.len() == LAST {
                self.last.remove(0);
            }
            self.last.push(line);
        }
    }

    fn like(&mut self, line: &Candidate) -> Option<&mut Candidate> {
        let alike = |kept: &&mut Candidate| kept.likeness == line.likeness;
        self.first.iter_mut().chain(&mut self.last).find(alike)
    }

    fn lines(&self) -> Vec<Candidate> {
        let mut lines: Vec<Candidate> = self.first.iter().chain(&self.last).copied().collect();
        lines.sort_by_key(|line| line.at.line);
        lines
    }
}

/// Returns `count` of `lines`: three quarters from the beginning, the rest from the end.
fn ends(lines: &[Candidate], count: usize) -> impl Iterator<Item = Candidate> {
    let tail = if count < lines.len() { count / 4 } else { 0 };
    let (head, rest) = lines.split_at(count - tail);
    head.iter().chain(&rest[rest.len() - tail..]).copied().collect::<Vec<_>>().into_iter()
}
