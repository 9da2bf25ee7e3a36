//! The log of a terminal as a reader sees it: without escape sequences, and without what a carriage
//! return has let the rest of its line overwrite.
//!
//! A line stays a line: no sequence goes on past its end, so line numbers are those of the bytes.
//! What is left out is nothing but bytes: what stays is never changed, and a text as long as its
//! bytes is the same.

mod checkpoints;
mod content;

use std::mem;

use anstream::adapter::StripBytes;

pub use checkpoints::Checkpoints;
pub(super) use checkpoints::TextExtractor;
pub use content::PlainText;

/// Bytes of a line that wait for a carriage return. Of a longer line nothing is overwritten.
const HELD: usize = 64 * 1024;

/// Takes the sequences out of a stream. The result does not depend on where that was cut.
#[derive(Debug, Clone, Default)]
struct EscapeStripper {
    escapes: StripBytes,
    /// A control character has come in this line.
    controlled: bool,
    /// A carriage return has come, and no text after it.
    returned: bool,
    /// The line is too long to be held: what is out of it stays.
    long: bool,
    /// The text of the line that may still be overwritten.
    held: Vec<u8>,
}

impl EscapeStripper {
    /// Adds to `out` what is certain.
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

    /// What comes out at the end.
    fn tail(&self) -> &[u8] {
        &self.held
    }

    /// Whether a line begins here.
    fn is_fresh(&self) -> bool {
        !self.controlled && !self.long && self.held.is_empty()
    }

    /// Takes a part of a line.
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
        let mut rest = controlled;
        while !rest.is_empty() {
            // The library takes white space inside a sequence for its end, unless it comes alone.
            let alone = rest.iter().position(|byte| matches!(byte, 0 | b'\t' | 12 | b'\r'));
            let (run, after) = rest.split_at(alone.unwrap_or(rest.len()));
            for printable in escapes.strip_next(run) {
                self.text(printable, out);
            }
            let (one, after) = after.split_at(after.len().min(1));
            match one {
                // What shows that this is no text must stay.
                [0] => self.text(one, out),
                _ => match escapes.strip_next(one).next() {
                    Some(b"\r") => self.returned = true,
                    Some(printable) => self.text(printable, out),
                    None => {}
                },
            }
            rest = after;
        }
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

/// Whether a byte is a control character that may change what is shown.
fn is_control(byte: u8) -> bool {
    matches!(byte, 1..=8 | 11..=31 | 127)
}

/// `bytes` without sequences, where they are all there is.
pub fn strip_escapes(bytes: &[u8]) -> Vec<u8> {
    let (mut stripper, mut out) = (EscapeStripper::default(), Vec::with_capacity(bytes.len()));
    stripper.push(bytes, &mut out);
    out.extend_from_slice(stripper.tail());
    out
}

#[cfg(test)]
mod tests;
