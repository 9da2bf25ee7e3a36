//! Finds the first of many patterns that matches a line.
//!
//! Patterns that are anchored at the start of a line share one automaton. It examines only a few
//! bytes of most lines. These patterns seldom contain a literal that could be searched for first.
//!
//! For the other patterns, an automaton finds the literals that a line contains. Only patterns with
//! one of these literals are tried, and they are compiled on first use. A single automaton for all
//! patterns would have more states than any cache can hold, because each combination of words is a
//! separate state.

use std::sync::OnceLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use regex::bytes::{Regex, RegexBuilder};
use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::util::pool::Pool;
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input, MatchKind, PatternSet};
use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, Hir, HirKind, Look};

// Cache size in bytes of the lazy automaton of one pattern, per thread.
const AUTOMATON_BYTES: usize = 256 << 10;
// Number of words of [`RuleBits`]. Two words are enough for 128 patterns.
const BIT_WORDS: usize = 2;

/// Patterns in order of precedence. `starts` contains the anchored patterns, and `of_start` the
/// index of each of them in `patterns`. `called` lists, for each literal, the other patterns to try
/// on a line that contains the literal. `always` lists those to try on every line.
pub(super) struct RuleSet {
    patterns: Vec<RulePattern>,
    starts: LinePatterns,
    of_start: Vec<usize>,
    literals: AhoCorasick,
    called: Vec<RuleBits>,
    always: RuleBits,
}

struct RulePattern {
    text: &'static str,
    compiled: OnceLock<Regex>,
}

#[derive(Debug, Clone, Copy, Default)]
struct RuleBits([u64; BIT_WORDS]);

impl RuleSet {
    pub(super) fn new(patterns: impl IntoIterator<Item = &'static str>) -> Self {
        let pattern = |text| RulePattern { text, compiled: OnceLock::new() };
        let patterns: Vec<RulePattern> = patterns.into_iter().map(pattern).collect();
        assert!(patterns.len() <= u64::BITS as usize * BIT_WORDS, "patterns without a bit");
        let (mut texts, mut called): (Vec<Vec<u8>>, Vec<RuleBits>) = Default::default();
        let mut always = RuleBits::default();
        let is_start = |index: &usize| is_of_start(patterns[*index].text);
        let (of_start, others): (Vec<usize>, Vec<usize>) = (0..patterns.len()).partition(is_start);
        for index in others {
            let pattern = &patterns[index];
            let Some(literals) = required_literals(pattern.text) else {
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

// Length in bytes from which a literal distinguishes lines well. Longer literals are not preferred.
const LONG_LITERAL: usize = 6;

/// Returns literals in lower case. Every match of `pattern` contains at least one of them, in upper
/// or lower case. Returns `None` if there are no such literals.
fn required_literals(pattern: &str) -> Option<Vec<Vec<u8>>> {
    let parsed = ParserBuilder::new().unicode(false).utf8(false).build().parse(pattern);
    required(&parsed.ok()?)
}

fn required(hir: &Hir) -> Option<Vec<Vec<u8>>> {
    match hir.kind() {
        HirKind::Literal(_) | HirKind::Class(_) => only(hir).map(|text| vec![text]),
        HirKind::Capture(capture) => required(&capture.sub),
        HirKind::Repetition(repetition) if repetition.min > 0 => required(&repetition.sub),
        HirKind::Alternation(parts) => {
            let all: Option<Vec<_>> = parts.iter().map(required).collect();
            all.map(|texts| texts.concat())
        }
        HirKind::Concat(parts) => required_in_turn(parts),
        _ => None,
    }
}

fn required_in_turn(parts: &[Hir]) -> Option<Vec<Vec<u8>>> {
    let mut all: Vec<Vec<Vec<u8>>> = Vec::new();
    let mut run: Vec<u8> = Vec::new();
    for part in parts.iter().filter(|part| !matches!(part.kind(), HirKind::Look(_))) {
        if let Some(text) = only(part) {
            run.extend(text);
            continue;
        }
        all.push(vec![std::mem::take(&mut run)]);
        all.extend(required(part));
    }
    all.push(vec![run]);
    all.into_iter()
        .filter(|texts| texts.iter().all(|text| !text.is_empty()))
        .max_by_key(|texts| telling(texts))
}

// Returns a sort key for a set of literals. Sets of long and few literals have greater keys,
// because they distinguish lines best.
fn telling(texts: &[Vec<u8>]) -> (usize, usize) {
    let shortest = texts.iter().map(Vec::len).min().unwrap_or(0);
    (shortest.min(LONG_LITERAL), usize::MAX - texts.len())
}

fn only(hir: &Hir) -> Option<Vec<u8>> {
    match hir.kind() {
        HirKind::Literal(literal) => Some(literal.0.to_ascii_lowercase()),
        HirKind::Class(Class::Bytes(class)) => {
            let mut ranges = class.ranges().iter().map(|range| (range.start(), range.end()));
            let (first, end) = ranges.next()?;
            let letter = first.to_ascii_lowercase();
            let is_same = |(start, end): (u8, u8)| start == end && start == letter;
            (first == end && ranges.all(is_same)).then(|| vec![letter])
        }
        HirKind::Capture(capture) => only(&capture.sub),
        HirKind::Concat(parts) => {
            let texts: Option<Vec<_>> = parts.iter().map(only).collect();
            texts.map(|texts| texts.concat())
        }
        _ => None,
    }
}

// Cache size in bytes of the lazy automaton, per thread.
const CACHE_BYTES: usize = 1 << 20;
// Maximum repetition count of a pattern in the automaton of anchored patterns.
const COUNTED: u32 = 8;

struct LinePatterns {
    automaton: DFA,
    caches: Pool<Cache, Box<dyn Fn() -> Cache + Send + Sync>>,
}

impl LinePatterns {
    fn new(patterns: &[&str]) -> Self {
        let config = DFA::config().match_kind(MatchKind::All).cache_capacity(CACHE_BYTES);
        let automaton = DFA::builder()
            .configure(config)
            .syntax(syntax::Config::new().unicode(false).utf8(false))
            .build_many(patterns)
            .expect("the patterns of the source");
        let copy = automaton.clone();
        let caches = Pool::new(Box::new(move || copy.create_cache()) as Box<_>);
        Self { automaton, caches }
    }

    // Calls `each` with the index of each matching pattern, in no particular order.
    fn matching(&self, line: &[u8], each: impl FnMut(usize)) {
        let mut found = PatternSet::new(self.automaton.pattern_len());
        let input = Input::new(line).anchored(Anchored::Yes);
        let mut cache = self.caches.get();
        self.automaton
            .try_which_overlapping_matches(&mut cache, &input, &mut found)
            .expect("the automaton never gives up");
        found.iter().map(|pattern| pattern.as_usize()).for_each(each);
    }
}

/// Returns true if `pattern` matches only at the start of a line and has no large repetition
/// counts, which would need many states.
fn is_of_start(pattern: &str) -> bool {
    let parsed = ParserBuilder::new().unicode(false).utf8(false).build().parse(pattern);
    parsed
        .is_ok_and(|hir| hir.properties().look_set_prefix().contains(Look::Start) && !counts(&hir))
}

fn counts(hir: &Hir) -> bool {
    match hir.kind() {
        HirKind::Repetition(repetition) => {
            repetition.max.is_some_and(|most| most > COUNTED) || counts(&repetition.sub)
        }
        HirKind::Capture(capture) => counts(&capture.sub),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => parts.iter().any(counts),
        _ => false,
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

    #[test]
    fn one_literal_occurs_in_whatever_matches() {
        for (pattern, literals) in [
            ("^error: x", Some(vec!["error: x"])),
            (r"^\s*([Ee]rror|Fatal): \S", Some(vec!["error", "fatal"])),
            (r"(?i)\bgave up\b", Some(vec!["gave up"])),
            (r"a{2,}b? timed? ?out", Some(vec![" time"])),
            (r"x\d+(yes|no)long enough", Some(vec!["long enough"])),
            (r"[ab]|c", None),
            (r"^\d+$", None),
            (r"(a|\d)", None),
            (r"\xe2\x9c\x93|ok", Some(vec!["\u{2713}", "ok"])),
        ] {
            let found = required_literals(pattern);
            let found: Option<Vec<&str>> = found
                .as_ref()
                .map(|texts| texts.iter().map(|text| str::from_utf8(text).unwrap()).collect());
            assert_eq!(found, literals, "{pattern}");
        }
    }

    #[test]
    fn patterns_of_a_start_are_told_from_others() {
        for pattern in ["^a", "^a|^b", "(^a|^b)c", r"^\s*(x|y)$"] {
            assert!(is_of_start(pattern), "{pattern}");
        }
        for pattern in ["a", "^a|b", "(^|x)a", "a$", "^.{0,60}a"] {
            assert!(!is_of_start(pattern), "{pattern}");
        }
    }

    #[test]
    fn all_patterns_that_match_are_found() {
        let patterns = LinePatterns::new(&[r"^a.*\bc", "^a", r"^\s*b$", r"^\xe2\x97"]);
        for (line, matching) in [
            (&b"a b c"[..], &[0, 1][..]),
            (b"abc", &[1]),
            (b"  b", &[2]),
            (b" a", &[]),
            (b"\xe2\x97\xff", &[3]),
            (b"", &[]),
        ] {
            let mut found = Vec::new();
            patterns.matching(line, |index| found.push(index));
            found.sort_unstable();
            assert_eq!(found, matching, "{}", line.escape_ascii());
        }
    }
}
