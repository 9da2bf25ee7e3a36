//! Text that was made for a terminal, as a reader sees it: without escape sequences, and without
//! what was erased, or drawn over by the next frame of the same progress. Other text stays when a
//! carriage return follows, with the carriage return.
//!
//! Lines stay lines: no sequence continues past the end of its line, so line numbers are those of
//! the bytes. Bytes are only removed, never changed: a text as long as the log is equal to it.

mod checkpoints;
mod content;
mod line_starts;
mod printer;
mod ranges;
mod simple_line;

use std::mem;

use crate::materialize::frames::is_drawn_over;

pub use checkpoints::Checkpoints;
pub(super) use checkpoints::TextExtractor;
pub use content::PlainText;
use printer::{PlainPrinter, Print};
pub use ranges::text_ranges;

/// Bytes of a line that are held back because a carriage return may follow. In a longer line
/// nothing is overwritten.
const HELD: usize = 64 * 1024;
/// Bytes of the log that are read at a time.
const STEP: usize = 64 * 1024;

/// Removes the sequences from a stream. The result does not depend on where the stream was cut.
#[derive(Debug, Clone, Default)]
struct EscapeStripper {
    printer: PlainPrinter,
    /// True if this line has a control character.
    controlled: bool,
    start: FrameStart,
    /// True if the line is too long to be held: what has been written of it stays.
    long: bool,
    /// The frame before `held`, which that may be drawn over.
    before: Vec<u8>,
    /// The text since the last carriage return, which may still be overwritten.
    held: Vec<u8>,
}

/// What text that follows begins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum FrameStart {
    /// Nothing: it goes on.
    #[default]
    None,
    /// A frame, after a carriage return.
    Return,
    /// The line, of which all was erased, or where the cursor was moved to the first column.
    Anew,
}

impl FrameStart {
    /// Returns what follows `print`, which is no text.
    fn after(self, print: &Print<'_>) -> Self {
        match (self, print) {
            (Self::None, Print::Return(_)) => Self::Return,
            (_, Print::Anew) | (Self::Return, Print::EraseRest) => Self::Anew,
            (start, _) => start,
        }
    }
}

impl EscapeStripper {
    /// Takes the next bytes. Appends to `out` the text that cannot be overwritten any more.
    fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let mut rest = bytes;
        if self.is_fresh() {
            let clean = rest.iter().position(|byte| is_control(*byte)).unwrap_or(rest.len());
            let lines = memchr::memrchr(b'\n', &rest[..clean]).map_or(0, |at| at + 1);
            out.extend_from_slice(&rest[..lines]);
            rest = &rest[lines..];
        }
        while let Some(at) = memchr::memchr(b'\n', rest) {
            if !self.is_fresh() || !simple_line::print(&rest[..at], out) {
                self.inside(&rest[..at], out);
                self.end_frame(out);
                out.extend_from_slice(&self.before);
                self.before.clear();
                let Self { before, held, .. } = mem::take(self);
                *self = Self { before, held, ..Self::default() };
            }
            out.push(b'\n');
            rest = &rest[at + 1..];
        }
        self.inside(rest, out);
    }

    /// Returns the text that is still held back, which follows at the end of the stream.
    fn tail(&self) -> Vec<u8> {
        let mut tail = Vec::new();
        keep_frame(&self.before, &self.held, &mut tail);
        tail.extend_from_slice(&self.held);
        tail
    }

    /// Returns true if it holds no text.
    fn is_empty(&self) -> bool {
        self.before.is_empty() && self.held.is_empty()
    }

    /// Returns true at the beginning of a line.
    fn is_fresh(&self) -> bool {
        !self.controlled && !self.long && self.is_empty()
    }

    /// Takes part of a line.
    fn inside(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let clean =
            if self.controlled { Some(0) } else { bytes.iter().position(|b| is_control(*b)) };
        let (text, controlled) = bytes.split_at(clean.unwrap_or(bytes.len()));
        self.text(text, out);
        if controlled.is_empty() {
            return;
        }
        self.controlled = true;
        let mut printer = mem::take(&mut self.printer);
        printer.push(controlled, |print| match print {
            Print::Text(text) => self.text(text, out),
            _ => self.start = self.start.after(&print),
        });
        self.printer = printer;
    }

    fn text(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        match mem::take(&mut self.start) {
            FrameStart::None => {}
            FrameStart::Return if self.long => out.push(b'\r'),
            FrameStart::Return => self.end_frame(out),
            FrameStart::Anew => {
                self.end_frame(out);
                self.before.clear();
            }
        }
        if self.before.len() + self.held.len() + bytes.len() > HELD && !self.long {
            self.long = true;
            if !self.before.is_empty() {
                out.append(&mut self.before);
                out.push(b'\r');
            }
            out.append(&mut self.held);
        }
        if self.long {
            out.extend_from_slice(bytes);
        } else {
            self.held.extend_from_slice(bytes);
        }
    }

    /// Ends the frame that is held.
    fn end_frame(&mut self, out: &mut Vec<u8>) {
        keep_frame(&self.before, &self.held, out);
        mem::swap(&mut self.before, &mut self.held);
        self.held.clear();
    }
}

/// Appends the frame `before` to `out`, with its carriage return, unless `after` is drawn over it.
fn keep_frame(before: &[u8], after: &[u8], out: &mut Vec<u8>) {
    if !before.is_empty() && !after.is_empty() && !is_drawn_over(before, after) {
        out.extend_from_slice(before);
        out.push(b'\r');
    }
}

/// Returns true if a byte is a control character that may change what is shown.
fn is_control(byte: u8) -> bool {
    matches!(byte, 1..=8 | 11..=31 | 127)
}

/// Returns a whole log without escape sequences and overwritten text.
pub fn strip_escapes(bytes: &[u8]) -> Vec<u8> {
    let (mut stripper, mut out) = (EscapeStripper::default(), Vec::with_capacity(bytes.len()));
    stripper.push(bytes, &mut out);
    out.extend_from_slice(&stripper.tail());
    out
}

#[cfg(test)]
mod tests;
