//! A prefilter for error lines: every line that a rule accepts contains one of its fragments.

use std::sync::LazyLock;

use crate::materialize::fragments::Fragments;

/// At most 64 fragments of at least three bytes, so that they are searched for with vector
/// instructions. The first letter is left out where it may be a capital.
pub(super) const FRAGMENTS: [&str; 64] = [
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
    "xited with",
    "non-zero",
    "*** [",
    "*** No rule",
    "ot found",
    "annot ",
    "an't ",
    "No such",
    "denied",
    "ermissions",
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
    "rejected]",
    "CONFLICT",
    " = -1 E",
    "unmet dependencies",
    "but it is not",
    "Invalid ",
    "[cause]",
    "nable to",
    "ould not",
];

/// Returns the offset of the first fragment from `at` on.
pub(super) fn find(bytes: &[u8], at: usize) -> Option<usize> {
    SEARCHER.find(bytes, at)
}

static SEARCHER: LazyLock<Fragments> = LazyLock::new(|| Fragments::new(&FRAGMENTS));
