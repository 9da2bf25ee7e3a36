//! The part of an output that an envelope shows.

use std::io;

use bstr::ByteSlice as _;

use crate::number::{counted, grouped};
use ctxfs_core::model::{Content, Direction, Limits};

const REST_OF_CHAR: usize = 3;
const MARK_BYTES: u64 = 100;
const MARK_LINES: u64 = 1;
// The mark between head and tail counts towards a limit only if the limit is at least this many
// times the size of the mark. Otherwise the mark would leave little room for content.
const MARK_COUNTS: u64 = 10;

/// The part of an output that an envelope shows: its head, its tail or both.
///
/// Lines are kept whole as far as they fit. A line that does not fit even alone is cut between two
/// characters. A byte that is not UTF-8 is shown as U+FFFD and counts as three bytes.
pub(super) struct EnvelopePreview {
    head: PreviewEnd,
    tail: PreviewEnd,
    marked: bool,
    lines: Option<u64>,
    bytes: u64,
}

#[derive(Default)]
struct PreviewEnd {
    text: String,
    lines: u64,
    bytes: u64,
    partial: bool,
}

#[derive(Clone, Copy)]
struct PreviewBudget {
    lines: u64,
    bytes: usize,
}

impl EnvelopePreview {
    // Previews are held in memory, so limits of readers are capped at this number of bytes.
    pub(super) const MAX_BYTES: u64 = 16 << 20;

    /// Returns as much of the output as fits. `lines` is the number of lines in the output, if they
    /// were counted.
    pub(super) fn some(
        content: &dyn Content,
        lines: Option<u64>,
        limits: &Limits,
    ) -> io::Result<Self> {
        let (head, tail) = budgets(limits);
        let (head, tail) = (first(content, head)?, last(content, tail)?);
        let marked = limits.direction == Direction::HeadTail;
        Ok(Self { head, tail, marked, lines, bytes: content.len() })
    }

    // Returns the whole output, which has at most `MAX_BYTES` bytes.
    pub(super) fn all(content: &dyn Content, lines: u64) -> io::Result<Self> {
        let bytes = content.bytes(0, Self::MAX_BYTES as usize)?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let head = PreviewEnd { text, lines, bytes: bytes.len() as u64, partial: false };
        Ok(Self { head, ..Self::none(content, Some(lines)) })
    }

    pub(super) fn none(content: &dyn Content, lines: Option<u64>) -> Self {
        let (head, tail) = (PreviewEnd::default(), PreviewEnd::default());
        Self { head, tail, marked: false, lines, bytes: content.len() }
    }

    pub(super) fn lines(&self) -> u64 {
        let same = self.lines == Some(1) && self.head.lines + self.tail.lines == 2;
        self.head.lines + self.tail.lines - u64::from(same)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.head.bytes + self.tail.bytes
    }

    // Describes the preview: `the first 10 lines and the last 9 lines: 872 of 182,345 bytes, 19 of
    // 5,234 lines`.
    pub(super) fn description(&self) -> String {
        let parts = [("first", &self.head), ("last", &self.tail)].into_iter();
        let parts =
            parts.filter(|(_, part)| part.bytes > 0).map(|(end, part)| part.description(end));
        let parts = parts.collect::<Vec<String>>().join(" and ");
        let bytes = format!("{} of {}", grouped(self.bytes()), counted(self.bytes, "byte"));
        let partial = self.head.partial || self.tail.partial;
        let lines = self
            .lines
            .filter(|_| !partial)
            .map(|lines| format!(", {} of {}", grouped(self.lines()), counted(lines, "line")));
        format!("{parts}: {bytes}{}", lines.unwrap_or_default())
    }

    pub(super) fn text(self) -> String {
        if !self.marked {
            return self.head.text + &self.tail.text;
        }
        let bytes = counted(self.bytes - self.bytes(), "byte");
        let hidden = self.lines.map(|lines| lines - self.lines()).filter(|lines| *lines > 0);
        let lines = hidden.map(|lines| counted(lines, "line") + ", ").unwrap_or_default();
        let end = if self.head.text.ends_with('\n') { "" } else { "\n" };
        format!("{}{end}[... {lines}{bytes} not shown ...]\n{}", self.head.text, self.tail.text)
    }
}

impl PreviewEnd {
    fn description(&self, end: &str) -> String {
        match self.lines {
            _ if self.partial => format!("a part of the {end} line"),
            1 => format!("the {end} line"),
            lines => format!("the {end} {} lines", grouped(lines)),
        }
    }
}

fn budgets(limits: &Limits) -> (PreviewBudget, PreviewBudget) {
    let bytes = limits.max_bytes.min(EnvelopePreview::MAX_BYTES);
    let budget = |lines, bytes: u64| PreviewBudget { lines, bytes: bytes as usize };
    let none = budget(0, 0);
    match limits.direction {
        Direction::Head => (budget(limits.max_lines, bytes), none),
        Direction::Tail => (none, budget(limits.max_lines, bytes)),
        Direction::HeadTail => {
            let lines = less(limits.max_lines, MARK_LINES);
            let bytes = less(bytes, MARK_BYTES);
            (budget(lines.div_ceil(2), bytes.div_ceil(2)), budget(lines / 2, bytes / 2))
        }
    }
}

fn less(limit: u64, mark: u64) -> u64 {
    if limit >= MARK_COUNTS * mark { limit - mark } else { limit }
}

fn first(content: &dyn Content, budget: PreviewBudget) -> io::Result<PreviewEnd> {
    let block = block(content, 0, budget)?;
    let mut builder = PreviewBuilder::new(budget);
    for (_, end, c) in block.char_indices() {
        if !builder.take(c, end) {
            break;
        }
        if c == '\n' && !builder.end_line() {
            break;
        }
    }
    Ok(builder.finish())
}

fn last(content: &dyn Content, budget: PreviewBudget) -> io::Result<PreviewEnd> {
    let from = content.len().saturating_sub((budget.bytes + REST_OF_CHAR) as u64);
    let block = block(content, from, budget)?;
    let mut builder = PreviewBuilder::new(budget);
    for (start, end, c) in block.char_indices().rev() {
        // In this direction, a newline completes the line after it. The newline at the very end of
        // the output completes none.
        if c == '\n' && end < block.len() && !builder.end_line() {
            break;
        }
        if !builder.take(c, block.len() - start) {
            break;
        }
    }
    let mut part = builder.finish();
    part.text = part.text.chars().rev().collect();
    Ok(part)
}

fn block(content: &dyn Content, from: u64, budget: PreviewBudget) -> io::Result<Vec<u8>> {
    if budget.lines == 0 || budget.bytes == 0 {
        return Ok(Vec::new());
    }
    content.bytes(from, budget.bytes + REST_OF_CHAR)
}

/// Collects characters in either direction as long as they fit. `whole` describes the text up to
/// the last complete line: its length, and the number of output bytes that it shows.
struct PreviewBuilder {
    budget: PreviewBudget,
    part: PreviewEnd,
    whole: (usize, u64),
    full: bool,
}

impl PreviewBuilder {
    fn new(budget: PreviewBudget) -> Self {
        Self { budget, part: PreviewEnd::default(), whole: (0, 0), full: false }
    }

    fn take(&mut self, c: char, bytes: usize) -> bool {
        self.full = self.part.text.len() + c.len_utf8() > self.budget.bytes;
        if !self.full {
            self.part.text.push(c);
            self.part.bytes = bytes as u64;
        }
        !self.full
    }

    fn end_line(&mut self) -> bool {
        self.part.lines += 1;
        self.whole = (self.part.text.len(), self.part.bytes);
        self.part.lines < self.budget.lines
    }

    fn finish(mut self) -> PreviewEnd {
        let begun = self.part.text.len() > self.whole.0;
        if begun && self.full && self.part.lines > 0 {
            self.part.text.truncate(self.whole.0);
            self.part.bytes = self.whole.1;
        } else if begun {
            self.part.lines += 1;
            self.part.partial = self.full;
        }
        self.part
    }
}
