//! A prefilter for error lines: every line that a rule accepts contains one of its fragments, where
//! its [`neighbourhood`] does not say that all is well.

use std::ops::Range;
use std::sync::LazyLock;

use crate::materialize::failure::neighbourhood;
use crate::materialize::fragments::Fragments;

pub(super) use crate::materialize::failure::neighbourhood::CONTEXT_BYTES;

/// At most 64 fragments, so that they are searched for with vector instructions, and of at least
/// four bytes: a shorter one halves the speed. The first letter is left out where it may be a
/// capital.
pub(super) const FRAGMENTS: [&str; 63] = [
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

/// Returns the offset of the first fragment from `at` on that tells something where it stands.
/// `bytes` are whole lines, or one line with [`CONTEXT_BYTES`] after what is examined of it.
pub(super) fn find(bytes: &[u8], at: usize) -> Option<usize> {
    telling(bytes, at).map(|found| found.start)
}

/// Returns true if a fragment that tells something is in the first `length` bytes of a line, which
/// has [`CONTEXT_BYTES`] after them or ends.
pub(super) fn is_in(line: &[u8], length: usize) -> bool {
    let seen = &line[..line.len().min(length + CONTEXT_BYTES)];
    telling(seen, 0).is_some_and(|found| found.end <= length)
}

/// Returns true if a fragment is in `word`.
pub(super) fn has_fragment(word: &[u8]) -> bool {
    SEARCHER.find(word, 0).is_some()
}

fn telling(bytes: &[u8], mut at: usize) -> Option<Range<usize>> {
    loop {
        let found = SEARCHER.find(bytes, at)?;
        if neighbourhood::tells(bytes, &found) {
            return Some(found);
        }
        at = found.start + 1;
    }
}

static SEARCHER: LazyLock<Fragments> = LazyLock::new(|| Fragments::new(&FRAGMENTS));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_fragment_is_so_short_that_it_slows_the_search() {
        assert!(FRAGMENTS.iter().all(|fragment| fragment.len() >= 4));
    }
}
