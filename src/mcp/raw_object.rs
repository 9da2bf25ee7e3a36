//! Splits JSON objects into members whose values stay as written, and decodes JSON strings piece by
//! piece.

use std::borrow::Cow;
use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

// Replaces an unpaired surrogate.
const REPLACEMENT: &str = "\u{fffd}";

/// The members of an object in order, with values as written. If a name occurs several times, the
/// last member wins, as in most parsers.
#[derive(Debug, Default)]
pub(crate) struct RawObject<'a>(pub(crate) Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> RawObject<'a> {
    pub(crate) fn parse(json: &'a RawValue) -> Option<Self> {
        Self::of(json.get())
    }

    pub(crate) fn of(json: &'a str) -> Option<Self> {
        serde_json::from_str(json).ok()
    }

    pub(crate) fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.0.iter().rev().find(|(key, _)| key == name).map(|(_, value)| *value)
    }

    pub(crate) fn text(&self, name: &str) -> Option<Cow<'a, str>> {
        text(self.get(name)?)
    }
}

pub(crate) fn text(json: &RawValue) -> Option<Cow<'_, str>> {
    #[derive(Deserialize)]
    struct Text<'a>(#[serde(borrow)] Cow<'a, str>);
    let parsed: Result<Text<'_>, _> = serde_json::from_str(json.get());
    match parsed {
        Ok(Text(text)) => Some(text),
        // An unpaired surrogate is not a character.
        Err(_) if json.get().starts_with('"') => Some(Cow::Owned(lossy(json.get()))),
        Err(_) => None,
    }
}

pub(crate) fn elements(json: &RawValue) -> Option<Vec<&RawValue>> {
    serde_json::from_str(json.get()).ok()
}

pub(crate) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

pub(crate) fn member(name: &str, json: impl fmt::Display) -> String {
    format!("{}:{json}", quoted(name))
}

pub(crate) fn object(members: impl IntoIterator<Item = String>) -> String {
    let members: Vec<String> = members.into_iter().collect();
    format!("{{{}}}", members.join(","))
}

fn lossy(json: &str) -> String {
    let mut text = Unescaper::default();
    let mut out = Vec::new();
    text.push(json.as_bytes(), &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

impl<'de: 'a, 'a> Deserialize<'de> for RawObject<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Members(std::marker::PhantomData))
    }
}

struct Members<'a>(std::marker::PhantomData<&'a ()>);

impl<'de: 'a, 'a> Visitor<'de> for Members<'a> {
    type Value = RawObject<'a>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        #[derive(Deserialize)]
        struct MemberName<'a>(#[serde(borrow)] Cow<'a, str>);
        let mut members = Vec::new();
        while let Some((MemberName(key), value)) = map.next_entry()? {
            members.push((key, value));
        }
        Ok(RawObject(members))
    }
}

/// Decodes a valid JSON string, including its quotes, in pieces of any size. An unpaired surrogate
/// becomes U+FFFD.
#[derive(Debug, Default)]
pub(crate) struct Unescaper {
    state: EscapeState,
    high: Option<u16>,
    opened: bool,
}

#[derive(Debug, Default, Clone, Copy)]
enum EscapeState {
    #[default]
    Text,
    Escape,
    Hex(u8, u16),
}

impl Unescaper {
    pub(crate) fn push(&mut self, json: &[u8], out: &mut Vec<u8>) {
        let mut at = 0;
        if !self.opened && !json.is_empty() {
            self.opened = true;
            at = usize::from(json[0] == b'"');
        }
        while at < json.len() {
            match self.state {
                EscapeState::Text => at += self.text(&json[at..], out),
                EscapeState::Escape => {
                    self.escape(json[at], out);
                    at += 1;
                }
                EscapeState::Hex(digits, value) => {
                    let digit = (json[at] as char).to_digit(16).unwrap_or(0) as u16;
                    self.hex(digits + 1, value << 4 | digit, out);
                    at += 1;
                }
            }
        }
    }

    fn text(&mut self, json: &[u8], out: &mut Vec<u8>) -> usize {
        let plain = memchr::memchr2(b'"', b'\\', json).unwrap_or(json.len());
        if plain > 0 {
            self.end_pair(out);
            out.extend_from_slice(&json[..plain]);
        }
        match json.get(plain) {
            Some(b'\\') => self.state = EscapeState::Escape,
            Some(_) => self.end_pair(out),
            None => return plain,
        }
        plain + 1
    }

    fn escape(&mut self, byte: u8, out: &mut Vec<u8>) {
        self.state = EscapeState::Text;
        let byte = match byte {
            b'u' => {
                self.state = EscapeState::Hex(0, 0);
                return;
            }
            b'b' => 0x08,
            b'f' => 0x0c,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            same => same,
        };
        self.end_pair(out);
        out.push(byte);
    }

    fn hex(&mut self, digits: u8, unit: u16, out: &mut Vec<u8>) {
        if digits < 4 {
            self.state = EscapeState::Hex(digits, unit);
            return;
        }
        self.state = EscapeState::Text;
        match (self.high.take(), unit) {
            (Some(high), 0xdc00..=0xdfff) => add(&[high, unit], out),
            (high, unit) => {
                add(high.as_slice(), out);
                match unit {
                    0xd800..=0xdbff => self.high = Some(unit),
                    unit => add(&[unit], out),
                }
            }
        }
    }

    fn end_pair(&mut self, out: &mut Vec<u8>) {
        out.extend(self.high.take().into_iter().flat_map(|_| REPLACEMENT.as_bytes()));
    }
}

fn add(units: &[u16], out: &mut Vec<u8>) {
    out.extend_from_slice(String::from_utf16_lossy(units).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn members_stay_as_they_were_written() {
        let json = r#"{"b": 1.10, "a":{"x" :[1 ,2]}, "b":"\ud83d"}"#;
        let raw: &RawValue = serde_json::from_str(json).unwrap();
        let object = RawObject::parse(raw).unwrap();
        let names: Vec<&str> = object.0.iter().map(|(name, _)| &**name).collect();
        assert_eq!(names, ["b", "a", "b"]);
        assert_eq!(object.0[0].1.get(), "1.10");
        assert_eq!(object.get("a").unwrap().get(), r#"{"x" :[1 ,2]}"#);
        assert_eq!(object.text("b").unwrap(), "\u{fffd}");
        assert!(object.text("a").is_none() && object.get("c").is_none());
    }

    fn decoded(json: &str, cut: usize) -> String {
        let (mut unescaper, mut out) = (Unescaper::default(), Vec::new());
        let (one, other) = json.as_bytes().split_at(cut.min(json.len()));
        unescaper.push(one, &mut out);
        unescaper.push(other, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn half_a_pair_is_a_replacement() {
        for cut in 0..16 {
            assert_eq!(decoded(r#""a\ud83dx""#, cut), "a\u{fffd}x");
            assert_eq!(decoded(r#""a\ude00x""#, cut), "a\u{fffd}x");
            assert_eq!(decoded(r#""a\ud83d\nx""#, cut), "a\u{fffd}\nx");
            assert_eq!(decoded(r#""a\ud83d""#, cut), "a\u{fffd}");
            assert_eq!(decoded(r#""\ud83d\ud83d\ude00""#, cut), "\u{fffd}\u{1f600}");
        }
    }

    proptest! {
        #[test]
        fn it_reads_what_serde_writes(text_of in any::<String>(), cut in 0usize..40) {
            let json = serde_json::to_string(&text_of).unwrap();
            prop_assert_eq!(decoded(&json, cut), text_of.clone());
            let escaped: Vec<String> =
                text_of.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
            prop_assert_eq!(decoded(&format!("\"{}\"", escaped.concat()), cut), text_of);
        }
    }
}
