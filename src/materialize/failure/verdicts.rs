//! The verdicts of the rules, remembered by the shapes of lines.

use crate::materialize::failure::expectation::Expected;
use crate::materialize::failure::expectation::announced_by;
use crate::materialize::failure::names;
use crate::materialize::failure::rules;
use crate::materialize::failure::rules::Rank;
use crate::materialize::failure::search_terms;
use crate::materialize::failure::shape::ShapeBuilder;

/// Shapes that are remembered; a power of two.
const SHAPES: usize = 8192;

/// The verdict of the rules on a line that looks like an error.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RankedLine {
    pub(super) rank: Rank,
    pub(super) told: Told,
}

/// The meaning of an error line besides its rank.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Told {
    /// The lines that it announces.
    pub(super) announces: Option<Expected>,
    /// The search terms in it, a bit each.
    pub(super) terms: u32,
}

/// The verdicts on the lines of a stream. They depend on nothing but the line.
#[derive(Debug, Clone, Default)]
pub(super) struct Verdicts {
    shapes: ShapeBuilder,
    /// The last shape of each place by its hash, which is not 0.
    known: Vec<(u64, Option<RankedLine>)>,
}

impl Verdicts {
    /// Returns the verdict on `line`, if it looks like an error.
    pub(super) fn on(&mut self, line: &[u8]) -> Option<RankedLine> {
        if self.known.is_empty() {
            self.known.resize(SHAPES, (0, None));
        }
        let hash = self.shapes.hash(line) | 1;
        let known = &mut self.known[place(hash)];
        if known.0 != hash {
            *known = (hash, judge(self.shapes.of(line)));
        }
        known.1
    }

    /// Returns true if a line of the shape of `line` is known not to look like an error.
    pub(super) fn is_harmless(&mut self, line: &[u8]) -> bool {
        let hash = self.shapes.hash(line) | 1;
        self.known.get(place(hash)).is_some_and(|known| known.0 == hash && known.1.is_none())
    }

    /// Returns what `line` tells, which looks like an error only to those that know the line that
    /// announced it.
    pub(super) fn told_by(&mut self, line: &[u8]) -> Told {
        told_by(self.shapes.of(line))
    }
}

fn place(hash: u64) -> usize {
    hash as usize / 2 % SHAPES
}

/// Asks the rules about a shape.
fn judge(shape: &[u8]) -> Option<RankedLine> {
    let rank = rules::rank(&names::blanked(shape))?;
    Some(RankedLine { rank, told: told_by(shape) })
}

fn told_by(shape: &[u8]) -> Told {
    let terms = search_terms::in_line(&names::blanked(shape));
    Told { announces: announced_by(shape), terms }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::materialize::bare;
    use crate::materialize::failure::prefilter;

    /// The rules say the same about nearly all lines and their shapes.
    #[test]
    fn a_shape_has_what_the_rules_ask_for() {
        let outputs = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/outputs");
        let mut verdicts = Verdicts::default();
        let (mut lines, mut other) = (0, Vec::new());
        for output in fs::read_dir(outputs).unwrap() {
            let text = fs::read(output.unwrap().path().join("output")).unwrap();
            for line in text.split(|byte| *byte == b'\n') {
                let line = bare(line.strip_suffix(b"\r").unwrap_or(line));
                if !prefilter::is_in(line, line.len()) {
                    continue;
                }
                lines += 1;
                let found = verdicts.on(line).map(|verdict| verdict.rank);
                if found != rules::rank(&names::blanked(line)) {
                    other.push(String::from_utf8_lossy(line).into_owned());
                }
            }
        }
        assert!(lines > 5000 && other.len() <= lines / 1000, "of {lines} lines: {other:#?}");
    }
}
