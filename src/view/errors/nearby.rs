//! The lines to show with an error.

use std::io;

use crate::errors::around::Around;
use crate::errors::trace;
use ctxfs_core::model::{Content, ErrorLine};

/// Lines shown before an error, and after it if no more belong to it.
const CONTEXT: usize = 3;
/// Most lines that are shown after an error.
const LONGEST: usize = 24;

/// A line without its newline.
pub(super) struct NearbyLine {
    pub(super) number: u64,
    pub(super) text: Vec<u8>,
    /// True if `text` is all of it.
    pub(super) ends: bool,
}

/// An error line, with the lines before it and those that belong to it.
pub(super) struct Nearby {
    /// In order.
    pub(super) lines: Vec<NearbyLine>,
    /// True if more lines belong to it than are shown.
    pub(super) continues: bool,
}

/// Reads the lines around the error line `at`. A line that does not end within what is read ends
/// what is shown.
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

/// Returns the number of lines that are shown after an error if none belongs to it: a few, over at
/// most one blank line.
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
