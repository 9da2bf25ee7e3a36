//! Converts JSON as programs write it to JSON that the filter's parser reads.

use std::borrow::Cow;

use ctxfs_core::materialize::json::escaped_char;
use memchr::{memchr, memchr2};

// What jq prints for infinity: the largest number.
const LARGEST: &[u8] = b"1.7976931348623157e308";
const REPLACEMENT: &[u8] = b"\\ufffd";

/// Returns a value that the scanner accepted as JSON of RFC 8259: comments and commas before a
/// closing bracket go, `NaN` becomes `null` and `Infinity` the largest number, as in jq, and
/// half a surrogate pair becomes U+FFFD, as do bytes that are not UTF-8. `-0` keeps its sign as `-0.0`.
pub(super) fn plain(value: &[u8]) -> Cow<'_, [u8]> {
    let mut text = Cleaner { value, at: 0, kept: 0, text: Vec::new() };
    while let Some(&byte) = value.get(text.at) {
        match byte {
            b'"' => text.string(),
            b'/' => text.replace(comment_length(&value[text.at..]), b" "),
            b',' if text.is_before_bracket() => text.replace(1, b""),
            b'N' => text.replace(3, b"null"),
            // Without a fraction, the sign would be lost.
            b'-' if is_negative_zero(&value[text.at..]) => text.replace(2, b"-0.0"),
            b'I' => text.replace(8, LARGEST),
            _ => text.at += 1,
        }
    }
    let Cleaner { kept, text, .. } = text;
    let all = if text.is_empty() && kept == 0 {
        Cow::Borrowed(value)
    } else {
        Cow::Owned([text.as_slice(), &value[kept..]].concat())
    };
    match all {
        Cow::Borrowed(bytes) => match String::from_utf8_lossy(bytes) {
            Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
            Cow::Owned(text) => Cow::Owned(text.into_bytes()),
        },
        Cow::Owned(bytes) => Cow::Owned(String::from_utf8_lossy(&bytes).into_owned().into_bytes()),
    }
}

// `text` is the clean text of the first `kept` bytes of `value`.
struct Cleaner<'a> {
    value: &'a [u8],
    at: usize,
    kept: usize,
    text: Vec<u8>,
}

impl Cleaner<'_> {
    fn replace(&mut self, length: usize, by: &[u8]) {
        self.text.extend_from_slice(&self.value[self.kept..self.at]);
        self.text.extend_from_slice(by);
        self.at = (self.at + length).min(self.value.len());
        self.kept = self.at;
    }

    // Passes over a string.
    fn string(&mut self) {
        self.at += 1;
        while let Some(more) = memchr2(b'"', b'\\', &self.value[self.at..]) {
            self.at += more;
            let rest = &self.value[self.at..];
            if rest[0] == b'"' {
                self.at += 1;
                return;
            }
            match escaped_char(rest) {
                // Half a surrogate pair, or the same character as written.
                Some((char::REPLACEMENT_CHARACTER, length)) => self.replace(length, REPLACEMENT),
                Some((_, length)) => self.at += length,
                None => self.at += 1,
            }
        }
        self.at = self.value.len();
    }

    // Returns true if only white space and comments are between a comma and a closing bracket.
    fn is_before_bracket(&self) -> bool {
        let mut rest = &self.value[self.at + 1..];
        loop {
            rest = rest.trim_ascii_start();
            match rest.first() {
                Some(b'/') => rest = &rest[comment_length(rest).min(rest.len())..],
                Some(b']' | b'}') => return true,
                _ => return false,
            }
        }
    }
}

fn is_negative_zero(text: &[u8]) -> bool {
    let after = text.strip_prefix(b"-0").map(<[u8]>::first);
    after.is_some_and(|next| !matches!(next, Some(b'.' | b'e' | b'E')))
}

fn comment_length(text: &[u8]) -> usize {
    if text.get(1) == Some(&b'*') {
        let end = text.get(2..).and_then(|rest| memchr::memmem::find(rest, b"*/"));
        end.map_or(text.len(), |end| end + 4)
    } else {
        memchr(b'\n', text).unwrap_or(text.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_parser_reads_goes() {
        let cases: [(&str, &str); 11] = [
            ("[-0, -0.5, -0e1, -10, -0]", "[-0.0, -0.5, -0e1, -10, -0.0]"),
            (r#"{"a": [1, 2]}"#, r#"{"a": [1, 2]}"#),
            ("[NaN, -Infinity,Infinity]", "[null, -1.7976931348623157e308,1.7976931348623157e308]"),
            (r#"["NaN, // Infinity,]"]"#, r#"["NaN, // Infinity,]"]"#),
            ("[1, 2, ]", "[1, 2 ]"),
            ("{\"a\": 1, // one\n /* two */ }", "{\"a\": 1  \n   }"),
            ("// head\n[/**/1/* , */]", " \n[ 1 ]"),
            (r#"["\ud800", "x\udc00y"]"#, r#"["\ufffd", "x\ufffdy"]"#),
            (r#"["\ud83d\ude00", "\\ud800"]"#, r#"["\ud83d\ude00", "\\ud800"]"#),
            (r#"["\ud83d\ud83d\ude00"]"#, r#"["\ufffd\ud83d\ude00"]"#),
            (r#""\"//""#, r#""\"//""#),
        ];
        for (value, want) in cases {
            assert_eq!(String::from_utf8(plain(value.as_bytes()).into_owned()).unwrap(), want);
        }
        assert!(matches!(plain(b"[1, \"x\"]"), Cow::Borrowed(_)));
        assert_eq!(&*plain(b"[\"\xff\"]"), "[\"\u{fffd}\"]".as_bytes());
    }
}
