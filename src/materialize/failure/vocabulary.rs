//! The words that the rules know.

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;

use crate::materialize::failure::comparison;
use crate::materialize::failure::expectation;
use crate::materialize::failure::names;
use crate::materialize::failure::prefilter;
use crate::materialize::failure::rules;
use crate::materialize::failure::search_terms;

/// The longest word that counts as known, whatever it is.
pub(super) const SHORT: usize = 3;

/// Returns true if a word of more than [`SHORT`] letters that a rule knows is in `word`, whatever
/// its case.
pub(super) fn has(word: &[u8]) -> bool {
    WORDS.is_match(word) || word.iter().all(|byte| PERMISSIONS.contains(byte))
}

/// The letters of permissions, as `ls -l` prints them.
const PERMISSIONS: &[u8] = b"-bcdlprwxstST";

static WORDS: LazyLock<AhoCorasick> = LazyLock::new(|| {
    let texts = rules::patterns()
        .chain(comparison::PATTERNS)
        .chain(expectation::TEXTS)
        .chain(names::known_words())
        .chain(prefilter::FRAGMENTS)
        .chain(search_terms::CANDIDATES);
    let words: Vec<String> = texts.flat_map(words).collect();
    let built = AhoCorasick::builder().ascii_case_insensitive(true).build(words);
    built.expect("the words are few and short")
});

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
    fn words_of_patterns_are_known() {
        let pattern = r"(?i)\b(errors?|[Ff]ailed)\x22: \[cause\]: (timed? ?out|No such)";
        assert_eq!(words(pattern), ["error", "ailed", "cause", "time", "such"]);
        for known in ["Errors", "ConnectionError", "FAILED", "rwxr", "Caused", "html"] {
            assert!(has(known.as_bytes()), "{known}");
        }
        assert!(!has(b"batch") && !has(b"customer"));
    }
}
