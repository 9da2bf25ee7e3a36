use bstr::ByteSlice as _;

use crate::find::fold;
use ctxfs_core::materialize::escape_length;

// Anything longer is data.
pub(super) const LONGEST: usize = 256;

/// A part of a word: letters and digits up to a joint, such as `_`, or to a hump.
///
/// `start` and `end` are its place in the text, `folded` in the folded text. `begins` and `ends`
/// are true if no letter or digit is directly before or after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) folded: (usize, usize),
    pub(super) begins: bool,
    pub(super) ends: bool,
}

/// The parts of a text, and its words without case and accents, with a newline after each. Keeps
/// its memory from one text to the next.
#[derive(Debug, Default)]
pub(super) struct Parts {
    pub(super) folded: String,
    pub(super) parts: Vec<Part>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Upper,
    // Also letters without case, and digits.
    Other,
}

impl Parts {
    /// Splits `text`. If `escaped`, a backslash and the character that it escapes are not part of a
    /// word, as in JSON.
    pub(super) fn split(&mut self, text: &[u8], escaped: bool) {
        self.folded.clear();
        self.parts.clear();
        let mut at = 0;
        while at < text.len() {
            let byte = text[at];
            if byte.is_ascii_alphanumeric() {
                at = self.ascii_word(text, at, escaped);
            } else if !byte.is_ascii() {
                at = self.word(text, at, escaped);
            } else if byte == b'\\' && escaped {
                at = if letter_escape(&text[at..]).is_some() {
                    self.word(text, at, escaped)
                } else {
                    at + if text.get(at + 1) == Some(&b'u') { 6 } else { 2 }
                };
            } else if byte == b'\x1b' {
                at += escape_length(&text[at..]).max(1);
            } else {
                at += 1;
            }
        }
    }

    pub(super) fn text(&self, part: &Part) -> &str {
        &self.folded[part.folded.0..part.folded.1]
    }

    // The fast path for words of ASCII letters and digits. Returns the end of the word.
    fn ascii_word(&mut self, text: &[u8], at: usize, escaped: bool) -> usize {
        let length = text[at..].iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
        let end = at + length;
        match text.get(end) {
            Some(next) if !next.is_ascii() || (escaped && *next == b'\\') => {
                return self.word(text, at, escaped);
            }
            _ if length > LONGEST => return end,
            _ => {}
        }
        let word = &text[at..end];
        for (number, byte) in word.iter().enumerate() {
            let before = number.checked_sub(1).map(|before| word[before].is_ascii_uppercase());
            let is_hump = match before {
                None => true,
                Some(false) => byte.is_ascii_uppercase(),
                Some(true) => {
                    let after = word.get(number + 1);
                    byte.is_ascii_uppercase() && after.is_some_and(u8::is_ascii_lowercase)
                }
            };
            if is_hump {
                self.begin(at + number, before.is_none());
            }
            self.folded.push(char::from(byte.to_ascii_lowercase()));
        }
        self.finish(end);
        end
    }

    // Takes the word at `at`, if there is one, and returns its end.
    fn word(&mut self, text: &[u8], at: usize, escaped: bool) -> usize {
        let first = self.parts.len();
        let folded = self.folded.len();
        let mut end = at;
        let mut before: Option<Class> = None;
        while let Some((c, length)) = next_letter(&text[end..], escaped) {
            let class = if c.is_uppercase() { Class::Upper } else { Class::Other };
            let after = || next_letter(&text[end + length..], escaped).map(|(after, _)| after);
            let is_hump = match before {
                None => true,
                _ if fold::is_accent(c) => false,
                Some(Class::Other) => class == Class::Upper,
                Some(Class::Upper) => {
                    class == Class::Upper && after().is_some_and(char::is_lowercase)
                }
            };
            if is_hump {
                self.begin(end, before.is_none());
            }
            before = Some(class);
            fold::push_folded(c, &mut self.folded);
            end += length;
        }
        if before.is_none() {
            return at + text[at..].char_indices().next().map_or(1, |(_, length, _)| length);
        }
        self.finish(end);
        if end - at > LONGEST {
            self.parts.truncate(first);
            self.folded.truncate(folded);
        }
        end
    }

    fn begin(&mut self, start: usize, begins: bool) {
        if !begins && let Some(before) = self.parts.last_mut() {
            (before.end, before.folded.1) = (start, self.folded.len());
        }
        let at = self.folded.len();
        self.parts.push(Part { start, end: start, folded: (at, at), begins, ends: false });
    }

    fn finish(&mut self, end: usize) {
        let folded = self.folded.len();
        if let Some(last) = self.parts.last_mut() {
            (last.end, last.folded.1, last.ends) = (end, folded, true);
        }
        self.folded.push('\n');
    }
}

// The letter or digit that `text` begins with, and its length.
fn next_letter(text: &[u8], escaped: bool) -> Option<(char, usize)> {
    let first = *text.first()?;
    if first.is_ascii() {
        if first == b'\\' && escaped {
            return letter_escape(text);
        }
        return first.is_ascii_alphanumeric().then_some((char::from(first), 1));
    }
    let (_, length, c) = text.char_indices().next()?;
    let is_letter = c != char::REPLACEMENT_CHARACTER && (c.is_alphanumeric() || fold::is_accent(c));
    is_letter.then_some((c, length))
}

// The letter that `text` begins with as an escape of JSON: `\u00fc`.
fn letter_escape(text: &[u8]) -> Option<(char, usize)> {
    let digits = str::from_utf8(text.strip_prefix(b"\\u")?.get(..4)?).ok()?;
    let c = char::from_u32(u32::from_str_radix(digits, 16).ok()?)?;
    (c.is_alphanumeric() || fold::is_accent(c)).then_some((c, 6))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str, escaped: bool) -> Vec<String> {
        let mut parts = Parts::default();
        parts.split(text.as_bytes(), escaped);
        let shown = |part: &Part| {
            let (begins, ends) =
                (if part.begins { "" } else { "+" }, if part.ends { "" } else { "+" });
            assert!(!text[part.start..part.end].is_empty());
            format!("{begins}{}{ends}", parts.text(part))
        };
        parts.parts.iter().map(shown).collect()
    }

    #[test]
    fn names_are_split() {
        let cases: [(&str, &[&str]); 9] = [
            ("payment-gateway", &["payment", "gateway"]),
            ("paymentGateway", &["payment+", "+gateway"]),
            ("OOMKilled HTTPServer2", &["oom+", "+killed", "http+", "+server2"]),
            ("usr_c75e x2Y", &["usr", "c75e", "x2+", "+y"]),
            ("web-7f9c: 10.0.0.5", &["web", "7f9c", "10", "0", "0", "5"]),
            ("Z\u{fc}rich, GR\u{dc}N", &["zurich", "grun"]),
            ("u\u{308}ber", &["uber"]),
            ("\u{1b}[31mred\u{1b}[0m", &["red"]),
            ("\u{201c}quoted\u{201d}", &["quoted"]),
        ];
        for (text, want) in cases {
            assert_eq!(parts(text, false), want, "{text}");
        }
    }

    #[test]
    fn escapes_are_no_part() {
        assert_eq!(
            parts(r#"a\nError \"x\" Z\u00fcrich \u2014 y"#, true),
            ["a", "error", "x", "zurich", "y"]
        );
        assert_eq!(parts(r"C:\new", false), ["c", "new"]);
    }

    #[test]
    fn data_is_left_out() {
        assert_eq!(parts(&format!("a {} b", "x".repeat(LONGEST + 1)), false), ["a", "b"]);
    }

    proptest::proptest! {
        #[test]
        fn ascii_words_are_words(text in "[a-cA-C1][a-cA-C1_]{0,12}") {
            let (mut one, mut other) = (Parts::default(), Parts::default());
            one.ascii_word(text.as_bytes(), 0, false);
            other.word(text.as_bytes(), 0, false);
            proptest::prop_assert_eq!((one.folded, one.parts), (other.folded, other.parts));
        }

        #[test]
        fn any_bytes_are_split(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200), escaped: bool) {
            let mut parts = Parts::default();
            parts.split(&bytes, escaped);
            let mut end = 0;
            for part in &parts.parts {
                proptest::prop_assert!(end <= part.start && part.start < part.end && part.end <= bytes.len());
                end = part.end;
                parts.text(part);
            }
        }
    }
}
