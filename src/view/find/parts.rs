//! The words and names in a text, split into parts and folded: `payment` and `gateway` of
//! `paymentGateway`. Folding removes case and accents. [`stem`] removes simple endings, so that all
//! forms of a word have the same stem.

use bstr::ByteSlice as _;
use unicode_normalization::char::decompose_compatible;

use ctxfs_core::materialize::escape_length;

// A longer word is data.
pub(super) const MAX_WORD_BYTES: usize = 256;
// Minimum number of characters in a stem.
const MIN_STEM: usize = 3;
// Minimum number of characters before an ending that often belongs to the word itself: `state`.
const MIN_LATIN_STEM: usize = 4;

/// A part of a word: letters and digits up to a joint such as `_`, or up to a hump, such as the `G`
/// of `paymentGateway`.
///
/// `start` and `end` are offsets in the text. `folded` is the range in the folded text. `begins`
/// and `ends` are true if no letter or digit is directly before or after the part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WordPart {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) folded: (usize, usize),
    pub(super) begins: bool,
    pub(super) ends: bool,
}

/// The parts of a text, and its words without case and accents, each followed by a newline. The
/// allocated memory is reused for the next text.
#[derive(Debug, Default)]
pub(super) struct WordParts {
    pub(super) folded: String,
    pub(super) parts: Vec<WordPart>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum LetterClass {
    Upper,
    // Lower-case letters, letters without case, and digits.
    Other,
}

impl WordParts {
    /// Splits `text`. If `escaped` is true, a backslash and the character after it are not part of
    /// a word, as in JSON.
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

    pub(super) fn text(&self, part: &WordPart) -> &str {
        &self.folded[part.folded.0..part.folded.1]
    }

    // A fast path for words of ASCII letters and digits. Returns the end of the word.
    fn ascii_word(&mut self, text: &[u8], at: usize, escaped: bool) -> usize {
        let length = text[at..].iter().take_while(|byte| byte.is_ascii_alphanumeric()).count();
        let end = at + length;
        match text.get(end) {
            Some(next) if !next.is_ascii() || (escaped && *next == b'\\') => {
                return self.word(text, at, escaped);
            }
            _ if length > MAX_WORD_BYTES => return end,
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

    // Adds the word at `at`, if there is one, and returns its end.
    fn word(&mut self, text: &[u8], at: usize, escaped: bool) -> usize {
        let first = self.parts.len();
        let folded = self.folded.len();
        let mut end = at;
        let mut before: Option<LetterClass> = None;
        while let Some((c, length)) = next_letter(&text[end..], escaped) {
            let class = if c.is_uppercase() { LetterClass::Upper } else { LetterClass::Other };
            let after = || next_letter(&text[end + length..], escaped).map(|(after, _)| after);
            let is_hump = match before {
                None => true,
                _ if is_accent(c) => false,
                Some(LetterClass::Other) => class == LetterClass::Upper,
                Some(LetterClass::Upper) => {
                    class == LetterClass::Upper && after().is_some_and(char::is_lowercase)
                }
            };
            if is_hump {
                self.begin(end, before.is_none());
            }
            before = Some(class);
            push_folded(c, &mut self.folded);
            end += length;
        }
        if before.is_none() {
            return at + text[at..].char_indices().next().map_or(1, |(_, length, _)| length);
        }
        self.finish(end);
        if end - at > MAX_WORD_BYTES {
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
        self.parts.push(WordPart { start, end: start, folded: (at, at), begins, ends: false });
    }

    fn finish(&mut self, end: usize) {
        let folded = self.folded.len();
        if let Some(last) = self.parts.last_mut() {
            (last.end, last.folded.1, last.ends) = (end, folded, true);
        }
        self.folded.push('\n');
    }
}

// Returns the first letter or digit of `text`, and its length in bytes. Returns `None` if `text`
// begins with another character.
fn next_letter(text: &[u8], escaped: bool) -> Option<(char, usize)> {
    let first = *text.first()?;
    if first.is_ascii() {
        if first == b'\\' && escaped {
            return letter_escape(text);
        }
        return first.is_ascii_alphanumeric().then_some((char::from(first), 1));
    }
    let (_, length, c) = text.char_indices().next()?;
    let is_letter = c != char::REPLACEMENT_CHARACTER && (c.is_alphanumeric() || is_accent(c));
    is_letter.then_some((c, length))
}

// Returns the letter that `text` begins with as a JSON escape: `\u00fc`.
fn letter_escape(text: &[u8]) -> Option<(char, usize)> {
    let digits = str::from_utf8(text.strip_prefix(b"\\u")?.get(..4)?).ok()?;
    let c = char::from_u32(u32::from_str_radix(digits, 16).ok()?)?;
    (c.is_alphanumeric() || is_accent(c)).then_some((c, 6))
}

// Of endings with a common suffix, the longest comes first.
const ENDINGS: [(&str, usize); 26] = [
    ("fully", MIN_LATIN_STEM),
    ("ation", MIN_LATIN_STEM),
    ("ating", MIN_LATIN_STEM),
    ("ated", MIN_LATIN_STEM),
    ("ator", MIN_LATIN_STEM),
    ("ment", MIN_LATIN_STEM),
    ("able", MIN_LATIN_STEM),
    ("ible", MIN_LATIN_STEM),
    ("ness", MIN_LATIN_STEM),
    ("ance", MIN_LATIN_STEM),
    ("ence", MIN_LATIN_STEM),
    ("ate", MIN_LATIN_STEM),
    ("ion", MIN_LATIN_STEM),
    ("ive", MIN_LATIN_STEM),
    ("ful", MIN_LATIN_STEM),
    ("ous", MIN_LATIN_STEM),
    ("ity", MIN_LATIN_STEM),
    ("est", MIN_LATIN_STEM),
    ("ing", MIN_STEM),
    ("ed", MIN_STEM),
    ("er", MIN_STEM),
    ("or", MIN_LATIN_STEM),
    ("al", MIN_LATIN_STEM),
    ("ly", MIN_LATIN_STEM),
    ("ic", MIN_LATIN_STEM),
    ("en", MIN_LATIN_STEM),
];

/// Appends `c` in lower case and without accents. The result may be several letters, such as `ss`.
/// Appends nothing for a combining accent.
fn push_folded(c: char, into: &mut String) {
    if c.is_ascii() {
        into.push(c.to_ascii_lowercase());
        return;
    }
    for lower in c.to_lowercase() {
        match lower {
            '\u{df}' => into.push_str("ss"),
            '\u{e6}' => into.push_str("ae"),
            '\u{153}' => into.push_str("oe"),
            '\u{f8}' => into.push('o'),
            '\u{111}' | '\u{f0}' => into.push('d'),
            '\u{142}' => into.push('l'),
            '\u{131}' => into.push('i'),
            _ => decompose_compatible(lower, |part| {
                if !is_accent(part) {
                    into.extend(part.to_lowercase());
                }
            }),
        }
    }
}

// Returns true for a mark that is drawn over or under the letter before it.
pub(super) fn is_accent(c: char) -> bool {
    matches!(c, '\u{300}'..='\u{36f}')
}

/// Returns the common beginning of all forms of `word`: `evict` for `evicted` and `eviction`,
/// `retr` for `retry`. `word` must be folded and consist of letters.
pub(super) fn stem(word: &str) -> &str {
    if !word.is_ascii() {
        return word;
    }
    let singular = match word.strip_suffix('s') {
        Some(stem) if stem.len() >= MIN_STEM && !stem.ends_with(['s', 'u', 'i']) => stem,
        _ => word,
    };
    let mut stem = singular;
    for (ending, shortest) in ENDINGS {
        // Does not shorten `speed` to `spe`.
        if let Some(left) = singular.strip_suffix(ending)
            && left.len() >= shortest
            && !(ending == "ed" && left.ends_with('e'))
        {
            stem = left;
            break;
        }
    }
    while stem.len() > MIN_STEM && stem.ends_with(['e', 'i', 'y']) {
        stem = &stem[..stem.len() - 1];
    }
    // Shortens `failure` to `fail`, and `configuration` to `config`.
    let stem = stem.strip_suffix("ur").filter(|left| left.len() >= MIN_LATIN_STEM).unwrap_or(stem);
    without_double(stem)
}

// Removes the last letter if it is doubled: `stopp` becomes `stop`.
fn without_double(stem: &str) -> &str {
    match stem.as_bytes() {
        [start @ .., first, second] if first == second && start.len() >= 2 => {
            &stem[..stem.len() - 1]
        }
        _ => stem,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str, escaped: bool) -> Vec<String> {
        let mut parts = WordParts::default();
        parts.split(text.as_bytes(), escaped);
        let shown = |part: &WordPart| {
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
        assert_eq!(parts(&format!("a {} b", "x".repeat(MAX_WORD_BYTES + 1)), false), ["a", "b"]);
    }

    proptest::proptest! {
        #[test]
        fn ascii_words_are_words(text in "[a-cA-C1][a-cA-C1_]{0,12}") {
            let (mut one, mut other) = (WordParts::default(), WordParts::default());
            one.ascii_word(text.as_bytes(), 0, false);
            other.word(text.as_bytes(), 0, false);
            proptest::prop_assert_eq!((one.folded, one.parts), (other.folded, other.parts));
        }

        #[test]
        fn any_bytes_are_split(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200), escaped: bool) {
            let mut parts = WordParts::default();
            parts.split(&bytes, escaped);
            let mut end = 0;
            for part in &parts.parts {
                proptest::prop_assert!(end <= part.start && part.start < part.end && part.end <= bytes.len());
                end = part.end;
                parts.text(part);
            }
        }
    }

    fn folded(word: &str) -> String {
        let mut text = String::new();
        word.chars().for_each(|c| push_folded(c, &mut text));
        text
    }

    #[test]
    fn forms_of_a_word_have_one_stem() {
        let families: [&[&str]; 22] = [
            &["evict", "evicts", "evicted", "evicting", "eviction", "evictions"],
            &["retry", "retries", "retried", "retrying"],
            &["stop", "stops", "stopped", "stopping"],
            &["cache", "caches", "cached", "caching"],
            &["fail", "fails", "failed", "failing", "failure", "failures"],
            &["connect", "connection", "connections", "connected"],
            &["deploy", "deploys", "deployed", "deployment", "deployments"],
            &["memory", "memories"],
            &["process", "processes", "processed", "processing"],
            &["access", "accesses", "accessed"],
            &["status", "statuses"],
            &[
                "config",
                "configs",
                "configure",
                "configured",
                "configuration",
                "configurations",
                "configures",
            ],
            &["expire", "expired", "expires", "expiration", "expiry"],
            &["update", "updates", "updated", "updating"],
            &["create", "creates", "created", "creating", "creation"],
            &["deny", "denies", "denied"],
            &["kill", "killed", "kills", "killing", "killer"],
            &["run", "runs", "running", "runner"],
            &["error", "errors"],
            &["slow", "slower", "slowest", "slowly"],
            &["host", "hosts"],
            &["poison", "poisoned", "poisonous"],
        ];
        for family in families {
            let stems: Vec<&str> = family.iter().map(|word| stem(word)).collect();
            assert!(stems.iter().all(|one| *one == stems[0]), "{family:?} {stems:?}");
        }
    }

    #[test]
    fn other_words_stay_apart() {
        for (one, other) in [
            ("port", "part"),
            ("user", "use"),
            ("state", "stack"),
            ("region", "regex"),
            ("session", "set"),
            ("test", "text"),
            ("order", "odd"),
            ("speed", "spe"),
            ("password", "pass"),
        ] {
            assert_ne!(stem(one), stem(other), "{one} {other}");
        }
    }

    #[test]
    fn case_and_accents_are_left_out() {
        assert_eq!(folded("Z\u{dc}RICH"), "zurich");
        assert_eq!(folded("u\u{308}ber"), "uber");
        assert_eq!(folded("Stra\u{df}e"), "strasse");
        assert_eq!(folded("\u{141}\u{f3}d\u{17a}"), "lodz");
        assert_eq!(
            folded("\u{41f}\u{440}\u{438}\u{432}\u{435}\u{442}"),
            "\u{43f}\u{440}\u{438}\u{432}\u{435}\u{442}"
        );
        assert_eq!(folded("\u{65e5}\u{672c}"), "\u{65e5}\u{672c}");
    }
}
