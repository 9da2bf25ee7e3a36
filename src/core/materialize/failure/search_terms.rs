//! Terms worth searching for in an output with errors.

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;

use crate::materialize::failure::rules::Rank;
use crate::model::ErrorRank;

/// The most terms that are offered.
const WORDS: usize = 6;
/// The terms that may be offered, better ones first. As regular expressions they match themselves.
pub(super) const CANDIDATES: [&str; 26] = [
    "Caused by",
    "panicked",
    "Traceback",
    "Exception",
    "Error",
    "ERROR",
    "FATAL",
    "fatal",
    "panic",
    "FAILED",
    "FAIL",
    "error",
    "assert",
    "Expected:",
    "ERR!",
    "Killed",
    "Segmentation fault",
    "out of memory",
    "timeout",
    "timed out",
    "refused",
    "Permission denied",
    "No such file",
    "not found",
    "failed",
    "exit code",
];

/// Returns the candidates that occur on a line, a bit each.
pub(super) fn in_line(line: &[u8]) -> u32 {
    let found = SEARCHER.find_overlapping_iter(line);
    found.fold(0, |terms, found| terms | 1 << found.pattern().as_u32())
}

/// The candidates that occurred on the lines of each rank, a bit each.
#[derive(Debug, Clone, Default)]
pub(super) struct SearchTerms {
    occurred: [u32; ErrorRank::COUNT],
}

impl SearchTerms {
    /// Adds the terms of a line, a bit each.
    pub(super) fn add(&mut self, terms: u32, rank: Rank) {
        self.occurred[rank.kept() as usize] |= terms;
    }

    /// Returns the terms, those on the most telling lines first. If one term contains another, only
    /// one of them is returned.
    pub(super) fn best(&self) -> Vec<String> {
        let mut best: Vec<&str> = Vec::new();
        for occurred in self.occurred {
            for (index, word) in CANDIDATES.iter().enumerate() {
                let told = best.iter().any(|chosen| chosen.contains(word) || word.contains(chosen));
                if occurred >> index & 1 == 1 && !told && best.len() < WORDS {
                    best.push(word);
                }
            }
        }
        best.into_iter().map(str::to_owned).collect()
    }
}

static SEARCHER: LazyLock<AhoCorasick> =
    LazyLock::new(|| AhoCorasick::new(CANDIDATES).expect("the candidates are few and short"));
