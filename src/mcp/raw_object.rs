//! JSON objects taken apart into members that keep their text.

use std::borrow::Cow;
use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// The members of an object in order, each value as written. Of members with one name, the last
/// counts, as in most parsers.
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

    pub(crate) fn next_cursor(&self) -> Option<Cow<'a, str>> {
        self.text("nextCursor").filter(|next| !next.is_empty())
    }
}

pub(crate) fn text(json: &RawValue) -> Option<Cow<'_, str>> {
    #[derive(Deserialize)]
    struct Text<'a>(#[serde(borrow)] Cow<'a, str>);
    let parsed: Result<Text<'_>, _> = serde_json::from_str(json.get());
    match parsed {
        Ok(Text(text)) => Some(text),
        // Half of a surrogate pair is no character.
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
    let mut text = crate::unescape::Unescaper::default();
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
        struct Key<'a>(#[serde(borrow)] Cow<'a, str>);
        let mut members = Vec::new();
        while let Some((Key(key), value)) = map.next_entry()? {
            members.push((key, value));
        }
        Ok(RawObject(members))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
