//! Terms worth searching for in an output with errors.

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;

use crate::materialize::failure::rules::Rank;
use crate::model::ErrorRank;

/// The most terms that are offered.
const WORDS: usize = 6;
/// The terms that may be offered, better ones first. As regular expressions they match themselves.
const CANDIDATES: [&str; 26] = [
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

/// The candidates that occurred on the lines of each rank, a bit each.
#[derive(Debug, Clone, Default)]
pub(super) struct SearchTerms {
    occurred: [u32; ErrorRank::COUNT],
}

impl SearchTerms {
    pub(super) fn add(&mut self, line: &[u8], rank: Rank) {
        for found in SEARCHER.find_overlapping_iter(line) {
            self.occurred[rank.kept() as usize] |= 1 << found.pattern().as_u32();
        }
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
