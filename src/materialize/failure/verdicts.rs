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

/// The verdict of the rules on a line.
#[derive(Debug, Clone, Copy, Default)]
struct Verdict {
    /// The rank, if the line looks like an error.
    rank: Option<Rank>,
    /// The rest of the verdict. Nothing if the line does not look like an error.
    told: Told,
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
    known: Vec<(u64, Verdict)>,
}

impl Verdicts {
    /// Returns the rank of `line`, which is `announced` if it was announced, and what it tells.
    /// `shape` is a hash of its shape, if that is known.
    pub(super) fn on(
        &mut self,
        line: &[u8],
        shape: Option<u64>,
        announced: Option<Rank>,
    ) -> Option<(Rank, Told)> {
        let Verdict { rank, told } = self.verdict(line, shape);
        match rank {
            Some(rank) => Some((announced.unwrap_or(rank), told)),
            None => announced.map(|rank| (rank, told_by(self.shapes.of(line)))),
        }
    }

    fn verdict(&mut self, line: &[u8], shape: Option<u64>) -> Verdict {
        if self.known.is_empty() {
            self.known.resize(SHAPES, (0, Verdict::default()));
        }
        let hash = shape.unwrap_or_else(|| self.shapes.hash(line)) | 1;
        let known = &mut self.known[hash as usize / 2 % SHAPES];
        if known.0 != hash {
            *known = (hash, judge(self.shapes.of(line)));
        }
        known.1
    }
}

/// Asks the rules about a shape.
fn judge(shape: &[u8]) -> Verdict {
    let rank = rules::rank(&names::blanked(shape));
    let told = if rank.is_some() { told_by(shape) } else { Told::default() };
    Verdict { rank, told }
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
                if verdicts.verdict(line, None).rank != rules::rank(&names::blanked(line)) {
                    other.push(String::from_utf8_lossy(line).into_owned());
                }
            }
        }
        assert!(lines > 5000 && other.len() <= lines / 1000, "of {lines} lines: {other:#?}");
    }
}
