//! The second pass of `.find` over text. It finds the lines and windows with the words, and keeps
//! the best candidates in bounded memory.

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
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
const SHORT_LINE: usize = 1000;
// Maximum distance in bytes between two words in one window.
const MAX_WORD_GAP: usize = 200;
// A line is also scored for the words in this many lines before and after it.
pub(super) const NEAR_LINES: u64 = 6;
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

/// Scores the lines of a text. `recent` holds the last lines with words. The first `judged` of them
/// are already scored, and are kept to score the lines after them.
struct LineGatherer<'a> {
    chosen: &'a ChosenTerms,
    is_table: bool,
    recent: VecDeque<ScoredLine>,
    judged: usize,
    pool: Pool,
    passages: u64,
}

#[derive(Default)]
struct LineFinder {
    finder: Finder,
    likeness: LikenessHasher,
}

#[derive(Clone, Copy)]
enum FoundPlace {
    Line(ScoredLine),
    Window(FoundWindow),
}

#[derive(Clone, Copy)]
struct ScoredLine {
    start: LineOffset,
    found: FoundTerms,
    likeness: u64,
}

#[derive(Clone, Copy)]
struct FoundWindow {
    of: LineOffset,
    start: u64,
    end: u64,
    found: FoundTerms,
    likeness: u64,
}

/// Gathers the lines in `content` that have words of `chosen`. Stretches of about `stretch` bytes
/// are searched in parallel. In a table, each line is an independent record.
pub(super) fn lines(
    content: &dyn Content,
    chosen: &ChosenTerms,
    is_table: bool,
    expired: &dyn Fn() -> bool,
    stretch: u64,
) -> io::Result<Gathered> {
    let mut gatherer = LineGatherer::new(chosen, is_table);
    let look = |finder: &mut LineFinder, stretch: &Stretch<'_>, stop: &dyn Fn() -> bool| {
        let mut places = Vec::new();
        let extent = scan::scan(
            stretch.lines(),
            Some(&chosen.matcher),
            stop,
            scan::BLOCK_BYTES,
            |segment| {
                finder.find(chosen, segment, &mut places);
            },
        )?;
        Ok((places, extent))
    };
    let stretches = Stretches::of(content, stretch);
    let extent = stretches.each(expired, LineFinder::default, look, |start, places| {
        for place in places {
            gatherer.add(place.after(start));
        }
    })?;
    Ok(gatherer.finish(extent.out_of_time.then_some(extent.bytes)))
}

impl LineFinder {
    fn find(
        &mut self,
        chosen: &ChosenTerms,
        segment: &LineSegment<'_>,
        places: &mut Vec<FoundPlace>,
    ) {
        let Self { finder, likeness } = self;
        let hits = chosen.matcher.find(finder, segment.text, false);
        if hits.is_empty() {
            return;
        }
        if segment.is_line && segment.text.len() <= SHORT_LINE {
            let start = LineOffset { line: segment.line, offset: segment.offset };
            let (found, likeness) = (FoundTerms::of(hits), likeness.of(segment.text));
            places.push(FoundPlace::Line(ScoredLine { start, found, likeness }));
            return;
        }
        let of = LineOffset { line: segment.line, offset: segment.offset - segment.column };
        for ((start, end), found) in windows(hits) {
            let likeness = likeness.of(&segment.text[start..end]);
            let (start, end) = (segment.offset + start as u64, segment.offset + end as u64);
            places.push(FoundPlace::Window(FoundWindow { of, start, end, found, likeness }));
        }
    }
}

impl FoundPlace {
    // Converts offsets in a stretch that begins at `start` to offsets in the content.
    fn after(self, start: StretchStart) -> Self {
        let StretchStart { newlines, offset } = start;
        let moved =
            |of: LineOffset| LineOffset { line: of.line + newlines, offset: of.offset + offset };
        match self {
            Self::Line(line) => Self::Line(ScoredLine { start: moved(line.start), ..line }),
            Self::Window(window) => Self::Window(FoundWindow {
                of: moved(window.of),
                start: window.start + offset,
                end: window.end + offset,
                ..window
            }),
        }
    }
}

impl<'a> LineGatherer<'a> {
    fn new(chosen: &'a ChosenTerms, is_table: bool) -> Self {
        Self {
            chosen,
            is_table,
            recent: VecDeque::new(),
            judged: 0,
            pool: Pool::new(),
            passages: 0,
        }
    }

    fn add(&mut self, place: FoundPlace) {
        self.passages += 1;
        match place {
            FoundPlace::Line(line) => {
                self.recent.push_back(line);
                self.judge(line.start.line.saturating_sub(NEAR_LINES));
            }
            FoundPlace::Window(FoundWindow { of, start, end, found, likeness }) => {
                let score = (found.value(&self.chosen.weights) * SCORE_UNIT) as u64;
                self.pool.add(score, likeness, || CandidateSpan::Window {
                    of,
                    start,
                    end,
                    path: String::new(),
                });
            }
        }
    }

    // Scores the lines before `line`, because all lines near them are known.
    fn judge(&mut self, line: u64) {
        while let Some(next) = self.recent.get(self.judged).copied()
            && next.start.line < line
        {
            let score = self.score(&next);
            self.pool.add(score, next.likeness, || CandidateSpan::Line(next.start));
            self.judged += 1;
            let first = next.start.line.saturating_sub(NEAR_LINES);
            while self.recent.front().is_some_and(|old| old.start.line < first) {
                self.recent.pop_front();
                self.judged -= 1;
            }
        }
    }

    fn score(&self, line: &ScoredLine) -> u64 {
        let weights = &self.chosen.weights;
        let mut all = line.found;
        let mut value = all.value(weights);
        let mut score = value;
        let mut near = all;
        self.recent.iter().for_each(|other| near.join(&other.found));
        // The nearby lines often have no other words or do not belong to this line.
        if near == all || self.is_table {
            return (score * SCORE_UNIT) as u64;
        }
        for distance in 1..=NEAR_LINES {
            let near =
                self.recent.iter().filter(|it| it.start.line.abs_diff(line.start.line) == distance);
            near.for_each(|near| all.join(&near.found));
            let more = all.value(weights);
            score += (more - value) * nearness(distance);
            value = more;
        }
        (score * SCORE_UNIT) as u64
    }

    fn finish(mut self, stopped: Option<u64>) -> Gathered {
        self.judge(u64::MAX);
        Gathered { pool: self.pool, passages: self.passages, stopped }
    }
}

// Returns the part of its weight that a word keeps at this distance in lines.
pub(super) fn nearness(distance: u64) -> f64 {
    0.7 - 0.08 * distance as f64
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
/// string, or a value of JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CandidateSpan {
    Line(LineOffset),
    Window { of: LineOffset, start: u64, end: u64, path: String },
    Value { of: LineOffset, start: u64, end: u64, path: String },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LineOffset {
    pub(super) line: u64,
    pub(super) offset: u64,
}

/// The best candidates so far. Holds at most twice `MAX_CANDIDATES`, and no candidate with a score
/// of `floor` or less.
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

    // Keeps only some candidates of those that are alike.
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
