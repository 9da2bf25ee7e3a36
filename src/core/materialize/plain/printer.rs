//! A line as a terminal prints it.

use anstream::adapter::StripBytes;

use crate::materialize::plain::line_starts::{LineStarts, Redraw};

/// A part of a line.
pub(super) enum Print<'a> {
    /// A carriage return, which these bytes are: text that follows may overwrite the line.
    Return(&'a [u8]),
    /// Text that follows overwrites the line.
    Anew,
    /// What follows the cursor is erased.
    EraseRest,
    /// Text.
    Text(&'a [u8]),
}

/// Reads a line that may be cut anywhere.
#[derive(Debug, Clone, Default)]
pub(super) struct PlainPrinter {
    escapes: StripBytes,
    starts: LineStarts,
}

impl PlainPrinter {
    /// Passes to `each` what a terminal prints of `bytes`, which are part of a line.
    pub(super) fn push(&mut self, bytes: &[u8], mut each: impl FnMut(Print<'_>)) {
        let Self { escapes, starts } = self;
        starts.split(bytes, |part, end| {
            print(escapes, part, &mut each);
            match end {
                Some(Redraw::FromStart) => each(Print::Anew),
                Some(Redraw::EraseRest) => each(Print::EraseRest),
                None => {}
            }
        });
    }
}

fn print(escapes: &mut StripBytes, bytes: &[u8], each: &mut impl FnMut(Print<'_>)) {
    let mut rest = bytes;
    while !rest.is_empty() {
        // `strip_next` takes white space inside a sequence for its end, unless the white space is
        // passed alone.
        let alone = rest.iter().position(|byte| matches!(byte, 0 | b'\t' | 12 | b'\r'));
        let (run, after) = rest.split_at(alone.unwrap_or(rest.len()));
        escapes.strip_next(run).for_each(|text| each(Print::Text(text)));
        let (one, after) = after.split_at(after.len().min(1));
        match one {
            // NUL must stay: it shows that this is not text.
            [0] => each(Print::Text(one)),
            _ => match escapes.strip_next(one).next() {
                Some(b"\r") => each(Print::Return(one)),
                Some(text) => each(Print::Text(text)),
                None => {}
            },
        }
        rest = after;
    }
}
