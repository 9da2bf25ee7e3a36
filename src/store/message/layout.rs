//! Checks that a line is a message, and finds its members.

use std::cell::Cell;
use std::{fmt, io};

use serde::de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize as _, Deserializer};

use crate::message::json::{BoundedReader, LineSpan, SpanReader};
use crate::message::{BLOCK, MessageError};
use ctxfs_core::model::Content;

const ROLES: [&str; 6] = ["system", "developer", "user", "assistant", "tool", "function"];
const WORD: usize = 12;
/// Maximum length in bytes of a member whose text is read as a whole.
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

/// The member names of a call in a text. The response is its content.
const NAMES_OF_CALLS: [(&str, MessageMember); 5] = [
    ("response", MessageMember::Content),
    ("tool_call_id", MessageMember::ToolCallId),
    ("name", MessageMember::ToolName),
    ("fullOutputPath", MessageMember::FullOutputPath),
    ("id", MessageMember::Id),
];

/// The member name of the text in a part of a content list.
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

    /// Reads the object of a call, which must begin at `start`; only blanks may come before it.
    /// Returns its members and its end, or `None` if there is no such object.
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
        // To see that the list has not ended, the parser has read the first byte of the value.
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

/// A deserialization seed that skips a value and returns its span, including the blanks before it.
/// The span of a number may be one byte too long.
struct ValueSpan<'a> {
    position: &'a Cell<u64>,
    /// Number of bytes of the value that the parser has already read.
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

/// Returns the error for a failed parse. Distinguishes a failure to read from a line that is not a
/// message.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::LogLine;

    fn layout(line: &str) -> Result<MessageLayout, MessageError> {
        MessageLayout::of(&LogLine::from(line.as_bytes().to_vec()))
    }

    #[test]
    fn members_are_found_where_they_stand() {
        let text = r#" { "x" : [1, {"role": "y"}], "role":"tool","content" :  "a\"}," ,"n":1.5e3,
            "tool_call_id":null, "toolName":"sh", "fullOutputPath":"/p" , "id":7}  "#;
        let (text, line) =
            (text.replace('\n', " "), LogLine::from(text.replace('\n', " ").into_bytes()));
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
        let invalid = LogLine::from(b"{\"role\":\"user\",\"x\xff\":1}".to_vec());
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
}
