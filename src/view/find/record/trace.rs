use std::ops::Range;

use crate::errors::trace;
use crate::find::record::around::{Around, MOST};
use crate::find::record::line_hits::LineHits;

// Lines with words that are shown of a trace, beside the most informative ones.
const WITH_WORDS: usize = 2;

/// A stack trace with the lines that announce it: `head` reports the error, often in a log, and
/// `exception` names it. They are often the same line.
pub(super) struct Trace<'a> {
    around: &'a Around<'a>,
    head: usize,
    exception: usize,
    last: usize,
}

impl<'a> Trace<'a> {
    /// Returns the trace that the anchor is part of.
    pub(super) fn around(around: &'a Around<'a>) -> Option<Self> {
        let anchor = around.anchor;
        let top = top(around)?;
        let (head, exception) = announcement(around, top);
        let below = around.lines[exception + 1..].iter().take(trace::LONGEST);
        let mut last = exception + trace::length(below.map(|line| line.text));
        let is_long = top == anchor && last >= anchor + MOST;
        let has_frames = || (exception..=last).any(|at| is_frame(around.text(at)));
        let is_trace = last >= anchor && (is_long || has_frames());
        // Python names the exception at the end.
        if is_python(around.text(exception)) && last + 1 < around.lines.len() {
            last += 1;
        }
        is_trace.then_some(Self { around, head, exception, last })
    }

    pub(super) fn lines(&self) -> Range<usize> {
        self.head..self.last + 1
    }

    /// Returns the lines of the trace, the most informative first: the report, the innermost cause,
    /// lines with words.
    pub(super) fn telling(&self, hits: &LineHits<'_>) -> Vec<usize> {
        let below = || self.exception + 1..=self.last;
        let innermost = below().rev().find(|at| is_cause(self.around.text(*at)));
        let unindented = below().next_back().filter(|at| self.around.indent(*at) == 0);
        let cause = innermost.or(unindented);
        let after = cause.map(|at| at + 1).filter(|at| *at <= self.last);
        let mut lines = vec![self.head, self.exception];
        lines.extend(cause.into_iter().chain(after));
        lines.extend(below().filter(|at| !hits.of(*at).is_empty()).take(WITH_WORDS));
        lines.extend(below());
        lines
    }
}

// A line that continues a trace above it.
fn continues(around: &Around<'_>, at: usize) -> bool {
    trace::length([around.text(at)]) == 1 && !is_python(around.text(at))
}

// The line that the trace around the anchor continues, unless it is too far above.
fn top(around: &Around<'_>) -> Option<usize> {
    if !continues(around, around.anchor) {
        return Some(around.anchor);
    }
    (0..around.anchor).rev().take(trace::LONGEST).find(|at| !continues(around, *at))
}

// The line that reports the error, and the one that names the exception; `top` is one of them.
fn announcement(around: &Around<'_>, top: usize) -> (usize, usize) {
    let reports = |at: &usize| !around.is_blank(*at) && !continues(around, *at);
    let names = |at: &usize| *at < around.lines.len() && is_exception(around.text(*at));
    if names(&top) {
        return (top.checked_sub(1).filter(reports).unwrap_or(top), top);
    }
    let below = Some(top + 1).filter(|at| top == around.anchor && names(at));
    (top, below.unwrap_or(top))
}

// A line that names a cause of the exception before it.
fn is_cause(text: &[u8]) -> bool {
    let text = text.trim_ascii_start();
    text.starts_with(b"Caused by") || text.starts_with(b"Error: ")
}

fn is_python(text: &[u8]) -> bool {
    text.starts_with(b"Traceback (most recent call last)")
}

// The line of a call: `at a.B.c(B.java:1)`, `File "x.py", line 3`.
fn is_frame(text: &[u8]) -> bool {
    let text = text.trim_ascii_start();
    let has_place = || text.iter().any(|byte| b"(:".contains(byte));
    text.starts_with(b"File \"") || (text.starts_with(b"at ") && has_place())
}

// A line that begins with the name of an exception: `java.io.IOException: x`.
fn is_exception(text: &[u8]) -> bool {
    let name = text.split(|byte| *byte == b':').next().unwrap_or_default();
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"._$".contains(byte);
    name.iter().all(is_name) && (name.ends_with(b"Exception") || name.ends_with(b"Error"))
}
