//! Counts of the values of one field by which records tell of trouble.

use crate::materialize::json::events::Scalar;
use crate::materialize::json::roles::TroubleField;
use crate::materialize::json::words::{ERROR, WORD_BYTES, Word};
use crate::model::TroubleRecord;

/// Kinds of records of which one is kept.
const KINDS: usize = 16;

/// The values of one field.
#[derive(Debug, Clone)]
pub(crate) struct Tally {
    field: TroubleField,
    counts: Vec<(Word, u64)>,
    /// True if a number was not of the kind that was looked for.
    odd: bool,
    recent: RecentText,
    records: Vec<FirstRecord>,
}

/// The last text and the word that it is.
#[derive(Debug, Clone, Copy, Default)]
struct RecentText {
    /// Its bytes: a word fits.
    packed: u128,
    word: Option<Word>,
}

/// A record with an error: the first of its kind.
#[derive(Debug, Clone, Copy)]
pub(super) struct FirstRecord {
    pub(super) rank: u8,
    /// A hash of what tells its kind. 0 if nothing does.
    pub(super) kind: u32,
    pub(super) at: TroubleRecord,
}

impl Tally {
    pub(super) fn new(field: TroubleField) -> Self {
        let recent = RecentText::default();
        Self { field, counts: Vec::new(), odd: false, recent, records: Vec::new() }
    }

    /// Counts a string of `length` bytes that begins with `start`. Returns its rank if it is that
    /// of an error.
    pub(super) fn text(&mut self, start: &[u8], length: u64) -> Option<u8> {
        if !self.field.word || length > WORD_BYTES as u64 || start.len() as u64 != length {
            return None;
        }
        let packed = start.iter().fold(0, |sum, byte| sum << 8 | u128::from(*byte));
        if self.recent.packed != packed {
            self.recent = RecentText { packed, word: Word::of(start) };
        }
        self.recent.word.and_then(|word| self.count(word))
    }

    /// Counts a value as [`text`](Self::text) does.
    pub(super) fn scalar(&mut self, scalar: Scalar, written: &[u8]) -> Option<u8> {
        let word = match scalar {
            Scalar::Null | Scalar::Float => None,
            Scalar::Bool => self.of_bool(written == b"true"),
            Scalar::Int => self.of_number(written),
        };
        word.and_then(|word| self.count(word))
    }

    fn of_bool(&self, value: bool) -> Option<Word> {
        let word = if value { Word::TRUE } else { Word::FALSE };
        (self.field.bad == Some(value)).then_some(word)
    }

    fn of_number(&mut self, written: &[u8]) -> Option<Word> {
        let digits = written.strip_prefix(b"-").unwrap_or(written);
        let digits = digits.iter().take(9).map(|digit| i64::from(*digit) - i64::from(b'0'));
        let size = digits.fold(0, |sum, digit| sum * 10 + digit);
        let number = if written.first() == Some(&b'-') { -size } else { size };
        let TroubleField { http, count, exit, level, lint, .. } = self.field;
        let fits = |range: std::ops::RangeInclusive<i64>| range.contains(&number);
        self.odd |=
            (http && !fits(100..=599)) || (level && !fits(10..=60)) || (lint && !fits(0..=2));
        match number {
            500..=599 if http => Some(Word::SERVER_ERROR),
            400..=499 if http => Some(Word::CLIENT_ERROR),
            60 if level => Some(Word::FATAL_LEVEL),
            50 if level => Some(Word::ERROR_LEVEL),
            40 if level => Some(Word::WARN_LEVEL),
            2 if lint => Some(Word::LINT_ERROR),
            1 if lint => Some(Word::LINT_WARNING),
            1.. if count => Some(Word::SOME),
            _ if exit && number != 0 => Some(Word::NOT_ZERO),
            _ => None,
        }
    }

    fn count(&mut self, word: Word) -> Option<u8> {
        match self.counts.iter_mut().find(|(known, _)| *known == word) {
            Some((_, count)) => *count += 1,
            None => self.counts.push((word, 1)),
        }
        Some(word.rank()).filter(|rank| *rank <= ERROR)
    }

    /// Adds a record with an error.
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

    /// Adds the values of the same field in other records.
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

    /// Returns the words with their counts, worst first. Numbers count only if all are of the kind
    /// that was looked for.
    pub(super) fn counts(&self) -> Vec<(Word, u64)> {
        let ranges = [
            Word::SERVER_ERROR,
            Word::CLIENT_ERROR,
            Word::FATAL_LEVEL,
            Word::ERROR_LEVEL,
            Word::WARN_LEVEL,
            Word::LINT_ERROR,
            Word::LINT_WARNING,
        ];
        let mut counts = self.counts.clone();
        counts.retain(|(word, _)| !self.odd || !ranges.contains(word));
        counts.sort_by_key(|(word, count)| (word.rank(), u64::MAX - count));
        counts
    }

    /// Returns true if severities are those of `ESLint`.
    pub(super) fn is_lint(&self) -> bool {
        let lint = [Word::LINT_ERROR, Word::LINT_WARNING];
        self.counts.iter().any(|(word, _)| lint.contains(word))
    }

    /// Returns the records with errors: the worst first, then what occurs less often.
    pub(super) fn records(&self) -> Vec<TroubleRecord> {
        let mut records = self.records.clone();
        records.sort_by_key(|record| (record.rank, record.at.times >= OFTEN, record.at.offset));
        records.iter().map(|record| record.at).collect()
    }
}

/// Records of one kind from which on the others tell more.
const OFTEN: u64 = 3;
