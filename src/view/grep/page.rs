//! The text of a result: the places where it can be cut, and the windows of long lines around each
//! match.

use std::fmt::Display;
use std::io;
use std::io::Write;
use std::ops::Range;

use crate::range::TextPosition;
use crate::scan::{continues, forward};
use ctxfs_core::model::Limits;

// If the size has no limit, this many bytes are collected before they are written.
const FLUSH_BYTES: usize = 64 << 10;
// Marks omitted text.
const CUT_MARK: &[u8] = b"...";
// Number of characters shown before a match.
const CHARS_BEFORE: usize = 120;
// Number of characters in a window, without the marks of its cuts.
const WINDOW_CHARS: usize = Limits::LINE_CHARS - 2 * CUT_MARK.len();

/// A place where a result can end. `length` is the number of bytes of the result before it, and
/// `from` is the position where another search can continue. `shown` is the number of matching
/// lines before the place, including a line that is shown in part. `torn` is true if a match before
/// the place lacks some of its context.
///
/// In a result for many artifacts, `artifact` is the number of the current artifact, `shown` counts
/// only its lines, and `before` is the number of matching lines in earlier artifacts.
#[derive(Clone, Copy)]
pub(crate) struct CutPoint {
    pub(super) length: usize,
    pub(super) artifact: usize,
    pub(super) before: u64,
    pub(crate) from: TextPosition,
    pub(crate) shown: u64,
    torn: bool,
}

impl CutPoint {
    pub(super) fn before(artifact: usize, length: usize, lines: u64) -> Self {
        let from = TextPosition { line: 1, column: 1 };
        Self { length, artifact, before: lines, from, shown: 0, torn: false }
    }

    /// Converts this place in the result for a single artifact into the place in a result for many
    /// artifacts. `artifact` is the number of the single artifact. The results for earlier
    /// artifacts have `length` bytes and `lines` matching lines.
    pub(super) fn of(self, artifact: usize, length: usize, lines: u64) -> Self {
        Self { length: self.length + length, artifact, before: lines, ..self }
    }
}

/// Returns the last place within `budget` bytes that separates no match from its context. If there
/// is none, returns the last place within the budget, or else the first place of all.
pub(super) fn latest(cuts: &[CutPoint], budget: usize) -> Option<CutPoint> {
    let fits = |cut: &&CutPoint| 0 < cut.length && cut.length <= budget;
    let mut latest = cuts.iter().rev().filter(fits);
    let cut = latest.clone().find(|cut| !cut.torn).or_else(|| latest.next());
    cut.or(cuts.first()).copied()
}

/// The text of a result so far. Without a size limit it is written immediately. With a limit,
/// everything beyond the limit is dropped. `name` is the prefix of each line: the path of the
/// artifact, or empty.
pub(crate) struct Page<'a> {
    out: &'a mut dyn Write,
    name: &'a [u8],
    text: Vec<u8>,
    cuts: Vec<CutPoint>,
    endless: bool,
    most: usize,
    // True once the text exceeds its limit, or if all text is dropped.
    pub(super) full: bool,
    pub(super) failed: bool,
}

impl<'a> Page<'a> {
    pub(crate) fn new(out: &'a mut dyn Write, endless: bool) -> Self {
        let (text, cuts, most) = (Vec::new(), Vec::new(), Limits::VIEW_BYTES);
        Self { out, name: b"", text, cuts, endless, most, full: false, failed: false }
    }

    pub(super) fn at_most(self, bytes: usize) -> Self {
        Self { most: bytes, ..self }
    }

    pub(super) fn of(self, name: &'a [u8]) -> Self {
        Self { name, ..self }
    }

    // Returns the text that was not written, and the places where it can be cut.
    pub(super) fn into_text(self) -> (Vec<u8>, Vec<CutPoint>) {
        (self.text, self.cuts)
    }

    pub(crate) fn cut(&mut self, from: TextPosition, shown: u64, torn: bool) {
        if !self.endless && !self.full {
            let length = self.text.len();
            self.cuts.push(CutPoint { length, artifact: 0, before: 0, from, shown, torn });
        }
    }

    // Adds a line as ripgrep prints it: `number:text`.
    pub(crate) fn push_line(
        &mut self,
        number: impl Display,
        mark: u8,
        text: &[u8],
    ) -> io::Result<()> {
        if self.full {
            return Ok(());
        }
        if !self.name.is_empty() {
            self.text.extend_from_slice(self.name);
            self.text.push(mark);
        }
        write!(self.text, "{number}")?;
        self.text.push(mark);
        self.text.extend_from_slice(text);
        self.push(b"\n")
    }

    // Adds a line as ripgrep prints it with `-N`: `text`.
    pub(crate) fn push_text(&mut self, mark: u8, text: &[u8]) -> io::Result<()> {
        if !self.full && !self.name.is_empty() {
            self.text.extend_from_slice(self.name);
            self.text.push(mark);
        }
        self.push(text)?;
        self.push(b"\n")
    }

    pub(crate) fn push(&mut self, text: &[u8]) -> io::Result<()> {
        if self.full {
            return Ok(());
        }
        self.text.extend_from_slice(text);
        if self.endless && self.text.len() >= FLUSH_BYTES {
            self.flush()?;
        }
        self.full = !self.endless && self.text.len() > self.most;
        Ok(())
    }

    // Cuts a result that exceeded its limit to at most `budget` bytes. Returns the place of the
    // cut.
    pub(crate) fn shorten(&mut self, budget: usize) -> Option<CutPoint> {
        if !self.full || self.text.len() <= budget {
            return None;
        }
        let cut = latest(&self.cuts, budget)?;
        self.text.truncate(cut.length);
        Some(cut)
    }

    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.out.write_all(&self.text).inspect_err(|_| self.failed = true)?;
        self.text.clear();
        Ok(())
    }
}

pub(crate) fn is_long(line: &[u8]) -> bool {
    line.len() > Limits::LINE_CHARS && forward(line, 0, Limits::LINE_CHARS) < line.len()
}

pub(crate) fn window(line: &[u8], at: usize) -> Range<usize> {
    let start = back(line, at, CHARS_BEFORE);
    let end = forward(line, start, WINDOW_CHARS);
    if end < line.len() {
        start..end
    } else {
        back(line, line.len(), WINDOW_CHARS).min(start)..line.len()
    }
}

// Returns `range` of `line`, with a mark on each side where the line continues.
pub(crate) fn excerpt(line: &[u8], range: &Range<usize>, inside: bool, ends: bool) -> Vec<u8> {
    let mut text = Vec::with_capacity(range.len() + 2 * CUT_MARK.len());
    if inside || range.start > 0 {
        text.extend_from_slice(CUT_MARK);
    }
    text.extend_from_slice(&line[range.clone()]);
    if !ends || range.end < line.len() {
        text.extend_from_slice(CUT_MARK);
    }
    text
}

/// Returns the notice that explains positions such as `12@345`, which stand before the windows of a
/// long line. `name` is the name of its artifact with a colon, or empty.
pub(crate) fn long_lines(name: &str, at: TextPosition) -> String {
    let TextPosition { line, column } = at;
    format!("some lines are long: {name}{line}@{column} is line {line} at byte column {column}")
}

// Returns the offset `count` characters before `at`.
fn back(line: &[u8], at: usize, count: usize) -> usize {
    let least = at.saturating_sub(4 * count);
    let starts = line[least..at].iter().enumerate().rev().filter(|(_, byte)| !continues(**byte));
    starts.map(|(index, _)| least + index).nth(count.saturating_sub(1)).unwrap_or(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_counted_not_bytes() {
        assert!(!is_long("\u{e9}".repeat(500).as_bytes()));
        assert!(is_long("\u{e9}".repeat(501).as_bytes()));
        assert!(!is_long(&[b'x'; 500]));
        assert!(is_long(&[b'x'; 501]));
        assert!(is_long(&[0x80; 2001]));
    }

    #[test]
    fn windows_lie_around_the_match() {
        let line = [b'x'; 10_000];
        assert_eq!(window(&line, 5000), 4880..5374);
        assert_eq!(window(&line, 10), 0..494);
        assert_eq!(window(&line, 9990), 9506..10_000);
        let line = "\u{20ac}".repeat(1000);
        let window = window(line.as_bytes(), 1500);
        assert_eq!(line[window].chars().count(), WINDOW_CHARS);
    }

    #[test]
    fn cuts_are_marked() {
        let line = b"0123456789";
        assert_eq!(excerpt(line, &(2..4), false, true), b"...23...");
        assert_eq!(excerpt(line, &(0..10), false, true), line);
        assert_eq!(excerpt(line, &(0..10), true, false), b"...0123456789...");
    }
}
