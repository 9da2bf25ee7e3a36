//! Line positions in a file of any length, and windows over its lines, for a reader that jumps
//! around in the file.
//!
//! The file is read once, in steps, and a mark is kept about every megabyte. To find a line, only
//! the bytes between two marks are read.

use std::io;

use crate::FileId;
use crate::sync::Mutex;
use ctxfs_core::model::{Content, LinesBefore, place_before_line};
use ctxfs_store::Stat;

/// Initial distance between two marks, in bytes.
const SPACING: u64 = 1 << 20;
/// Maximum number of marks of a file. At the limit, every other mark is dropped.
const MOST: usize = 4096;
const STEP: u64 = 8 << 20;
const BLOCK: usize = 1 << 20;
/// Number of bytes that are compared at the start of a file, and before the end of the counted
/// part, to detect that the file has changed.
const KNOWN: usize = 256;

/// The part of a file whose lines are counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LineCount {
    pub bytes: u64,
    pub newlines: u64,
}

#[derive(Default)]
pub(crate) struct LineIndex(Mutex<LineMarks>);

/// The marks of a file, and facts that show whether the file has only grown since it was last seen.
///
/// - `seen`: the identity, length and modification time of the file when it was last seen. `None`
///   if it was never seen.
/// - `places`: the marks, in ascending order: an offset and the number of newlines before it
/// - `start`: the first bytes of the file. `end` holds the last bytes that were counted.
#[derive(Default)]
struct LineMarks {
    seen: Option<(FileId, u64, i64)>,
    spacing: u64,
    places: Vec<(u64, u64)>,
    counted: LineCount,
    start: Vec<u8>,
    end: Vec<u8>,
}

impl LineIndex {
    /// Prepares the index for the file that has the attributes `stat` and the bytes `content`.
    /// Keeps the counts if the file has only grown since it was last seen, and drops them
    /// otherwise.
    pub(crate) fn meet(&self, stat: &Stat, content: &dyn Content) -> io::Result<()> {
        let seen = (FileId::of(stat), stat.size, stat.mtime.as_nanos());
        let mut marks = self.0.lock();
        if marks.seen == Some(seen) {
            return Ok(());
        }
        if !marks.still_holds(seen.0, content)? {
            *marks = LineMarks { spacing: SPACING, ..LineMarks::default() };
        }
        marks.seen = Some(seen);
        Ok(())
    }

    pub(crate) fn counted(&self) -> LineCount {
        self.0.lock().counted
    }

    pub(crate) fn step(&self, content: &dyn Content) -> io::Result<LineCount> {
        let known = content.lines_before(content.len())?;
        let mut marks = self.0.lock();
        marks.take(known);
        let goal = content.len().min(marks.counted.bytes.saturating_add(STEP));
        let mut block = vec![0; BLOCK];
        while marks.counted.bytes < goal {
            let most = block.len().min((goal - marks.counted.bytes) as usize);
            let got = content.read_at(marks.counted.bytes, &mut block[..most])?;
            if got == 0 {
                break;
            }
            marks.push(&block[..got]);
        }
        Ok(marks.counted)
    }

    /// Returns the offset of `line`, counted from 1. `None` if the lines before it are not counted
    /// yet.
    pub(crate) fn offset_of(&self, content: &dyn Content, line: u64) -> io::Result<Option<u64>> {
        let newlines = line.saturating_sub(1);
        if newlines == 0 {
            return Ok(Some(0));
        }
        let known = place_before_line(content, newlines)?;
        let (mut offset, before) = {
            let marks = self.0.lock();
            if marks.counted.newlines < newlines && known.offset == 0 {
                return Ok(None);
            }
            marks.mark(|mark| mark.1 < newlines).max((known.offset, known.newlines))
        };
        let mut missing = newlines - before;
        let mut block = vec![0; BLOCK];
        loop {
            let got = content.read_at(offset, &mut block)?;
            let nth = usize::try_from(missing - 1).unwrap_or(usize::MAX);
            if let Some(at) = memchr::memchr_iter(b'\n', &block[..got]).nth(nth) {
                return Ok(Some(offset + at as u64 + 1));
            }
            if got == 0 {
                return Ok(None);
            }
            missing -= newlines_in(&block[..got]);
            offset += got as u64;
        }
    }

    /// Returns the number of the line that contains the byte at `offset`. `None` if the bytes
    /// before it are not counted yet.
    pub(crate) fn line_at(&self, content: &dyn Content, offset: u64) -> io::Result<Option<u64>> {
        let known = content.lines_before(offset)?;
        let (mut at, mut newlines) = {
            let marks = self.0.lock();
            if marks.counted.bytes < offset && known.offset == 0 {
                return Ok(None);
            }
            marks.mark(|mark| mark.0 <= offset).max((known.offset, known.newlines))
        };
        let mut block = vec![0; BLOCK];
        while at < offset {
            let most = block.len().min((offset - at) as usize);
            let got = content.read_at(at, &mut block[..most])?;
            if got == 0 {
                return Ok(None);
            }
            newlines += newlines_in(&block[..got]);
            at += got as u64;
        }
        Ok(Some(newlines + 1))
    }
}

impl LineMarks {
    fn mark(&self, is_before: impl Fn(&(u64, u64)) -> bool) -> (u64, u64) {
        let past = self.places.partition_point(is_before);
        past.checked_sub(1).map_or((0, 0), |at| self.places[at])
    }

    fn still_holds(&self, file: FileId, content: &dyn Content) -> io::Result<bool> {
        let is_same = self.seen.is_some_and(|(seen, ..)| seen == file);
        if !is_same || content.len() < self.counted.bytes {
            return Ok(false);
        }
        let end = self.counted.bytes - self.end.len() as u64;
        Ok(content.bytes(0, self.start.len())? == self.start
            && content.bytes(end, self.end.len())? == self.end)
    }

    /// Adopts `known`, a line position that the content supplied, if it is beyond the counted part.
    fn take(&mut self, known: LinesBefore) {
        if known.offset > self.counted.bytes {
            self.counted = LineCount { bytes: known.offset, newlines: known.newlines };
            self.end.clear();
        }
    }

    fn push(&mut self, bytes: &[u8]) {
        if self.counted.bytes == self.start.len() as u64 {
            let room = KNOWN.saturating_sub(self.start.len()).min(bytes.len());
            self.start.extend_from_slice(&bytes[..room]);
        }
        self.end = bytes[bytes.len().saturating_sub(KNOWN)..].to_vec();
        self.counted.bytes += bytes.len() as u64;
        self.counted.newlines += newlines_in(bytes);
        let last = self.places.last().map_or(0, |mark| mark.0);
        if self.counted.bytes < last + self.spacing {
            return;
        }
        if self.places.len() == MOST {
            let mut number = 0;
            self.places.retain(|_| {
                number += 1;
                number % 2 == 0
            });
            self.spacing *= 2;
        }
        self.places.push((self.counted.bytes, self.counted.newlines));
    }
}

fn newlines_in(bytes: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', bytes).count() as u64
}

const WINDOW_ROWS: usize = 200;
const WINDOW_BYTES: usize = 64 << 10;
/// Maximum number of bytes of a row. A longer line has several rows.
const ROW_BYTES: usize = 16 << 10;
/// Maximum distance in bytes from an offset back to the beginning of its line. The bytes are
/// searched in steps of `BLOCK`.
const FARTHEST_BACK: u64 = 64 << 20;

/// A line, or a part of a long line.
///
/// - `offset`: the offset of the first byte
/// - `column`: number of bytes of the line before this row. `None` if the line begins too far back
///   to be found.
/// - `bytes`: the bytes of the row, without a newline
/// - `ends_line`: true if a newline follows the row
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineRow {
    pub offset: u64,
    pub column: Option<u64>,
    pub bytes: Vec<u8>,
    pub ends_line: bool,
}

/// Consecutive rows of a file, enough to fill a screen. The number of bytes is bounded, regardless
/// of the lengths of the lines.
///
/// - `start`: the offset of the first row
/// - `end`: the offset after the last row and its newline
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineWindow {
    pub rows: Vec<LineRow>,
    pub start: u64,
    pub end: u64,
}

pub(crate) fn forward(content: &dyn Content, offset: u64) -> io::Result<LineWindow> {
    let start = offset.min(content.len());
    // Includes the rest of a character that the last row would cut.
    let bytes = content.bytes(start, WINDOW_BYTES + 4)?;
    let ends = start + bytes.len() as u64 >= content.len();
    let column = column_of(content, start)?;
    Ok(split(&bytes, start, column, ends, WINDOW_ROWS))
}

pub(crate) fn backward(content: &dyn Content, offset: u64) -> io::Result<LineWindow> {
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

/// Returns the beginning of the line that contains the byte at `offset`. If the line begins too far
/// back, returns an offset in the line; a window that starts there shows that byte.
pub(crate) fn row_start(content: &dyn Content, offset: u64) -> io::Result<u64> {
    let offset = offset.min(content.len());
    let from = offset.saturating_sub(ROW_BYTES as u64);
    let bytes = content.bytes(from, (offset - from) as usize)?;
    Ok(match memchr::memrchr(b'\n', &bytes) {
        Some(at) => from + at as u64 + 1,
        None if from == 0 => 0,
        None => from + char_start(&bytes) as u64,
    })
}

fn column_of(content: &dyn Content, offset: u64) -> io::Result<Option<u64>> {
    let earliest = offset.saturating_sub(FARTHEST_BACK);
    let mut at = offset;
    while at > earliest {
        // In nearly all cases the preceding byte ends a line.
        let length = if at == offset { 1 } else { (BLOCK as u64).min(at - earliest) };
        let from = at - length;
        let bytes = content.bytes(from, length as usize)?;
        if let Some(newline) = memchr::memrchr(b'\n', &bytes) {
            return Ok(Some(offset - (from + newline as u64 + 1)));
        }
        at = from;
    }
    Ok((at == 0).then_some(offset))
}

/// Splits `bytes` into rows. The bytes begin at the offset `start`, in `column` of their line.
/// `ends` is true if the content ends with the bytes. Otherwise an incomplete last line is left
/// out, unless it is the only line.
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

/// Returns the largest index up to `at` at which a character begins. Returns `at` if no character
/// begins nearby.
fn char_floor(bytes: &[u8], at: usize) -> usize {
    let near = (at.saturating_sub(3)..=at).rev();
    near.into_iter().find(|at| bytes.get(*at).is_none_or(|byte| !is_inside(*byte))).unwrap_or(at)
}

/// Returns the first index at which a character begins. Returns 0 if no character begins nearby.
fn char_start(bytes: &[u8]) -> usize {
    bytes.iter().take(4).position(|byte| !is_inside(*byte)).unwrap_or(0)
}

fn is_inside(byte: u8) -> bool {
    byte & 0xc0 == 0x80
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use ctxfs_store::Time;

    fn stat(size: usize, seconds: i64) -> Stat {
        let mtime = Time { seconds, nanos: 0 };
        Stat { size: size as u64, mtime, ..Stat::imagined() }
    }

    fn counted(index: &LineIndex, content: &[u8], seconds: i64) -> LineCount {
        let content = content.to_vec();
        index.meet(&stat(content.len(), seconds), &content).unwrap();
        loop {
            let before = index.counted();
            if index.step(&content).unwrap() == before {
                return before;
            }
        }
    }

    fn sample(lines: u64) -> Vec<u8> {
        (1..=lines).flat_map(|line| format!("line {line}\n").into_bytes()).collect()
    }

    #[test]
    fn lines_are_found_by_number_and_by_offset() {
        let content = sample(1_000_000);
        let index = LineIndex::default();
        assert_eq!(index.offset_of(&content, 1).unwrap(), Some(0));
        assert_eq!(index.offset_of(&content, 2).unwrap(), None, "nothing is counted");
        assert_eq!(counted(&index, &content, 1).newlines, 1_000_000);
        for line in [1, 2, 77, 99_999, 131_072, 999_999, 1_000_000] {
            let offset = index.offset_of(&content, line).unwrap().unwrap();
            let text = content.bytes(offset, 20).unwrap();
            assert!(text.starts_with(format!("line {line}\n").as_bytes()), "{line}");
            assert_eq!(index.line_at(&content, offset).unwrap(), Some(line));
            assert_eq!(index.line_at(&content, offset + 3).unwrap(), Some(line));
        }
        let end = content.len() as u64;
        assert_eq!(index.offset_of(&content, 1_000_001).unwrap(), Some(end));
        assert_eq!(index.offset_of(&content, 1_000_002).unwrap(), None);
    }

    #[test]
    fn what_grows_is_counted_on_and_what_changes_is_counted_anew() {
        let index = LineIndex::default();
        let mut content = sample(1000);
        assert_eq!(counted(&index, &content, 1).newlines, 1000);
        content.extend(sample(10));
        index.meet(&stat(content.len(), 2), &content).unwrap();
        assert_eq!(index.counted().newlines, 1000, "kept");
        assert_eq!(counted(&index, &content, 2).newlines, 1010);
        let other = b"\n".repeat(content.len());
        index.meet(&stat(other.len(), 3), &other).unwrap();
        assert_eq!(index.counted(), LineCount::default());
        assert_eq!(counted(&index, b"a\nb", 4), LineCount { bytes: 3, newlines: 1 });
    }

    #[test]
    fn marks_are_bounded() {
        let mut marks = LineMarks { spacing: 1, ..LineMarks::default() };
        for _ in 0..3 * MOST {
            marks.push(b"x\n");
        }
        assert!(marks.places.len() <= MOST);
        assert!(marks.spacing > 1);
        assert_eq!(marks.mark(|mark| mark.0 <= 5000).0 % 2, 0);
    }

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
        /// Consecutive windows show each byte once, forwards and backwards.
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
