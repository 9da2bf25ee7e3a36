//! The lines that belong to a line: the details below it, its paragraph or section, its stack
//! trace.

mod around;
mod line_hits;
mod section;
mod trace;

use std::io;
use std::ops::Range;

use crate::find::candidate::LineStart;
use crate::find::found::Found;
use crate::find::gather::{NEAR, UNIT, nearness};
use crate::find::matcher::{Finder, Hit};
use crate::find::passage;
use crate::find::passage::{Passage, SourceLine};
use crate::find::question::Chosen;
use around::{Around, MOST};
use ctxfs_core::model::Content;
use line_hits::LineHits;
use section::Section;
use trace::Trace;

// Bytes that are read before and after a line.
const BEFORE: u64 = 8 << 10;
const AFTER: usize = 24 << 10;
// The part of a score that depends on how close together the words stand.
const NEARNESS: f64 = 0.15;

/// Returns the passage around the line that begins at `start`. In a table, each row is a passage.
pub(super) fn of_line(
    content: &dyn Content,
    start: LineStart,
    is_table: bool,
    chosen: &Chosen,
    finder: &mut Finder,
) -> io::Result<Passage> {
    let from = start.offset.saturating_sub(BEFORE);
    let before = (start.offset - from) as usize;
    let bytes = content.bytes(from, before + AFTER)?;
    let ends = from + bytes.len() as u64 == content.len();
    let around = Around::split(&bytes, before, from, start, ends);
    let hits = LineHits::new(&around.lines, &chosen.matcher, finder);
    let shown = if is_table { vec![around.anchor] } else { around.record(&hits, chosen) };
    Ok(around.passage(&shown, &hits, chosen))
}

/// Returns the passage of the words between two bytes of a long line.
pub(super) fn of_window(
    content: &dyn Content,
    of: LineStart,
    (start, end): (u64, u64),
    chosen: &Chosen,
    finder: &mut Finder,
) -> io::Result<Passage> {
    let from = start.saturating_sub(1024).max(of.offset);
    let bytes = content.bytes(from, (end - from) as usize + 2048)?;
    let length = memchr::memchr(b'\n', &bytes[(end - from) as usize..]);
    let length = length.map_or(bytes.len(), |at| (end - from) as usize + at);
    let ends = length < bytes.len() || from + bytes.len() as u64 == content.len();
    // What was read begins and ends between two characters.
    let first = if from == of.offset { 0 } else { crate::scan::char_ceiling(&bytes, 0) };
    let last = if ends { length } else { crate::scan::char_floor(&bytes, length) };
    let text = &bytes[first.min(last)..last];
    let offset = from + first as u64;
    let line = SourceLine { line: of.line, offset, column: offset - of.offset, text, ends };
    let range = ((start - offset) as usize, (end - offset) as usize);
    let all = chosen.matcher.find(finder, text, false);
    let hits: Vec<Hit> =
        all.iter().filter(|hit| hit.start >= range.0 && hit.end <= range.1).copied().collect();
    let found = Found::of(&hits);
    let shown = line.shown(Some(range.0));
    let places: Vec<(u64, usize)> = passage::places(&hits, 0).collect();
    Ok(Passage {
        score: score(&found, &places, chosen),
        terms: found.terms(),
        likeness: 0,
        alike: 0,
        path: String::new(),
        lines: vec![shown],
    })
}

pub(super) fn score(found: &Found, places: &[(u64, usize)], chosen: &Chosen) -> u64 {
    let near = 1.0 + NEARNESS * passage::nearness(places, found);
    (found.value(&chosen.weights) * near * UNIT) as u64
}

impl Around<'_> {
    fn record(&self, hits: &LineHits<'_>, chosen: &Chosen) -> Vec<usize> {
        let mut shown = vec![self.anchor];
        if let Some(trace) = Trace::around(self) {
            self.add_near(&mut shown, trace.lines(), hits, chosen);
            add(&mut shown, trace.telling(hits));
        } else if let Some(section) = Section::below(self) {
            self.add_near(&mut shown, section.lines(), hits, chosen);
            add(&mut shown, section.telling());
        } else {
            self.add_near(&mut shown, 0..self.lines.len(), hits, chosen);
            add(&mut shown, self.head());
            add(&mut shown, self.details());
            add(&mut shown, self.paragraph());
        }
        shown.sort_unstable();
        fill(&mut shown);
        shown
    }

    // Adds lines of `among` near the anchor that have further words.
    fn add_near(
        &self,
        shown: &mut Vec<usize>,
        among: Range<usize>,
        hits: &LineHits<'_>,
        chosen: &Chosen,
    ) {
        let own = |shown: &[usize]| -> Found {
            let mut found = Found::default();
            for at in shown {
                found.join(&Found::of(hits.of(*at)));
            }
            found
        };
        for distance in 1..=NEAR as usize {
            let near = [self.anchor.checked_sub(distance), Some(self.anchor + distance)];
            for at in near.into_iter().flatten().filter(|at| among.contains(at)) {
                let before = own(shown);
                let mut after = before;
                after.join(&Found::of(hits.of(at)));
                if after.value(&chosen.weights) > before.value(&chosen.weights) && shown.len() < 5 {
                    shown.push(at);
                }
            }
        }
    }

    fn passage(&self, shown: &[usize], hits: &LineHits<'_>, chosen: &Chosen) -> Passage {
        let mut found = Found::default();
        let mut places = Vec::new();
        let mut far = 0.0;
        let mut by_distance: Vec<usize> = shown.to_vec();
        by_distance.sort_by_key(|at| at.abs_diff(self.anchor));
        for at in by_distance {
            let before = found.value(&chosen.weights);
            found.join(&Found::of(hits.of(at)));
            let distance = at.abs_diff(self.anchor) as u64;
            if distance > 0 {
                let more = found.value(&chosen.weights) - before;
                far += more * (1.0 - nearness(distance.min(NEAR)));
            }
        }
        for at in shown {
            places.extend(passage::places(hits.of(*at), self.lines[*at].offset));
        }
        let whole = score(&found, &places, chosen);
        let line = |at: &usize| {
            let around = hits.of(*at).first().map(|hit| hit.start);
            self.lines[*at].shown(around)
        };
        Passage {
            score: whole.saturating_sub((far * UNIT) as u64),
            terms: found.terms(),
            likeness: 0,
            alike: 0,
            path: String::new(),
            lines: shown.iter().map(line).collect(),
        }
    }
}

fn add(shown: &mut Vec<usize>, more: impl IntoIterator<Item = usize>) {
    for at in more {
        if shown.len() < MOST && !shown.contains(&at) {
            shown.push(at);
        }
    }
}

fn fill(shown: &mut Vec<usize>) {
    let (first, last) = (shown[0], shown[shown.len() - 1]);
    if last - first < MOST {
        *shown = (first..=last).collect();
    }
}
