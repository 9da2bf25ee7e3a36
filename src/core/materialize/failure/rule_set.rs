//! Finds the first of many patterns that matches a line.
//!
//! One automaton has the patterns of lines that begin in a certain way ([`starts`]). For the others
//! an automaton finds which of the patterns' literals a line has: only patterns with one of them
//! are tried, and compiled when they are first tried. A single automaton for these, too, would have
//! more states than any cache can hold: each combination of words is another state.

use std::sync::OnceLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use regex::bytes::{Regex, RegexBuilder};

use crate::materialize::failure::starts::LinePatterns;
use crate::materialize::failure::{literals, starts};

/// Bytes of the states of a pattern's automaton that a thread keeps.
const AUTOMATON_BYTES: usize = 256 << 10;
/// Words of a set of patterns.
const WORDS: usize = 2;

/// Patterns in their order.
pub(super) struct RuleSet {
    patterns: Vec<RulePattern>,
    /// The patterns that match only at the start of a line, and their indexes.
    starts: LinePatterns,
    of_start: Vec<usize>,
    /// Finds the literals of the others, whatever their case.
    literals: AhoCorasick,
    /// The patterns that each literal calls for.
    called: Vec<RuleBits>,
    /// Patterns without literals.
    always: RuleBits,
}

struct RulePattern {
    text: &'static str,
    compiled: OnceLock<Regex>,
}

/// A set of patterns, a bit each.
#[derive(Debug, Clone, Copy, Default)]
struct RuleBits([u64; WORDS]);

impl RuleSet {
    /// Prepares at most 128 patterns.
    pub(super) fn new(patterns: impl IntoIterator<Item = &'static str>) -> Self {
        let pattern = |text| RulePattern { text, compiled: OnceLock::new() };
        let patterns: Vec<RulePattern> = patterns.into_iter().map(pattern).collect();
        assert!(patterns.len() <= u64::BITS as usize * WORDS, "patterns without a bit");
        let (mut texts, mut called): (Vec<Vec<u8>>, Vec<RuleBits>) = Default::default();
        let mut always = RuleBits::default();
        let is_start = |index: &usize| starts::is_of_start(patterns[*index].text);
        let (of_start, others): (Vec<usize>, Vec<usize>) = (0..patterns.len()).partition(is_start);
        for index in others {
            let pattern = &patterns[index];
            let Some(literals) = literals::of(pattern.text) else {
                always.add(index);
                continue;
            };
            for text in literals {
                let at = texts.iter().position(|other| *other == text).unwrap_or(texts.len());
                if at == texts.len() {
                    texts.push(text);
                    called.push(RuleBits::default());
                }
                called[at].add(index);
            }
        }
        let literals = AhoCorasick::builder()
            .kind(Some(AhoCorasickKind::DFA))
            .ascii_case_insensitive(true)
            .build(texts)
            .expect("the literals are few and short");
        let texts: Vec<&str> = of_start.iter().map(|index| patterns[*index].text).collect();
        let starts = LinePatterns::new(&texts);
        Self { patterns, starts, of_start, literals, called, always }
    }

    /// Returns the index of the first pattern that matches.
    pub(super) fn first(&self, line: &[u8]) -> Option<usize> {
        let mut called = self.always;
        for found in self.literals.find_overlapping_iter(line) {
            called.add_all(self.called[found.pattern().as_usize()]);
        }
        let mut begun = RuleBits::default();
        self.starts.matching(line, |found| begun.add(self.of_start[found]));
        let begun = begun.iter().next();
        let called = called.iter().take_while(|index| begun.is_none_or(|begun| *index < begun));
        { called }.find(|index| self.patterns[*index].regex().is_match(line)).or(begun)
    }
}

impl RulePattern {
    fn regex(&self) -> &Regex {
        self.compiled.get_or_init(|| {
            let built =
                RegexBuilder::new(self.text).unicode(false).dfa_size_limit(AUTOMATON_BYTES).build();
            built.expect("a pattern of the source")
        })
    }
}

impl RuleBits {
    fn add(&mut self, index: usize) {
        self.0[index / 64] |= 1 << (index % 64);
    }

    fn add_all(&mut self, others: Self) {
        for (word, other) in self.0.iter_mut().zip(others.0) {
            *word |= other;
        }
    }

    /// Returns the members in their order.
    fn iter(self) -> impl Iterator<Item = usize> {
        let in_word = |(at, mut word): (usize, u64)| {
            std::iter::from_fn(move || {
                let bit = word.trailing_zeros() as usize;
                word &= word.checked_sub(1)?;
                Some(at * 64 + bit)
            })
        };
        self.0.into_iter().enumerate().flat_map(in_word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_pattern_that_matches_is_found() {
        let set = RuleSet::new(["^ignored: error", "(?i)error", r"^\d+$", "^Error"]);
        for (line, first) in [
            ("ignored: error 3", Some(0)),
            ("an ERROR", Some(1)),
            ("Error", Some(1)),
            ("42", Some(2)),
            ("no", None),
            ("", None),
        ] {
            assert_eq!(set.first(line.as_bytes()), first, "{line}");
        }
    }

    #[test]
    fn a_set_holds_as_many_as_it_has_bits() {
        let mut bits = RuleBits::default();
        let members = [0, 5, 63, 64, 127];
        for index in members {
            bits.add(index);
        }
        assert_eq!(bits.iter().collect::<Vec<_>>(), members);
    }
}
