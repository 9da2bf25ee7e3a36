//! Decoding a JSON string in bounded memory.

use std::io;
use std::io::{BufRead as _, Read};

use crate::message::span::{Span, SpanReader};
use ctxfs_core::model::Content;

/// A reader of the text of a JSON string, which is known to be valid and has its quotes.
///
/// JSON can contain half of a surrogate pair, which is not a character. It is read as U+FFFD.
pub(super) struct JsonStringReader<'a> {
    string: SpanReader<'a>,
    /// The decoded bytes.
    ready: Vec<u8>,
    /// The bytes of `ready` that have been read.
    used: usize,
    /// A high surrogate whose other half has not been read.
    high: Option<u16>,
    ended: bool,
}

/// The replacement for half of a pair.
const LOST: &str = "\u{fffd}";
/// The bytes that are decoded at once.
const ROOM: usize = 64 << 10;

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

    /// Reads four hexadecimal digits, which are a UTF-16 code unit.
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

/// Returns the offsets in the line of places in the text of a string, each of which is before an
/// ASCII character. The places are in their order.
pub(super) fn places_in_line(
    line: &dyn Content,
    string: &Span,
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

/// A walk along the bytes of a string.
struct PlaceWalk<'a> {
    reader: SpanReader<'a>,
    /// The offset in the line.
    at: u64,
    /// The bytes of text so far, without a high surrogate whose other half has not been read.
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

    /// Returns the length of the text for half of a pair, if one was read last.
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
