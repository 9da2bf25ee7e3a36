//! The log of a terminal as a reader sees it: without escape sequences, and without text that was
//! overwritten after a carriage return.
//!
//! Lines stay lines: no sequence continues past the end of its line, so line numbers are those of
//! the bytes. Bytes are only removed, never changed: a text as long as the log is equal to it.

mod checkpoints;
mod content;
mod ranges;

use std::mem;

use anstream::adapter::StripBytes;

pub use checkpoints::Checkpoints;
pub(super) use checkpoints::TextExtractor;
pub use content::PlainText;
pub use ranges::text_ranges;

/// Bytes of a line that are held back because a carriage return may follow. In a longer line
/// nothing is overwritten.
const HELD: usize = 64 * 1024;

/// Removes the sequences from a stream. The result does not depend on where the stream was cut.
#[derive(Debug, Clone, Default)]
struct EscapeStripper {
    escapes: StripBytes,
    /// True if this line has a control character.
    controlled: bool,
    /// True after a carriage return, until text follows.
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
            self.inside(&rest[..at], out);
            out.append(&mut self.held);
            out.push(b'\n');
            *self = Self { held: mem::take(&mut self.held), ..Self::default() };
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
        let mut escapes = mem::take(&mut self.escapes);
        each_print(&mut escapes, controlled, |print| match print {
            Print::Return => self.returned = true,
            Print::Text(text) => self.text(text, out),
        });
        self.escapes = escapes;
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

/// A part of a line as a terminal prints it.
enum Print<'a> {
    /// A carriage return: text that follows overwrites the line.
    Return,
    /// Text.
    Text(&'a [u8]),
}

/// Passes to `each` what a terminal prints of `bytes`, which are part of a line.
fn each_print(escapes: &mut StripBytes, bytes: &[u8], mut each: impl FnMut(Print<'_>)) {
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
                Some(b"\r") => each(Print::Return),
                Some(text) => each(Print::Text(text)),
                None => {}
            },
        }
        rest = after;
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
