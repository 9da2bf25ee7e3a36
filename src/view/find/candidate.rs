//! The passages that may be shown: the best of many, in bounded memory.

use std::cmp::Reverse;
use std::collections::HashMap;

use ctxfs_core::materialize::frequent::Frequent;

const MOST: usize = 192;
// Of candidates that differ only in numbers.
const ALIKE: usize = 6;
const KINDS: usize = 4096;

/// A passage that may be shown. `score` is the worth of its words at a first look; `likeness` is
/// equal for candidates that differ only in numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) score: u64,
    pub(super) likeness: u64,
    pub(super) place: CandidateSpan,
}

/// The extent of a candidate in the content: a line with those that belong to it, a window of a
/// long line or string, or a value of JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CandidateSpan {
    Line(LineStart),
    Window { of: LineStart, start: u64, end: u64, path: String },
    Value { of: LineStart, start: u64, end: u64, path: String },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LineStart {
    pub(super) line: u64,
    pub(super) offset: u64,
}

/// The best candidates so far. Keeps at most twice `MAX_CANDIDATES`, and none with a score of
/// `floor` or less.
pub(super) struct Pool {
    kept: Vec<(Candidate, u64)>,
    taken: u64,
    floor: u64,
    kinds: Frequent<u64, ()>,
}

impl Pool {
    pub(super) fn new() -> Self {
        Self { kept: Vec::new(), taken: 0, floor: 0, kinds: Frequent::new(KINDS) }
    }

    pub(super) fn admits(&self, score: u64) -> bool {
        score > self.floor
    }

    pub(super) fn add(&mut self, score: u64, likeness: u64, place: impl FnOnce() -> CandidateSpan) {
        self.kinds.add(&likeness, 1, || ());
        self.taken += 1;
        if self.admits(score) {
            self.kept.push((Candidate { score, likeness, place: place() }, self.taken));
            if self.kept.len() >= 2 * MOST {
                self.shrink();
            }
        }
    }

    // Of candidates that are alike, only some stay.
    fn shrink(&mut self) {
        self.kept.sort_by_key(|(candidate, number)| (Reverse(candidate.score), *number));
        let mut alike: HashMap<u64, usize> = HashMap::new();
        self.kept.retain(|(candidate, _)| {
            let count = alike.entry(candidate.likeness).or_default();
            *count += 1;
            *count <= ALIKE
        });
        if self.kept.len() >= MOST {
            self.kept.truncate(MOST);
            self.floor = self.kept.last().map_or(0, |(candidate, _)| candidate.score);
        }
    }

    /// Returns the candidates, best first, each with the number of candidates of its kind.
    pub(super) fn best(mut self) -> Vec<(Candidate, u64)> {
        self.shrink();
        let counts: HashMap<u64, u64> =
            self.kinds.iter().map(|(kind, count)| (*kind, count.times + count.missed)).collect();
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
        CandidateSpan::Line(LineStart { line, offset: 0 })
    }

    #[test]
    fn the_best_are_kept() {
        let mut pool = Pool::new();
        for number in 0..100_000 {
            pool.add(1 + number % 7919, number, || line(number));
            assert!(pool.kept.len() <= 2 * MOST);
        }
        let best = pool.best();
        assert_eq!(best.len(), MOST);
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
        assert_eq!(best.len(), ALIKE + 1);
        assert_eq!((best[0].1, best[ALIKE].1), (9_999, 1));
    }
}
