//! The lines around an error, read from the content.

use std::io;

use crate::model::Content;
use crate::model::ErrorLine;
use crate::view::errors::trace;

/// Bytes read on either side of an error line. A line that does not end within them ends what is
/// shown.
const AROUND: usize = 32 << 10;
/// Lines shown before an error, and after it if no more belong to it.
const CONTEXT: usize = 3;
/// Most lines that are shown after an error.
const LONGEST: usize = 24;

/// A line without its newline.
pub(super) struct NearbyLine {
    pub(super) number: u64,
    pub(super) text: Vec<u8>,
    /// True if `text` is all of it.
    pub(super) ends: bool,
}

/// An error line, with the lines before it and those that belong to it.
pub(super) struct Nearby {
    /// In order.
    pub(super) lines: Vec<NearbyLine>,
    /// True if more lines belong to it than are shown.
    pub(super) continues: bool,
}

/// Reads the lines around the error line `at`.
pub(super) fn around(content: &dyn Content, at: &ErrorLine) -> io::Result<Nearby> {
    let mut lines = before(content, at)?;
    let bytes = content.bytes(at.offset, AROUND)?;
    let complete = at.offset + bytes.len() as u64 == content.len();
    let (own, mut after) = split(&bytes, complete);
    let long = own.len() == bytes.len() && !complete;
    lines.push(NearbyLine { number: at.line, text: own.to_vec(), ends: !long });
    after.truncate(if long { 0 } else { after.len() });
    let belong = trace::length(after.iter().copied());
    let shown = belong.clamp(paragraph(&after), LONGEST);
    let numbers = at.line + 1..;
    let line =
        |(number, text): (u64, &[u8])| NearbyLine { number, text: text.to_vec(), ends: true };
    lines.extend(numbers.zip(after.into_iter().take(shown)).map(line));
    Ok(Nearby { lines, continues: belong > LONGEST })
}

/// Returns the number of lines that are shown after an error if none belongs to it: a few, over at
/// most one blank line.
fn paragraph(after: &[&[u8]]) -> usize {
    let blank = |line: &&[u8]| line.trim_ascii().is_empty();
    let (mut length, mut blanks) = (0, 0);
    for (line, at) in after.iter().zip(1..=CONTEXT + 1) {
        blanks += usize::from(blank(line));
        if blanks > 1 || at - blanks > CONTEXT {
            break;
        }
        length = if blank(line) { length } else { at };
    }
    length
}

fn before(content: &dyn Content, at: &ErrorLine) -> io::Result<Vec<NearbyLine>> {
    let start = at.offset.saturating_sub(AROUND as u64);
    let length = usize::try_from(at.offset - start).unwrap_or(AROUND);
    let bytes = content.bytes(start, length)?;
    let Some(bytes) = bytes.strip_suffix(b"\n") else { return Ok(Vec::new()) };
    let mut lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    if start > 0 {
        lines.remove(0);
    }
    let from = lines.len().saturating_sub(CONTEXT);
    let first = at.line - (lines.len() - from) as u64;
    let line =
        |(number, text): (u64, &&[u8])| NearbyLine { number, text: text.to_vec(), ends: true };
    Ok((first..).zip(&lines[from..]).map(line).collect())
}

/// Returns the first line of `bytes`, and the complete lines after it. If `complete`, the last one
/// is complete too.
fn split(bytes: &[u8], complete: bool) -> (&[u8], Vec<&[u8]>) {
    let mut lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    let first = lines.remove(0);
    if lines.last().is_some_and(|last| !complete || last.is_empty()) {
        lines.pop();
    }
    (first, lines)
}
