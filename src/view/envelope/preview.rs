//! The part of an output that an envelope shows.

use std::io;

use bstr::ByteSlice as _;

use crate::model::Content;
use crate::model::Direction;
use crate::model::Limits;
use crate::view::number::counted;
use crate::view::number::grouped;

/// Bytes that a character may take beyond the place where it begins.
const REST_OF_CHAR: usize = 3;
/// Bytes and lines that the mark between head and tail takes at most.
const MARK_BYTES: u64 = 100;
const MARK_LINES: u64 = 1;
/// The mark counts where the limit is so many times what it takes; below, it comes on top.
const MARK_COUNTS: u64 = 10;

/// What is kept of an output, from one end or both.
///
/// Lines are kept whole as far as they fit. A line that does not fit alone is cut between two
/// characters. Bytes that are not UTF-8 are shown as U+FFFD, and take the room of that.
pub(super) struct EnvelopePreview {
    head: PreviewEnd,
    tail: PreviewEnd,
    /// Whether a mark stands between head and tail.
    marked: bool,
    /// Of the output, where they were counted.
    lines: Option<u64>,
    bytes: u64,
}

#[derive(Default)]
struct PreviewEnd {
    text: String,
    lines: u64,
    /// Bytes of the output that `text` shows.
    bytes: u64,
    /// The only line in it is cut.
    partial: bool,
}

#[derive(Clone, Copy)]
struct PreviewBudget {
    lines: u64,
    bytes: usize,
}

impl EnvelopePreview {
    /// Most bytes that are shown, whatever the limits say: they are held in memory.
    pub(super) const MOST_BYTES: u64 = 16 << 20;

    /// As much as fits of an output of so many lines, where they were counted.
    pub(super) fn some(
        content: &dyn Content,
        lines: Option<u64>,
        limits: &Limits,
    ) -> io::Result<Self> {
        let (head, tail) = rooms(limits);
        let (head, tail) = (first(content, head)?, last(content, tail)?);
        let marked = limits.direction == Direction::HeadTail;
        Ok(Self { head, tail, marked, lines, bytes: content.len() })
    }

    /// All of an output of at most [`EnvelopePreview::MOST_BYTES`].
    pub(super) fn all(content: &dyn Content, lines: u64) -> io::Result<Self> {
        let bytes = content.bytes(0, Self::MOST_BYTES as usize)?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let head = PreviewEnd { text, lines, bytes: bytes.len() as u64, partial: false };
        Ok(Self { head, ..Self::none(content, Some(lines)) })
    }

    /// Nothing of an output that is not text.
    pub(super) fn none(content: &dyn Content, lines: Option<u64>) -> Self {
        let (head, tail) = (PreviewEnd::default(), PreviewEnd::default());
        Self { head, tail, marked: false, lines, bytes: content.len() }
    }

    /// Lines of the output that are shown, cut ones too.
    pub(super) fn lines(&self) -> u64 {
        let same = self.lines == Some(1) && self.head.lines + self.tail.lines == 2;
        self.head.lines + self.tail.lines - u64::from(same)
    }

    /// Bytes of the output that are shown.
    pub(super) fn bytes(&self) -> u64 {
        self.head.bytes + self.tail.bytes
    }

    /// `the first 10 lines and the last 9 lines: 872 of 182,345 bytes, 19 of 5,234 lines`.
    pub(super) fn told(&self) -> String {
        let parts = [("first", &self.head), ("last", &self.tail)].into_iter();
        let parts = parts.filter(|(_, part)| part.bytes > 0).map(|(end, part)| part.told(end));
        let parts = parts.collect::<Vec<String>>().join(" and ");
        let bytes = format!("{} of {}", grouped(self.bytes()), counted(self.bytes, "byte"));
        let partial = self.head.partial || self.tail.partial;
        let lines = self
            .lines
            .filter(|_| !partial)
            .map(|lines| format!(", {} of {}", grouped(self.lines()), counted(lines, "line")));
        format!("{parts}: {bytes}{}", lines.unwrap_or_default())
    }

    /// Head and tail, with a mark between them where there may be both.
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
    fn told(&self, end: &str) -> String {
        match self.lines {
            _ if self.partial => format!("a part of the {end} line"),
            1 => format!("the {end} line"),
            lines => format!("the {end} {} lines", grouped(lines)),
        }
    }
}

/// What head and tail may take.
fn rooms(limits: &Limits) -> (PreviewBudget, PreviewBudget) {
    let bytes = limits.max_bytes.min(EnvelopePreview::MOST_BYTES);
    let room = |lines, bytes: u64| PreviewBudget { lines, bytes: bytes as usize };
    let none = room(0, 0);
    match limits.direction {
        Direction::Head => (room(limits.max_lines, bytes), none),
        Direction::Tail => (none, room(limits.max_lines, bytes)),
        Direction::HeadTail => {
            let lines = less(limits.max_lines, MARK_LINES);
            let bytes = less(bytes, MARK_BYTES);
            (room(lines.div_ceil(2), bytes.div_ceil(2)), room(lines / 2, bytes / 2))
        }
    }
}

fn less(limit: u64, mark: u64) -> u64 {
    if limit >= MARK_COUNTS * mark { limit - mark } else { limit }
}

/// The first lines that fit.
fn first(content: &dyn Content, room: PreviewBudget) -> io::Result<PreviewEnd> {
    let block = block(content, 0, room)?;
    let mut builder = PreviewBuilder::new(room);
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

/// The last lines that fit.
fn last(content: &dyn Content, room: PreviewBudget) -> io::Result<PreviewEnd> {
    let from = content.len().saturating_sub((room.bytes + REST_OF_CHAR) as u64);
    let block = block(content, from, room)?;
    let mut builder = PreviewBuilder::new(room);
    for (start, end, c) in block.char_indices().rev() {
        // A newline at the very end closes the last line; any other one ends the line before.
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

fn block(content: &dyn Content, from: u64, room: PreviewBudget) -> io::Result<Vec<u8>> {
    if room.lines == 0 || room.bytes == 0 {
        return Ok(Vec::new());
    }
    content.bytes(from, room.bytes + REST_OF_CHAR)
}

/// Takes characters, in whichever direction, until there is no room.
struct PreviewBuilder {
    room: PreviewBudget,
    part: PreviewEnd,
    /// Bytes of text and of the output when the last line ended.
    whole: (usize, u64),
    full: bool,
}

impl PreviewBuilder {
    fn new(room: PreviewBudget) -> Self {
        Self { room, part: PreviewEnd::default(), whole: (0, 0), full: false }
    }

    /// Whether there was room for `c`, with which so many bytes of the output are shown.
    fn take(&mut self, c: char, bytes: usize) -> bool {
        self.full = self.part.text.len() + c.len_utf8() > self.room.bytes;
        if !self.full {
            self.part.text.push(c);
            self.part.bytes = bytes as u64;
        }
        !self.full
    }

    /// Whether there is room for another line.
    fn end_line(&mut self) -> bool {
        self.part.lines += 1;
        self.whole = (self.part.text.len(), self.part.bytes);
        self.part.lines < self.room.lines
    }

    /// Gives up the beginning of a line that did not fit, unless it is all there is.
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
