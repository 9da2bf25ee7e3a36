//! The parts of a long line that are shown: a window around each match.

use std::ops::Range;

use crate::range::TextPosition;
use crate::scan::{continues, forward};
use ctxfs_core::model::Limits;

// Marks omitted text.
const CUT_MARK: &[u8] = b"...";
// Number of characters shown before a match.
const CHARS_BEFORE: usize = 120;
// Number of characters in a window, without the marks of its cuts.
const WINDOW_CHARS: usize = Limits::LINE_CHARS - 2 * CUT_MARK.len();

pub(crate) fn is_long(line: &[u8]) -> bool {
    line.len() > Limits::LINE_CHARS && forward(line, 0, Limits::LINE_CHARS) < line.len()
}

pub(crate) fn around(line: &[u8], at: usize) -> Range<usize> {
    let start = back(line, at, CHARS_BEFORE);
    let end = forward(line, start, WINDOW_CHARS);
    if end < line.len() {
        start..end
    } else {
        back(line, line.len(), WINDOW_CHARS).min(start)..line.len()
    }
}

// Returns `range` of `line`, with a mark on each side where the line continues.
pub(crate) fn shown(line: &[u8], range: &Range<usize>, inside: bool, ends: bool) -> Vec<u8> {
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

/// Returns the notice that explains the number of a line that is shown only as windows. `name` is
/// the name of its artifact with a colon, or empty.
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
        assert_eq!(around(&line, 5000), 4880..5374);
        assert_eq!(around(&line, 10), 0..494);
        assert_eq!(around(&line, 9990), 9506..10_000);
        let line = "\u{20ac}".repeat(1000);
        let window = around(line.as_bytes(), 1500);
        assert_eq!(line[window].chars().count(), WINDOW_CHARS);
    }

    #[test]
    fn cuts_are_marked() {
        let line = b"0123456789";
        assert_eq!(shown(line, &(2..4), false, true), b"...23...");
        assert_eq!(shown(line, &(0..10), false, true), line);
        assert_eq!(shown(line, &(0..10), true, false), b"...0123456789...");
    }
}
