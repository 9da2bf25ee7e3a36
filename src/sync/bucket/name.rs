//! The keys of what lies in a bucket, relative to the bucket's prefix.

use std::fmt;
use std::str::FromStr;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::bucket::FormatError;
use crate::replica::SegmentId;
use ctxfs_core::model::Component;

/// The key of the mark of a bucket.
pub(super) const MARK: &str = "ctxfs.json";
/// What the keys of all conversations begin with.
pub const CONVERSATIONS: &str = "conversations/";
/// The ends of the names of segments, of objects, and of the tables of their blocks.
const SEGMENT: &str = ".tar.zst";
const OBJECT: &str = ".zst";
const BLOCKS: &str = ".blocks";
/// Digits of the name of an object.
const DIGITS: usize = 32;
/// What is encoded in the name of a conversation: all that means something in a key, to a shell or
/// in an address.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_');

/// The name of an object: a random number, which nobody can guess and no two objects share. Its
/// text is 32 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct ObjectName(u128);

/// What of an object a key is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectPart {
    /// The packed bytes.
    Bytes,
    /// The table of their blocks.
    Blocks,
}

impl ObjectName {
    /// Returns a name that no object has.
    pub fn random() -> Self {
        Self(Uuid::new_v4().as_u128())
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:0width$x}", self.0, width = DIGITS)
    }
}

impl FromStr for ObjectName {
    type Err = FormatError;

    fn from_str(text: &str) -> Result<Self, FormatError> {
        let digits = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let fits = text.len() == DIGITS && text.bytes().all(digits);
        let number = fits.then(|| u128::from_str_radix(text, 16).ok()).flatten();
        number.map(Self).ok_or_else(|| FormatError::damaged("the name of an object is none"))
    }
}

impl From<ObjectName> for String {
    fn from(name: ObjectName) -> Self {
        name.to_string()
    }
}

impl TryFrom<String> for ObjectName {
    type Error = FormatError;

    fn try_from(text: String) -> Result<Self, FormatError> {
        text.parse()
    }
}

/// Returns what the keys of a conversation's segments begin with.
pub fn log_prefix(conversation: &Component) -> String {
    format!("{CONVERSATIONS}{}/log/", encoded(conversation))
}

/// Returns the key of a segment.
pub fn segment_key(conversation: &Component, segment: SegmentId) -> String {
    format!("{}{segment}{SEGMENT}", log_prefix(conversation))
}

/// Returns what the keys of a conversation's objects begin with, and those of their blocks.
pub fn objects_prefix(conversation: &Component) -> String {
    format!("{CONVERSATIONS}{}/objects/", encoded(conversation))
}

/// Returns the key of an object.
pub fn object_key(conversation: &Component, object: ObjectName) -> String {
    format!("{}{object}{OBJECT}", objects_prefix(conversation))
}

/// Returns the key of the table of an object's blocks.
pub fn blocks_key(conversation: &Component, object: ObjectName) -> String {
    format!("{}{object}{BLOCKS}", objects_prefix(conversation))
}

/// Returns the conversation whose part of a key is `encoded`, if that is as ctxfs writes it.
pub fn conversation_of(encoded_name: &str) -> Option<Component> {
    let text = percent_decode_str(encoded_name).decode_utf8().ok()?;
    let conversation = Component::from_text(&text).ok()?;
    (encoded(&conversation) == encoded_name).then_some(conversation)
}

/// Returns the segment whose key ends in `file_name`, if it is the name of one.
pub fn segment_of(file_name: &str) -> Option<SegmentId> {
    file_name.strip_suffix(SEGMENT)?.parse().ok()
}

/// Returns the object whose key ends in `file_name`, if it is the name of one.
pub fn object_of(file_name: &str) -> Option<(ObjectName, ObjectPart)> {
    let parts = [(OBJECT, ObjectPart::Bytes), (BLOCKS, ObjectPart::Blocks)];
    parts.into_iter().find_map(|(end, part)| {
        let name = file_name.strip_suffix(end)?;
        Some((name.parse().ok()?, part))
    })
}

/// Returns the key that a file was about to get in a bucket that is a directory, if it has the name
/// that the client gives to what it writes, `<key>#<digits>`, and that is a key of ctxfs.
pub(super) fn staged_for(name: &str) -> Option<&str> {
    let (key, number) = name.split_once('#')?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    (is_number && is_key(key)).then_some(key)
}

fn is_key(key: &str) -> bool {
    let in_conversation = || {
        let (conversation, rest) = key.strip_prefix(CONVERSATIONS)?.split_once('/')?;
        let (folder, name) = rest.split_once('/')?;
        conversation_of(conversation)?;
        Some(match folder {
            "log" => segment_of(name).is_some(),
            "objects" => object_of(name).is_some(),
            _ => false,
        })
    };
    key == MARK || in_conversation().unwrap_or(false)
}

fn encoded(conversation: &Component) -> String {
    utf8_percent_encode(&conversation.to_text(), ENCODED).to_string()
}

#[cfg(test)]
mod tests;
