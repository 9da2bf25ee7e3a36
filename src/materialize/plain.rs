//! Text that was made for a terminal, as a reader sees it: without escape sequences, and without
//! what was overwritten or erased.
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

pub use checkpoints::Checkpoints;
pub(super) use checkpoints::TextExtractor;
pub use content::PlainText;
use printer::PlainPrinter;
use printer::Print;
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
    /// True at the start of the line or after it was erased, until text follows.
    returned: bool,
    /// True if the line is too long to be held: what has been written of it stays.
    long: bool,
    /// The text of the line that may still be overwritten.
    held: Vec<u8>,
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
                out.append(&mut self.held);
                *self = Self { held: mem::take(&mut self.held), ..Self::default() };
            }
            out.push(b'\n');
            rest = &rest[at + 1..];
        }
        self.inside(rest, out);
    }

    /// Returns the text that is still held back, which follows at the end of the stream.
    fn tail(&self) -> &[u8] {
        &self.held
    }

    /// Returns true at the beginning of a line.
    fn is_fresh(&self) -> bool {
        !self.controlled && !self.long && self.held.is_empty()
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
            Print::Return => self.returned = true,
            Print::Text(text) => self.text(text, out),
        });
        self.printer = printer;
    }

    fn text(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        if mem::take(&mut self.returned) {
            self.held.clear();
        }
        if self.held.len() + bytes.len() > HELD {
            self.long = true;
        }
        if self.long {
            out.append(&mut self.held);
            out.extend_from_slice(bytes);
        } else {
            self.held.extend_from_slice(bytes);
        }
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
    out.extend_from_slice(stripper.tail());
    out
}

#[cfg(test)]
mod tests;
