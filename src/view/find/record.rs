//! The lines that belong to a line: the details below it, its paragraph, the cause of its error.

use std::io;

use crate::model::Content;
use crate::view::errors::trace;
use crate::view::find::candidate::LineStart;
use crate::view::find::found::Found;
use crate::view::find::gather::NEAR;
use crate::view::find::gather::UNIT;
use crate::view::find::gather::nearness;
use crate::view::find::matcher::Finder;
use crate::view::find::matcher::Hit;
use crate::view::find::passage;
use crate::view::find::passage::Passage;
use crate::view::find::passage::SourceLine;
use crate::view::find::question::Chosen;

/// Bytes read before and after a line.
const BEFORE: u64 = 8 << 10;
const AFTER: usize = 24 << 10;
/// Most lines of a passage.
const MOST: usize = 7;
/// Most lines of a paragraph of which a part is shown. More are no paragraph, but a log.
const PARAGRAPH: usize = 24;
/// The part of a score that depends on how near the words stand.
const NEARNESS: f64 = 0.15;

/// The lines around the line `anchor`.
struct Around<'t> {
    lines: Vec<SourceLine<'t>>,
    anchor: usize,
}

/// Returns the passage around the line that begins at `start`. In a table, rows are passages.
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
    let hits: Vec<Vec<Hit>> = around
        .lines
        .iter()
        .map(|line| chosen.matcher.find(finder, line.text, false).to_vec())
        .collect();
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
    let first = if from == of.offset { 0 } else { crate::view::scan::char_ceiling(&bytes, 0) };
    let last = if ends { length } else { crate::view::scan::char_floor(&bytes, length) };
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

/// Scores words that stand at `places`.
pub(super) fn score(found: &Found, places: &[(u64, usize)], chosen: &Chosen) -> u64 {
    let near = 1.0 + NEARNESS * passage::nearness(places, found);
    (found.value(&chosen.weights) * near * UNIT) as u64
}

impl<'t> Around<'t> {
    /// Splits `bytes`, in which the line at `start` begins at `anchor`, into whole lines.
    fn split(bytes: &'t [u8], anchor: usize, from: u64, start: LineStart, ends: bool) -> Self {
        let mut lines = Vec::new();
        let mut at = match memchr::memchr(b'\n', &bytes[..anchor]) {
            Some(newline) if from > 0 => newline + 1,
            _ if from > 0 => anchor,
            _ => 0,
        };
        let newlines = memchr::memchr_iter(b'\n', &bytes[at..anchor]).count() as u64;
        let mut line = start.line.saturating_sub(newlines);
        let mut place = 0;
        while at < bytes.len() {
            let newline = memchr::memchr(b'\n', &bytes[at..]);
            if newline.is_none() && !ends && at != anchor {
                break;
            }
            if at == anchor {
                place = lines.len();
            }
            let end = newline.map_or(bytes.len(), |newline| at + newline);
            let whole = newline.is_some() || ends;
            let (offset, text) = (from + at as u64, &bytes[at..end]);
            lines.push(SourceLine { line, offset, column: 0, text, ends: whole });
            line += 1;
            at = end + 1;
        }
        Self { lines, anchor: place }
    }

    fn text(&self, at: usize) -> &'t [u8] {
        let text = self.lines[at].text;
        text.strip_suffix(b"\r").unwrap_or(text)
    }

    fn is_blank(&self, at: usize) -> bool {
        self.text(at).iter().all(u8::is_ascii_whitespace)
    }

    /// Returns the characters before the first that is no blank.
    fn indent(&self, at: usize) -> usize {
        self.text(at).iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count()
    }

    /// Returns the lines to show, in order.
    fn record(&self, hits: &[Vec<Hit>], chosen: &Chosen) -> Vec<usize> {
        let mut shown = vec![self.anchor];
        let own = |shown: &[usize]| -> Found {
            let mut found = Found::default();
            for at in shown {
                found.join(&Found::of(&hits[*at]));
            }
            found
        };
        for distance in 1..=NEAR as usize {
            let near = [self.anchor.checked_sub(distance), Some(self.anchor + distance)];
            for at in near.into_iter().flatten().filter(|at| *at < self.lines.len()) {
                let before = own(&shown);
                let mut after = before;
                after.join(&Found::of(&hits[at]));
                if after.value(&chosen.weights) > before.value(&chosen.weights) && shown.len() < 5 {
                    shown.push(at);
                }
            }
        }
        add(&mut shown, self.cause(hits));
        add(&mut shown, self.head());
        add(&mut shown, self.details());
        add(&mut shown, self.paragraph());
        shown.sort_unstable();
        fill(&mut shown);
        shown
    }

    /// Returns the line that a detail belongs to, and the line above that, outermost last.
    fn head(&self) -> Vec<usize> {
        let mut heads = Vec::new();
        let mut indent = self.indent(self.anchor);
        for at in (0..self.anchor).rev().take(3 * MOST) {
            if self.is_blank(at) || indent == 0 || heads.len() == 2 {
                break;
            }
            if self.indent(at) < indent {
                indent = self.indent(at);
                heads.push(at);
            }
        }
        heads
    }

    /// Returns the lines below that are indented more.
    fn details(&self) -> Vec<usize> {
        let indent = self.indent(self.anchor);
        let below = self.anchor + 1..self.lines.len();
        below.take_while(|at| !self.is_blank(*at) && self.indent(*at) > indent).take(MOST).collect()
    }

    /// Returns the lines of the paragraph, those near to the line first.
    fn paragraph(&self) -> Vec<usize> {
        let blank = |at: &usize| self.is_blank(*at);
        let first = (0..self.anchor).rev().find(blank).map_or(0, |at| at + 1);
        let after = self.anchor + 1..self.lines.len();
        let last = after.clone().find(blank).unwrap_or(self.lines.len());
        if last - first > PARAGRAPH {
            return Vec::new();
        }
        let mut lines: Vec<usize> = (first..last).collect();
        // What follows tells more than what is before.
        lines.sort_by_key(|at| {
            let below = *at > self.anchor;
            2 * at.abs_diff(self.anchor) + usize::from(!below)
        });
        lines
    }

    /// Returns the lines of a stack trace that tell most: those with words, and the innermost
    /// cause.
    fn cause(&self, hits: &[Vec<Hit>]) -> Vec<usize> {
        let below = &self.lines[self.anchor + 1..];
        let length = trace::length(below.iter().take(trace::LONGEST).map(|line| line.text));
        let is_cause = |at: &usize| {
            let text = self.text(*at).trim_ascii_start();
            text.starts_with(b"Caused by") || text.starts_with(b"Error: ")
        };
        let lines = self.anchor + 1..=self.anchor + length;
        if length < MOST {
            return Vec::new();
        }
        let innermost = lines.clone().rev().find(is_cause);
        let last = lines.clone().next_back().filter(|at| self.indent(*at) == 0);
        let with_words = lines.filter(|at| !hits[*at].is_empty()).take(2);
        let cause = innermost.or(last);
        cause
            .into_iter()
            .chain(cause.map(|at| at + 1).filter(|at| *at <= self.anchor + length))
            .chain(with_words)
            .collect()
    }

    fn passage(&self, shown: &[usize], hits: &[Vec<Hit>], chosen: &Chosen) -> Passage {
        let mut found = Found::default();
        let mut places = Vec::new();
        let mut far = 0.0;
        let mut by_distance: Vec<usize> = shown.to_vec();
        by_distance.sort_by_key(|at| at.abs_diff(self.anchor));
        for at in by_distance {
            let before = found.value(&chosen.weights);
            found.join(&Found::of(&hits[at]));
            let distance = at.abs_diff(self.anchor) as u64;
            if distance > 0 {
                let more = found.value(&chosen.weights) - before;
                far += more * (1.0 - nearness(distance.min(NEAR)));
            }
        }
        for at in shown {
            places.extend(passage::places(&hits[*at], self.lines[*at].offset));
        }
        let whole = score(&found, &places, chosen);
        let line = |at: &usize| {
            let around = hits[*at].first().map(|hit| hit.start);
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

/// Adds lines as long as there is room.
fn add(shown: &mut Vec<usize>, more: impl IntoIterator<Item = usize>) {
    for at in more {
        if shown.len() < MOST && !shown.contains(&at) {
            shown.push(at);
        }
    }
}

/// Adds the lines between those that are shown, if they are few.
fn fill(shown: &mut Vec<usize>) {
    let (first, last) = (shown[0], shown[shown.len() - 1]);
    if last - first < MOST {
        *shown = (first..=last).collect();
    }
}
