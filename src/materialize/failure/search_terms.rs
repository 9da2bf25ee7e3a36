//! The words worth searching for.

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;

use crate::materialize::failure::rules::Rank;

/// Most words that are offered.
const WORDS: usize = 6;
/// What may be offered, as it stands in the output and as a regular expression; better ones first.
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

/// Which candidates occurred on the lines of each rank, a bit each.
#[derive(Debug, Clone, Default)]
pub(super) struct SearchTerms {
    occurred: [u32; Rank::COUNT],
}

impl SearchTerms {
    pub(super) fn add(&mut self, line: &[u8], rank: Rank) {
        for found in SEARCHER.find_overlapping_iter(line) {
            self.occurred[rank.kept() as usize] |= 1 << found.pattern().as_u32();
        }
    }

    /// Those on the most telling lines first. Of two that stand in each other one is enough.
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
