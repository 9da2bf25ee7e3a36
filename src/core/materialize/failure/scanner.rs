//! The part of the search for error lines that needs no other lines: it may run for several blocks
//! at a time.

use crate::materialize::block::Block;
use crate::materialize::failure::verdicts::{RankedLine, Verdicts};
use crate::materialize::failure::{examined, prefilter};

/// Harmless lines after which the next is seldom compared with those that are known.
const IN_VAIN: u32 = 16;

/// Finds the lines that look like errors. Knows nothing but the shapes of lines, so the findings
/// depend on the block alone.
#[derive(Debug, Clone, Default)]
pub(crate) struct ErrorScanner {
    verdicts: Verdicts,
    /// Harmless lines since one was followed by another that is known to be.
    alone: u32,
}

/// A line that looks like an error.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FoundError {
    /// The index of the line, which is that of its newline, in its block.
    pub(super) line: usize,
    pub(super) verdict: RankedLine,
}

impl ErrorScanner {
    /// Sets `found` to the error lines among those that end in `block`, in order. The first line
    /// counts as whole.
    pub(crate) fn scan(&mut self, block: Block<'_>, found: &mut Vec<FoundError>) {
        found.clear();
        let bytes = &block.bytes[..block.last_line()];
        let (mut line, mut at) = (0, 0);
        while let Some(hit) = prefilter::find(bytes, at) {
            let rest = &block.newlines[line..];
            line += rest.iter().take_while(|end| (**end as usize) < hit).count();
            let (bare, _) = examined(&bytes[block.line(line)]);
            match self.verdicts.on(bare) {
                Some(verdict) => found.push(FoundError { line, verdict }),
                None => line = self.last_harmless(block, line),
            }
            line += 1;
            at = line.checked_sub(1).map_or(0, |before| block.newlines[before] as usize + 1);
        }
    }

    /// Returns the index of the last of the lines from that of index `line` on, which is harmless,
    /// that are known to be. In some outputs nearly every line has to be judged: there, to know a
    /// line again costs less than to search it. Where that has been in vain, it is seldom tried.
    fn last_harmless(&mut self, block: Block<'_>, mut line: usize) -> usize {
        if self.alone >= IN_VAIN && !self.alone.is_multiple_of(IN_VAIN) {
            self.alone = self.alone.wrapping_add(1);
            return line;
        }
        let first = line;
        while line + 1 < block.newlines.len() {
            let (bare, _) = examined(&block.bytes[block.line(line + 1)]);
            if !self.verdicts.is_harmless(bare) {
                break;
            }
            line += 1;
        }
        self.alone = if line > first { 0 } else { self.alone.wrapping_add(1) };
        line
    }
}
