//! The lines around an error, read from the content.

use std::io;

use crate::materialize::ErrorMatch;
use crate::model::Content;
use crate::view::errors::trace;

/// Bytes read on either side of an error line. A line that does not end within them ends what is
/// shown.
const AROUND: usize = 32 << 10;
/// Lines shown before and after an error, if there are as many.
const CONTEXT: usize = 3;

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

/// Reads the lines around the error line `seen`.
pub(super) fn around(content: &dyn Content, seen: &ErrorMatch) -> io::Result<Nearby> {
    let mut lines = before(content, seen)?;
    let bytes = content.bytes(seen.at.offset, AROUND)?;
    let complete = seen.at.offset + bytes.len() as u64 == content.len();
    let (own, mut after) = split(&bytes, complete);
    let long = own.len() == bytes.len() && !complete;
    lines.push(NearbyLine { number: seen.at.line, text: own.to_vec(), ends: !long });
    after.truncate(if long { 0 } else { after.len() });
    let belong = trace::length(after.iter().copied());
    let shown = belong.clamp(CONTEXT, trace::LONGEST);
    let numbers = seen.at.line + 1..;
    let line =
        |(number, text): (u64, &[u8])| NearbyLine { number, text: text.to_vec(), ends: true };
    lines.extend(numbers.zip(after.into_iter().take(shown)).map(line));
    Ok(Nearby { lines, continues: belong > trace::LONGEST })
}

/// Returns true if there are lines between two error lines, all of which belong to the first.
pub(super) fn belong_together(
    content: &dyn Content,
    first: &ErrorMatch,
    second: &ErrorMatch,
) -> io::Result<bool> {
    let between = second.at.line - first.at.line - 1;
    let length = second.at.offset - first.at.offset;
    if between == 0 || between > trace::LONGEST as u64 || length > AROUND as u64 {
        return Ok(false);
    }
    let bytes = content.bytes(first.at.offset, usize::try_from(length).unwrap_or(AROUND))?;
    let (_, between_lines) = split(&bytes, false);
    // An additional indented line stands for the second: a blank line may come before it.
    let lines = between_lines.into_iter().chain([b" second".as_slice()]);
    Ok(trace::length(lines) as u64 > between)
}

fn before(content: &dyn Content, seen: &ErrorMatch) -> io::Result<Vec<NearbyLine>> {
    let start = seen.at.offset.saturating_sub(AROUND as u64);
    let length = usize::try_from(seen.at.offset - start).unwrap_or(AROUND);
    let bytes = content.bytes(start, length)?;
    let Some(bytes) = bytes.strip_suffix(b"\n") else { return Ok(Vec::new()) };
    let mut lines: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    if start > 0 {
        lines.remove(0);
    }
    let from = lines.len().saturating_sub(CONTEXT);
    let first = seen.at.line - (lines.len() - from) as u64;
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
