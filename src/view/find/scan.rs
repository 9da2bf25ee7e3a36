//! Passes over content from start to end, and finds the lines that may contain the searched words.

use std::io;

use bstr::ByteSlice as _;

use crate::find::matcher::Matcher;
use ctxfs_core::model::Content;

// A longer line is passed in pieces.
pub(super) const PIECE: usize = 16 << 10;
// A piece ends between two words if there is a gap within this many bytes of its end.
const PIECE_MARGIN: usize = 512;
// In shorter content, every line is assumed to have a word: searching the lines takes less time
// than building the pattern for candidates.
const SHORT_CONTENT: u64 = 16 << 10;
// Number of bytes that are read at once.
pub(super) const BLOCK_BYTES: usize = 256 << 10;
// Number of bytes that are read first to find the end of the last line.
const AHEAD_BYTES: usize = 4 << 10;

/// A line without its newline, or a piece of a long line. `line` is the line number, from 1.
/// `column` is the byte column of the start, from 0.
pub(super) struct LineSegment<'t> {
    pub(super) text: &'t [u8],
    pub(super) offset: u64,
    pub(super) line: u64,
    pub(super) column: u64,
    pub(super) is_line: bool,
}

/// The extent of a pass: the number of bytes read and the number of newlines in them. If time ran
/// out, the pass ended before the end of the content.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PassExtent {
    pub(super) newlines: u64,
    pub(super) bytes: u64,
    pub(super) out_of_time: bool,
}

struct LineScan<'a, F> {
    matcher: Option<&'a Matcher>,
    each: F,
    line: u64,
    column: u64,
}

/// Calls `each` with every line of `content` that contains a word of `matcher`, and possibly with
/// some lines that do not. Without a matcher, calls `each` with all lines. Ends with the line that
/// contains the byte at offset `last`. The lines do not depend on `block`, the number of bytes that
/// are read at once.
pub(super) fn scan(
    (content, last): (&dyn Content, u64),
    matcher: Option<&Matcher>,
    expired: &dyn Fn() -> bool,
    block: usize,
    each: impl FnMut(&LineSegment<'_>),
) -> io::Result<PassExtent> {
    let matcher = matcher.filter(|_| content.len() > SHORT_CONTENT);
    let mut stream = ContentStream::new(content, last, expired, block);
    let mut walk = LineScan { matcher, each, line: 1, column: 0 };
    while stream.fill()? {
        let used = walk.take(stream.rest(), stream.offset(), false);
        stream.skip(used);
    }
    let stopped = stream.stopped();
    if stopped.is_none() {
        walk.take(stream.rest(), stream.offset(), true);
    }
    Ok(PassExtent {
        newlines: walk.line - 1,
        bytes: stopped.unwrap_or(stream.end()),
        out_of_time: stopped.is_some(),
    })
}

impl<F: FnMut(&LineSegment<'_>)> LineScan<'_, F> {
    /// Consumes the complete segments in `bytes`, which begin at `offset`. If `ends` is true,
    /// consumes all bytes. Returns the number of bytes consumed.
    fn take(&mut self, bytes: &[u8], offset: u64, ends: bool) -> usize {
        let mut at = 0;
        while at < bytes.len() {
            if self.column == 0 {
                at = self.jump(bytes, at, ends);
            }
            let Some(used) = self.segment(&bytes[at..], offset + at as u64, ends) else { break };
            at += used;
        }
        at
    }

    // Skips whole lines that cannot have a word. Returns the start of the first line that can.
    fn jump(&mut self, bytes: &[u8], at: usize, ends: bool) -> usize {
        let Some(matcher) = self.matcher else { return at };
        let whole = memchr::memrchr(b'\n', &bytes[at..]).map_or(at, |last| at + last + 1);
        let lines = if ends { bytes } else { &bytes[..whole] };
        let start = match first_candidate(matcher, lines, at) {
            Some(found) => {
                memchr::memrchr(b'\n', &bytes[at..found]).map_or(at, |last| at + last + 1)
            }
            None => lines.len().max(at),
        };
        self.line += crate::scan::newlines(&bytes[at..start]);
        start
    }

    // Passes the first line of `bytes`, or a piece of it, to `each`, unless it has no word. Returns
    // the number of bytes consumed, or `None` if more bytes have to be read first.
    fn segment(&mut self, bytes: &[u8], offset: u64, ends: bool) -> Option<usize> {
        if bytes.is_empty() {
            return None;
        }
        let newline = memchr::memchr(b'\n', &bytes[..bytes.len().min(PIECE + PIECE_MARGIN + 1)]);
        let known = newline.unwrap_or(bytes.len());
        let (line, column) = (self.line, self.column);
        if newline.is_none() && known < PIECE + PIECE_MARGIN && !ends {
            return None;
        }
        let is_piece = known > PIECE;
        let length = if is_piece { piece(&bytes[..known]) } else { known };
        let is_line = column == 0 && !is_piece;
        if is_piece || newline.is_none() {
            self.column += length as u64;
        } else {
            (self.line, self.column) = (line + 1, 0);
        }
        let text = &bytes[..length];
        let may_hold = |matcher: &Matcher| first_candidate(matcher, text, 0).is_some();
        if self.matcher.is_none_or(may_hold) {
            (self.each)(&LineSegment { text, offset, line, column, is_line });
        }
        Some(length + usize::from(!is_piece && newline.is_some()))
    }
}

pub(super) fn first_candidate(matcher: &Matcher, text: &[u8], at: usize) -> Option<usize> {
    let found = matcher.candidate(text, at);
    let before = &text[at.min(text.len())..found.unwrap_or(text.len())];
    before.find_non_ascii_byte().map(|other| at + other).or(found)
}

// Returns the length of the first piece of a line that is longer than a piece.
fn piece(line: &[u8]) -> usize {
    let margin = &line[PIECE..line.len().min(PIECE + PIECE_MARGIN)];
    let is_gap = |byte: &u8| byte.is_ascii() && !byte.is_ascii_alphanumeric() && *byte != b'\\';
    margin.iter().position(is_gap).map_or(PIECE, |gap| PIECE + gap)
}

/// The bytes of `content` that were read and not consumed yet, up to the end of the line that
/// contains the byte at offset `last`. Reads block by block, and stops when time runs out.
pub(super) struct ContentStream<'a> {
    content: &'a dyn Content,
    expired: &'a dyn Fn() -> bool,
    block: usize,
    buffer: Vec<u8>,
    filled: usize,
    used: usize,
    // The offset of the first byte of the buffer.
    start: u64,
    last: u64,
    // Number of bytes that are read at once after `last`.
    ahead: usize,
    ended: bool,
    out_of_time: bool,
}

impl<'a> ContentStream<'a> {
    pub(super) fn new(
        content: &'a dyn Content,
        last: u64,
        expired: &'a dyn Fn() -> bool,
        block: usize,
    ) -> Self {
        Self {
            content,
            expired,
            block,
            buffer: Vec::new(),
            filled: 0,
            used: 0,
            start: 0,
            last,
            ahead: AHEAD_BYTES.min(block),
            ended: false,
            out_of_time: false,
        }
    }

    pub(super) fn rest(&self) -> &[u8] {
        &self.buffer[self.used..self.filled]
    }

    pub(super) fn offset(&self) -> u64 {
        self.start + self.used as u64
    }

    pub(super) fn skip(&mut self, count: usize) {
        self.used += count;
    }

    // Reads one more block. Returns false at the end, and when time has run out.
    pub(super) fn fill(&mut self) -> io::Result<bool> {
        if self.ended {
            return Ok(false);
        }
        self.out_of_time = (self.expired)();
        if self.out_of_time {
            self.ended = true;
            return Ok(false);
        }
        self.buffer.copy_within(self.used..self.filled, 0);
        self.start += self.used as u64;
        self.filled -= self.used;
        self.used = 0;
        let offset = self.start + self.filled as u64;
        let before = self.last.saturating_add(1).saturating_sub(offset);
        let most = if before > 0 {
            before.min(self.block as u64)
        } else {
            self.ahead = (2 * self.ahead).min(self.block);
            self.ahead as u64
        };
        let most = self.content.len().saturating_sub(offset).min(most) as usize;
        if self.buffer.len() < self.filled + most {
            self.buffer.resize(self.filled + most, 0);
        }
        let new = &mut self.buffer[self.filled..self.filled + most];
        let count = self.content.read_at(offset, new)?;
        let from = usize::try_from(self.last.saturating_sub(offset)).unwrap_or(count).min(count);
        let end = memchr::memchr(b'\n', &new[from..count]).map(|at| from + at + 1);
        self.filled += end.unwrap_or(count);
        self.ended = count == 0 || end.is_some();
        Ok(count > 0)
    }

    pub(super) fn end(&self) -> u64 {
        self.start + self.filled as u64
    }

    pub(super) fn stopped(&self) -> Option<u64> {
        self.out_of_time.then(|| self.offset())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    use crate::find::matcher::Term;

    /// Returns the line, column and text of each segment, and the number of newlines.
    fn segments(text: &[u8], word: Option<&str>, block: usize) -> (Vec<(u64, u64, Vec<u8>)>, u64) {
        let matcher = word.map(|word| Matcher::new(vec![Term::new(word, 0).unwrap()]));
        let mut found = Vec::new();
        let content = text.to_vec();
        let extent = scan((&content, u64::MAX), matcher.as_ref(), &|| false, block, |segment| {
            let end = segment.offset as usize + segment.text.len();
            assert_eq!(&text[segment.offset as usize..end], segment.text);
            found.push((segment.line, segment.column, segment.text.to_vec()));
        });
        (found, extent.unwrap().newlines)
    }

    #[test]
    fn lines_with_words_are_found() {
        let text = "one\ntwo retries\n\n\u{fc}\nretry\nend";
        let long = format!("{text}{}", "\nno word of it".repeat(2000));
        let (found, newlines) = segments(long.as_bytes(), Some("retried"), 7);
        let lines: Vec<u64> = found.iter().map(|found| found.0).collect();
        assert_eq!((lines, newlines), (vec![2, 4, 5], 2005));
        for word in [None, Some("retried")] {
            assert_eq!(segments(text.as_bytes(), word, 7).0.len(), 6, "a short text is not sifted");
        }
    }

    #[test]
    fn long_lines_come_in_pieces() {
        let line = "word ".repeat(10_000);
        let text = format!("a\n{line}needle\nneedle");
        let (found, _) = segments(text.as_bytes(), Some("needle"), 1000);
        let places: Vec<(u64, u64)> = found.iter().map(|found| (found.0, found.1)).collect();
        assert_eq!(places.len(), 2);
        assert_eq!(places[0].0, 2);
        assert!(places[0].1 > 0 && found[0].2.ends_with(b"needle"));
        assert_eq!(places[1], (3, 0));
        let (all, _) = segments(text.as_bytes(), None, 1000);
        let joined: Vec<u8> =
            all.iter().filter(|found| found.0 == 2).flat_map(|it| it.2.clone()).collect();
        assert_eq!(joined.len(), line.len() + 6);
    }

    #[test]
    fn time_can_run_out() {
        let text = b"a\nb\n".to_vec();
        let extent = scan((&text, u64::MAX), None, &|| true, 2, |_| panic!("too late")).unwrap();
        assert!(extent.out_of_time && extent.bytes == 0);
    }

    proptest! {
        #[test]
        fn blocks_do_not_matter(
            lines in proptest::collection::vec((0usize..40_000, "[a-z \u{e9}]{0,20}"), 0..6),
            block in 1usize..50_000,
        ) {
            let line = |(many, word): &(usize, String)| {
                ["x ".repeat(many / 2).as_str(), word, " retry\n"].concat()
            };
            let text: String = lines.iter().map(line).collect();
            for word in [None, Some("retry"), Some("absent")] {
                let want = segments(text.as_bytes(), word, 1 << 20);
                prop_assert_eq!(segments(text.as_bytes(), word, block.max(16)), want);
            }
        }
    }
}
