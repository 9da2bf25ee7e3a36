//! A writer that masks secrets on their way to the disk.

use std::io;
use std::io::Write;

use crate::model::{RedactingWriter, Redactor};
use crate::redact::block::{REACH, Window};
use crate::redact::{BLOCK, SecretRules};

/// A writer that passes bytes on with their secrets masked, as [`Masked`](crate::redact::Masked)
/// shows them.
///
/// It holds back bytes that may be part of a secret: a block and its surroundings, some 300 KiB.
/// `finish` writes them; flushing does not. After an error, nothing more can be written.
pub struct MaskingWriter<'a, W> {
    rules: &'a SecretRules,
    out: W,
    /// The bytes from `offset` on: those not yet written, and those before them that the search
    /// needs.
    held: Vec<u8>,
    offset: u64,
    /// The number of the next block.
    number: u64,
}

impl<'a, W: Write> MaskingWriter<'a, W> {
    /// Returns a writer to `out`.
    pub fn new(rules: &'a SecretRules, out: W) -> Self {
        Self { rules, out, held: Vec::new(), offset: 0, number: 0 }
    }

    /// Writes the rest. No byte may follow.
    pub fn finish(&mut self) -> io::Result<()> {
        while self.number * BLOCK < self.seen() {
            self.emit(self.seen())?;
        }
        Ok(())
    }

    /// Returns the underlying writer.
    pub fn get_mut(&mut self) -> &mut W {
        &mut self.out
    }

    /// Returns the underlying writer. What is still held back is lost.
    pub fn into_inner(self) -> W {
        self.out
    }

    fn seen(&self) -> u64 {
        self.offset + self.held.len() as u64
    }

    /// Writes the next block of content that is known up to `end`, and drops the bytes that no
    /// later block needs.
    fn emit(&mut self, end: u64) -> io::Result<()> {
        let window = Window::of(self.number, end);
        let inside = |offset: u64| (offset - self.offset) as usize;
        let bytes = &self.held[inside(window.bytes.start)..inside(window.bytes.end)];
        let masked = window.mask(self.rules, bytes, &|| false);
        self.out.write_all(&masked.expect("it has time"))?;
        self.number += 1;
        let needed = Window::of(self.number, self.seen().max(self.number * BLOCK)).bytes.start;
        let needed = needed.min(self.seen());
        self.held.drain(..inside(needed));
        self.offset = needed;
        Ok(())
    }
}

impl<W: Write> Write for MaskingWriter<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.held.extend_from_slice(bytes);
        while self.seen() >= (self.number + 1) * BLOCK + REACH as u64 {
            self.emit((self.number + 1) * BLOCK + REACH as u64)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl<W: Write> RedactingWriter for MaskingWriter<'_, W> {
    fn finish(&mut self) -> io::Result<()> {
        MaskingWriter::finish(self)
    }
}

impl Redactor for SecretRules {
    fn names(&self) -> &[String] {
        SecretRules::names(self)
    }

    fn text(&self, text: &str) -> String {
        self.mask_text(text)
    }

    fn writer<'a>(&'a self, out: &'a mut dyn Write) -> Box<dyn RedactingWriter + 'a> {
        Box::new(MaskingWriter::new(self, out))
    }
}

impl<W> std::fmt::Debug for MaskingWriter<'_, W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MaskingWriter").field("offset", &self.offset).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redact::SETS;

    const KEY: &str = concat!("AKI", "AQYLPMN5HHHFPZAM2");

    #[test]
    fn the_output_equals_masked_content() {
        let rules = SecretRules::new(&SETS.iter().collect::<Vec<_>>(), &[]).unwrap();
        let mut bytes = vec![b'.'; 3 * BLOCK as usize + 77];
        for at in [0, BLOCK as usize - 9, 2 * BLOCK as usize, bytes.len() - KEY.len()] {
            bytes[at..at + KEY.len()].copy_from_slice(KEY.as_bytes());
        }
        for step in [1000, 300_000, bytes.len()] {
            let mut out = Vec::new();
            let mut stream = MaskingWriter::new(&rules, &mut out);
            for piece in bytes.chunks(step) {
                stream.write_all(piece).unwrap();
                assert!(stream.held.len() as u64 <= BLOCK + 2 * REACH as u64 + 5000 + step as u64);
            }
            stream.finish().unwrap();
            assert_eq!(out.len(), bytes.len());
            assert_eq!(memchr::memmem::find_iter(&out, "[redacted:aws-key]**").count(), 4);
        }
    }
}
