//! A window over the lines of a file: as many as a screen shows, whatever their lengths.

use std::io;

use ctxfs_core::model::Content;

/// The most rows of a window.
pub const WINDOW_ROWS: usize = 200;
/// The most bytes of a window.
const WINDOW_BYTES: usize = 64 << 10;
/// The most bytes of a row. A longer line has several.
const ROW_BYTES: usize = 16 << 10;
/// Bytes before an offset in which the beginning of its line is looked for.
const FARTHEST_BACK: u64 = 64 << 20;
/// Bytes that are read at once on the way back.
const BLOCK: u64 = 1 << 20;

/// A row: a line, or a part of a long one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineRow {
    /// The offset of its first byte.
    pub offset: u64,
    /// The bytes of its line before it; `None` if its line begins too far away to be found.
    pub column: Option<u64>,
    /// Its bytes, without a newline.
    pub bytes: Vec<u8>,
    /// True if its line ends with it, by a newline.
    pub ends_line: bool,
}

/// Some rows that follow each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineWindow {
    /// The rows.
    pub rows: Vec<LineRow>,
    /// The offset of the first row.
    pub start: u64,
    /// The offset of what follows the last one.
    pub end: u64,
}

/// Returns the rows from the one that begins at `offset` on.
pub(super) fn forward(content: &dyn Content, offset: u64) -> io::Result<LineWindow> {
    let start = offset.min(content.len());
    // With the character at the end of the last row.
    let bytes = content.bytes(start, WINDOW_BYTES + 4)?;
    let ends = start + bytes.len() as u64 >= content.len();
    let column = column_of(content, start)?;
    Ok(split(&bytes, start, column, ends, WINDOW_ROWS))
}

/// Returns the last rows before `offset`, where a row begins or the content ends.
pub(super) fn backward(content: &dyn Content, offset: u64) -> io::Result<LineWindow> {
    let offset = offset.min(content.len());
    let from = offset.saturating_sub(WINDOW_BYTES as u64);
    let bytes = content.bytes(from, (offset - from) as usize)?;
    let inner = &bytes[..bytes.len().saturating_sub(1)];
    let skipped = match memchr::memchr(b'\n', inner) {
        _ if from == 0 => 0,
        Some(at) => at + 1,
        None => char_start(&bytes),
    };
    let start = from + skipped as u64;
    let column = column_of(content, start)?;
    let mut window = split(&bytes[skipped..], start, column, true, usize::MAX);
    let dropped = window.rows.len().saturating_sub(WINDOW_ROWS);
    window.rows.drain(..dropped);
    window.start = window.rows.first().map_or(offset, |row| row.offset);
    Ok(window)
}

/// Returns the beginning of the line that the byte at `offset` is in, or of the part of it from
/// which a window can show that byte.
pub(super) fn row_start(content: &dyn Content, offset: u64) -> io::Result<u64> {
    let offset = offset.min(content.len());
    let from = offset.saturating_sub(ROW_BYTES as u64);
    let bytes = content.bytes(from, (offset - from) as usize)?;
    Ok(match memchr::memrchr(b'\n', &bytes) {
        Some(at) => from + at as u64 + 1,
        None if from == 0 => 0,
        None => from + char_start(&bytes) as u64,
    })
}

/// Returns the bytes between the beginning of a line and `offset` in it.
fn column_of(content: &dyn Content, offset: u64) -> io::Result<Option<u64>> {
    let earliest = offset.saturating_sub(FARTHEST_BACK);
    let mut at = offset;
    while at > earliest {
        // Nearly always the byte before ends a line.
        let length = if at == offset { 1 } else { BLOCK.min(at - earliest) };
        let from = at - length;
        let bytes = content.bytes(from, length as usize)?;
        if let Some(newline) = memchr::memrchr(b'\n', &bytes) {
            return Ok(Some(offset - (from + newline as u64 + 1)));
        }
        at = from;
    }
    Ok((at == 0).then_some(offset))
}

/// Splits `bytes`, which begin at `start` in `column` of their line, into rows. If more follows
/// (`ends` is false), a last line without its end is left out, unless it is the only one.
fn split(bytes: &[u8], start: u64, mut column: Option<u64>, ends: bool, most: usize) -> LineWindow {
    let (mut rows, mut at) = (Vec::new(), 0);
    while at < bytes.len() && rows.len() < most {
        let rest = &bytes[at..];
        let newline = memchr::memchr(b'\n', &rest[..rest.len().min(ROW_BYTES)]);
        let (length, ends_line) = match newline {
            Some(length) => (length, true),
            None if rest.len() > ROW_BYTES => (char_floor(rest, ROW_BYTES), false),
            None if ends || rows.is_empty() => (rest.len(), false),
            None => break,
        };
        let offset = start + at as u64;
        rows.push(LineRow { offset, column, bytes: rest[..length].to_vec(), ends_line });
        column = if ends_line { Some(0) } else { column.map(|column| column + length as u64) };
        at += length + usize::from(ends_line);
    }
    LineWindow { rows, start, end: start + at as u64 }
}

/// Returns the largest index up to `at` at which a character begins, if one does nearby.
fn char_floor(bytes: &[u8], at: usize) -> usize {
    let near = (at.saturating_sub(3)..=at).rev();
    near.into_iter().find(|at| bytes.get(*at).is_none_or(|byte| !is_inside(*byte))).unwrap_or(at)
}

/// Returns the first index at which a character begins, if one does nearby.
fn char_start(bytes: &[u8]) -> usize {
    bytes.iter().take(4).position(|byte| !is_inside(*byte)).unwrap_or(0)
}

/// Returns true for a byte of UTF-8 that continues a character.
fn is_inside(byte: u8) -> bool {
    byte & 0xc0 == 0x80
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn texts(window: &LineWindow) -> Vec<&[u8]> {
        window.rows.iter().map(|row| &*row.bytes).collect()
    }

    #[test]
    fn windows_are_lines() {
        let content = b"one\n\nthree\nlast".to_vec();
        let window = forward(&content, 4).unwrap();
        assert_eq!(texts(&window), [&b""[..], b"three", b"last"]);
        assert_eq!((window.start, window.end), (4, 15));
        assert!(!window.rows[2].ends_line && window.rows[1].ends_line);
        let window = backward(&content, 15).unwrap();
        assert_eq!(texts(&window), [&b"one"[..], b"", b"three", b"last"]);
        assert_eq!(backward(&content, 4).unwrap().rows.len(), 1);
        assert_eq!(backward(&content, 0).unwrap().rows, []);
        assert_eq!(forward(&content, 99).unwrap().rows, []);
        assert_eq!(row_start(&content, 8).unwrap(), 5);
    }

    #[test]
    fn a_long_line_has_rows_with_columns() {
        let content = ["\u{e9}".repeat(100_000).as_bytes(), b"\nend\n"].concat();
        let window = forward(&content, 0).unwrap();
        assert!(window.rows.len() >= 3);
        assert_eq!(window.rows[1].column, Some(window.rows[0].bytes.len() as u64));
        for row in &window.rows {
            assert!(str::from_utf8(&row.bytes).is_ok(), "cut between characters");
        }
        let window = backward(&content, content.len() as u64).unwrap();
        assert_eq!(window.rows.last().unwrap().bytes, b"end");
        let inside = row_start(&content, 150_001).unwrap();
        let window = forward(&content, inside).unwrap();
        assert_eq!(window.rows[0].column, Some(inside));
    }

    proptest! {
        /// Windows that follow each other show each byte once, forwards and backwards.
        #[test]
        fn nothing_is_left_out(lines in proptest::collection::vec("[a-c]{0,40}", 1..900)) {
            let content = lines.join("\n").into_bytes();
            let length = content.len() as u64;
            let (mut at, mut seen) = (0, Vec::new());
            while at < length {
                let window = forward(&content, at).unwrap();
                prop_assert!(window.end > at);
                for row in window.rows {
                    seen.extend(row.bytes);
                    seen.extend(row.ends_line.then_some(b'\n'));
                }
                at = window.end;
            }
            prop_assert_eq!(&seen, &content);
            let mut at = length;
            while at > 0 {
                let window = backward(&content, at).unwrap();
                prop_assert_eq!(window.end, at);
                prop_assert!(window.start < at);
                at = window.start;
            }
        }
    }
}
