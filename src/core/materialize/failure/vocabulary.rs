//! The words that the rules know.

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;

use crate::materialize::failure::{comparison, expectation, names, prefilter, rules, search_terms};

/// The longest word that counts as known, whatever it is.
pub(super) const SHORT: usize = 3;

/// Returns true if a word of more than [`SHORT`] letters that a rule knows is in `word`, whatever
/// its case. Some words are known only at the start of a line.
pub(super) fn has(word: &[u8], at_start: bool) -> bool {
    WORDS.is_match(word)
        || (at_start && START_WORDS.is_match(word))
        || word.iter().all(|byte| PERMISSIONS.contains(byte))
}

/// The letters of permissions, as `ls -l` prints them.
const PERMISSIONS: &[u8] = b"-bcdlprwxstST";

static WORDS: LazyLock<AhoCorasick> = LazyLock::new(|| {
    let texts = rules::patterns()
        .map(|pattern| of_start(pattern).1)
        .chain(comparison::PATTERNS)
        .chain(expectation::TEXTS)
        .chain(names::known_words())
        .chain(prefilter::FRAGMENTS)
        .chain(search_terms::CANDIDATES);
    searcher(texts)
});

static START_WORDS: LazyLock<AhoCorasick> =
    LazyLock::new(|| searcher(rules::patterns().map(|pattern| of_start(pattern).0)));

fn searcher<'t>(texts: impl Iterator<Item = &'t str>) -> AhoCorasick {
    let words: Vec<String> = texts.flat_map(words).collect();
    let built = AhoCorasick::builder().ascii_case_insensitive(true).build(words);
    built.expect("the words are few and short")
}

/// Returns the words of a pattern that match at the start of a line alone, and the rest of it.
fn of_start(pattern: &str) -> (&str, &str) {
    let group = pattern.strip_prefix(r"^\s*(").and_then(|rest| rest.split_once(')'));
    match group {
        Some((first, rest)) if rest.starts_with(r"\b") && !first.contains(['(', '[', '?']) => {
            (first, rest)
        }
        _ => ("", pattern),
    }
}

/// Returns the words of a pattern: letters in a row, without those that may be missing.
fn words(pattern: &str) -> Vec<String> {
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
    fn the_words_of_a_start_are_those_of_its_group() {
        assert_eq!(of_start(r"^\s*(use|type)\b.*;$"), ("use|type", r"\b.*;$"));
        for other in [r"^\s*(ok|PASS)\s", r"^\s*((a)\b", r"^(type)\b", "type"] {
            assert_eq!(of_start(other), ("", other));
        }
    }

    #[test]
    fn words_of_patterns_are_known() {
        let pattern = r"(?i)\b(errors?|[Ff]ailed)\x22: \[cause\]: (timed? ?out|No such)";
        assert_eq!(words(pattern), ["error", "ailed", "cause", "time", "such"]);
        for known in ["Errors", "ConnectionError", "FAILED", "rwxr", "Caused", "html"] {
            assert!(has(known.as_bytes(), false), "{known}");
        }
        assert!(!has(b"batch", true) && !has(b"customer", true));
        assert!(has(b"return", true) && !has(b"return", false));
    }
}
