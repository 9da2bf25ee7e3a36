//! The patterns of lines that begin in a certain way, in one automaton.
//!
//! Such patterns seldom have a text by which they can be passed over, but a line that begins
//! otherwise ends them all after a few bytes.

use std::fmt;

use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::util::pool::Pool;
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input, MatchKind, PatternSet};
use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Hir, HirKind, Look};

/// Bytes of the automaton's states that a thread keeps.
const CACHE_BYTES: usize = 1 << 20;
/// The most repetitions of a part that count as few.
const COUNTED: u32 = 8;

/// Patterns that match only at the start of a line.
pub(super) struct LinePatterns {
    automaton: DFA,
    caches: Pool<Cache, Box<dyn Fn() -> Cache + Send + Sync>>,
}

impl LinePatterns {
    /// Compiles patterns that [`is_of_start`] holds for.
    pub(super) fn new(patterns: &[&str]) -> Self {
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

    /// Passes the indexes of the patterns that match `line` to `each`, in no particular order.
    pub(super) fn matching(&self, line: &[u8], each: impl FnMut(usize)) {
        let mut found = PatternSet::new(self.automaton.pattern_len());
        let input = Input::new(line).anchored(Anchored::Yes);
        let mut cache = self.caches.get();
        self.automaton
            .try_which_overlapping_matches(&mut cache, &input, &mut found)
            .expect("the automaton never gives up");
        found.iter().map(|pattern| pattern.as_usize()).for_each(each);
    }
}

impl fmt::Debug for LinePatterns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LinePatterns").finish_non_exhaustive()
    }
}

/// Returns true if `pattern` matches only at the start of a line. Not if it counts bytes: each
/// count would be another state.
pub(super) fn is_of_start(pattern: &str) -> bool {
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
