//! The words of a text, delimited as in ripgrep, and names that consist of several words.

use std::sync::LazyLock;

use regex::bytes::Regex;

// A longer word is data.
const WORD_BYTES: usize = 64;
// Maximum size in bytes of a name of several words.
const NAME_BYTES: usize = 100;
// Minimum number of characters in a word.
const MIN_WORD_CHARS: usize = 3;
// A number with at least this many digits is not part of a name, whatever comes before it.
const LONG_NUMBER: usize = 4;
// Characters that join words to a name: `com.shop.Cart`, `src/main.rs`, `db-1:5432`, `std::io`.
const JOINTS: &[u8] = b"-./:@";

/// Calls `each` with every potentially informative word of `line` and with every name of several
/// words, and their offsets. If `escaped` is true, a backslash and the character after it are not
/// part of a word, as in JSON.
pub(super) fn each<'l>(line: &'l [u8], escaped: bool, mut each: impl FnMut(usize, &'l [u8])) {
    if line.is_ascii() {
        return each_ascii(line, escaped, |at, found| each_in(at, found, &mut each));
    }
    let pattern = if escaped { &*ESCAPED } else { &*PLAIN };
    for found in pattern.find_iter(line) {
        if !matches!(found.as_bytes().first(), Some(b'\\' | b'\x1b')) {
            each_in(found.start(), found.as_bytes(), &mut each);
        }
    }
}

fn each_in<'l>(at: usize, found: &'l [u8], each: &mut impl FnMut(usize, &'l [u8])) {
    if is_name(found) && found.len() <= NAME_BYTES {
        let name = without_number(found);
        if is_name(name) && (of_name(name).next().is_some() || is_address(name)) {
            each(at, name);
        }
    }
    of_name(found).for_each(|word| each(at, word));
}

// Removes a variable number and everything after it from a name: `api/items` of
// `api/items/17/tags`, `db-1` of `db-1:5432`, `job` of `job-54053`.
fn without_number(name: &[u8]) -> &[u8] {
    let mut start = 0usize;
    let mut kept = 0;
    for part in name.split(|byte| JOINTS.contains(byte)) {
        let is_number = !part.is_empty() && part.iter().all(u8::is_ascii_digit);
        let joint = start.checked_sub(1).map(|at| name[at]);
        if is_number && (matches!(joint, Some(b'/' | b':')) || part.len() >= LONG_NUMBER) {
            break;
        }
        kept = if part.is_empty() { kept } else { start + part.len() };
        start += part.len() + 1;
    }
    &name[..kept]
}

pub(super) fn is_name(name: &[u8]) -> bool {
    name.iter().any(|byte| JOINTS.contains(byte))
}

pub(super) fn of_name(name: &[u8]) -> impl Iterator<Item = &[u8]> {
    name.split(|byte| JOINTS.contains(byte)).filter(|word| is_informative(word))
}

// Returns true if a byte is not part of a word, a name or an escape.
pub(super) fn is_gap(byte: u8) -> bool {
    let of_word = byte.is_ascii_alphanumeric() || !byte.is_ascii();
    !of_word && byte != b'_' && byte != b'\\' && !JOINTS.contains(&byte)
}

// Returns true for an informative word: it has letters, does not begin with a digit, and is not
// short.
fn is_informative(word: &[u8]) -> bool {
    let begins = word.first().is_some_and(|first| !first.is_ascii_digit());
    let is_letter = |byte: &u8| byte.is_ascii_alphabetic() || !byte.is_ascii();
    let chars = || bstr::ByteSlice::chars(word).take(MIN_WORD_CHARS).count();
    begins && word.iter().any(is_letter) && word.len() <= WORD_BYTES && chars() == MIN_WORD_CHARS
}

// Returns true for four numbers with dots between them.
fn is_address(name: &[u8]) -> bool {
    let numbers = name.split(|byte| *byte == b'.');
    name.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.') && numbers.count() == 4
}

pub(super) fn is_common(word: &[u8]) -> bool {
    let mut lower = [0; 8];
    let Some(lower) = lower.get_mut(..word.len()) else { return false };
    lower.copy_from_slice(word);
    lower.make_ascii_lowercase();
    COMMON.binary_search_by(|common| common.as_bytes().cmp(lower)).is_ok()
}

// Sorted for binary search. Contains no words shorter than `MIN_WORD_CHARS`.
const COMMON: [&str; 96] = [
    "about", "after", "again", "all", "also", "and", "any", "are", "because", "been", "before",
    "being", "between", "both", "but", "can", "could", "did", "does", "doing", "down", "during",
    "each", "few", "for", "from", "further", "had", "has", "have", "having", "her", "here", "him",
    "his", "how", "into", "its", "itself", "just", "may", "might", "more", "most", "must", "nor",
    "not", "now", "off", "once", "one", "only", "other", "our", "out", "over", "own", "same",
    "shall", "she", "should", "some", "such", "than", "that", "the", "their", "them", "then",
    "there", "these", "they", "this", "those", "through", "too", "two", "under", "until", "upon",
    "use", "very", "was", "were", "what", "when", "where", "which", "while", "who", "why", "will",
    "with", "would", "you", "your",
];

// Matches a word or a name. Also matches terminal colours so that they are skipped.
const NAME: &str = r"\x1b\[[0-9;?]*[A-Za-z]|\w+(?:(?:::|://|[-./:@])\w+)*";

static PLAIN: LazyLock<Regex> = LazyLock::new(|| Regex::new(NAME).expect("a pattern of this file"));
static ESCAPED: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(&format!(r"\\u[0-9a-fA-F]{{4}}|\\.|{NAME}")).expect("a pattern of this file")
});

/// Calls `each` with every word or name of `line` and its offset. Skips terminal colours. If
/// `escaped` is true, also skips a backslash and the character after it. Finds the same words as
/// [`NAME`], but faster.
fn each_ascii<'l>(line: &'l [u8], escaped: bool, mut each: impl FnMut(usize, &'l [u8])) {
    let mut at = 0;
    while let Some(first) = line.get(at) {
        let rest = &line[at..];
        at += match first {
            b'\\' if escaped => escape(rest),
            b'\x1b' => colour(rest),
            first if is_of_word(*first) => {
                let length = name(rest);
                each(at, &rest[..length]);
                length
            }
            _ => 1,
        };
    }
}

fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn escape(text: &[u8]) -> usize {
    match text.get(1..6) {
        Some([b'u', digits @ ..]) if digits.iter().all(u8::is_ascii_hexdigit) => 6,
        _ => text.len().min(2),
    }
}

// Returns the length of the terminal colour at the start of `text`, or 1.
fn colour(text: &[u8]) -> usize {
    let Some(parameters) = text.strip_prefix(b"\x1b[") else { return 1 };
    let is_parameter = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b';' | b'?');
    let length = parameters.iter().take_while(|byte| is_parameter(byte)).count();
    let ends = parameters.get(length).is_some_and(u8::is_ascii_alphabetic);
    if ends { 2 + length + 1 } else { 1 }
}

// Returns the length of the word or name at the start of `text`.
fn name(text: &[u8]) -> usize {
    let mut end = word(text);
    loop {
        let joint = joint(&text[end..]);
        let more = word(&text[end + joint..]);
        if joint == 0 || more == 0 {
            return end;
        }
        end += joint + more;
    }
}

fn word(text: &[u8]) -> usize {
    text.iter().take_while(|byte| is_of_word(**byte)).count()
}

// Returns the length of the joint between two words at the start of `text`, or 0.
fn joint(text: &[u8]) -> usize {
    match text {
        [b':', b':', ..] => 2,
        [b':', b'/', b'/', ..] => 3,
        [first, ..] if JOINTS.contains(first) => 1,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words(line: &str, escaped: bool) -> Vec<&str> {
        let mut words = Vec::new();
        each(line.as_bytes(), escaped, |_, word| words.push(str::from_utf8(word).unwrap()));
        words
    }

    #[test]
    fn words_and_names_are_told_apart() {
        let cases: [(&str, &[&str]); 11] = [
            ("The total of 17 items, and x", &["The", "total", "items", "and"]),
            (
                "at com.shop.Cart.add(Cart.java:7)",
                &["com.shop.Cart.add", "com", "shop", "Cart", "add", "Cart.java", "Cart", "java"],
            ),
            ("2026-11-21T10:00:02Z INFO took 17ms", &["INFO", "took"]),
            (
                "from 10.0.0.5 to db-1.internal:5432",
                &["from", "10.0.0.5", "db-1.internal", "internal"],
            ),
            (
                "see https://example.com/a?b=c_d",
                &["see", "https://example.com/a", "https", "example", "com", "c_d"],
            ),
            (
                "\u{1b}[1;31mERROR\u{1b}[0m std::io::Error",
                &["ERROR", "std::io::Error", "std", "Error"],
            ),
            ("gr\u{fc}n \u{65e5}\u{672c}\u{8a9e}", &["gr\u{fc}n", "\u{65e5}\u{672c}\u{8a9e}"]),
            ("C:\\new\\table", &["new", "table"]),
            ("MAX_SIZE __init__ ___", &["MAX_SIZE", "__init__"]),
            ("GET /api/items/17/tags", &["GET", "api/items", "api", "items", "tags"]),
            ("Error.", &["Error"]),
        ];
        for (line, want) in cases {
            assert_eq!(words(line, false), want, "{line}");
        }
        assert_eq!(
            words(r#"{"text": "first\ntwo \u00fctab\\three"}"#, true),
            ["text", "first", "two", "tab", "three"]
        );
    }

    #[test]
    fn data_is_no_word() {
        let long = "x".repeat(WORD_BYTES + 1);
        assert_eq!(words(&long, false), [""; 0]);
        let name = format!("{}.Cart", vec!["part"; 25].join("."));
        assert_eq!(words(&name, false).len(), 26);
    }

    #[test]
    fn common_words_are_in_order() {
        assert!(COMMON.is_sorted() && COMMON.iter().all(|word| word.len() >= MIN_WORD_CHARS));
        assert!(is_common(b"The") && is_common(b"WITH") && is_common(b"between"));
        assert!(!is_common(b"total") && !is_common(b"withdrawal"));
    }

    proptest! {
        #[test]
        fn it_finds_what_the_patterns_find(
            line in "([a-c1_ :/.@\\\\u\x1b\\[;?,-]|::|://|\x1b\\[1;3m|\\\\u00fc|cart){0,40}",
        ) {
            for (escaped, pattern) in [(false, &*PLAIN), (true, &*ESCAPED)] {
                let mut found = Vec::new();
                each_ascii(line.as_bytes(), escaped, |at, name| found.push((at, name.to_vec())));
                let wanted: Vec<(usize, Vec<u8>)> = pattern
                    .find_iter(line.as_bytes())
                    .filter(|found| !matches!(found.as_bytes()[0], b'\\' | b'\x1b'))
                    .map(|found| (found.start(), found.as_bytes().to_vec()))
                    .collect();
                prop_assert_eq!(found, wanted);
            }
        }
    }
}
