//! The second pass of `.find` over text: the lines and windows that have the words, and the best
//! candidates among them, in bounded memory.

use std::collections::VecDeque;
use std::io;

use crate::find::candidate::{CandidateSpan, LineStart, Pool};
use crate::find::found::Found;
use crate::find::matcher::{Finder, Hit};
use crate::find::question::Chosen;
use crate::find::scan::Segment;
use crate::find::stretches::{Stretch, StretchStart, Stretches};
use crate::find::{scan, stream};
use ctxfs_core::materialize::LikenessHasher;
use ctxfs_core::model::Content;

// A line up to this length is shown whole.
const SHORT: usize = 1000;
// The most bytes between two words in one window.
const BETWEEN: usize = 200;
// The words of this many lines before and after a line count for it, too.
pub(super) const NEAR: u64 = 6;
// Scores are integers: a value of 1.0 is this many points.
pub(super) const UNIT: f64 = 1000.0;

/// The result of the second pass. `passages` counts the lines, windows or objects with any of the
/// words; `stopped` is the byte at which time ran out.
pub(super) struct Gathered {
    pub(super) pool: Pool,
    pub(super) passages: u64,
    pub(super) stopped: Option<u64>,
}

/// Scores the lines of a text. `recent` has the last lines with words, of which the first `judged`
/// are scored and stay for the lines after them.
pub(super) struct LineGatherer<'a> {
    chosen: &'a Chosen,
    is_table: bool,
    recent: VecDeque<FoundLine>,
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
    Line(FoundLine),
    Window(FoundWindow),
}

#[derive(Clone, Copy)]
struct FoundLine {
    start: LineStart,
    found: Found,
    likeness: u64,
}

#[derive(Clone, Copy)]
struct FoundWindow {
    of: LineStart,
    start: u64,
    end: u64,
    found: Found,
    likeness: u64,
}

/// Gathers the lines in `content` with the words of `chosen`, from stretches of about `stretch`
/// bytes that are searched in parallel. In a table, a line is a record of its own.
pub(super) fn lines(
    content: &dyn Content,
    chosen: &Chosen,
    is_table: bool,
    expired: &dyn Fn() -> bool,
    stretch: u64,
) -> io::Result<Gathered> {
    let mut gatherer = LineGatherer::new(chosen, is_table);
    let look = |finder: &mut LineFinder, stretch: &Stretch<'_>, stop: &dyn Fn() -> bool| {
        let mut places = Vec::new();
        let extent =
            scan::scan(stretch.lines(), Some(&chosen.matcher), stop, stream::BLOCK, |segment| {
                finder.find(chosen, segment, &mut places);
            })?;
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
    fn find(&mut self, chosen: &Chosen, segment: &Segment<'_>, places: &mut Vec<FoundPlace>) {
        let Self { finder, likeness } = self;
        let hits = chosen.matcher.find(finder, segment.text, false);
        if hits.is_empty() {
            return;
        }
        if segment.is_line && segment.text.len() <= SHORT {
            let start = LineStart { line: segment.line, offset: segment.offset };
            let (found, likeness) = (Found::of(hits), likeness.of(segment.text));
            places.push(FoundPlace::Line(FoundLine { start, found, likeness }));
            return;
        }
        let of = LineStart { line: segment.line, offset: segment.offset - segment.column };
        for ((start, end), found) in windows(hits) {
            let likeness = likeness.of(&segment.text[start..end]);
            let (start, end) = (segment.offset + start as u64, segment.offset + end as u64);
            places.push(FoundPlace::Window(FoundWindow { of, start, end, found, likeness }));
        }
    }
}

impl FoundPlace {
    // From offsets in a stretch that begins at `start` to offsets in the content.
    fn after(self, start: StretchStart) -> Self {
        let StretchStart { newlines, offset } = start;
        let moved =
            |of: LineStart| LineStart { line: of.line + newlines, offset: of.offset + offset };
        match self {
            Self::Line(line) => Self::Line(FoundLine { start: moved(line.start), ..line }),
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
    fn new(chosen: &'a Chosen, is_table: bool) -> Self {
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
                self.judge(line.start.line.saturating_sub(NEAR));
            }
            FoundPlace::Window(FoundWindow { of, start, end, found, likeness }) => {
                let score = (found.value(&self.chosen.weights) * UNIT) as u64;
                self.pool.add(score, likeness, || CandidateSpan::Window {
                    of,
                    start,
                    end,
                    path: String::new(),
                });
            }
        }
    }

    // Lines before `line` are scored: all lines near them are known.
    fn judge(&mut self, line: u64) {
        while let Some(next) = self.recent.get(self.judged).copied()
            && next.start.line < line
        {
            let score = self.score(&next);
            self.pool.add(score, next.likeness, || CandidateSpan::Line(next.start));
            self.judged += 1;
            let first = next.start.line.saturating_sub(NEAR);
            while self.recent.front().is_some_and(|old| old.start.line < first) {
                self.recent.pop_front();
                self.judged -= 1;
            }
        }
    }

    /// Scores a line: its own words, and less for the words of the lines near it.
    fn score(&self, line: &FoundLine) -> u64 {
        let weights = &self.chosen.weights;
        let mut all = line.found;
        let mut value = all.value(weights);
        let mut score = value;
        let mut near = all;
        self.recent.iter().for_each(|other| near.join(&other.found));
        // The lines near to it often have no other words, or do not belong to it.
        if near == all || self.is_table {
            return (score * UNIT) as u64;
        }
        for distance in 1..=NEAR {
            let near =
                self.recent.iter().filter(|it| it.start.line.abs_diff(line.start.line) == distance);
            near.for_each(|near| all.join(&near.found));
            let more = all.value(weights);
            score += (more - value) * nearness(distance);
            value = more;
        }
        (score * UNIT) as u64
    }

    fn finish(mut self, stopped: Option<u64>) -> Gathered {
        self.judge(u64::MAX);
        Gathered { pool: self.pool, passages: self.passages, stopped }
    }
}

/// Returns the part of its weight that a word has at this distance in lines.
pub(super) fn nearness(distance: u64) -> f64 {
    0.7 - 0.08 * distance as f64
}

/// Returns the groups of words that stand near each other, with their ranges.
pub(super) fn windows(hits: &[Hit]) -> Vec<((usize, usize), Found)> {
    let mut windows: Vec<((usize, usize), Found)> = Vec::new();
    for hit in hits {
        match windows.last_mut() {
            Some(((start, end), found))
                if hit.start <= *end + BETWEEN && hit.end <= *start + 2 * BETWEEN =>
            {
                *end = hit.end.max(*end);
                found.add(hit);
            }
            _ => windows.push(((hit.start, hit.end), Found::of(&[*hit]))),
        }
    }
    windows
}
