//! The lines around an error, as bytes to show and as text to judge by.

use std::io;

use crate::errors::around::Around;
use crate::errors::trace;
use ctxfs_core::model::{Content, ErrorLine};

const CONTEXT: usize = 3;
const LONGEST: usize = 24;

/// A line without its newline. `ends` is false if `text` is only its beginning.
pub(super) struct NearbyLine {
    pub(super) number: u64,
    pub(super) text: Vec<u8>,
    pub(super) ends: bool,
}

/// An error line, with a few lines before it and those that belong to it, in order. `continues` is
/// true if more lines belong to it than are shown.
pub(super) struct Nearby {
    pub(super) lines: Vec<NearbyLine>,
    pub(super) continues: bool,
}

/// Reads the lines around the error line `at`. Stops at a line that does not end within the bytes
/// that are read.
pub(super) fn around(content: &dyn Content, at: &ErrorLine) -> io::Result<Nearby> {
    let Around { above, below, ends } = Around::read(content, at.offset)?;
    let mut above: Vec<&[u8]> = above.iter().flat_map(|above| lines(above)).collect();
    let above = above.split_off(above.len().saturating_sub(CONTEXT));
    let mut below = lines(&below);
    let own = below.next().unwrap_or_default();
    let after: Vec<&[u8]> = below.collect();
    let belong = trace::length(after.iter().copied());
    let shown = belong.clamp(paragraph(&after), LONGEST);
    let first = at.line - above.len() as u64;
    let all = above.into_iter().chain([own]).chain(after.into_iter().take(shown));
    let line = |(number, text): (u64, &[u8])| {
        let ends = ends || number != at.line;
        NearbyLine { number, text: text.to_vec(), ends }
    };
    Ok(Nearby { lines: (first..).zip(all).map(line).collect(), continues: belong > LONGEST })
}

/// Returns the number of lines to show after an error that has no trace: at most `CONTEXT` lines,
/// across at most one blank line.
fn paragraph(after: &[&[u8]]) -> usize {
    let blank = |line: &&[u8]| line.trim_ascii().is_empty();
    let (mut length, mut blanks) = (0, 0);
    for (line, at) in after.iter().zip(1..=CONTEXT + 1) {
        blanks += usize::from(blank(line));
        if blanks > 1 || at - blanks > CONTEXT {
            break;
        }
        length = if blank(line) { length } else { at };
    }
    length
}

fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| *byte == b'\n')
}
