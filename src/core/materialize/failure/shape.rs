//! The shape of a line: a copy in which numbers become `1`. Words that occur in no rule also
//! change: their letters become `x` or `X`.
//!
//! The rules are applied to the shape. A single decision therefore applies to all lines of an
//! output with the same shape, whatever names, paths and numbers they contain.

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;

use crate::materialize::failure::best::SEARCH_TERMS;
use crate::materialize::failure::expectation::{ANNOUNCEMENTS, COMPARISON_PATTERNS};
use crate::materialize::failure::numbers::NUMBER_PATTERNS;
use crate::materialize::failure::{noise, prefilter, rules};
use crate::materialize::likeness::{exact, mixed, word};

// Minimum number of digits of a hexadecimal number.
const HEX_DIGITS: usize = 4;
// Maximum length of a run of letters or digits in a shape. No rule needs a longer run.
const RUN: usize = 20;
// Number of words whose shapes are cached. Must be a power of two.
const REMEMBERED_WORDS: usize = 2048;

/// Builds the shapes of lines. `words` is a hash table that caches the hash of the shape of each
/// word. The buffers are reused for the next line.
#[derive(Debug, Clone, Default)]
pub(super) struct ShapeBuilder {
    shape: Vec<u8>,
    words: Vec<KnownWord>,
}

#[derive(Debug, Clone, Copy, Default)]
struct KnownWord {
    word: u64,
    shape: u64,
}

/// A part of a line. `Is` contains the shape of the part. `Itself` is a word that is identical to
/// its shape. `Quantity` is a number with a unit, such as `240ms`, and contains the unit. `Word` is
/// a word that may occur in a rule; its flag is true at the start of the line.
enum LinePart<'l> {
    Other(u8),
    Is(&'static [u8]),
    Itself(&'l [u8]),
    Quantity(&'l [u8]),
    Word(&'l [u8], bool),
}

impl ShapeBuilder {
    pub(super) fn of(&mut self, line: &[u8]) -> &[u8] {
        let shape = &mut self.shape;
        shape.clear();
        let mut at = 0;
        while let Some(part) = next_part(line, &mut at) {
            match part {
                LinePart::Other(byte) => shape.push(byte),
                LinePart::Is(text) | LinePart::Itself(text) => shape.extend_from_slice(text),
                LinePart::Quantity(unit) => {
                    shape.push(b'1');
                    shape.extend_from_slice(unit);
                }
                LinePart::Word(word, at_start) => add_word(word, at_start, shape),
            }
        }
        shape
    }

    /// Returns a hash of the shape of `line`, at a fraction of the cost of [`of`](Self::of).
    pub(super) fn hash(&mut self, line: &[u8]) -> u64 {
        if self.words.is_empty() {
            self.words.resize(REMEMBERED_WORDS, KnownWord::default());
        }
        let Self { shape, words } = self;
        let (mut hash, mut at) = (0, 0);
        while let Some(part) = next_part(line, &mut at) {
            hash = match part {
                LinePart::Other(byte) => mixed(hash, u64::from(byte)),
                LinePart::Is(text) | LinePart::Itself(text) => mixed(hash, packed(text)),
                LinePart::Quantity(unit) => mixed(hash, 1 << 32 | packed(unit)),
                LinePart::Word(word, at_start) => {
                    mixed(hash, shape_of_word(word, at_start, words, shape))
                }
            };
        }
        hash
    }
}

#[inline(always)]
#[expect(clippy::inline_always, reason = "the kind of the part is known where it is returned")]
fn next_part<'l>(line: &'l [u8], at: &mut usize) -> Option<LinePart<'l>> {
    let start = *at;
    let first = *line.get(start)?;
    let (length, class) = word(&line[start..]);
    if length == 0 {
        *at += 1;
        return Some(LinePart::Other(first));
    }
    let end = start + length;
    *at = end;
    let word = &line[start..end];
    Some(if class.is_decimal() {
        let before = start.checked_sub(1).map(|before| line[before]);
        LinePart::Is(number(word, before, line.get(end)))
    } else if length <= SHORT {
        LinePart::Itself(word)
    } else if let Some(unit) = unit(word) {
        LinePart::Quantity(unit)
    } else if class.is_hex() && length >= HEX_DIGITS && !first.is_ascii_uppercase() {
        LinePart::Is(b"1x")
    } else {
        LinePart::Word(word, line[..start].iter().all(u8::is_ascii_whitespace))
    })
}

/// Returns the shape of a number, given the bytes before and after it. Rules distinguish three
/// kinds from other numbers: 0, the numbers 500 to 599, and the two-digit parts of a time.
fn number(digits: &[u8], before: Option<u8>, after: Option<&u8>) -> &'static [u8] {
    let is_of_time = before == Some(b':') || after == Some(&b':');
    match digits {
        b"0" if before != Some(b'.') => b"0",
        [b'5', _, _] => b"511",
        [_, _] if is_of_time => b"11",
        _ => b"1",
    }
}

fn add_word(word: &[u8], at_start: bool, shape: &mut Vec<u8>) {
    if is_known_word(word, at_start) {
        shape.extend_from_slice(word);
    } else {
        add_unknown(word, shape);
    }
}

/// Adds the shape of an unknown word. Each capital becomes `X` and each digit `1`, at most [`RUN`]
/// in a row. A run of other bytes becomes one `x`. The first byte of a word without small letters,
/// such as `E0382` or `EISDIR`, is kept as it is.
fn add_unknown(word: &[u8], shape: &mut Vec<u8>) {
    let mut last = 0;
    let has_small = word.iter().any(u8::is_ascii_lowercase);
    let mut run = 0;
    for byte in word {
        let kind = match byte {
            b'0'..=b'9' => b'1',
            b'A'..=b'Z' => b'X',
            _ => b'x',
        };
        run = if kind == last { run + 1 } else { 0 };
        if last == 0 && !has_small {
            shape.push(*byte);
        } else if run == 0 || (kind != b'x' && run < RUN) {
            shape.push(kind);
        }
        last = kind;
    }
}

#[inline]
fn shape_of_word(
    word: &[u8],
    at_start: bool,
    words: &mut [KnownWord],
    buffer: &mut Vec<u8>,
) -> u64 {
    let hash = (exact(word) ^ u64::from(at_start) << 40) | 1;
    let known = &mut words[hash as usize / 2 % REMEMBERED_WORDS];
    if known.word != hash {
        buffer.clear();
        add_word(word, at_start, buffer);
        *known = KnownWord { word: hash, shape: exact(buffer) };
    }
    known.shape
}

// Packs at most four bytes into a number.
#[inline]
fn packed(bytes: &[u8]) -> u64 {
    bytes.iter().fold(1, |sum, byte| sum << 8 | u64::from(*byte))
}

fn unit(word: &[u8]) -> Option<&[u8]> {
    let digits = word.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let unit = &word[digits..];
    let is_unit = digits > 0 && unit.len() <= SHORT && unit.iter().all(u8::is_ascii_alphabetic);
    is_unit.then_some(unit)
}

// Maximum length of a word that always counts as known.
const SHORT: usize = 3;

/// Returns true if `word` contains a known word: a word of more than [`SHORT`] letters that occurs
/// in a rule or in another list of this module. Ignores case. Words that rules match only at the
/// start of a line count only if `at_start` is true. Permissions such as `-rw-r--r--` are known
/// too.
fn is_known_word(word: &[u8], at_start: bool) -> bool {
    KNOWN_WORDS.is_match(word)
        || (at_start && START_WORDS.is_match(word))
        || word.iter().all(|byte| PERMISSIONS.contains(byte))
}

// Characters of permissions, as printed by `ls -l`.
const PERMISSIONS: &[u8] = b"-bcdlprwxstST";

static KNOWN_WORDS: LazyLock<AhoCorasick> = LazyLock::new(|| {
    let texts = rules::patterns()
        .map(|pattern| start_words(pattern).1)
        .chain(COMPARISON_PATTERNS)
        .chain(NUMBER_PATTERNS)
        .chain(ANNOUNCEMENTS)
        .chain(noise::known_words())
        .chain(prefilter::FRAGMENTS)
        .chain(SEARCH_TERMS);
    searcher(texts)
});

static START_WORDS: LazyLock<AhoCorasick> =
    LazyLock::new(|| searcher(rules::patterns().map(|pattern| start_words(pattern).0)));

fn searcher<'t>(texts: impl Iterator<Item = &'t str>) -> AhoCorasick {
    let words: Vec<String> = texts.flat_map(words_of_pattern).collect();
    let built = AhoCorasick::builder().ascii_case_insensitive(true).build(words);
    built.expect("the words are few and short")
}

// Splits a pattern in two: the words that it matches only at the start of a line, and the rest.
fn start_words(pattern: &str) -> (&str, &str) {
    let group = pattern.strip_prefix(r"^\s*(").and_then(|rest| rest.split_once(')'));
    match group {
        Some((first, rest)) if rest.starts_with(r"\b") && !first.contains(['(', '[', '?']) => {
            (first, rest)
        }
        _ => ("", pattern),
    }
}

// Returns the words of a pattern: its runs of letters, without optional letters.
fn words_of_pattern(pattern: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut rest = pattern.chars();
    while let Some(next) = rest.next() {
        if next.is_ascii_alphabetic() {
            words.last_mut().expect("never empty").push(next);
            continue;
        }
        match next {
            '\\' if rest.next() == Some('x') => rest = rest.as_str().get(2..).unwrap_or("").chars(),
            '[' => drop(rest.find(|end| *end == ']')),
            '?' => drop(words.last_mut().expect("never empty").pop()),
            _ => {}
        }
        words.push(String::new());
    }
    words.retain(|word| word.len() > SHORT);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_no_rule_tells_apart_have_one_shape() {
        for (line, shape) in [
            (
                r#"10.0.3.7 - - [23/Nov/2026:10:07:59] "GET /v1/items/72 HTTP/1.1" 503 9"#,
                r#"1.1.1.1 - - [1/Nov/1:11:11:11] "GET /v1/x/1 HTTP/1.1" 511 1"#,
            ),
            (
                "ERROR batch 0 failed: ConnectionError at 0x7f3c",
                "ERROR x 0 failed: ConnectionError at 1x1x1x",
            ),
            ("app.rs: E0425 in commit 9fceb02d0ae598e95", "app.rs: E1111 in x 1x"),
            ("caf\u{e9} 0 00 05 5 50 5000 1.0", "caf\u{e9} 0 1 1 1 1 1 1.1"),
            ("Build failed in 242ms", "Build failed in 1ms"),
            ("", ""),
        ] {
            let mut shapes = ShapeBuilder::default();
            for _ in 0..2 {
                let found = String::from_utf8(shapes.of(line.as_bytes()).to_vec()).unwrap();
                assert_eq!(found, shape, "{line}");
            }
        }
    }

    #[test]
    fn lines_of_one_shape_have_one_hash() {
        let mut shapes = ShapeBuilder::default();
        let lines = [
            "ERROR batch 17 failed in 240ms",
            "ERROR customer 9 failed in 100ms",
            "ERROR customer 0 failed in 100ms",
            "ERROR Customer 9 failed in 100ms",
            "ERROR customer 9: failed in 100ms",
            "ERROR customer failed in 100ms",
            "",
        ];
        let hashes = lines.map(|line| shapes.hash(line.as_bytes()));
        assert_eq!(hashes[0], hashes[1]);
        for (at, hash) in hashes.iter().enumerate().skip(1) {
            assert!(!hashes[..at].contains(hash) || at == 1, "{}", lines[at]);
        }
    }

    #[test]
    fn the_words_of_a_start_are_those_of_its_group() {
        assert_eq!(start_words(r"^\s*(use|type)\b.*;$"), ("use|type", r"\b.*;$"));
        for other in [r"^\s*(ok|PASS)\s", r"^\s*((a)\b", r"^(type)\b", "type"] {
            assert_eq!(start_words(other), ("", other));
        }
    }

    #[test]
    fn words_of_patterns_are_known() {
        let pattern = r"(?i)\b(errors?|[Ff]ailed)\x22: \[cause\]: (timed? ?out|No such)";
        assert_eq!(words_of_pattern(pattern), ["error", "ailed", "cause", "time", "such"]);
        for known in ["Errors", "ConnectionError", "FAILED", "rwxr", "Caused", "html"] {
            assert!(is_known_word(known.as_bytes(), false), "{known}");
        }
        assert!(!is_known_word(b"batch", true) && !is_known_word(b"customer", true));
        assert!(is_known_word(b"return", true) && !is_known_word(b"return", false));
    }
}
