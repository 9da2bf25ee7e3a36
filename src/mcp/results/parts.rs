//! The parts of a result: texts, binary content and structured content.

use std::borrow::Cow;
use std::hash::{BuildHasher as _, DefaultHasher, Hasher as _};
use std::io::{self, Write};
use std::ops::Range;

use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use base64::{Engine as _, alphabet};
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
/// decoded text, or `None` for other kinds and for a text on disk. `uri` is the URI of an
/// embedded resource.
pub(crate) struct ResultPart<'a> {
    pub(crate) kind: PartKind,
    pub(crate) block: &'a RawValue,
    pub(crate) value: &'a RawValue,
    pub(crate) is_plain_text: bool,
    pub(crate) mime: Option<String>,
    pub(crate) uri: Option<String>,
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
    let inner = object.get("resource").and_then(RawObject::parse).unwrap_or_default();
    let (kind, value, mime, is_plain_text) = match object.text("type").as_deref() {
        Some("text") => (PartKind::Text, object.get("text"), None, true),
        Some("image" | "audio") => (PartKind::Binary, object.get("data"), mime(&object), false),
        Some("resource") => match inner.get("text") {
            Some(text) => (PartKind::Text, Some(text), mime(&inner), false),
            None => (PartKind::Binary, inner.get("blob"), mime(&inner), false),
        },
        _ => return Ok(None),
    };
    let Some(value) = value.filter(|value| value.get().starts_with('"')) else { return Ok(None) };
    let part = ResultPart::of(message, (kind, value, mime), (block, is_plain_text))?;
    let uri = inner.text("uri").filter(|_| !is_plain_text).map(String::from);
    Ok(Some(ResultPart { uri, ..part }))
}

impl<'a> ResultPart<'a> {
    fn of(
        message: &'a Message,
        (kind, value, mime): (PartKind, &'a RawValue, Option<String>),
        (block, is_plain_text): (&'a RawValue, bool),
    ) -> io::Result<Self> {
        let hole = message.hole(value);
        let text = if kind == PartKind::Text && hole.is_none() { text(value) } else { None };
        let (bytes, chars, uri) = (0, 0, None);
        let mut part = Self {
            kind,
            block,
            value,
            is_plain_text,
            mime,
            uri,
            bytes,
            chars,
            text,
            message,
            hole,
        };
        part.measure()?;
        Ok(part)
    }

    pub(crate) fn json(message: &'a Message, value: &'a RawValue) -> Self {
        let hole = message.hole(value);
        let bytes = hole.as_ref().map_or(value.get().len() as u64, |span| span.end - span.start);
        let kind = PartKind::Structured;
        let mime = Some("application/json".to_owned());
        let (block, is_plain_text, chars, text, uri) = (value, false, bytes, None, None);
        Self { kind, block, value, is_plain_text, mime, uri, bytes, chars, text, message, hole }
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
                // Checked first, so that what is not base64 is written as it is.
                let mut check = Base64Reader::default();
                self.unescaped(&mut |text| check.push(text, &mut io::sink()))?;
                if check.finish(&mut io::sink()).is_err() || check.is_wrong {
                    return self.unescaped(&mut |text| out.write_all(text));
                }
                let mut reader = Base64Reader::default();
                self.unescaped(&mut |text| reader.push(text, out))?;
                reader.finish(out)
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

// Padding and the unused bits before it do not matter.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);
const DATA: &[u8] = b"data:";
// The longest beginning of a `data:` URI that is looked for, up to the comma.
const MAX_URI_HEAD: usize = 512;

/// Decodes base64 that arrives in pieces, in either alphabet, with or without padding, in one line or
/// several, alone or as a `data:` URI. `head` has the text until it is known if it begins with
/// `data:`, and `letters` the letters that are not decoded yet. If `is_wrong` is true, the text is
/// not base64.
#[derive(Default)]
struct Base64Reader {
    head: Vec<u8>,
    is_begun: bool,
    letters: Vec<u8>,
    ended: bool,
    is_wrong: bool,
}

impl Base64Reader {
    fn push(&mut self, text: &[u8], out: &mut dyn Write) -> io::Result<()> {
        if self.is_begun {
            return self.decode(text, out);
        }
        self.head.extend_from_slice(text);
        let start = self.head.trim_ascii_start();
        let may_be_uri = start.len() < DATA.len() || is_data_uri(start);
        let is_open = start.len() < MAX_URI_HEAD && memchr::memchr(b',', start).is_none();
        if may_be_uri && is_open { Ok(()) } else { self.begin(out) }
    }

    // Takes the first text, which is long enough to tell if it is a `data:` URI.
    fn begin(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.is_begun = true;
        let head = std::mem::take(&mut self.head);
        let start = head.trim_ascii_start();
        if !is_data_uri(start) {
            return self.decode(start, out);
        }
        let (uri, data) = start.split_at(memchr::memchr(b',', start).unwrap_or(start.len()));
        self.is_wrong |= !uri.to_ascii_lowercase().trim_ascii_end().ends_with(b";base64");
        self.decode(data.get(1..).unwrap_or_default(), out)
    }

    fn decode(&mut self, text: &[u8], out: &mut dyn Write) -> io::Result<()> {
        for byte in text {
            match byte {
                b'=' => self.ended = true,
                byte if byte.is_ascii_whitespace() => {}
                _ if self.ended => self.is_wrong = true,
                b'-' => self.letters.push(b'+'),
                b'_' => self.letters.push(b'/'),
                byte if byte.is_ascii_alphanumeric() || b"+/".contains(byte) => {
                    self.letters.push(*byte);
                }
                _ => self.is_wrong = true,
            }
        }
        let whole = self.letters.len() / 4 * 4;
        self.write(whole, out)
    }

    fn finish(&mut self, out: &mut dyn Write) -> io::Result<()> {
        if !self.is_begun {
            self.begin(out)?;
        }
        let rest = self.letters.len();
        self.write(rest, out)
    }

    fn write(&mut self, count: usize, out: &mut dyn Write) -> io::Result<()> {
        let bytes = BASE64.decode(self.letters.drain(..count).collect::<Vec<u8>>());
        out.write_all(&bytes.map_err(io::Error::other)?)
    }
}

fn is_data_uri(text: &[u8]) -> bool {
    text.get(..DATA.len()).is_some_and(|start| start.eq_ignore_ascii_case(DATA))
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

#[cfg(test)]
mod tests {
    use super::*;
    use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};

    use proptest::prelude::*;

    // Returns the decoded bytes, or `None` if the text is not base64.
    fn decoded(text: &str, step: usize) -> Option<Vec<u8>> {
        let (mut reader, mut out) = (Base64Reader::default(), Vec::new());
        text.as_bytes().chunks(step).for_each(|piece| reader.push(piece, &mut out).unwrap());
        reader.finish(&mut out).ok().filter(|()| !reader.is_wrong).map(|()| out)
    }

    fn wrapped(text: &str, columns: usize, end: &str) -> String {
        let lines: Vec<&str> =
            text.as_bytes().chunks(columns).map(|line| str::from_utf8(line).unwrap()).collect();
        lines.join(end) + end
    }

    proptest! {
        #[test]
        fn all_forms_of_base64_are_decoded(
            bytes in proptest::collection::vec(any::<u8>(), 0..200), step in 1_usize..90,
        ) {
            let standard = STANDARD.encode(&bytes);
            let forms = [
                standard.clone(),
                STANDARD_NO_PAD.encode(&bytes),
                URL_SAFE.encode(&bytes),
                URL_SAFE_NO_PAD.encode(&bytes),
                wrapped(&standard, 76, "\r\n"),
                wrapped(&URL_SAFE_NO_PAD.encode(&bytes), 64, "\n"),
                format!("data:image/png;base64,{standard}"),
                format!("DATA:image/svg+xml;charset=utf-8;BASE64,{}", URL_SAFE.encode(&bytes)),
                format!(" data:;base64,{}", wrapped(&standard, 76, "\n")),
            ];
            for form in forms {
                prop_assert_eq!(decoded(&form, step), Some(bytes.clone()), "{}", form);
            }
        }
    }

    #[test]
    fn what_is_not_base64() {
        for text in [
            "data:image/svg+xml,%3Csvg%3E",
            "https://example.com/x.png",
            "AAAAA",
            "AA==BB",
            "\u{e9}AAA",
        ] {
            for step in [1, 100] {
                assert_eq!(decoded(text, step), None, "{text}");
            }
        }
    }
}
