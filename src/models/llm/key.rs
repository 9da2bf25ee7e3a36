//! The key of an endpoint.

use std::fmt;

use hyper::header::HeaderValue;

/// The first characters of a key by which it is found in a text: an endpoint may show a part of it.
const BEGINNING: usize = 8;
/// What stands for a key.
const MASK: &str = "[key]";

/// A secret that only the headers of requests hold. No `Debug`, log or error shows it.
#[derive(Clone)]
pub(super) struct Key(String);

impl Key {
    /// Takes the value of a variable, without white space around it. `None` if it is blank, and an
    /// error if a header cannot hold it.
    pub(super) fn new(value: &str) -> Result<Option<Self>, NoKey> {
        let value = value.trim();
        if value.is_empty() {
            return Ok(None);
        }
        let is_visible = value.bytes().all(|byte| byte.is_ascii_graphic());
        is_visible.then(|| Some(Self(value.to_owned()))).ok_or(NoKey)
    }

    /// Returns the value of a header: `before`, then the key. Marked as sensitive.
    pub(super) fn header(&self, before: &str) -> HeaderValue {
        let value = HeaderValue::from_str(&format!("{before}{}", self.0));
        let mut value = value.expect("a key is visible ASCII");
        value.set_sensitive(true);
        value
    }

    /// Returns `text` without the key, and without words that begin as the key does.
    pub(super) fn removed_from(&self, text: &str) -> String {
        let text = text.replace(&self.0, MASK);
        let beginning = &self.0[..self.0.len().min(BEGINNING)];
        let mut left = String::with_capacity(text.len());
        let mut rest = &*text;
        while let Some(at) = rest.find(beginning) {
            left += &rest[..at];
            left += MASK;
            rest = rest[at + beginning.len()..].trim_start_matches(is_of_key);
        }
        left + rest
    }
}

/// Returns true for a character that keys consist of, or that stands for a part of one.
fn is_of_key(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-_*.".contains(c)
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

/// The value has characters that no header may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NoKey;

#[cfg(test)]
mod tests {
    use super::*;

    fn key(value: &str) -> Key {
        Key::new(value).unwrap().unwrap()
    }

    #[test]
    fn a_key_is_one_visible_word() {
        assert!(Key::new(" \n").unwrap().is_none());
        for wrong in ["a b", "a\u{e9}", "a\nb", "a\0"] {
            assert_eq!(Key::new(wrong).err(), Some(NoKey), "{wrong:?}");
        }
        assert_eq!(key(" abc\n").header("Bearer "), "Bearer abc");
    }

    #[test]
    fn a_key_is_in_no_debug_output() {
        let key = key("sk-secret");
        assert_eq!(format!("{key:?}"), "Key(..)");
        assert!(!format!("{:?}", key.header("Bearer ")).contains("secret"));
    }

    #[test]
    fn a_key_is_removed_from_text() {
        let table = [
            ("sk-proj-0123456789", "wrong: sk-proj-0123456789.", "wrong: [key]."),
            ("sk-proj-0123456789", "`sk-proj-*****6789` and sk-p", "`[key]` and sk-p"),
            ("sk-proj-0123456789", "sk-proj-01, sk-proj-0123456789", "[key], [key]"),
            ("abc", "abc abc: x", "[key] [key]: x"),
            ("a/b", "nothing", "nothing"),
        ];
        for (value, text, left) in table {
            assert_eq!(key(value).removed_from(text), left);
        }
    }
}
