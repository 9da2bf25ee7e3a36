//! Checks that a line is a message, finds its members, and reads their JSON in bounded memory.

use std::cell::Cell;
use std::fmt;
use std::io::{self, BufRead, Read};

use serde::de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize as _, Deserializer};

use crate::message::{BLOCK, MessageError};
use ctxfs_core::model::Content;

const ROLES: [&str; 6] = ["system", "developer", "user", "assistant", "tool", "function"];
const WORD: usize = 12;
const SHORT: u64 = 64 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MessageMember {
    Role,
    Content,
    ToolCallId,
    ToolName,
    FullOutputPath,
    Id,
}

const NAMES: [(&str, MessageMember); 6] = [
    ("role", MessageMember::Role),
    ("content", MessageMember::Content),
    ("tool_call_id", MessageMember::ToolCallId),
    ("toolName", MessageMember::ToolName),
    ("fullOutputPath", MessageMember::FullOutputPath),
    ("id", MessageMember::Id),
];

const NAMES_OF_CALLS: [(&str, MessageMember); 5] = [
    ("response", MessageMember::Content),
    ("tool_call_id", MessageMember::ToolCallId),
    ("name", MessageMember::ToolName),
    ("fullOutputPath", MessageMember::FullOutputPath),
    ("id", MessageMember::Id),
];

const NAMES_OF_PARTS: [(&str, MessageMember); 1] = [("text", MessageMember::Content)];

#[derive(Debug, Default)]
pub(super) struct MessageLayout([Option<LineSpan>; NAMES.len()]);

impl MessageLayout {
    /// Reads all of `line` in bounded memory and returns the positions of its members. Fails if the
    /// line is not a message.
    pub(super) fn of(line: &dyn Content) -> Result<Self, MessageError> {
        check_utf8(line)?;
        let position = Cell::new(0);
        let reader = BoundedReader::new(SpanReader::new(line, 0..line.len()), &position);
        let mut json = serde_json::Deserializer::from_reader(reader);
        let visitor = MembersVisitor { names: &NAMES, position: &position };
        let found = json.deserialize_map(visitor).and_then(|found| {
            json.end()?;
            Ok(found)
        });
        let layout = found.map_err(|error| refused(&error))?;
        let role = layout.short(line, MessageMember::Role)?;
        match role.as_deref() {
            Some(role) if ROLES.contains(&role) => Ok(layout),
            // Any other text may be a secret.
            Some(role) if is_word(role) => Err(not_a_message(&format!("its role is {role:?}"))),
            Some(_) => Err(not_a_message("its role is another text")),
            None => Err(not_a_message("it has no role")),
        }
    }

    /// Reads the object of a call in `text`. The object must begin at `start`, but blanks may come
    /// before it. Returns its members and its end, or `None` if there is no such object.
    pub(super) fn of_call(text: &dyn Content, start: u64) -> io::Result<Option<(Self, u64)>> {
        Self::of_object(text, start..text.len(), &NAMES_OF_CALLS)
    }

    pub(super) fn of_part(line: &dyn Content, span: LineSpan) -> io::Result<Option<Self>> {
        Ok(Self::of_object(line, span, &NAMES_OF_PARTS)?.map(|(part, _)| part))
    }

    fn of_object(
        text: &dyn Content,
        span: LineSpan,
        names: &[(&str, MessageMember)],
    ) -> io::Result<Option<(Self, u64)>> {
        let position = Cell::new(span.start);
        let reader = BoundedReader::new(SpanReader::new(text, span), &position);
        let mut json = serde_json::Deserializer::from_reader(reader);
        match json.deserialize_map(MembersVisitor { names, position: &position }) {
            Ok(found) => Ok(Some((found, position.get()))),
            Err(error) => match refused(&error) {
                MessageError::NotAMessage(_) => Ok(None),
                _ => Err(error.into()),
            },
        }
    }

    pub(super) fn span(&self, member: MessageMember) -> Option<&LineSpan> {
        self.0[member as usize].as_ref()
    }

    /// Returns the text of `member`, or `None` if the member is missing or not a string.
    pub(super) fn short(
        &self,
        line: &dyn Content,
        member: MessageMember,
    ) -> Result<Option<String>, MessageError> {
        let Some(span) = self.span(member) else { return Ok(None) };
        if span.end - span.start > SHORT {
            let (name, _) = NAMES[member as usize];
            return Err(not_a_message(&format!("its {name} has more than {SHORT} bytes")));
        }
        let bytes = line.bytes(span.start, (span.end - span.start) as usize)?;
        Ok(serde_json::from_slice(&bytes).ok())
    }
}

/// Checks that all of `line` is UTF-8. The parser does not check the values that it skips.
fn check_utf8(line: &dyn Content) -> Result<(), MessageError> {
    let mut offset = 0;
    while offset < line.len() {
        let block = line.bytes(offset, BLOCK)?;
        offset += match simdutf8::compat::from_utf8(&block) {
            Ok(_) if !block.is_empty() => block.len() as u64,
            // The end of the block splits a character, which starts the next block.
            Err(cut) if cut.error_len().is_none() && cut.valid_up_to() > 0 => {
                cut.valid_up_to() as u64
            }
            Ok(_) | Err(_) => return Err(not_a_message("it is not UTF-8")),
        };
    }
    Ok(())
}

pub(super) fn values_of_list(
    line: &dyn Content,
    span: LineSpan,
    most: usize,
) -> io::Result<Vec<LineSpan>> {
    let position = Cell::new(span.start);
    let reader = BoundedReader::new(SpanReader::new(line, span), &position);
    let mut json = serde_json::Deserializer::from_reader(reader);
    Ok(json.deserialize_seq(ValuesVisitor { most, position: &position })?)
}

struct ValuesVisitor<'a> {
    most: usize,
    position: &'a Cell<u64>,
}

impl<'de> Visitor<'de> for ValuesVisitor<'_> {
    type Value = Vec<LineSpan>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<LineSpan>, A::Error> {
        let mut spans = Vec::new();
        // To find that the list has not ended, the parser has already read the first byte of the
        // value.
        let seed = || ValueSpan { position: self.position, peeked: 1 };
        while let Some(span) = list.next_element_seed(seed())? {
            if spans.len() < self.most {
                spans.push(span);
            }
        }
        Ok(spans)
    }
}

struct MembersVisitor<'a> {
    names: &'a [(&'a str, MessageMember)],
    position: &'a Cell<u64>,
}

impl<'de> Visitor<'de> for MembersVisitor<'_> {
    type Value = MessageLayout;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<MessageLayout, A::Error> {
        let mut layout = MessageLayout::default();
        while let Some(name) = map.next_key::<String>()? {
            let span = map.next_value_seed(ValueSpan { position: self.position, peeked: 0 })?;
            let Some((name, member)) = self.names.iter().find(|(known, _)| *known == name) else {
                continue;
            };
            if layout.0[*member as usize].replace(span).is_some() {
                return Err(A::Error::custom(format_args!("it has {name} twice")));
            }
        }
        Ok(layout)
    }
}

/// A deserializer that skips a value and returns its span, including the blanks before it. The span
/// of a number may be one byte too long, because the parser reads the byte after the number.
struct ValueSpan<'a> {
    position: &'a Cell<u64>,
    peeked: u64,
}

impl<'de> DeserializeSeed<'de> for ValueSpan<'_> {
    type Value = LineSpan;

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<LineSpan, D::Error> {
        let start = self.position.get() - self.peeked;
        IgnoredAny::deserialize(value)?;
        Ok(start..self.position.get())
    }
}

/// Returns the error for a failed parse. A failure to read is distinguished from a line that is not
/// a message.
fn refused(error: &serde_json::Error) -> MessageError {
    match error.io_error_kind() {
        Some(kind) if kind != io::ErrorKind::Other => MessageError::Io(kind.into()),
        // The text of the error quotes the value, which may be a secret.
        _ if error.to_string().starts_with("invalid type") => not_a_message("it is no JSON object"),
        _ => not_a_message(&error.to_string()),
    }
}

fn is_word(role: &str) -> bool {
    role.len() <= WORD && role.bytes().all(|byte| byte.is_ascii_lowercase())
}

fn not_a_message(why: &str) -> MessageError {
    MessageError::NotAMessage(why.to_owned())
}

/// Maximum nesting depth of brackets in a message. This is the limit of `serde_json`.
const DEEPEST: u32 = 128;
const LONGEST_NAME: u64 = 64 << 10;
const FIRST_BLOCK: usize = 1 << 10;
const ROOM: usize = 64 << 10;

pub(super) type LineSpan = std::ops::Range<u64>;

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

    fn position(&self) -> u64 {
        self.left.start - (self.block.len() - self.used) as u64
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

/// A reader that counts the bytes that a parser has read. It fails on input for which the parser
/// would need unbounded memory: deeply nested brackets and very long member names.
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
/// JSON can contain half of a surrogate pair, which is not a character. Such a half is read as the
/// three bytes that UTF-8 would have for it, so it is not lost.
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
            self.decode_some(ROOM)?;
        }
        Ok(())
    }

    /// Decodes one escape, or at most `most` bytes that need no decoding.
    fn decode_some(&mut self, most: usize) -> io::Result<()> {
        let at_hand = self.string.fill_buf()?;
        let at_hand = &at_hand[..at_hand.len().min(most)];
        let plain = memchr::memchr2(b'"', b'\\', at_hand).unwrap_or(at_hand.len());
        if plain > 0 {
            self.ready.extend(self.high.take().into_iter().flat_map(half_pair));
            self.ready.extend_from_slice(&at_hand[..plain]);
            self.string.consume(plain);
            return Ok(());
        }
        match self.string.next()?.ok_or(io::ErrorKind::UnexpectedEof)? {
            b'"' => {
                self.end_pair();
                self.ended = true;
            }
            _ => self.escape()?,
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
                self.ready.extend(high.into_iter().flat_map(half_pair));
                match unit {
                    0xd800..=0xdbff => self.high = Some(unit),
                    0xdc00..=0xdfff => self.ready.extend(half_pair(unit)),
                    unit => self.push(&[unit]),
                }
            }
        }
        Ok(())
    }

    fn end_pair(&mut self) {
        self.ready.extend(self.high.take().into_iter().flat_map(half_pair));
    }

    fn push(&mut self, units: &[u16]) {
        self.ready.extend_from_slice(String::from_utf16_lossy(units).as_bytes());
    }
}

fn half_pair(unit: u16) -> [u8; 3] {
    let six_bits = |shift: u16| 0x80 | (unit >> shift & 0x3f) as u8;
    [0xe0 | (unit >> 12) as u8, six_bits(6), six_bits(0)]
}

/// Converts offsets in the text of a string to offsets in the line. The offsets must be in
/// ascending order, and each must be directly before an ASCII character.
pub(super) fn places_in_line(
    line: &dyn Content,
    string: &LineSpan,
    places: &[u64],
) -> io::Result<Vec<u64>> {
    let mut reader = JsonStringReader::new(SpanReader::new(line, string.clone()))?;
    let mut text = 0;
    let mut place_in_line = |place: u64| {
        loop {
            text += reader.ready.len() as u64;
            reader.ready.clear();
            let missing = place.saturating_sub(text + reader.high.map_or(0, |_| 3));
            if missing == 0 {
                return Ok(reader.string.position());
            }
            if reader.ended {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            reader.decode_some(missing as usize)?;
        }
    };
    places.iter().map(|place| place_in_line(*place)).collect()
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

    fn layout(line: &str) -> Result<MessageLayout, MessageError> {
        MessageLayout::of(&LogLine::Bytes(line.as_bytes().to_vec()))
    }

    #[test]
    fn members_are_found_where_they_stand() {
        let text = r#" { "x" : [1, {"role": "y"}], "role":"tool","content" :  "a\"}," ,"n":1.5e3,
            "tool_call_id":null, "toolName":"sh", "fullOutputPath":"/p" , "id":7}  "#;
        let (text, line) =
            (text.replace('\n', " "), LogLine::Bytes(text.replace('\n', " ").into_bytes()));
        let found = MessageLayout::of(&line).unwrap();
        let at = |member| {
            found.span(member).map(|span| text[span.start as usize..span.end as usize].trim())
        };
        assert_eq!(at(MessageMember::Role), Some("\"tool\""));
        assert_eq!(at(MessageMember::Content), Some(r#""a\"},""#));
        assert_eq!(at(MessageMember::ToolCallId), Some("null"));
        assert_eq!(at(MessageMember::FullOutputPath), Some("\"/p\""));
        let short = |member| found.short(&line, member).unwrap();
        assert_eq!(short(MessageMember::ToolName).as_deref(), Some("sh"));
        assert_eq!(short(MessageMember::ToolCallId), None);
        assert_eq!(short(MessageMember::Id), None);
    }

    #[test]
    fn what_is_no_message_is_refused_and_told_why() {
        for (line, why) in [
            ("", "EOF"),
            ("text", "expected"),
            ("[]", "no JSON object"),
            ("\"role\"", "no JSON object"),
            ("{}", "no role"),
            (r#"{"role":null}"#, "no role"),
            (r#"{"role":5}"#, "no role"),
            (r#"{"role":"robot"}"#, "its role is \"robot\""),
            (r#"{"role":"user"} {"role":"user"}"#, "trailing"),
            (r#"{"role":"user","role":"tool"}"#, "role twice"),
            (r#"{"role":"user","content":"a"#, "EOF"),
            ("{\"role\":\"user\",\"content\":\"a\tb\"}", "control character"),
            ("\u{0}{\"role\":\"user\"}", "expected"),
        ] {
            let error = layout(line).unwrap_err().to_string();
            assert!(error.contains(why), "{line}: {error}");
        }
        let invalid = LogLine::Bytes(b"{\"role\":\"user\",\"x\xff\":1}".to_vec());
        assert!(MessageLayout::of(&invalid).is_err());
    }

    #[test]
    fn what_would_take_memory_without_bound_is_refused() {
        let nested = format!("{{\"role\":\"user\",\"content\":{}", "[".repeat(1000));
        assert!(layout(&nested).unwrap_err().to_string().contains("brackets"));
        let name = format!("{{\"role\":\"user\",\"{}\":1}}", "x".repeat(100_000));
        assert!(layout(&name).unwrap_err().to_string().contains("name"));
        let role = format!("{{\"role\":\"{}\"}}", "x".repeat(100_000));
        assert!(layout(&role).unwrap_err().to_string().contains("its role has more"));
        let fine = format!("{{\"role\":\"user\",\"content\":\"{}\"}}", "[".repeat(200_000));
        assert!(layout(&fine).is_ok());
    }

    #[test]
    fn half_a_surrogate_pair_is_no_fault() {
        assert!(layout(r#"{"role":"tool","content":"a\ud83d"}"#).is_ok());
    }

    fn bytes(json: &str) -> Vec<u8> {
        let line = LogLine::Bytes(json.as_bytes().to_vec());
        let mut bytes = Vec::new();
        let reader = JsonStringReader::new(SpanReader::new(&line, 0..line.len())).unwrap();
        { reader }.read_to_end(&mut bytes).unwrap();
        bytes
    }

    fn text(json: &str) -> String {
        String::from_utf8(bytes(json)).unwrap()
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
        let line = LogLine::Bytes(json.as_bytes().to_vec());
        let text = bytes(&json);
        let in_text: Vec<u64> = memchr::memchr_iter(b'<', &text).map(|at| at as u64).collect();
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
    fn half_a_pair_stays() {
        const HIGH: &[u8] = b"\xed\xa0\xbd";
        let whole = "\u{1f600}".as_bytes();
        for (json, expected) in [
            (r#""a\ud83dx""#, vec![b"a", HIGH, b"x"]),
            (r#""a\ude00x""#, vec![b"a", b"\xed\xb8\x80", b"x"]),
            (r#""a\ud83d\nx""#, vec![b"a", HIGH, b"\nx"]),
            (r#""a\ud83d""#, vec![b"a", HIGH]),
            (r#""\ud83d\ud83d\ude00""#, vec![HIGH, whole]),
            (r#""\ude00\ud83d""#, vec![b"\xed\xb8\x80", HIGH]),
        ] {
            assert_eq!(bytes(json), expected.concat(), "{json}");
        }
    }
}
