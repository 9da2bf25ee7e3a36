//! A word to look for, how it matches the words of a text, and a search for several at once.

use std::sync::OnceLock;

use memchr::memmem;
use regex::bytes::{Regex, RegexBuilder};

use crate::find::parts::Parts;
use crate::find::term::{Fit, Term};

// A set of words has 64 bits.
pub(super) const MOST: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hit {
    pub(super) term: usize,
    pub(super) fit: Fit,
    pub(super) start: usize,
    pub(super) end: usize,
}

/// Looks for several words at once.
///
/// `initials` and `ascii` tell which words may begin with a character. `inside` are the words that
/// are also looked for inside of others. `candidates` is built when it is first needed: it costs as
/// much as some pages of text.
#[derive(Debug)]
pub(super) struct Matcher {
    pub(super) terms: Vec<Term>,
    initials: Vec<(char, u64)>,
    ascii: [u64; 128],
    inside: u64,
    candidates: OnceLock<Option<Regex>>,
}

/// The buffers of one thread that looks for words.
#[derive(Debug, Default)]
pub(super) struct Finder {
    parts: Parts,
    pub(super) hits: Vec<Hit>,
}

impl Matcher {
    /// Creates a matcher for at most [`MAX_TERMS`] words. Those for which `inside` is true are also
    /// looked for inside of others.
    pub(super) fn new(terms: Vec<Term>, inside: impl Fn(&Term) -> bool) -> Self {
        assert!(terms.len() <= MOST, "a set of words has 64 bits");
        let (mut ascii, mut initials) = ([0; 128], Vec::new());
        let mut within = 0;
        for (number, term) in terms.iter().enumerate() {
            let initial = term.initial();
            match ascii.get_mut(initial as usize) {
                Some(known) => *known |= 1 << number,
                None => initials.push((initial, 1 << number)),
            }
            within |= u64::from(term.may_be_inside() && inside(term)) << number;
        }
        Self { terms, initials, ascii, inside: within, candidates: OnceLock::new() }
    }

    /// Returns the offset, from `at` on, of the first place where a word may stand.
    pub(super) fn candidate(&self, text: &[u8], at: usize) -> Option<usize> {
        let candidates = self.candidates.get_or_init(|| candidates(&self.terms));
        let Some(candidates) = candidates else { return (at < text.len()).then_some(at) };
        candidates.find_at(text, at).map(|found| found.start())
    }

    /// Finds the words in `text`, in order.
    pub(super) fn find<'f>(&self, finder: &'f mut Finder, text: &[u8], escaped: bool) -> &'f [Hit] {
        let Finder { parts, hits } = finder;
        parts.split(text, escaped);
        hits.clear();
        let mut found = 0;
        for at in 0..parts.parts.len() {
            let part = &parts.parts[at];
            let mut set = self.beginning_with(parts.text(part).chars().next());
            while set != 0 {
                let term = set.trailing_zeros() as usize;
                set &= set - 1;
                if let Some((fit, count)) = self.terms[term].fit(text, parts, at) {
                    let end = parts.parts[at + count - 1].end;
                    found |= 1 << term;
                    hits.push(Hit { term, fit, start: part.start, end });
                }
            }
        }
        let missing = self.inside & !found;
        if missing != 0 {
            self.find_inside(parts, missing, hits);
        }
        hits
    }

    fn beginning_with(&self, initial: Option<char>) -> u64 {
        let Some(initial) = initial else { return 0 };
        let other = || self.initials.iter().filter(|(known, _)| *known == initial);
        let ascii = self.ascii.get(initial as usize).copied();
        ascii.unwrap_or_else(|| other().fold(0, |set, (_, more)| set | more))
    }

    fn find_inside(&self, parts: &Parts, missing: u64, hits: &mut Vec<Hit>) {
        let before = hits.len();
        for term in (0..self.terms.len()).filter(|term| missing >> term & 1 == 1) {
            let word = self.terms[term].folded().as_bytes();
            for at in memmem::find_iter(parts.folded.as_bytes(), word) {
                let number = parts.parts.partition_point(|part| part.folded.1 <= at);
                let Some(part) = parts.parts.get(number) else { continue };
                hits.push(Hit { term, fit: Fit::Inside, start: part.start, end: part.end });
            }
        }
        if hits.len() > before {
            hits.sort_by_key(|hit| (hit.start, hit.term));
        }
    }
}

/// Returns the pattern that finds all places in ASCII text where a word may stand. Returns `None`
/// if the words have to be looked for everywhere.
fn candidates(terms: &[Term]) -> Option<Regex> {
    let ascii = terms.iter().map(Term::needle).filter(|needle| needle.is_ascii());
    let mut needles: Vec<String> = ascii.map(regex::escape).collect();
    // Escapes of JSON for letters with accents.
    needles.push(r"\\u0".to_owned());
    needles.sort();
    needles.dedup();
    RegexBuilder::new(&needles.join("|")).case_insensitive(true).unicode(false).build().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matcher(words: &[&str]) -> Matcher {
        let terms = words.iter().zip(0..).map(|(word, at)| Term::new(word, at).unwrap()).collect();
        Matcher::new(terms, |_| true)
    }

    fn hits(words: &[&str], text: &str) -> Vec<(usize, Fit, String)> {
        let mut finder = Finder::default();
        let found = matcher(words).find(&mut finder, text.as_bytes(), false).to_vec();
        let shown = |hit: Hit| (hit.term, hit.fit, text[hit.start..hit.end].to_owned());
        found.into_iter().map(shown).collect()
    }

    #[test]
    fn all_words_are_found() {
        let want = [
            (1, Fit::Same, "pod".to_owned()),
            (2, Fit::Begins, "web-7f9c".to_owned()),
            (0, Fit::Form, "eviction".to_owned()),
        ];
        assert_eq!(hits(&["evicted", "pod", "web-7"], "pod web-7f9c: eviction"), want);
        let want = [(0, Fit::Inside, "namespaces".to_owned())];
        assert_eq!(hits(&["space"], "two namespaces"), want);
        assert_eq!(hits(&["space"], "namespace space").len(), 1);
    }

    #[test]
    fn candidates_miss_nothing() {
        let words = ["retry", "OOMKilled", "web-7"];
        let matcher = matcher(&words);
        for text in ["RETRIES", "oomkilled", "OOM killed", "x web:7", "retrying"] {
            assert!(!hits(&words, text).is_empty(), "{text}");
            assert!(matcher.candidate(text.as_bytes(), 0).is_some(), "{text}");
        }
        assert_eq!(matcher.candidate(b"nothing of that", 0), None);
        assert_eq!(super::tests::matcher(&["\u{65e5}"]).candidate(b"ascii", 0), None);
    }
}
