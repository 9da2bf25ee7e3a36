//! The fragments of which one occurs in every line that a rule takes.

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;
use aho_corasick::MatchKind;
use aho_corasick::Span;
use aho_corasick::packed;

/// At most 64, so that they are searched for with vector instructions, and none shorter than three
/// bytes. The first letter is left out where it may be a capital.
pub(super) const FRAGMENTS: [&str; 56] = [
    "rror",
    "RROR",
    "ERR!",
    "ERR]",
    "xception",
    "EXCEPTION",
    "anic",
    "PANIC",
    "raceback",
    "FAIL",
    "ailed",
    "ailure",
    "ailing",
    "atal",
    "FATAL",
    "RITICAL",
    "ritical",
    "SEVERE",
    "ssert",
    "xpected",
    "aused by",
    "egmentation",
    "core dumped",
    "SIGSEGV",
    "SIGABRT",
    "SIGKILL",
    "terminate called",
    "xit code",
    "xit status",
    "xited with",
    "non-zero",
    "*** [",
    "*** No rule",
    "ot found",
    "annot ",
    "an't ",
    "No such",
    "ermission denied",
    "ccess denied",
    "onnection re",
    "Killed",
    "OOM",
    "BackOff",
    "ut of memory",
    "timeout",
    "imed out",
    "ime out",
    "undefined reference",
    ".go:",
    "E   ",
    "not ok",
    "\u{25cf} ",
    "nhandled",
    "Uncaught",
    "HTTP",
    "tatus",
];

/// Where a fragment begins, from `at` on.
pub(super) fn find(bytes: &[u8], at: usize) -> Option<usize> {
    let span = Span::from(at..bytes.len());
    match &*SEARCHER {
        Searcher::Packed(packed) => packed.find_in(bytes, span).map(|found| found.start()),
        Searcher::Automaton(automaton) => {
            automaton.find(aho_corasick::Input::new(bytes).span(span)).map(|found| found.start())
        }
    }
}

enum Searcher {
    Packed(packed::Searcher),
    /// For machines without the vector instructions.
    Automaton(AhoCorasick),
}

static SEARCHER: LazyLock<Searcher> = LazyLock::new(|| {
    if let Some(packed) = packed::Searcher::new(FRAGMENTS) {
        return Searcher::Packed(packed);
    }
    let automaton = AhoCorasick::builder().match_kind(MatchKind::LeftmostFirst).build(FRAGMENTS);
    Searcher::Automaton(automaton.expect("the fragments are few and short"))
});
