use std::ops::Range;

use crate::find::record::around::Around;
use ctxfs_core::materialize::error_lines;

// Lines of a section that are looked at.
const LONGEST: usize = 120;
// Lines of a section that are shown because they look like errors.
const ERRORS: usize = 3;
// The fewest characters of a rule, and of its parts around a heading.
const RULE: usize = 4;
const PART: usize = 3;

/// The section below a heading. `end` is the line after it.
pub(super) struct Section<'a> {
    around: &'a Around<'a>,
    end: usize,
}

impl<'a> Section<'a> {
    /// Returns the section if the anchor is a heading: in a rule, or above one.
    pub(super) fn below(around: &'a Around<'a>) -> Option<Self> {
        let anchor = around.anchor;
        let is_rule = |at: usize| at < around.lines.len() && is_rule(around.text(at));
        let is_heading = |at: usize| is_heading(around.text(at));
        if !is_heading(anchor) && (around.is_blank(anchor) || !is_rule(anchor + 1)) {
            return None;
        }
        let body = anchor + 2..around.lines.len().min(anchor + LONGEST);
        let next = body.clone().find(|at| is_heading(*at) || is_rule(*at));
        Some(Self { around, end: next.unwrap_or(body.end.max(anchor + 1)) })
    }

    pub(super) fn lines(&self) -> Range<usize> {
        self.around.anchor..self.end
    }

    /// Returns the lines of the section, the most informative first: errors, then the first lines.
    pub(super) fn telling(&self) -> Vec<usize> {
        let mut lines = self.errors();
        lines.extend(self.lines().skip(1).filter(|at| !self.around.is_blank(*at)));
        lines
    }

    fn errors(&self) -> Vec<usize> {
        let mut found = error_lines(self.lines().map(|at| self.around.lines[at].text));
        found.sort_by_key(|found| found.rank);
        found.iter().take(ERRORS).map(|found| self.around.anchor + found.index).collect()
    }
}

// A line of nothing but one punctuation mark.
fn is_rule(text: &[u8]) -> bool {
    let text = text.trim_ascii();
    text.len() >= RULE && mark(text).is_some_and(|mark| text.iter().all(|byte| *byte == mark))
}

// Words in the middle of a rule: `==== FAILURES ====`.
fn is_heading(text: &[u8]) -> bool {
    let text = text.trim_ascii();
    let Some(mark) = mark(text) else { return false };
    let is_mark = |byte: &&u8| **byte == mark;
    text.iter().take_while(is_mark).count() >= PART
        && text.iter().rev().take_while(is_mark).count() >= PART
        && text.iter().any(u8::is_ascii_alphanumeric)
}

fn mark(text: &[u8]) -> Option<u8> {
    text.first().copied().filter(|first| b"=-_*#~".contains(first))
}
