//! Counts of the values of one field by which records tell of trouble, and the list of these values.
//!
//! The list is closed: of all other values, nothing is kept.

use crate::materialize::json::roles::TroubleField;
use crate::materialize::json::scan::Scalar;
use crate::model::TroubleRecord;

// Kinds of records, of which one record each is kept.
const KINDS: usize = 16;

/// The values of one field by which records tell of trouble: counts of known words, and the first
/// record of each kind of error.
#[derive(Debug, Clone)]
pub(super) struct FieldTally {
    field: TroubleField,
    counts: Vec<(TroubleWord, u64)>,
    // True if a number was out of the expected range.
    odd: bool,
    recent: RecentText,
    records: Vec<FirstRecord>,
}

// A cache of the last text: the same one often comes again.
#[derive(Debug, Clone, Copy, Default)]
struct RecentText {
    packed: u128,
    word: Option<TroubleWord>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct FirstRecord {
    pub(super) rank: u8,
    // A hash of the fields that tell the kind, or 0.
    pub(super) kind: u32,
    pub(super) at: TroubleRecord,
}

impl FieldTally {
    pub(super) fn new(field: TroubleField) -> Self {
        let recent = RecentText::default();
        Self { field, counts: Vec::new(), odd: false, recent, records: Vec::new() }
    }

    /// Counts a string of `length` bytes that begins with `start`. Returns its rank if it tells of
    /// an error.
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

    /// Returns the words with their counts, worst first. Numbers count only if all of them were in
    /// the expected range.
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

    // True if the severities are numbers of `ESLint`.
    pub(super) fn is_lint(&self) -> bool {
        let lint = [TroubleWord::LINT_ERROR, TroubleWord::LINT_WARNING];
        self.counts.iter().any(|(word, _)| lint.contains(word))
    }

    // The worst first, then rare kinds.
    pub(super) fn records(&self) -> Vec<TroubleRecord> {
        let mut records = self.records.clone();
        records.sort_by_key(|record| (record.rank, record.at.times >= OFTEN, record.at.offset));
        records.iter().map(|record| record.at).collect()
    }
}

// From this number of records on, a kind counts as frequent.
const OFTEN: u64 = 3;

pub(super) const WORD_BYTES: usize = 16;
// Words of this rank or above tell of no trouble by themselves.
pub(super) const HARMLESS: u8 = 3;
// The last rank of an error.
pub(super) const ERROR: u8 = 1;

/// A listed word in the spelling of the output.
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
    // A count above 0, and an exit code other than 0.
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
        if length > WORD_BYTES || LETTERS[length] & letter(*first) == 0 {
            return None;
        }
        let words = &WORDS[NUMBERS..];
        let at = words.iter().position(|(word, _)| word.as_bytes().eq_ignore_ascii_case(text))?;
        let index = NUMBERS + at;
        let spellings = [Spelling::Listed, Spelling::Lower, Spelling::Upper, Spelling::Title];
        let words = spellings.map(|spelling| Self { index: index as u8, spelling });
        words.into_iter().find(|word| word.text().as_bytes() == text)
    }

    pub(super) fn text(self) -> String {
        let word = WORDS[usize::from(self.index)].0;
        match self.spelling {
            Spelling::Listed => word.to_owned(),
            Spelling::Lower => word.to_ascii_lowercase(),
            Spelling::Upper => word.to_ascii_uppercase(),
            Spelling::Title => word[..1].to_ascii_uppercase() + &word[1..].to_ascii_lowercase(),
        }
    }

    // 0 is the worst.
    pub(super) fn rank(self) -> u8 {
        WORDS[usize::from(self.index)].1
    }

    pub(super) fn is_range(self) -> bool {
        matches!(self, Self::SOME | Self::NOT_ZERO | Self::SERVER_ERROR | Self::CLIENT_ERROR)
    }

    // A jq condition that holds if `value` is this word.
    pub(super) fn condition(self, value: &str) -> String {
        match self {
            Self::SOME => format!("({value}|numbers)>0"),
            Self::NOT_ZERO => format!("({value}|numbers)!=0"),
            Self::SERVER_ERROR => format!("({value}|numbers)>=500"),
            Self::CLIENT_ERROR => format!("({value}|numbers)>=400"),
            _ if usize::from(self.index) < NUMBERS => format!("{value}=={}", self.text()),
            _ => format!("{value}==\"{}\"", self.text()),
        }
    }
}

// The first entries of the list are no texts.
const NUMBERS: usize = 11;

// First letters of the words of each length, a bit each.
static LETTERS: [u32; WORD_BYTES + 1] = letters();

const fn letters() -> [u32; WORD_BYTES + 1] {
    let mut letters = [0; WORD_BYTES + 1];
    let mut index = NUMBERS;
    while index < WORDS.len() {
        let word = WORDS[index].0.as_bytes();
        letters[word.len()] |= letter(word[0]);
        index += 1;
    }
    letters
}

const fn letter(byte: u8) -> u32 {
    1 << (byte & 0x1f)
}

// Ranks: 0 fatal, 1 error, 2 warning, 3 harmless.
const WORDS: [(&str, u8); 72] = [
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
    ("fatal", 0),
    ("critical", 0),
    ("crit", 0),
    ("emergency", 0),
    ("emerg", 0),
    ("alert", 0),
    ("panic", 0),
    ("blocker", 0),
    ("error", 1),
    ("err", 1),
    ("errored", 1),
    ("failed", 1),
    ("failure", 1),
    ("fail", 1),
    ("failing", 1),
    ("high", 1),
    ("severe", 1),
    ("major", 1),
    ("crashed", 1),
    ("broken", 1),
    ("aborted", 1),
    ("killed", 1),
    ("denied", 1),
    ("rejected", 1),
    ("unexpected", 1),
    ("unhealthy", 1),
    ("unreachable", 1),
    ("timeout", 1),
    ("timedOut", 1),
    ("timed_out", 1),
    ("startup_failure", 1),
    ("rolled_back", 1),
    ("CrashLoopBackOff", 1),
    ("ImagePullBackOff", 1),
    ("ErrImagePull", 1),
    ("OOMKilled", 1),
    ("Evicted", 1),
    ("warning", 2),
    ("warn", 2),
    ("medium", 2),
    ("moderate", 2),
    ("degraded", 2),
    ("unstable", 2),
    ("expired", 2),
    ("cancelled", 2),
    ("canceled", 2),
    ("interrupted", 2),
    ("action_required", 2),
    ("NotReady", 2),
    ("stale", 2),
    ("partial", 2),
    ("flaky", 2),
    ("low", 3),
    ("minor", 3),
    ("note", 3),
    ("negligible", 3),
    ("style", 3),
    ("convention", 3),
    ("refactor", 3),
    ("hint", 3),
    ("trivial", 3),
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
        assert!(WORDS.iter().all(|(word, _)| word.len() <= WORD_BYTES));
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
        assert_eq!(WORDS[NUMBERS].0, "fatal");
    }
}
