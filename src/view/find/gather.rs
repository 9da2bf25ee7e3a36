//! The second pass of `.find` over text. It finds the lines and windows with the words, and keeps
//! the best candidates in bounded memory.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::io;

use crate::find::matcher::{Finder, FoundTerms, Hit};
use crate::find::question::ChosenTerms;
use crate::find::scan;
use crate::find::scan::LineSegment;
use crate::find::stretches::{Stretch, StretchStart, Stretches};
use ctxfs_core::materialize::LikenessHasher;
use ctxfs_core::materialize::frequent::Frequent;
use ctxfs_core::model::Content;

// A line up to this length is one candidate. In a longer line, each window with words is one.
pub(super) const SHORT_LINE: usize = 1000;
// Maximum distance in bytes between two words in one window.
const MAX_WORD_GAP: usize = 200;
// Scores are integers: this many points represent 1.0.
pub(super) const SCORE_UNIT: f64 = 1000.0;
const MAX_CANDIDATES: usize = 192;
// Maximum number of candidates that differ only in numbers.
const MAX_ALIKE: usize = 6;
const MAX_KINDS: usize = 4096;

/// The result of the second pass. `passages` counts the lines, windows or objects with any of the
/// words. `stopped` is the offset at which time ran out.
pub(super) struct Gathered {
    pub(super) pool: Pool,
    pub(super) passages: u64,
    pub(super) stopped: Option<u64>,
}

#[derive(Default)]
struct LineFinder {
    finder: Finder,
    likeness: LikenessHasher,
}

/// Gathers the lines in `content` that have words of `chosen`. Stretches of about `stretch` bytes
/// are searched in parallel.
///
/// A line is scored for its own words only. Words in the lines around it count later, in the score
/// of the passage.
pub(super) fn lines(
    content: &dyn Content,
    chosen: &ChosenTerms,
    expired: &dyn Fn() -> bool,
    stretch: u64,
) -> io::Result<Gathered> {
    let (mut pool, mut passages) = (Pool::new(), 0);
    let look = |finder: &mut LineFinder, stretch: &Stretch<'_>, stop: &dyn Fn() -> bool| {
        let mut found = Vec::new();
        let extent = scan::scan(
            stretch.lines(),
            Some(&chosen.matcher),
            stop,
            scan::BLOCK_BYTES,
            |segment| finder.find(chosen, segment, &mut found),
        )?;
        Ok((found, extent))
    };
    let stretches = Stretches::of(content, stretch);
    let extent = stretches.each(expired, LineFinder::default, look, |start, found| {
        passages += found.len() as u64;
        for Candidate { score, likeness, place } in found {
            pool.add(score, likeness, || place.after(start));
        }
    })?;
    Ok(Gathered { pool, passages, stopped: extent.out_of_time.then_some(extent.bytes) })
}

impl LineFinder {
    fn find(
        &mut self,
        chosen: &ChosenTerms,
        segment: &LineSegment<'_>,
        candidates: &mut Vec<Candidate>,
    ) {
        let Self { finder, likeness } = self;
        let hits = chosen.matcher.find(finder, segment.text, false);
        if hits.is_empty() {
            return;
        }
        let score = |found: &FoundTerms| (found.value(&chosen.weights) * SCORE_UNIT) as u64;
        let LineSegment { line, offset, .. } = *segment;
        if segment.is_line && segment.text.len() <= SHORT_LINE {
            let place = CandidateSpan::Line(LineOffset { line, offset });
            let (score, likeness) = (score(&FoundTerms::of(hits)), likeness.of(segment.text));
            candidates.push(Candidate { score, likeness, place });
            return;
        }
        let of = LineOffset { line, offset: offset - segment.column };
        candidates.extend(windows(hits).into_iter().map(|((start, end), found)| {
            let likeness = likeness.of(&segment.text[start..end]);
            let (start, end) = (offset + start as u64, offset + end as u64);
            let place = CandidateSpan::Window { of, start, end, path: String::new() };
            Candidate { score: score(&found), likeness, place }
        }));
    }
}

pub(super) fn windows(hits: &[Hit]) -> Vec<((usize, usize), FoundTerms)> {
    let mut windows: Vec<((usize, usize), FoundTerms)> = Vec::new();
    for hit in hits {
        match windows.last_mut() {
            Some(((start, end), found))
                if hit.start <= *end + MAX_WORD_GAP && hit.end <= *start + 2 * MAX_WORD_GAP =>
            {
                *end = hit.end.max(*end);
                found.add(hit);
            }
            _ => windows.push(((hit.start, hit.end), FoundTerms::of(&[*hit]))),
        }
    }
    windows
}

/// A passage that may be shown. `score` is the estimated value of its words. `likeness` is equal
/// for candidates that differ only in numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) score: u64,
    pub(super) likeness: u64,
    pub(super) place: CandidateSpan,
}

/// The extent of a candidate in the content: a line with its neighbours, a window of a long line or
/// string, a value of JSON, or a record. `of` is the line in which a window or value begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CandidateSpan {
    Line(LineOffset),
    Window { of: LineOffset, start: u64, end: u64, path: String },
    Value { of: LineOffset, start: u64, end: u64, path: String },
    Record(RecordSpan),
}

/// A record. `skipped` has the offsets of the records inside it that do not belong to the passage.
/// `header` has the offsets of the header row of its table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RecordSpan {
    pub(super) number: u64,
    pub(super) line: u64,
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) skipped: Vec<(u64, u64)>,
    pub(super) header: Option<(u64, u64)>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct LineOffset {
    pub(super) line: u64,
    pub(super) offset: u64,
}

impl CandidateSpan {
    // Converts offsets in a stretch that begins at `start` to offsets in the content.
    fn after(self, StretchStart { newlines, offset }: StretchStart) -> Self {
        let moved = |LineOffset { line, offset: at }: LineOffset| LineOffset {
            line: line + newlines,
            offset: at + offset,
        };
        match self {
            Self::Line(start) => Self::Line(moved(start)),
            Self::Window { of, start, end, path } => {
                Self::Window { of: moved(of), start: start + offset, end: end + offset, path }
            }
            Self::Value { of, start, end, path } => {
                Self::Value { of: moved(of), start: start + offset, end: end + offset, path }
            }
            // Records are not searched in stretches.
            Self::Record(record) => Self::Record(record),
        }
    }
}

/// The best candidates so far. Holds fewer than twice `MAX_CANDIDATES`. A new candidate must have a
/// score above `floor`.
pub(super) struct Pool {
    kept: Vec<(Candidate, u64)>,
    taken: u64,
    floor: u64,
    kinds: Frequent<u64, ()>,
}

impl Pool {
    pub(super) fn new() -> Self {
        Self { kept: Vec::new(), taken: 0, floor: 0, kinds: Frequent::new(MAX_KINDS) }
    }

    fn admits(&self, score: u64) -> bool {
        score > self.floor
    }

    pub(super) fn add(&mut self, score: u64, likeness: u64, place: impl FnOnce() -> CandidateSpan) {
        self.kinds.add(&likeness, 1, || ());
        self.taken += 1;
        if self.admits(score) {
            self.kept.push((Candidate { score, likeness, place: place() }, self.taken));
            if self.kept.len() >= 2 * MAX_CANDIDATES {
                self.shrink();
            }
        }
    }

    // Keeps the best candidates, of which at most `MAX_ALIKE` are alike.
    fn shrink(&mut self) {
        self.kept.sort_by_key(|(candidate, number)| (Reverse(candidate.score), *number));
        let mut alike: HashMap<u64, usize> = HashMap::new();
        self.kept.retain(|(candidate, _)| {
            let count = alike.entry(candidate.likeness).or_default();
            *count += 1;
            *count <= MAX_ALIKE
        });
        if self.kept.len() >= MAX_CANDIDATES {
            self.kept.truncate(MAX_CANDIDATES);
            self.floor = self.kept.last().map_or(0, |(candidate, _)| candidate.score);
        }
    }

    // Returns the candidates, best first, each with the number of similar candidates.
    pub(super) fn best(mut self) -> Vec<(Candidate, u64)> {
        self.shrink();
        let counts: HashMap<u64, u64> = self
            .kinds
            .counts()
            .iter()
            .map(|(kind, count)| (*kind, count.times + count.missed))
            .collect();
        let kind = |candidate: &Candidate| counts.get(&candidate.likeness).copied().unwrap_or(1);
        self.kept
            .into_iter()
            .map(|(candidate, _)| {
                let count = kind(&candidate);
                (candidate, count)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(line: u64) -> CandidateSpan {
        CandidateSpan::Line(LineOffset { line, offset: 0 })
    }

    #[test]
    fn the_best_are_kept() {
        let mut pool = Pool::new();
        for number in 0..100_000 {
            pool.add(1 + number % 7919, number, || line(number));
            assert!(pool.kept.len() <= 2 * MAX_CANDIDATES);
        }
        let best = pool.best();
        assert_eq!(best.len(), MAX_CANDIDATES);
        assert_eq!((best[0].0.score, best[0].0.likeness), (7919, 7918));
    }

    #[test]
    fn what_is_alike_leaves_room() {
        let mut pool = Pool::new();
        for number in 0..10_000 {
            let kind = if number == 9_999 { 2 } else { 1 };
            pool.add(5, kind, || line(number));
        }
        let best = pool.best();
        assert_eq!(best.len(), MAX_ALIKE + 1);
        assert_eq!((best[0].1, best[MAX_ALIKE].1), (9_999, 1));
    }
}
