//! Reads JSON within a line in bounded memory: spans of values, and the text of strings.

use std::cell::Cell;
use std::io::{self, BufRead, Read};
use std::ops::Range;

use crate::message::BLOCK;
use ctxfs_core::model::Content;

/// Maximum nesting depth of brackets in a message. This is the limit of `serde_json`.
const DEEPEST: u32 = 128;
const LONGEST_NAME: u64 = 64 << 10;
const FIRST_BLOCK: usize = 1 << 10;
const LOST: &str = "\u{fffd}";
const ROOM: usize = 64 << 10;

pub(super) type LineSpan = Range<u64>;

pub(super) struct SpanReader<'a> {
    content: &'a dyn Content,
    left: LineSpan,
    block: Vec<u8>,
    used: usize,
    /// Length of the next block. The first blocks are short, because many readers stop early.
    next_block: usize,
}

impl<'a> SpanReader<'a> {
    pub(super) fn new(content: &'a dyn Content, span: LineSpan) -> Self {
        Self { content, left: span, block: Vec::new(), used: 0, next_block: FIRST_BLOCK }
    }

    pub(super) fn next(&mut self) -> io::Result<Option<u8>> {
        let byte = self.fill_buf()?.first().copied();
        self.used += usize::from(byte.is_some());
        Ok(byte)
    }
}

impl BufRead for SpanReader<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.used == self.block.len() && !self.left.is_empty() {
            let length = (self.next_block as u64).min(self.left.end - self.left.start) as usize;
            self.next_block = (4 * self.next_block).min(BLOCK);
            self.block = self.content.bytes(self.left.start, length)?;
            self.used = 0;
            if self.block.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.left.start += self.block.len() as u64;
        }
        Ok(&self.block[self.used..])
    }

    fn consume(&mut self, count: usize) {
        self.used += count;
    }
}

impl Read for SpanReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let at_hand = self.fill_buf()?;
        let count = buffer.len().min(at_hand.len());
        buffer[..count].copy_from_slice(&at_hand[..count]);
        self.used += count;
        Ok(count)
    }
}

/// A reader that tracks the position of a parser to the byte. It fails on input for which the
/// parser would need unbounded memory: deeply nested brackets and very long member names.
pub(super) struct BoundedReader<'a> {
    inner: SpanReader<'a>,
    position: &'a Cell<u64>,
    depth: u32,
    string: InString,
    /// True if a string at this position would be the name of a member of the outermost object.
    names: bool,
    name_began: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum InString {
    No,
    Yes,
    Escaped,
}

impl<'a> BoundedReader<'a> {
    pub(super) fn new(inner: SpanReader<'a>, position: &'a Cell<u64>) -> Self {
        Self { inner, position, depth: 0, string: InString::No, names: false, name_began: 0 }
    }

    fn see(&mut self, byte: u8) -> io::Result<()> {
        let at = self.position.get() + 1;
        self.position.set(at);
        if self.string == InString::No {
            self.see_outside(byte, at);
        } else {
            self.string = match (self.string, byte) {
                (InString::Yes, b'\\') => InString::Escaped,
                (InString::Yes, b'"') => InString::No,
                _ => InString::Yes,
            };
        }
        let endless =
            self.names && self.string != InString::No && at - self.name_began > LONGEST_NAME;
        if endless || self.depth > DEEPEST {
            return Err(io::Error::other("too many brackets, or too long a name"));
        }
        Ok(())
    }

    fn see_outside(&mut self, byte: u8, at: u64) {
        match byte {
            b'"' => (self.string, self.name_began) = (InString::Yes, at),
            b'{' | b'[' => {
                self.depth += 1;
                self.names = self.depth == 1;
            }
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            b',' => self.names = self.depth == 1,
            b':' => self.names = false,
            _ => {}
        }
    }
}

impl Read for BoundedReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(first) = buffer.first_mut() else { return Ok(0) };
        let Some(byte) = self.inner.next()? else { return Ok(0) };
        self.see(byte)?;
        *first = byte;
        Ok(1)
    }
}

/// A reader of the text of a JSON string. The string must be valid and include its quotes.
///
/// JSON can contain one half of a surrogate pair, which is not a character. Such a half is read as
/// U+FFFD.
pub(super) struct JsonStringReader<'a> {
    string: SpanReader<'a>,
    ready: Vec<u8>,
    used: usize,
    /// A high surrogate whose low surrogate has not been read yet.
    high: Option<u16>,
    ended: bool,
}

impl<'a> JsonStringReader<'a> {
    pub(super) fn new(mut string: SpanReader<'a>) -> io::Result<Self> {
        while string.next()?.is_some_and(|byte| byte != b'"') {}
        Ok(Self { string, ready: Vec::new(), used: 0, high: None, ended: false })
    }

    fn decode(&mut self) -> io::Result<()> {
        self.ready.clear();
        self.used = 0;
        while self.ready.len() < ROOM && !self.ended {
            let at_hand = self.string.fill_buf()?;
            let plain = memchr::memchr2(b'"', b'\\', at_hand).unwrap_or(at_hand.len());
            if plain > 0 {
                self.ready.extend(self.high.take().into_iter().flat_map(|_| LOST.as_bytes()));
                self.ready.extend_from_slice(&at_hand[..plain]);
                self.string.consume(plain);
                continue;
            }
            match self.string.next()?.ok_or(io::ErrorKind::UnexpectedEof)? {
                b'"' => {
                    self.end_pair();
                    self.ended = true;
                }
                _ => self.escape()?,
            }
        }
        Ok(())
    }

    fn escape(&mut self) -> io::Result<()> {
        let byte = match self.string.next()?.ok_or(io::ErrorKind::UnexpectedEof)? {
            b'u' => return self.unit(),
            b'b' => 0x08,
            b'f' => 0x0c,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            same => same,
        };
        self.end_pair();
        self.ready.push(byte);
        Ok(())
    }

    fn unit(&mut self) -> io::Result<()> {
        let mut digits = [0; 4];
        self.string.read_exact(&mut digits)?;
        let unit = unit_of(digits)?;
        match (self.high.take(), unit) {
            (Some(high), 0xdc00..=0xdfff) => self.push(&[high, unit]),
            (high, unit) => {
                self.push(high.as_slice());
                match unit {
                    0xd800..=0xdbff => self.high = Some(unit),
                    unit => self.push(&[unit]),
                }
            }
        }
        Ok(())
    }

    fn end_pair(&mut self) {
        self.ready.extend(self.high.take().into_iter().flat_map(|_| LOST.as_bytes()));
    }

    fn push(&mut self, units: &[u16]) {
        self.ready.extend_from_slice(String::from_utf16_lossy(units).as_bytes());
    }
}

/// Converts offsets in the text of a string to offsets in the line. The offsets must be in
/// ascending order, and each must be directly before an ASCII character.
pub(super) fn places_in_line(
    line: &dyn Content,
    string: &LineSpan,
    places: &[u64],
) -> io::Result<Vec<u64>> {
    let mut reader = SpanReader::new(line, string.clone());
    let mut at = string.start;
    while reader.next()?.is_some_and(|byte| byte != b'"') {
        at += 1;
    }
    let mut walk = PlaceWalk { reader, at: at + 1, text: 0, high: false };
    places.iter().map(|place| walk.to(*place)).collect()
}

struct PlaceWalk<'a> {
    reader: SpanReader<'a>,
    at: u64,
    /// Number of bytes of text so far. A high surrogate whose low surrogate has not been read yet
    /// is not counted.
    text: u64,
    high: bool,
}

impl PlaceWalk<'_> {
    fn to(&mut self, place: u64) -> io::Result<u64> {
        while self.text + self.lost() < place {
            self.step()?;
        }
        Ok(self.at)
    }

    fn step(&mut self) -> io::Result<()> {
        if self.next()? != b'\\' {
            self.pass(1, 1);
        } else if self.next()? != b'u' {
            self.pass(2, 1);
        } else {
            let mut digits = [0; 4];
            self.reader.read_exact(&mut digits)?;
            self.pass_unit(unit_of(digits)?);
        }
        Ok(())
    }

    fn next(&mut self) -> io::Result<u8> {
        self.reader.next()?.ok_or(io::ErrorKind::UnexpectedEof.into())
    }

    fn pass_unit(&mut self, unit: u16) {
        match unit {
            0xdc00..=0xdfff if self.high => {
                self.high = false;
                self.pass(6, 4);
            }
            0xd800..=0xdbff => {
                self.pass(6, 0);
                self.high = true;
            }
            0..0x80 => self.pass(6, 1),
            0x80..0x800 => self.pass(6, 2),
            _ => self.pass(6, 3),
        }
    }

    fn pass(&mut self, bytes: u64, text: u64) {
        self.at += bytes;
        self.text += self.lost() + text;
        self.high = false;
    }

    /// Returns the length of the text for an unpaired surrogate, if the last unit read is a high
    /// surrogate; otherwise 0.
    fn lost(&self) -> u64 {
        if self.high { LOST.len() as u64 } else { 0 }
    }
}

fn unit_of(digits: [u8; 4]) -> io::Result<u16> {
    let digits = str::from_utf8(&digits).map_err(io::Error::other)?;
    u16::from_str_radix(digits, 16).map_err(io::Error::other)
}

impl Read for JsonStringReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.used == self.ready.len() {
            self.decode()?;
        }
        let count = buffer.len().min(self.ready.len() - self.used);
        buffer[..count].copy_from_slice(&self.ready[self.used..self.used + count]);
        self.used += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::LogLine;

    fn text(json: &str) -> String {
        let line = LogLine::from(json.as_bytes().to_vec());
        let mut text = String::new();
        let reader = JsonStringReader::new(SpanReader::new(&line, 0..line.len())).unwrap();
        { reader }.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn escapes_are_what_they_stand_for() {
        for json in [
            r#""""#,
            r#"  "plain""#,
            r#""a\"b\\c\/d\b\f\n\r\t""#,
            r#""\u0041\u00e9\u20ac\ud83d\ude00x""#,
            "\"\u{20ac}\u{1f600}\"",
        ] {
            assert_eq!(text(json), serde_json::from_str::<String>(json).unwrap(), "{json}");
        }
        let long = format!("\"{}\"", "\\n\u{20ac}x".repeat(100_000));
        assert_eq!(text(&long), serde_json::from_str::<String>(&long).unwrap());
    }

    #[test]
    fn places_are_found_in_the_line() {
        let json =
            r#"  "a\u003cb\ud83d\ude00<\ud83d<\ude00<\n<\u00e9<\u20ac<\ud83d\ud83d\ude00<\ud83d""#;
        let json = json.replace("\\n<", "\\n\u{20ac}<");
        let line = LogLine::from(json.as_bytes().to_vec());
        let text = text(&json);
        let in_text: Vec<u64> = text.match_indices('<').map(|(at, _)| at as u64).collect();
        let escaped = |(at, _): (usize, &str)| at as u64;
        let mut in_line: Vec<u64> = json.match_indices('<').map(escaped).collect();
        in_line.extend(json.match_indices("\\u003c").map(escaped));
        in_line.sort_unstable();
        assert_eq!(places_in_line(&line, &(0..line.len()), &in_text).unwrap(), in_line);
        let end = places_in_line(&line, &(0..line.len()), &[text.len() as u64]).unwrap();
        assert_eq!(end, [json.len() as u64 - 1]);
        assert!(places_in_line(&line, &(0..line.len()), &[text.len() as u64 + 9]).is_err());
    }

    #[test]
    fn half_a_pair_is_a_replacement() {
        for json in [r#""a\ud83dx""#, r#""a\ude00x""#, r#""a\ud83d\nx""#, r#""a\ud83d""#] {
            let end = json.strip_prefix("\"a").unwrap();
            let expected = format!("a\u{fffd}{}", if end.contains("\\n") { "\nx" } else { "x" });
            let expected = if json.ends_with("d\"") { "a\u{fffd}" } else { &expected };
            assert_eq!(text(json), expected, "{json}");
        }
        assert_eq!(text(r#""\ud83d\ud83d\ude00""#), "\u{fffd}\u{1f600}");
    }
}
