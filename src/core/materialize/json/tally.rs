//! Counts the values of one field that indicate errors.
//!
//! This module has the lists of these values. All other values are ignored.

use std::sync::LazyLock;

use crate::materialize::json::roles::TroubleField;
use crate::materialize::json::scan::Scalar;
use crate::model::TroubleRecord;

// Maximum number of kinds of records of a field. The first record of each kind is kept.
const KINDS: usize = 16;

/// The values of one field that may indicate errors: counts of known words, and the first record of
/// each kind of error.
#[derive(Debug, Clone)]
pub(super) struct FieldTally {
    field: TroubleField,
    counts: Vec<(TroubleWord, u64)>,
    // True if a number was not in the range of statuses, levels or severities.
    odd: bool,
    recent: RecentText,
    records: Vec<FirstRecord>,
}

// The result for the previous text, because a text is often repeated.
#[derive(Debug, Clone, Copy, Default)]
struct RecentText {
    packed: u128,
    word: Option<TroubleWord>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct FirstRecord {
    pub(super) rank: u8,
    // A hash of the fields that determine the kind, or 0 if there are none.
    pub(super) kind: u32,
    pub(super) at: TroubleRecord,
}

impl FieldTally {
    pub(super) fn new(field: TroubleField) -> Self {
        let recent = RecentText::default();
        Self { field, counts: Vec::new(), odd: false, recent, records: Vec::new() }
    }

    /// Counts a string of `length` bytes that begins with `start`. Returns the rank of the string
    /// if it indicates an error.
    pub(super) fn text(&mut self, start: &[u8], length: u64) -> Option<u8> {
        if !self.field.word || length > WORD_BYTES as u64 || start.len() as u64 != length {
            return None;
        }
        let packed = start.iter().fold(0, |sum, byte| sum << 8 | u128::from(*byte));
        if self.recent.packed != packed {
            self.recent = RecentText { packed, word: TroubleWord::of(start) };
        }
        self.recent.word.and_then(|word| self.count(word))
    }

    pub(super) fn scalar(&mut self, scalar: Scalar, written: &[u8]) -> Option<u8> {
        let word = match scalar {
            Scalar::Null | Scalar::Float => None,
            Scalar::Bool => self.of_bool(written == b"true"),
            Scalar::Int => self.of_number(written),
        };
        word.and_then(|word| self.count(word))
    }

    fn of_bool(&self, value: bool) -> Option<TroubleWord> {
        let word = if value { TroubleWord::TRUE } else { TroubleWord::FALSE };
        (self.field.bad == Some(value)).then_some(word)
    }

    fn of_number(&mut self, written: &[u8]) -> Option<TroubleWord> {
        let digits = written.strip_prefix(b"-").unwrap_or(written);
        let digits = digits.iter().take(9).map(|digit| i64::from(*digit) - i64::from(b'0'));
        let size = digits.fold(0, |sum, digit| sum * 10 + digit);
        let number = if written.first() == Some(&b'-') { -size } else { size };
        let TroubleField { http, count, exit, level, lint, .. } = self.field;
        let fits = |range: std::ops::RangeInclusive<i64>| range.contains(&number);
        self.odd |=
            (http && !fits(100..=599)) || (level && !fits(10..=60)) || (lint && !fits(0..=2));
        match number {
            500..=599 if http => Some(TroubleWord::SERVER_ERROR),
            400..=499 if http => Some(TroubleWord::CLIENT_ERROR),
            60 if level => Some(TroubleWord::FATAL_LEVEL),
            50 if level => Some(TroubleWord::ERROR_LEVEL),
            40 if level => Some(TroubleWord::WARN_LEVEL),
            2 if lint => Some(TroubleWord::LINT_ERROR),
            1 if lint => Some(TroubleWord::LINT_WARNING),
            1.. if count => Some(TroubleWord::SOME),
            _ if exit && number != 0 => Some(TroubleWord::NOT_ZERO),
            _ => None,
        }
    }

    fn count(&mut self, word: TroubleWord) -> Option<u8> {
        match self.counts.iter_mut().find(|(known, _)| *known == word) {
            Some((_, count)) => *count += 1,
            None => self.counts.push((word, 1)),
        }
        Some(word.rank()).filter(|rank| *rank <= ERROR)
    }

    pub(super) fn add_record(&mut self, record: FirstRecord) {
        let same = |known: &&mut FirstRecord| known.kind == record.kind && record.kind != 0;
        if let Some(known) = self.records.iter_mut().find(same) {
            known.at.times += 1;
            return;
        }
        if self.records.len() == KINDS {
            let Some(worst) = self.records.iter().map(|known| known.rank).max() else { return };
            let last = self.records.iter().rposition(|known| known.rank == worst);
            let Some(last) = last.filter(|_| record.rank < worst) else { return };
            self.records.remove(last);
        }
        self.records.push(record);
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.odd |= other.odd;
        for (word, count) in &other.counts {
            match self.counts.iter_mut().find(|(known, _)| known == word) {
                Some((_, sum)) => *sum += count,
                None => self.counts.push((*word, *count)),
            }
        }
        other.records.iter().for_each(|record| self.add_record(*record));
        self.records.sort_by_key(|record| record.at.offset);
    }

    /// Returns the words with their counts, worst first. Statuses, levels and lint severities are
    /// included only if all numbers were in the expected range.
    pub(super) fn counts(&self) -> Vec<(TroubleWord, u64)> {
        let ranges = [
            TroubleWord::SERVER_ERROR,
            TroubleWord::CLIENT_ERROR,
            TroubleWord::FATAL_LEVEL,
            TroubleWord::ERROR_LEVEL,
            TroubleWord::WARN_LEVEL,
            TroubleWord::LINT_ERROR,
            TroubleWord::LINT_WARNING,
        ];
        let mut counts = self.counts.clone();
        counts.retain(|(word, _)| !self.odd || !ranges.contains(word));
        counts.sort_by_key(|(word, count)| (word.rank(), u64::MAX - count));
        counts
    }

    // Returns true if there are numeric severities of `ESLint`.
    pub(super) fn is_lint(&self) -> bool {
        let lint = [TroubleWord::LINT_ERROR, TroubleWord::LINT_WARNING];
        self.counts.iter().any(|(word, _)| lint.contains(word))
    }

    // Returns the records, worst first. Records of the same rank are sorted by kind, rare kinds
    // first.
    pub(super) fn records(&self) -> Vec<TroubleRecord> {
        let mut records = self.records.clone();
        records.sort_by_key(|record| (record.rank, record.at.times >= OFTEN, record.at.offset));
        records.iter().map(|record| record.at).collect()
    }
}

// A kind with at least this number of records is frequent.
const OFTEN: u64 = 3;

pub(super) const WORD_BYTES: usize = 16;
// Words with this rank or a higher one do not indicate errors by themselves.
pub(super) const HARMLESS: u8 = 3;
// The highest rank of an error.
pub(super) const ERROR: u8 = 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TroubleWord {
    index: u8,
    spelling: Spelling,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Spelling {
    Listed,
    Lower,
    Upper,
    Title,
}

impl TroubleWord {
    const TRUE: Self = Self::listed(0);
    const FALSE: Self = Self::listed(1);
    // `SOME` is a count above 0. `NOT_ZERO` is an exit code other than 0.
    const SOME: Self = Self::listed(2);
    const NOT_ZERO: Self = Self::listed(3);
    const SERVER_ERROR: Self = Self::listed(4);
    const CLIENT_ERROR: Self = Self::listed(5);
    // Levels of pino and bunyan.
    const FATAL_LEVEL: Self = Self::listed(6);
    const ERROR_LEVEL: Self = Self::listed(7);
    const WARN_LEVEL: Self = Self::listed(8);
    // Severities of `ESLint`.
    const LINT_ERROR: Self = Self::listed(9);
    const LINT_WARNING: Self = Self::listed(10);

    const fn listed(index: u8) -> Self {
        Self { index, spelling: Spelling::Listed }
    }

    pub(super) fn of(text: &[u8]) -> Option<Self> {
        let (first, length) = (text.first()?, text.len());
        if length > WORD_BYTES || LIST.letters[length] & letter(*first) == 0 {
            return None;
        }
        let words = &LIST.words[VALUES.len()..];
        let at = words.iter().position(|(word, _)| word.as_bytes().eq_ignore_ascii_case(text))?;
        let index = VALUES.len() + at;
        let spellings = [Spelling::Listed, Spelling::Lower, Spelling::Upper, Spelling::Title];
        let words = spellings.map(|spelling| Self { index: index as u8, spelling });
        words.into_iter().find(|word| word.text().as_bytes() == text)
    }

    pub(super) fn text(self) -> String {
        let word = LIST.words[usize::from(self.index)].0;
        match self.spelling {
            Spelling::Listed => word.to_owned(),
            Spelling::Lower => word.to_ascii_lowercase(),
            Spelling::Upper => word.to_ascii_uppercase(),
            Spelling::Title => word[..1].to_ascii_uppercase() + &word[1..].to_ascii_lowercase(),
        }
    }

    // Returns the rank of the word. Rank 0 is the worst.
    pub(super) fn rank(self) -> u8 {
        LIST.words[usize::from(self.index)].1
    }

    pub(super) fn is_range(self) -> bool {
        matches!(self, Self::SOME | Self::NOT_ZERO | Self::SERVER_ERROR | Self::CLIENT_ERROR)
    }

    // Returns a jq condition that is true if `value` is this word.
    pub(super) fn condition(self, value: &str) -> String {
        match self {
            Self::SOME => format!("({value}|numbers)>0"),
            Self::NOT_ZERO => format!("({value}|numbers)!=0"),
            Self::SERVER_ERROR => format!("({value}|numbers)>=500"),
            Self::CLIENT_ERROR => format!("({value}|numbers)>=400"),
            _ if usize::from(self.index) < VALUES.len() => format!("{value}=={}", self.text()),
            _ => format!("{value}==\"{}\"", self.text()),
        }
    }
}

/// `words` has the entries of [`VALUES`], followed by those of [`WORDS`], each with its rank.
/// `letters` has, for each word length, one bit for each letter with which a word of that length
/// begins.
struct WordList {
    words: Vec<(&'static str, u8)>,
    letters: [u32; WORD_BYTES + 1],
}

static LIST: LazyLock<WordList> = LazyLock::new(|| {
    let mut list = WordList { words: VALUES.to_vec(), letters: [0; WORD_BYTES + 1] };
    for (rank, words) in (0..).zip(WORDS) {
        for word in words.split(' ') {
            list.letters[word.len()] |= letter(word.as_bytes()[0]);
            list.words.push((word, rank));
        }
    }
    list
});

fn letter(byte: u8) -> u32 {
    1 << (byte & 0x1f)
}

// Entries that represent numbers and booleans, with their ranks.
const VALUES: [(&str, u8); 11] = [
    ("true", 1),
    ("false", 1),
    ("over 0", 1),
    ("not 0", 1),
    ("5xx", 1),
    ("4xx", 2),
    ("60", 0),
    ("50", 1),
    ("40", 2),
    ("2", 1),
    ("1", 2),
];

// Words by rank: fatal, error, warning, harmless.
const WORDS: [&str; 4] = [
    "fatal critical crit emergency emerg alert panic blocker",
    "error err errored failed failure fail failing high severe major crashed broken aborted \
     killed denied rejected unexpected unhealthy unreachable timeout timedOut timed_out \
     startup_failure rolled_back CrashLoopBackOff ImagePullBackOff ErrImagePull OOMKilled \
     Evicted",
    "warning warn medium moderate degraded unstable expired cancelled canceled interrupted \
     action_required NotReady stale partial flaky",
    "low minor note negligible style convention refactor hint trivial",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_known_as_they_are_written() {
        for text in ["CRITICAL", "High", "low", "CrashLoopBackOff", "timed_out", "TIMED_OUT"] {
            let word = TroubleWord::of(text.as_bytes()).unwrap();
            assert_eq!(word.text(), text);
        }
        for text in ["", "ok", "eRROR", "5xx", "true", "failed>5"] {
            assert_eq!(TroubleWord::of(text.as_bytes()), None, "{text}");
        }
        assert!(LIST.words.iter().all(|(word, _)| word.len() <= WORD_BYTES));
    }

    #[test]
    fn the_values_that_are_no_text_have_their_names() {
        let named = [
            (TroubleWord::SERVER_ERROR, "5xx"),
            (TroubleWord::CLIENT_ERROR, "4xx"),
            (TroubleWord::FATAL_LEVEL, "60"),
            (TroubleWord::WARN_LEVEL, "40"),
            (TroubleWord::LINT_ERROR, "2"),
            (TroubleWord::LINT_WARNING, "1"),
        ];
        for (word, text) in named {
            assert_eq!(word.text(), text);
        }
        assert_eq!(LIST.words[VALUES.len()].0, "fatal");
    }
}
