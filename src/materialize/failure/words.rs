//! The words worth searching for.

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;

use crate::materialize::failure::rules::Rank;

/// Most words that are offered.
const WORDS: usize = 6;
/// What may be offered, as it stands in the output and as a regular expression; better ones first.
const CANDIDATES: [&str; 24] = [
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
    "Killed",
    "Segmentation fault",
    "ut of memory",
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
pub(super) struct Words {
    occurred: [u32; Rank::COUNT],
}

impl Words {
    pub(super) fn add(&mut self, line: &[u8], rank: Rank) {
        for found in SEARCHER.find_overlapping_iter(line) {
            self.occurred[rank.kept() as usize] |= 1 << found.pattern().as_u32();
        }
    }

    /// Those on the most telling lines first.
    pub(super) fn best(&self) -> Vec<String> {
        let mut left = u32::MAX;
        let mut best = Vec::new();
        for occurred in self.occurred {
            let fresh = occurred & left;
            left &= !occurred;
            let words = CANDIDATES.iter().enumerate().filter(|(index, _)| fresh >> index & 1 == 1);
            best.extend(words.map(|(_, word)| (*word).to_owned()));
        }
        best.truncate(WORDS);
        best
    }
}

static SEARCHER: LazyLock<AhoCorasick> =
    LazyLock::new(|| AhoCorasick::new(CANDIDATES).expect("the candidates are few and short"));
