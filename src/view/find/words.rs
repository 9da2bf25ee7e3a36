//! The names under `X.find/` and `.find/`: words in any order. This module also decides which of
//! these words are searched for.

use std::ffi::OsStr;
use std::fmt;

use crate::query;

/// The words that a reader searches for, as written in the name of the search.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Words(Vec<u8>);

impl Words {
    /// Parses a name. Returns `None` for a name that programs look up in any directory, such as
    /// `.git`, and for a name that is empty or too long.
    pub fn parse(name: &OsStr) -> Option<Self> {
        query::decoded(name).map(Self)
    }

    pub(crate) fn of(words: &str) -> Self {
        Self(words.as_bytes().to_vec())
    }

    /// Returns the words as text, with U+FFFD for bytes that are not UTF-8.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.0).into_owned()
    }

    fn name(&self) -> Vec<u8> {
        let plain = query::encoded(&self.0, b"%/");
        if query::is_taken(&plain) { query::encoded(&self.0, b"%/.") } else { plain }
    }
}

impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.name()))
    }
}

/// Returns the words in `text` to search for, in order and without duplicates. Leaves out question
/// words, such as `how`, unless there are no other words. A name is one word: `web-7`,
/// `src/main.rs`.
pub(super) fn counting(text: &str) -> Vec<&str> {
    let mut all: Vec<&str> = Vec::new();
    for word in text.split(is_between).map(trimmed).filter(|word| !word.is_empty()) {
        if !all.iter().any(|known| known.eq_ignore_ascii_case(word)) {
            all.push(word);
        }
    }
    let counts = |word: &&str| !is_question_word(word);
    if all.iter().any(counts) {
        all.retain(counts);
    }
    all
}

/// Returns the pairs of adjacent words in `text`, joined by a hyphen, if one of the two words is a
/// question word: `too-long`. Leaves out pairs with a word that is in most sentences.
pub(super) fn phrases(text: &str) -> Vec<String> {
    let all: Vec<&str> =
        text.split(is_between).map(trimmed).filter(|word| !word.is_empty()).collect();
    let tells = |pair: &&[&str]| {
        let is_any_of =
            |list: &[&str], word: &&str| list.iter().any(|it| it.eq_ignore_ascii_case(word));
        pair.iter().any(|word| is_question_word(word))
            && !pair.iter().any(|word| is_any_of(&ANYWHERE, word))
    };
    let mut pairs: Vec<String> = all.windows(2).filter(tells).map(|pair| pair.join("-")).collect();
    pairs.sort();
    pairs.dedup();
    pairs
}

// Returns true for a character that is not part of a name.
fn is_between(c: char) -> bool {
    !c.is_alphanumeric() && !crate::find::parts::is_accent(c) && !"_-./:@'\u{2019}".contains(c)
}

// Removes punctuation around a word, and a final `'s`.
fn trimmed(word: &str) -> &str {
    let word =
        word.trim_matches(|c: char| !c.is_alphanumeric() && !crate::find::parts::is_accent(c));
    let owner = ["'s", "\u{2019}s"].iter().find_map(|end| word.strip_suffix(end));
    owner.unwrap_or(word)
}

pub(super) fn is_question_word(word: &str) -> bool {
    let lower = word.to_ascii_lowercase();
    QUESTION_WORDS.binary_search(&lower.as_str()).is_ok()
}

// Words that carry no information about the word beside them.
const ANYWHERE: [&str; 20] = [
    "a", "an", "are", "be", "did", "do", "does", "how", "i", "is", "it", "that", "the", "this",
    "was", "were", "what", "which", "who", "why",
];

// Sorted for binary search.
const QUESTION_WORDS: [&str; 158] = [
    "a", "about", "after", "all", "also", "am", "an", "and", "any", "are", "as", "at", "be",
    "because", "been", "before", "being", "between", "both", "but", "by", "can", "can't", "could",
    "couldn't", "did", "didn't", "do", "does", "doesn't", "doing", "don't", "during", "each",
    "either", "else", "ever", "exactly", "far", "few", "find", "for", "from", "get", "gets",
    "give", "given", "go", "goes", "got", "had", "happen", "happened", "happens", "has", "have",
    "having", "he", "her", "here", "him", "his", "how", "i", "if", "in", "instead", "into", "is",
    "isn't", "it", "its", "itself", "just", "kind", "let", "long", "many", "may", "me", "might",
    "most", "much", "must", "my", "nor", "of", "off", "on", "one", "only", "or", "other", "our",
    "out", "over", "own", "per", "please", "said", "same", "say", "says", "shall", "she", "should",
    "show", "so", "some", "such", "tell", "than", "that", "the", "their", "them", "then", "there",
    "these", "they", "thing", "this", "those", "through", "to", "too", "under", "until", "up",
    "upon", "us", "use", "used", "uses", "very", "was", "wasn't", "we", "were", "weren't", "what",
    "what's", "when", "where", "whether", "which", "while", "who", "whom", "whose", "why", "will",
    "with", "won't", "would", "wouldn't", "you", "your",
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt as _;

    use proptest::prelude::*;

    fn parse(name: &str) -> Words {
        Words::parse(OsStr::new(name)).unwrap()
    }

    #[test]
    fn names_are_those_of_searches() {
        assert_eq!(parse("a%2Fb 5%25 %2Egit").text(), "a/b 5% .git");
        assert_eq!(parse("a%2Fb 5%").to_string(), "a%2Fb 5%25");
        assert_eq!(parse("%2E").to_string(), "%2E");
        assert_eq!(Words::parse(OsStr::new(".gitignore")), None);
        assert_eq!(Words::parse(OsStr::new(&"x".repeat(4096))), None);
    }

    #[test]
    fn question_words_count_for_nothing() {
        assert!(QUESTION_WORDS.is_sorted());
        for (text, want) in [
            ("Why was the pod web-7 evicted?", &["pod", "web-7", "evicted"][..]),
            ("what is usr_c75e's e-mail (new)", &["usr_c75e", "e-mail", "new"]),
            ("src/main.rs:12, \"main.rs\" main", &["src/main.rs:12", "main.rs", "main"]),
            ("Pod pod POD", &["Pod"]),
            ("who is it", &["who", "is", "it"]),
            ("? -- ...", &[]),
            ("gr\u{fc}n \u{65e5}\u{672c}", &["gr\u{fc}n", "\u{65e5}\u{672c}"]),
            ("key=value a,b", &["key", "value", "b"]),
        ] {
            assert_eq!(counting(text), want, "{text}");
        }
    }

    #[test]
    fn small_words_tell_something_beside_others() {
        for (text, want) in [
            ("name too long for tar", &["for-tar", "long-for", "name-too", "too-long"][..]),
            ("why is the disk full", &[]),
            ("Out of memory", &["Out-of", "of-memory"]),
        ] {
            assert_eq!(phrases(text), want, "{text}");
        }
    }

    proptest! {
        #[test]
        fn names_come_back(name in proptest::collection::vec(1u8.., 1..40)) {
            if let Some(words) = Words::parse(OsStr::from_bytes(&name)) {
                prop_assert_eq!(Words::parse(OsStr::from_bytes(&words.name())), Some(words));
            }
        }
    }
}
