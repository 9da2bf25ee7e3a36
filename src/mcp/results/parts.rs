//! The parts of a result: texts, binary content and structured content.

use std::borrow::Cow;
use std::hash::{BuildHasher as _, DefaultHasher, Hasher as _};
use std::io::{self, Write};
use std::ops::Range;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::message::Message;
use crate::raw_object::{RawObject, Unescaper, elements, text};

const BLOCK: usize = 64 * 1024;
// Longer texts on disk are not decoded for counting; the encoded length is used as an upper bound.
const COUNTED: u64 = 16 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PartKind {
    Text,
    Binary,
    Structured,
}

/// A text, binary content or structured content of a result. `block` is the element of `content`
/// that contains `value`. `bytes` and `chars` are the size of the decoded content. `text` is the
/// decoded text, or `None` for other kinds and for a text on disk.
pub(crate) struct ResultPart<'a> {
    pub(crate) kind: PartKind,
    pub(crate) block: &'a RawValue,
    pub(crate) value: &'a RawValue,
    pub(crate) is_plain_text: bool,
    pub(crate) mime: Option<String>,
    pub(crate) bytes: u64,
    pub(crate) chars: u64,
    pub(crate) text: Option<Cow<'a, str>>,
    message: &'a Message,
    hole: Option<Range<u64>>,
}

pub(crate) fn parts<'a>(
    message: &'a Message,
    result: &RawObject<'a>,
) -> io::Result<Vec<ResultPart<'a>>> {
    let blocks = result.get("content").and_then(elements).unwrap_or_default();
    let mut parts = Vec::new();
    for block in blocks {
        parts.extend(part(message, block)?);
    }
    if let Some(value) = result.get("structuredContent") {
        parts.push(ResultPart::json(message, value));
    }
    Ok(parts)
}

/// Returns the text in a JSON-RPC error, the reason for which the server refused the call.
pub(crate) fn reason<'a>(
    message: &'a Message,
    error: &RawObject<'a>,
) -> io::Result<Vec<ResultPart<'a>>> {
    let value = error.get("message").filter(|value| value.get().starts_with('"'));
    let part =
        value.map(|value| ResultPart::of(message, (PartKind::Text, value, None), (value, true)));
    Ok(part.transpose()?.into_iter().collect())
}

pub(crate) fn part<'a>(
    message: &'a Message,
    block: &'a RawValue,
) -> io::Result<Option<ResultPart<'a>>> {
    let Some(object) = RawObject::parse(block) else { return Ok(None) };
    let mime = |object: &RawObject<'_>| object.text("mimeType").map(String::from);
    let (kind, value, mime, is_plain_text) = match object.text("type").as_deref() {
        Some("text") => (PartKind::Text, object.get("text"), None, true),
        Some("image" | "audio") => (PartKind::Binary, object.get("data"), mime(&object), false),
        Some("resource") => {
            let inner = object.get("resource").and_then(RawObject::parse).unwrap_or_default();
            match inner.get("text") {
                Some(text) => (PartKind::Text, Some(text), mime(&inner), false),
                None => (PartKind::Binary, inner.get("blob"), mime(&inner), false),
            }
        }
        _ => return Ok(None),
    };
    let Some(value) = value.filter(|value| value.get().starts_with('"')) else { return Ok(None) };
    ResultPart::of(message, (kind, value, mime), (block, is_plain_text)).map(Some)
}

impl<'a> ResultPart<'a> {
    fn of(
        message: &'a Message,
        (kind, value, mime): (PartKind, &'a RawValue, Option<String>),
        (block, is_plain_text): (&'a RawValue, bool),
    ) -> io::Result<Self> {
        let hole = message.hole(value);
        let text = if kind == PartKind::Text && hole.is_none() { text(value) } else { None };
        let (bytes, chars) = (0, 0);
        let mut part =
            Self { kind, block, value, is_plain_text, mime, bytes, chars, text, message, hole };
        part.measure()?;
        Ok(part)
    }

    pub(crate) fn json(message: &'a Message, value: &'a RawValue) -> Self {
        let hole = message.hole(value);
        let bytes = hole.as_ref().map_or(value.get().len() as u64, |span| span.end - span.start);
        let kind = PartKind::Structured;
        let mime = Some("application/json".to_owned());
        let (block, is_plain_text, chars, text) = (value, false, bytes, None);
        Self { kind, block, value, is_plain_text, mime, bytes, chars, text, message, hole }
    }

    fn measure(&mut self) -> io::Result<()> {
        let written = match &self.hole {
            Some(span) => span.end - span.start,
            None => self.value.get().len() as u64,
        };
        if self.kind == PartKind::Binary {
            self.bytes = written / 4 * 3;
        } else if let Some(text) = &self.text {
            (self.bytes, self.chars) = (text.len() as u64, text.chars().count() as u64);
        } else if self.hole.is_some() && written > COUNTED {
            (self.bytes, self.chars) = (written, written);
        } else {
            let (mut bytes, mut chars) = (0, 0);
            self.unescaped(&mut |text| {
                bytes += text.len() as u64;
                chars += text.iter().filter(|byte| *byte & 0xC0 != 0x80).count() as u64;
                Ok(())
            })?;
            (self.bytes, self.chars) = (bytes, chars);
        }
        Ok(())
    }

    /// Writes the content: a text, decoded bytes, or JSON as written.
    pub(crate) fn write_to(&self, out: &mut dyn Write) -> io::Result<()> {
        match (self.kind, &self.text) {
            (PartKind::Structured, _) => self.json_pieces(&mut |json| out.write_all(json)),
            (PartKind::Text, Some(text)) => out.write_all(text.as_bytes()),
            (PartKind::Text, None) => self.unescaped(&mut |text| out.write_all(text)),
            (PartKind::Binary, _) => {
                let mut letters = Vec::new();
                let mut decode = |letters: std::vec::Drain<'_, u8>| {
                    let bytes = STANDARD.decode(letters.collect::<Vec<u8>>());
                    out.write_all(&bytes.map_err(io::Error::other)?)
                };
                self.unescaped(&mut |text| {
                    letters.extend(text.iter().filter(|byte| !byte.is_ascii_whitespace()));
                    // The last group may have padding, which is only known at the end of the input.
                    let whole = letters.len().saturating_sub(1) / 4 * 4;
                    decode(letters.drain(..whole))
                })?;
                decode(letters.drain(..))
            }
        }
    }

    /// Passes the content of a JSON string to `out`, piece by piece.
    fn unescaped(&self, out: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        let (mut unescaper, mut text) = (Unescaper::default(), Vec::new());
        self.json_pieces(&mut |json| {
            text.clear();
            unescaper.push(json, &mut text);
            out(&text)
        })
    }

    fn json_pieces(&self, out: &mut dyn FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        let Some(mut span) = self.hole.clone() else { return out(self.value.get().as_bytes()) };
        let scratch = self.message.scratch.as_ref().ok_or(io::ErrorKind::UnexpectedEof)?;
        let mut block = vec![0; BLOCK];
        loop {
            match scratch.read(&mut span, &mut block)? {
                0 => return Ok(()),
                count => out(&block[..count])?,
            }
        }
    }

    pub(crate) fn json_or_text(&self) -> Option<&str> {
        match self.kind {
            PartKind::Structured if self.hole.is_none() => Some(self.value.get()),
            _ => self.text.as_deref(),
        }
    }

    pub(crate) fn says_same(&self, structured: &ResultPart<'_>) -> bool {
        if self.kind != PartKind::Text {
            return false;
        }
        let keys = std::hash::RandomState::new();
        let (mut one, mut other) = (Digest::new(&keys), Digest::new(&keys));
        if self.write_to(&mut one).is_err() || structured.write_to(&mut other).is_err() {
            return false;
        }
        if one.finish() == other.finish() {
            return true;
        }
        let parsed = |text: &str| serde_json::from_str::<Value>(text).ok();
        self.text.as_deref().is_some_and(|text| {
            structured.hole.is_none()
                && parsed(text).is_some_and(|value| parsed(structured.value.get()) == Some(value))
        })
    }
}

/// Hashes JSON without the white space between tokens, for comparing values that do not fit in
/// memory.
struct Digest {
    hasher: DefaultHasher,
    length: u64,
    in_text: bool,
    escaped: bool,
}

impl Digest {
    fn new(keys: &std::hash::RandomState) -> Self {
        Self { hasher: keys.build_hasher(), length: 0, in_text: false, escaped: false }
    }

    fn finish(&self) -> (u64, u64) {
        (self.length, self.hasher.finish())
    }
}

impl Write for Digest {
    fn write(&mut self, json: &[u8]) -> io::Result<usize> {
        for byte in json {
            if !self.in_text && byte.is_ascii_whitespace() {
                continue;
            }
            self.hasher.write_u8(*byte);
            self.length += 1;
            (self.in_text, self.escaped) = match byte {
                _ if self.escaped => (true, false),
                b'"' => (!self.in_text, false),
                byte => (self.in_text, self.in_text && *byte == b'\\'),
            };
        }
        Ok(json.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
