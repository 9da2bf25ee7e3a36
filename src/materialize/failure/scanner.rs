//! The part of the search for error lines that needs no other lines: it may run for several blocks
//! at a time.

use crate::materialize::block::Block;
use crate::materialize::failure::examined;
use crate::materialize::failure::prefilter;
use crate::materialize::failure::shape::ShapeBuilder;

/// Finds the lines that may be errors. Knows nothing but words, so the findings depend on the block
/// alone.
#[derive(Debug, Clone, Default)]
pub(crate) struct SuspectScanner {
    shapes: ShapeBuilder,
}

/// A line with a fragment that tells something.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SuspectLine {
    /// The index of the line, which is that of its newline, in its block.
    pub(super) line: usize,
    /// A hash of its shape.
    pub(super) shape: u64,
}

impl SuspectScanner {
    /// Sets `found` to the candidates among the lines that end in `block`, in order. The first line
    /// counts as whole.
    pub(crate) fn scan(&mut self, block: Block<'_>, found: &mut Vec<SuspectLine>) {
        found.clear();
        let bytes = &block.bytes[..block.last_line()];
        let (mut line, mut at) = (0, 0);
        while let Some(hit) = prefilter::find(bytes, at) {
            let rest = &block.newlines[line..];
            line += rest.iter().take_while(|end| (**end as usize) < hit).count();
            let range = block.line(line);
            at = range.end + 1;
            let (bare, _) = examined(&bytes[range]);
            found.push(SuspectLine { line, shape: self.shapes.hash(bare) });
            line += 1;
        }
    }
}
