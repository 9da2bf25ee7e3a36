//! The fields of records that tell of trouble: what is counted, and which records are kept.

use crate::materialize::json::events::Scalar;
use crate::materialize::json::roles::{FieldRole, TroubleField, role};
use crate::materialize::json::shape::{FieldUse, Shape, ShapeNode};
use crate::materialize::json::tally::{FirstRecord, Tally};
use crate::model::TroubleRecord;

/// Fields with a tally. Each takes some 1 KB.
const TALLIES: usize = 128;
/// Errors of the records that have not ended.
const PENDING: usize = 64;

impl Shape {
    pub(crate) fn tally(&self, node: &ShapeNode) -> Option<&Tally> {
        match node.use_of {
            FieldUse::Tally(index) => self.tallies.get(index),
            FieldUse::None | FieldUse::Kind | FieldUse::Message => None,
        }
    }

    pub(super) fn use_of(&mut self, key: &[u8]) -> FieldUse {
        match (TroubleField::of(key), role(key)) {
            (None, Some((FieldRole::Kind, _))) => FieldUse::Kind,
            (Some(_), _) if self.tallies.len() == TALLIES => {
                self.partial = true;
                FieldUse::None
            }
            (Some(field), _) => {
                self.tallies.push(Tally::new(field));
                FieldUse::Tally(self.tallies.len() - 1)
            }
            (None, Some((FieldRole::Message, _))) => FieldUse::Message,
            (None, _) => FieldUse::None,
        }
    }

    pub(super) fn use_text(&mut self, use_of: FieldUse, start: &[u8], length: u64) {
        match use_of {
            FieldUse::None => {}
            FieldUse::Kind => self.set_kind(start, true),
            FieldUse::Message => self.set_kind(start, false),
            FieldUse::Tally(tally) => {
                let rank = self.tallies[tally].text(start, length);
                self.note(tally, rank);
            }
        }
    }

    pub(super) fn use_scalar(&mut self, use_of: FieldUse, scalar: Scalar, written: &[u8]) {
        match use_of {
            FieldUse::None | FieldUse::Message => {}
            FieldUse::Kind => self.set_kind(written, true),
            FieldUse::Tally(tally) => {
                let rank = self.tallies[tally].scalar(scalar, written);
                self.note(tally, rank);
            }
        }
    }

    fn set_kind(&mut self, text: &[u8], is_kind: bool) {
        let Some(open) = self.open.last_mut() else { return };
        if is_kind || !open.kind.1 {
            let hash = text.chunks(8).fold(text.len() as u64, |sum, word| {
                let word = word.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
                let word = if is_kind { word } else { without_digits(word) };
                (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
            });
            let hash = (hash >> 32) as u32;
            open.kind = (hash | 1, is_kind);
        }
    }

    /// Notes an error in the innermost object. It is kept when the object ends.
    fn note(&mut self, tally: usize, rank: Option<u8>) {
        let Some(rank) = rank.filter(|_| self.pending.len() < PENDING) else { return };
        self.pending.push((tally, rank, self.open.len()));
    }

    /// Keeps the errors in the innermost object, which ends.
    pub(super) fn keep_pending(&mut self) {
        while let Some((tally, rank, depth)) = self.pending.pop() {
            if depth < self.open.len() {
                self.pending.push((tally, rank, depth));
                return;
            }
            let kind = self.open.last().map_or(0, |open| open.kind.0);
            if let Some(at) = self.record() {
                self.tallies[tally].add_record(FirstRecord { rank, kind, at });
            }
        }
    }

    /// Returns the place of the record that has the innermost object: the item of an array, or the
    /// object itself.
    fn record(&self) -> Option<TroubleRecord> {
        let is_item = |at: usize| at == 0 || self.open[at - 1].array;
        let last = self.open.len().checked_sub(1)?;
        let item = (1..=last).rev().find(|at| is_item(*at));
        let own = &self.open[item.unwrap_or(last)];
        let outer = (0..item.unwrap_or(last)).rev().find(|at| is_item(*at));
        let outer = outer.map(|at| self.open[at]).filter(|outer| !outer.array);
        let outer = outer.map(|outer| outer.offset);
        Some(TroubleRecord { line: own.line + 1, offset: own.offset, outer, times: 1 })
    }
}

/// Returns eight bytes of text with zeros in place of digits, and of some other characters.
#[inline]
fn without_digits(text: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    // Digits have the bits 0x30, letters 0x40.
    let letters = text >> 6 & ONES;
    text & letters.wrapping_mul(0xff)
}
