//! A search for any of a few dozen short fragments, at several gigabytes a second.

use std::ops::Range;

use aho_corasick::{AhoCorasick, Input, MatchKind, Span, packed};

/// A searcher for several fragments at once.
pub(super) enum Fragments {
    Packed(packed::Searcher),
    /// The fallback for machines without the vector instructions.
    Automaton(AhoCorasick),
}

impl Fragments {
    /// Compiles the fragments: at most 64, so that they are searched for with vector instructions,
    /// and none shorter than three bytes. If several match at one offset, the first in the list is
    /// found.
    pub(super) fn new(fragments: &[&str]) -> Self {
        if let Some(packed) = packed::Searcher::new(fragments) {
            return Self::Packed(packed);
        }
        let automaton =
            AhoCorasick::builder().match_kind(MatchKind::LeftmostFirst).build(fragments);
        Self::Automaton(automaton.expect("the fragments are few and short"))
    }

    /// Returns the range of the first fragment from `at` on.
    pub(super) fn find(&self, bytes: &[u8], at: usize) -> Option<Range<usize>> {
        let span = Span::from(at..bytes.len());
        let found = match self {
            Self::Packed(packed) => packed.find_in(bytes, span),
            Self::Automaton(automaton) => automaton.find(Input::new(bytes).span(span)),
        };
        found.map(|found| found.start()..found.end())
    }
}
