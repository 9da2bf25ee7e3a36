//! The lines that belong to a line: its details below it, its paragraph or section, its stack
//! trace.

use std::cell::{OnceCell, RefCell};
use std::io;
use std::ops::Range;

use crate::errors::context;
use crate::find::gather::{LineOffset, SCORE_UNIT};
use crate::find::matcher::{Finder, FoundTerms, Hit, Matcher};
use crate::find::passage;
use crate::find::passage::{Passage, SourceLine};
use crate::find::question::ChosenTerms;
use crate::scan;
use ctxfs_core::materialize::error_lines;
use ctxfs_core::model::Content;

// Number of bytes that are read before and after a line.
const BYTES_BEFORE: u64 = 8 << 10;
const BYTES_AFTER: usize = 24 << 10;
// The score grows by up to this fraction if the words are close together.
const NEARNESS_SHARE: f64 = 0.15;
// Lines with further words are added to a passage if they are at most this many lines from its
// anchor line.
const NEAR_LINES: u64 = 6;
// Maximum number of lines in a passage.
const MAX_LINES: usize = 7;
// A paragraph of more lines is treated as a log.
const MAX_PARAGRAPH: usize = 24;
// Number of lines of a section that are examined.
const SECTION_LINES: usize = 120;
// Number of lines of a section that are shown because they look like errors.
const SECTION_ERRORS: usize = 3;
// Minimum number of characters in a rule, and in each part of a rule around a heading.
const MIN_RULE: usize = 4;
const MIN_HEADING_RULE: usize = 3;
// Number of lines of a trace that are preferred because they have words.
const TRACE_WORD_LINES: usize = 2;

pub(super) fn of_line(
    content: &dyn Content,
    start: LineOffset,
    is_table: bool,
    chosen: &ChosenTerms,
    finder: &mut Finder,
) -> io::Result<Passage> {
    let from = start.offset.saturating_sub(BYTES_BEFORE);
    let before = (start.offset - from) as usize;
    let bytes = content.bytes(from, before + BYTES_AFTER)?;
    let ends = from + bytes.len() as u64 == content.len();
    let around = AnchoredLines::split(&bytes, before, from, start, ends);
    let hits = LineHits::new(&around.lines, &chosen.matcher, finder);
    let shown = if is_table { vec![around.anchor] } else { around.record(&hits, chosen) };
    Ok(around.passage(&shown, &hits, chosen))
}

// Returns the passage of the words between two offsets in a long line.
pub(super) fn of_window(
    content: &dyn Content,
    of: LineOffset,
    (start, end): (u64, u64),
    chosen: &ChosenTerms,
    finder: &mut Finder,
) -> io::Result<Passage> {
    let from = start.saturating_sub(1024).max(of.offset);
    let bytes = content.bytes(from, (end - from) as usize + 2048)?;
    let length = memchr::memchr(b'\n', &bytes[(end - from) as usize..]);
    let length = length.map_or(bytes.len(), |at| (end - from) as usize + at);
    let ends = length < bytes.len() || from + bytes.len() as u64 == content.len();
    // The text has to begin and end between two characters.
    let first = if from == of.offset { 0 } else { scan::char_ceiling(&bytes, 0) };
    let last = if ends { length } else { scan::char_floor(&bytes, length) };
    let text = &bytes[first.min(last)..last];
    let offset = from + first as u64;
    let line = SourceLine { line: of.line, offset, column: offset - of.offset, text, ends };
    let range = ((start - offset) as usize, (end - offset) as usize);
    let all = chosen.matcher.find(finder, text, false);
    let hits: Vec<Hit> =
        all.iter().filter(|hit| hit.start >= range.0 && hit.end <= range.1).copied().collect();
    let found = FoundTerms::of(&hits);
    let shown = line.shown(Some(range.0));
    let places: Vec<(u64, usize)> = passage::places(&hits, 0).collect();
    Ok(Passage {
        score: score(&found, &places, chosen),
        terms: found.terms(),
        likeness: 0,
        alike: 0,
        is_record: false,
        path: String::new(),
        lines: vec![shown],
    })
}

pub(super) fn score(found: &FoundTerms, places: &[(u64, usize)], chosen: &ChosenTerms) -> u64 {
    let near = 1.0 + NEARNESS_SHARE * passage::nearness(places, found);
    (found.value(&chosen.weights) * near * SCORE_UNIT) as u64
}

// Returns the factor for the weight of a word at this distance from the anchor, in lines.
fn nearness(distance: u64) -> f64 {
    0.7 - 0.08 * distance as f64
}

impl AnchoredLines<'_> {
    fn record(&self, hits: &LineHits<'_>, chosen: &ChosenTerms) -> Vec<usize> {
        let mut shown = vec![self.anchor];
        if let Some(trace) = StackTrace::around(self) {
            self.add_near(&mut shown, trace.lines(), hits, chosen);
            add(&mut shown, trace.informative(hits));
        } else if let Some(section) = HeadedSection::below(self) {
            self.add_near(&mut shown, section.lines(), hits, chosen);
            add(&mut shown, section.informative());
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

    // Adds lines from `among` near the anchor that have further words.
    fn add_near(
        &self,
        shown: &mut Vec<usize>,
        among: Range<usize>,
        hits: &LineHits<'_>,
        chosen: &ChosenTerms,
    ) {
        let own = |shown: &[usize]| -> FoundTerms {
            let mut found = FoundTerms::default();
            for at in shown {
                found.join(&FoundTerms::of(hits.of(*at)));
            }
            found
        };
        for distance in 1..=NEAR_LINES as usize {
            let near = [self.anchor.checked_sub(distance), Some(self.anchor + distance)];
            for at in near.into_iter().flatten().filter(|at| among.contains(at)) {
                let before = own(shown);
                let mut after = before;
                after.join(&FoundTerms::of(hits.of(at)));
                if after.value(&chosen.weights) > before.value(&chosen.weights) && shown.len() < 5 {
                    shown.push(at);
                }
            }
        }
    }

    fn passage(&self, shown: &[usize], hits: &LineHits<'_>, chosen: &ChosenTerms) -> Passage {
        let mut found = FoundTerms::default();
        let mut places = Vec::new();
        let mut far = 0.0;
        let mut by_distance: Vec<usize> = shown.to_vec();
        by_distance.sort_by_key(|at| at.abs_diff(self.anchor));
        for at in by_distance {
            let before = found.value(&chosen.weights);
            found.join(&FoundTerms::of(hits.of(at)));
            let distance = at.abs_diff(self.anchor) as u64;
            if distance > 0 {
                let more = found.value(&chosen.weights) - before;
                far += more * (1.0 - nearness(distance.min(NEAR_LINES)));
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
            score: whole.saturating_sub((far * SCORE_UNIT) as u64),
            terms: found.terms(),
            likeness: 0,
            alike: 0,
            is_record: false,
            path: String::new(),
            lines: shown.iter().map(line).collect(),
        }
    }
}

fn add(shown: &mut Vec<usize>, more: impl IntoIterator<Item = usize>) {
    for at in more {
        if shown.len() < MAX_LINES && !shown.contains(&at) {
            shown.push(at);
        }
    }
}

fn fill(shown: &mut Vec<usize>) {
    let (first, last) = (shown[0], shown[shown.len() - 1]);
    if last - first < MAX_LINES {
        *shown = (first..=last).collect();
    }
}

/// The anchor line of a passage, which has the words, and the lines around it.
struct AnchoredLines<'t> {
    lines: Vec<SourceLine<'t>>,
    anchor: usize,
}

impl<'t> AnchoredLines<'t> {
    // Splits `bytes` into whole lines. The line at `start` begins at `anchor` in `bytes`.
    fn split(bytes: &'t [u8], anchor: usize, from: u64, start: LineOffset, ends: bool) -> Self {
        let mut lines = Vec::new();
        let mut at = match memchr::memchr(b'\n', &bytes[..anchor]) {
            Some(newline) if from > 0 => newline + 1,
            _ if from > 0 => anchor,
            _ => 0,
        };
        let newlines = scan::newlines(&bytes[at..anchor]);
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

    fn indent(&self, at: usize) -> usize {
        self.text(at).iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count()
    }

    // Returns up to two lines: the nearest line above the anchor that is indented less, and the
    // nearest line above that which is indented even less.
    fn head(&self) -> Vec<usize> {
        let mut heads = Vec::new();
        let mut indent = self.indent(self.anchor);
        for at in (0..self.anchor).rev().take(3 * MAX_LINES) {
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

    // Returns the lines below the anchor that are indented more.
    fn details(&self) -> Vec<usize> {
        let indent = self.indent(self.anchor);
        let below = self.anchor + 1..self.lines.len();
        below
            .take_while(|at| !self.is_blank(*at) && self.indent(*at) > indent)
            .take(MAX_LINES)
            .collect()
    }

    // Returns the lines of the paragraph, nearest to the anchor first.
    fn paragraph(&self) -> Vec<usize> {
        let blank = |at: &usize| self.is_blank(*at);
        let first = (0..self.anchor).rev().find(blank).map_or(0, |at| at + 1);
        let after = self.anchor + 1..self.lines.len();
        let last = after.clone().find(blank).unwrap_or(self.lines.len());
        if last - first > MAX_PARAGRAPH {
            return Vec::new();
        }
        let mut lines: Vec<usize> = (first..last).collect();
        // Lines below the anchor are more informative than lines above it.
        lines.sort_by_key(|at| {
            let below = *at > self.anchor;
            2 * at.abs_diff(self.anchor) + usize::from(!below)
        });
        lines
    }
}

// A section below a heading. `end` is the line after the section.
struct HeadedSection<'a> {
    around: &'a AnchoredLines<'a>,
    end: usize,
}

impl<'a> HeadedSection<'a> {
    fn below(around: &'a AnchoredLines<'a>) -> Option<Self> {
        let anchor = around.anchor;
        let is_rule = |at: usize| at < around.lines.len() && is_rule(around.text(at));
        let is_heading = |at: usize| is_heading(around.text(at));
        if !is_heading(anchor) && (around.is_blank(anchor) || !is_rule(anchor + 1)) {
            return None;
        }
        let body = anchor + 2..around.lines.len().min(anchor + SECTION_LINES);
        let next = body.clone().find(|at| is_heading(*at) || is_rule(*at));
        Some(Self { around, end: next.unwrap_or(body.end.max(anchor + 1)) })
    }

    fn lines(&self) -> Range<usize> {
        self.around.anchor..self.end
    }

    // Returns the lines of the section, most informative first: errors, then the first lines.
    fn informative(&self) -> Vec<usize> {
        let mut lines = self.errors();
        lines.extend(self.lines().skip(1).filter(|at| !self.around.is_blank(*at)));
        lines
    }

    fn errors(&self) -> Vec<usize> {
        let mut found = error_lines(self.lines().map(|at| self.around.lines[at].text));
        found.sort_by_key(|found| found.rank);
        found.iter().take(SECTION_ERRORS).map(|found| self.around.anchor + found.index).collect()
    }
}

// Returns true for a line that consists of one repeated punctuation mark.
fn is_rule(text: &[u8]) -> bool {
    let text = text.trim_ascii();
    text.len() >= MIN_RULE && mark(text).is_some_and(|mark| text.iter().all(|byte| *byte == mark))
}

// Returns true for words in the middle of a rule: `==== FAILURES ====`.
fn is_heading(text: &[u8]) -> bool {
    let text = text.trim_ascii();
    let Some(mark) = mark(text) else { return false };
    let is_mark = |byte: &&u8| **byte == mark;
    text.iter().take_while(is_mark).count() >= MIN_HEADING_RULE
        && text.iter().rev().take_while(is_mark).count() >= MIN_HEADING_RULE
        && text.iter().any(u8::is_ascii_alphanumeric)
}

fn mark(text: &[u8]) -> Option<u8> {
    text.first().copied().filter(|first| b"=-_*#~".contains(first))
}

/// A stack trace with the lines that announce it. `head` is the line that reports the error, often
/// a log line. `exception` is the line that names the exception, and is often the same line.
struct StackTrace<'a> {
    around: &'a AnchoredLines<'a>,
    head: usize,
    exception: usize,
    last: usize,
}

impl<'a> StackTrace<'a> {
    fn around(around: &'a AnchoredLines<'a>) -> Option<Self> {
        let anchor = around.anchor;
        let top = top(around)?;
        let (head, exception) = announcement(around, top);
        let below = around.lines[exception + 1..].iter().take(context::LONGEST_TRACE);
        let mut last = exception + context::trace_length(below.map(|line| line.text));
        let is_long = top == anchor && last >= anchor + MAX_LINES;
        let has_frames = || (exception..=last).any(|at| is_frame(around.text(at)));
        let is_trace = last >= anchor && (is_long || has_frames());
        // Python names the exception at the end.
        if is_python(around.text(exception)) && last + 1 < around.lines.len() {
            last += 1;
        }
        is_trace.then_some(Self { around, head, exception, last })
    }

    fn lines(&self) -> Range<usize> {
        self.head..self.last + 1
    }

    /// Returns the lines of the trace, most informative first: the report, the innermost cause,
    /// lines with words.
    fn informative(&self, hits: &LineHits<'_>) -> Vec<usize> {
        let below = || self.exception + 1..=self.last;
        let innermost = below().rev().find(|at| is_cause(self.around.text(*at)));
        let unindented = below().next_back().filter(|at| self.around.indent(*at) == 0);
        let cause = innermost.or(unindented);
        let after = cause.map(|at| at + 1).filter(|at| *at <= self.last);
        let mut lines = vec![self.head, self.exception];
        lines.extend(cause.into_iter().chain(after));
        lines.extend(below().filter(|at| !hits.of(*at).is_empty()).take(TRACE_WORD_LINES));
        lines.extend(below());
        lines
    }
}

// Returns true for a line that continues a trace above it.
fn continues(around: &AnchoredLines<'_>, at: usize) -> bool {
    context::trace_length([around.text(at)]) == 1 && !is_python(around.text(at))
}

// Returns the line that the trace around the anchor continues, unless that line is too far above.
fn top(around: &AnchoredLines<'_>) -> Option<usize> {
    if !continues(around, around.anchor) {
        return Some(around.anchor);
    }
    (0..around.anchor).rev().take(context::LONGEST_TRACE).find(|at| !continues(around, *at))
}

// Returns the line that reports the error and the line that names the exception. `top` is one of
// them.
fn announcement(around: &AnchoredLines<'_>, top: usize) -> (usize, usize) {
    let reports = |at: &usize| !around.is_blank(*at) && !continues(around, *at);
    let names = |at: &usize| *at < around.lines.len() && is_exception(around.text(*at));
    if names(&top) {
        return (top.checked_sub(1).filter(reports).unwrap_or(top), top);
    }
    let below = Some(top + 1).filter(|at| top == around.anchor && names(at));
    (top, below.unwrap_or(top))
}

// Returns true for a line that names a cause of the exception above it.
fn is_cause(text: &[u8]) -> bool {
    let text = text.trim_ascii_start();
    text.starts_with(b"Caused by") || text.starts_with(b"Error: ")
}

fn is_python(text: &[u8]) -> bool {
    text.starts_with(b"Traceback (most recent call last)")
}

// Returns true for a stack frame: `at a.B.c(B.java:1)`, `File "x.py", line 3`.
fn is_frame(text: &[u8]) -> bool {
    let text = text.trim_ascii_start();
    let has_place = || text.iter().any(|byte| b"(:".contains(byte));
    text.starts_with(b"File \"") || (text.starts_with(b"at ") && has_place())
}

// Returns true for a line that begins with the name of an exception: `java.io.IOException: x`.
fn is_exception(text: &[u8]) -> bool {
    let name = text.split(|byte| *byte == b':').next().unwrap_or_default();
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"._$".contains(byte);
    name.iter().all(is_name) && (name.ends_with(b"Exception") || name.ends_with(b"Error"))
}

/// The words in some lines. A line is searched only on demand, because a passage needs only a few
/// of the hundreds of lines around an anchor.
struct LineHits<'a> {
    lines: &'a [SourceLine<'a>],
    matcher: &'a Matcher,
    finder: RefCell<&'a mut Finder>,
    known: Vec<OnceCell<Vec<Hit>>>,
}

impl<'a> LineHits<'a> {
    fn new(lines: &'a [SourceLine<'a>], matcher: &'a Matcher, finder: &'a mut Finder) -> Self {
        let known = vec![OnceCell::new(); lines.len()];
        Self { lines, matcher, finder: RefCell::new(finder), known }
    }

    fn of(&self, at: usize) -> &[Hit] {
        self.known[at].get_or_init(|| {
            let mut finder = self.finder.borrow_mut();
            self.matcher.find(&mut finder, self.lines[at].text, false).to_vec()
        })
    }
}
