//! Keys in a bucket. They are relative to the prefix of the bucket.

use std::fmt;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use serde::{Deserialize, Serialize};

use crate::bucket::FormatError;
use crate::replica::{SegmentId, text_form};
use ctxfs_core::model::Component;

pub(super) const MARK: &str = "ctxfs.json";
/// Prefix of the keys of all conversations.
pub const CONVERSATIONS: &str = "conversations/";
const SEGMENT: &str = ".tar.zst";
/// Maximum length in bytes of a name in a directory.
const NAME_BYTES: usize = 255;
/// Maximum length in bytes of a key in an object store, including the prefix of the bucket.
const KEY_BYTES: usize = 1024;
const OBJECT: &str = ".zst";
const BLOCKS: &str = ".blocks";
const DIGITS: usize = 32;
/// Characters of a conversation's name that are percent-encoded. The set includes all characters
/// with a special meaning in a key, a shell or a URL.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_');

/// Name of an object. It is a random 128-bit number, so it is unique and cannot be guessed. The
/// text form is 32 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct ObjectName(u128);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum ObjectPart {
    Bytes,
    Blocks,
}

impl ObjectName {
    pub(crate) fn random() -> Self {
        Self(uuid::Uuid::new_v4().as_u128())
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:0width$x}", self.0, width = DIGITS)
    }
}

impl std::str::FromStr for ObjectName {
    type Err = FormatError;

    fn from_str(text: &str) -> Result<Self, FormatError> {
        let digits = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let fits = text.len() == DIGITS && text.bytes().all(digits);
        let number = fits.then(|| u128::from_str_radix(text, 16).ok()).flatten();
        number.map(Self).ok_or_else(|| FormatError::damaged("the name of an object is none"))
    }
}

text_form!(FormatError: ObjectName);

/// Returns the prefix of the keys of a conversation's segments.
pub fn log_prefix(conversation: &Component) -> String {
    format!("{CONVERSATIONS}{}/log/", encoded(conversation))
}

pub(crate) fn segment_key(conversation: &Component, segment: SegmentId) -> String {
    log_prefix(conversation) + &segment_name(segment)
}

/// Returns the name of a segment below the prefix of the log.
pub(crate) fn segment_name(segment: SegmentId) -> String {
    format!("{segment}{SEGMENT}")
}

/// Returns true if a bucket that is a directory can have the conversation.
pub(super) fn fits_directory(conversation: &Component) -> bool {
    encoded(conversation).len() <= NAME_BYTES
}

/// Returns true if an object store can have all keys of the conversation below `prefix`.
pub(super) fn fits_store(conversation: &Component, prefix: &str) -> bool {
    let longest = blocks_key(conversation, ObjectName(0));
    prefix.len() + "/".len() + longest.len() <= KEY_BYTES
}

/// Returns the prefix of the keys of a conversation's objects and their tables of blocks.
pub fn objects_prefix(conversation: &Component) -> String {
    format!("{CONVERSATIONS}{}/objects/", encoded(conversation))
}

pub(crate) fn object_key(conversation: &Component, object: ObjectName) -> String {
    format!("{}{object}{OBJECT}", objects_prefix(conversation))
}

pub(crate) fn blocks_key(conversation: &Component, object: ObjectName) -> String {
    format!("{}{object}{BLOCKS}", objects_prefix(conversation))
}

/// Decodes the name of a conversation. Returns `None` unless ctxfs would encode the result as
/// `encoded_name`.
pub fn conversation_of(encoded_name: &str) -> Option<Component> {
    let text = percent_decode_str(encoded_name).decode_utf8().ok()?;
    let conversation = Component::from_text(&text).ok()?;
    (encoded(&conversation) == encoded_name).then_some(conversation)
}

pub(crate) fn segment_of(file_name: &str) -> Option<SegmentId> {
    file_name.strip_suffix(SEGMENT)?.parse().ok()
}

pub(crate) fn object_of(file_name: &str) -> Option<(ObjectName, ObjectPart)> {
    let parts = [(OBJECT, ObjectPart::Bytes), (BLOCKS, ObjectPart::Blocks)];
    parts.into_iter().find_map(|(end, part)| {
        let name = file_name.strip_suffix(end)?;
        Some((name.parse().ok()?, part))
    })
}

/// Returns the key for which the directory client wrote the temporary file `<key>#<digits>`.
/// Returns `None` if ctxfs uses no such key.
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
