//! Masking of content in blocks. The result for a block depends only on the content and the
//! position of the block, so all readers see the same bytes.
//!
//! ```text
//!   |<- LINE ->|<------ REACH ------>|<----- BLOCK ----->|<------ REACH ------>|
//!      the search begins at the      the block that      the ends of secrets
//!      start of a line in LINE       is masked           that begin in BLOCK
//! ```
//!
//! A secret of at most `REACH` bytes is masked completely in each block that it overlaps. Part of a
//! longer secret may remain visible in the blocks in its middle.

use std::io;
use std::io::Write;
use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::model::{Content, LinesBefore, RedactingWriter, Redactor, read_pieces};
use crate::redact::rules::{LINE, REACH, SecretRules};

/// Block size in bytes. It is large compared with the surrounding bytes that are searched with each
/// block.
pub const BLOCK: u64 = 256 * 1024;

/// The part of the content that must be read to mask a block. `bytes` is the range to read, and
/// `block` is the range of the block within the content.
pub(super) struct MaskWindow {
    pub(super) bytes: Range<u64>,
    pub(super) block: Range<u64>,
}

impl MaskWindow {
    pub(super) fn of(number: u64, length: u64) -> Self {
        let start = (number * BLOCK).min(length);
        let end = (start + BLOCK).min(length);
        let from = start.saturating_sub((REACH + LINE) as u64);
        let to = end.saturating_add(REACH as u64).min(length);
        Self { bytes: from..to, block: start..end }
    }

    /// Returns the masked block, or `None` if `is_over` returns true before the search ends.
    /// `bytes` are the bytes of the window, or fewer if the content has become shorter.
    pub(super) fn mask(
        &self,
        rules: &SecretRules,
        bytes: &[u8],
        is_over: &dyn Fn() -> bool,
    ) -> Option<Vec<u8>> {
        let block = self.inside(bytes);
        let from = self.first(bytes, block.start);
        let mut masked = bytes[block.clone()].to_vec();
        for secret in rules.secrets_in_time(bytes, from..block.end, is_over)? {
            let (start, end) =
                (secret.range.start.max(block.start), secret.range.end.min(block.end));
            if start < end {
                let part = start - secret.range.start..end - secret.range.start;
                masked[start - block.start..end - block.start]
                    .copy_from_slice(&secret.mask(bytes)[part]);
            }
        }
        Some(masked)
    }

    fn inside(&self, bytes: &[u8]) -> Range<usize> {
        let inside = |offset: u64| ((offset - self.bytes.start) as usize).min(bytes.len());
        inside(self.block.start)..inside(self.block.end)
    }

    // Returns the index in `bytes` at which the search begins.
    fn first(&self, bytes: &[u8], block: usize) -> usize {
        if self.bytes.start == 0 {
            return 0;
        }
        let latest = block.saturating_sub(REACH);
        memchr::memrchr(b'\n', &bytes[..latest]).map_or(latest, |newline| newline + 1)
    }
}

/// Returns the range that is read to mask `range`, which must not be empty. The content has
/// `length` bytes.
pub fn read_to_mask(range: &Range<u64>, length: u64) -> Range<u64> {
    let first = MaskWindow::of(range.start / BLOCK, length);
    let last = MaskWindow::of(range.end.saturating_sub(1) / BLOCK, length);
    first.bytes.start..last.bytes.end
}

/// Returns the masks for the secrets that begin in block `number`, each with its offset in the
/// content. The content has `length` bytes; `read` returns the given number of bytes from the given
/// offset on.
///
/// The caller must write the masks into the content before it requests the next block, because a
/// mask may extend into that block.
pub fn masks<E>(
    rules: &SecretRules,
    number: u64,
    length: u64,
    read: impl FnOnce(u64, usize) -> Result<Vec<u8>, E>,
) -> Result<Vec<(u64, Vec<u8>)>, E> {
    let window = MaskWindow::of(number, length);
    let bytes = read(window.bytes.start, (window.bytes.end - window.bytes.start) as usize)?;
    let block = window.inside(&bytes);
    let from = window.first(&bytes, block.start);
    let secrets = rules.secrets(&bytes, from..block.end).into_iter();
    let begin_here = secrets.filter(|secret| secret.range.start >= block.start);
    let masks = begin_here.filter_map(|secret| {
        let mask = secret.mask(&bytes);
        let changes = mask != bytes[secret.range.clone()];
        changes.then_some((window.bytes.start + secret.range.start as u64, mask))
    });
    Ok(masks.collect())
}

/// Returns the length of a prefix whose masks do not change when the content grows. The content has
/// `length` bytes now. A secret near the end may continue in the new bytes.
pub fn settled(length: u64) -> u64 {
    length.saturating_sub(REACH as u64)
}

/// Content with its secrets masked. It has the same length as the original, and differs only where
/// secrets are masked.
///
/// The bytes do not depend on where reading begins. Every block that is read is searched
/// completely, and the last block is cached.
pub struct Masked<'a> {
    content: &'a dyn Content,
    rules: &'a SecretRules,
    last: Mutex<Option<(u64, Arc<Vec<u8>>)>>,
}

impl<'a> Masked<'a> {
    /// Returns the masked `content`. Does not read anything yet.
    pub fn new(content: &'a dyn Content, rules: &'a SecretRules) -> Self {
        Self { content, rules, last: Mutex::default() }
    }

    fn block(&self, number: u64) -> io::Result<Arc<Vec<u8>>> {
        let last = self.last.lock().clone();
        if let Some((_, block)) = last.filter(|(kept, _)| *kept == number) {
            return Ok(block);
        }
        let window = MaskWindow::of(number, self.content.len());
        let length = (window.bytes.end - window.bytes.start) as usize;
        let bytes = self.content.bytes(window.bytes.start, length)?;
        let masked = window.mask(self.rules, &bytes, &|| self.content.is_over());
        let block = Arc::new(masked.ok_or(io::ErrorKind::TimedOut)?);
        let mut last = self.last.lock();
        *last = Some((number, Arc::clone(&block)));
        Ok(block)
    }
}

impl Content for Masked<'_> {
    fn len(&self) -> u64 {
        self.content.len()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        read_pieces(self.len(), offset, buffer, |at, buffer| {
            self.block(at / BLOCK)?.as_slice().read_at(at % BLOCK, buffer)
        })
    }

    // Masking preserves newlines.
    fn lines_before(&self, offset: u64) -> io::Result<LinesBefore> {
        self.content.lines_before(offset)
    }

    fn last_line(&self) -> io::Result<Option<u64>> {
        self.content.last_line()
    }

    fn is_over(&self) -> bool {
        self.content.is_over()
    }
}

impl std::fmt::Debug for Masked<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Masked").field("rules", self.rules).finish_non_exhaustive()
    }
}

/// A writer that masks secrets in the bytes that it passes on, with the same result as [`Masked`].
///
/// It holds back bytes that may be part of a secret: a block and its surroundings, about 300 KiB.
/// `finish` writes the held bytes; `flush` does not. After an error, the writer must not be used
/// again.
pub struct MaskingWriter<'a, W> {
    rules: &'a SecretRules,
    out: W,
    // The bytes from `offset` on: bytes that are not written yet, and earlier bytes that a search
    // may still need.
    held: Vec<u8>,
    offset: u64,
    number: u64,
}

impl<'a, W: Write> MaskingWriter<'a, W> {
    /// Returns a writer that writes masked bytes to `out`.
    pub fn new(rules: &'a SecretRules, out: W) -> Self {
        Self { rules, out, held: Vec::new(), offset: 0, number: 0 }
    }

    /// Returns the underlying writer.
    pub fn get_mut(&mut self) -> &mut W {
        &mut self.out
    }

    /// Returns the underlying writer. Bytes that are still held back are lost.
    pub fn into_inner(self) -> W {
        self.out
    }

    fn seen(&self) -> u64 {
        self.offset + self.held.len() as u64
    }

    /// Writes the next block. `end` is the offset up to which the content has arrived. Drops the
    /// bytes that no later block needs.
    fn emit(&mut self, end: u64) -> io::Result<()> {
        let window = MaskWindow::of(self.number, end);
        let inside = |offset: u64| (offset - self.offset) as usize;
        let bytes = &self.held[inside(window.bytes.start)..inside(window.bytes.end)];
        let masked = window.mask(self.rules, bytes, &|| false);
        self.out.write_all(&masked.expect("it has time"))?;
        self.number += 1;
        let needed = MaskWindow::of(self.number, self.seen().max(self.number * BLOCK)).bytes.start;
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
        while self.number * BLOCK < self.seen() {
            self.emit(self.seen())?;
        }
        Ok(())
    }
}

impl Redactor for SecretRules {
    fn names(&self) -> &[String] {
        &self.names
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
mod tests;
