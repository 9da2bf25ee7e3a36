//! The verdicts of the rules, cached by the shapes of lines.

use crate::materialize::failure::expectation::{AnnouncedKind, announced_by};
use crate::materialize::failure::numbers::MatteringNumbers;
use crate::materialize::failure::rules::Rank;
use crate::materialize::failure::shape::ShapeBuilder;
use crate::materialize::failure::{best, languages, noise, rules};
use crate::model::ErrorRank;

/// Initial and maximum number of cached shapes. Both are powers of two. Most outputs have few
/// shapes, but source code has tens of thousands.
const FEWEST: usize = 256;
const MOST: usize = 32 << 10;

#[derive(Debug, Clone, Copy)]
pub(crate) struct RankedLine {
    pub(super) rank: Rank,
    pub(super) hints: LineHints,
}

// An error in another language than English.
const FOREIGN: RankedLine = RankedLine {
    rank: Rank::Is(ErrorRank::Error),
    hints: LineHints { announces: None, terms: 0, numbers: MatteringNumbers::None },
};

/// Properties of an error line besides its rank. `announces` is the kind of later line that the
/// line announces. `terms` has one bit for each search term in the line. `numbers` tells which numbers
/// in the line make it another kind of error.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LineHints {
    pub(super) announces: Option<AnnouncedKind>,
    pub(super) terms: u32,
    pub(super) numbers: MatteringNumbers,
}

/// The verdicts of the rules, cached by the hash of a line's shape. A verdict depends only on the
/// line.
#[derive(Debug, Clone, Default)]
pub(super) struct Verdicts {
    shapes: ShapeBuilder,
    // Slots, selected by hash. Hashes are odd, so 0 marks an empty slot.
    known: Vec<(u64, Option<RankedLine>)>,
    judged: usize,
}

impl Verdicts {
    pub(super) fn on(&mut self, line: &[u8]) -> Option<RankedLine> {
        // A shape does not tell words of other languages apart.
        let foreign = || languages::is_error(line).then_some(FOREIGN);
        self.by_shape(line).or_else(foreign)
    }

    fn by_shape(&mut self, line: &[u8]) -> Option<RankedLine> {
        let hash = self.shapes.hash(line) | 1;
        if let Some((_, verdict)) = self.known(hash) {
            return *verdict;
        }
        let verdict = judge(self.shapes.of(line));
        self.judged += 1;
        if self.known.len() < MOST.min(self.judged * 2) {
            self.grow();
        }
        let place = self.place(hash);
        self.known[place] = (hash, verdict);
        verdict
    }

    // Returns true if a line of this shape is known to be harmless.
    pub(super) fn is_harmless(&mut self, line: &[u8]) -> bool {
        let hash = self.shapes.hash(line) | 1;
        self.known(hash).is_some_and(|(_, verdict)| verdict.is_none()) && !languages::is_error(line)
    }

    fn known(&self, hash: u64) -> Option<&(u64, Option<RankedLine>)> {
        self.known.get(self.place(hash)).filter(|known| known.0 == hash)
    }

    fn place(&self, hash: u64) -> usize {
        (hash as usize / 2) & self.known.len().wrapping_sub(1)
    }

    fn grow(&mut self) {
        let room = (self.known.len() * 4).clamp(FEWEST, MOST);
        let before = std::mem::replace(&mut self.known, vec![(0, None); room]);
        for known in before.into_iter().filter(|known| known.0 != 0) {
            let place = self.place(known.0);
            self.known[place] = known;
        }
    }

    /// Returns the hints of a line that is an error only because an earlier line announced it.
    pub(super) fn hints_of(&mut self, line: &[u8]) -> LineHints {
        hints_of(self.shapes.of(line))
    }
}

fn judge(shape: &[u8]) -> Option<RankedLine> {
    let rank = rules::rank(&noise::blanked(shape))?;
    Some(RankedLine { rank, hints: hints_of(shape) })
}

fn hints_of(shape: &[u8]) -> LineHints {
    let terms = best::terms_in(&noise::blanked(shape));
    LineHints { announces: announced_by(shape), terms, numbers: MatteringNumbers::of(shape) }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::materialize::bare;
    use crate::materialize::failure::prefilter;

    /// Checks that the rules give nearly every line the same rank as its shape.
    #[test]
    fn a_shape_has_what_the_rules_ask_for() {
        let outputs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/outputs");
        let mut verdicts = Verdicts::default();
        let (mut lines, mut other) = (0, Vec::new());
        for output in fs::read_dir(outputs).unwrap() {
            let text = fs::read(output.unwrap().path().join("output")).unwrap();
            for line in text.split(|byte| *byte == b'\n') {
                let line = bare(line.strip_suffix(b"\r").unwrap_or(line));
                if !prefilter::has_telling(line, line.len()) {
                    continue;
                }
                lines += 1;
                let found = verdicts.on(line).map(|verdict| verdict.rank);
                if found != rules::rank(&noise::blanked(line)) {
                    other.push(String::from_utf8_lossy(line).into_owned());
                }
            }
        }
        assert!(lines > 5000 && other.len() <= lines / 1000, "of {lines} lines: {other:#?}");
    }
}
