//! The masking of content block by block. The result for a block depends only on the content and
//! the block's position, so that all readers see the same bytes.
//!
//! ```text
//!   |<- LINE ->|<------ REACH ------>|<----- BLOCK ----->|<------ REACH ------>|
//!      the search begins at a line       the block that      the ends of secrets
//!      that begins here                  is masked           that begin in it
//! ```
//!
//! A secret of at most [`REACH`] bytes is masked whole in each block that it overlaps. Blocks in
//! the middle of a longer one may show a part of it.

use std::ops::Range;

use crate::redact::SecretRules;

/// Bytes of a block: so many that searching around it costs little.
pub const BLOCK: u64 = 256 * 1024;
/// Bytes of the longest secret, with the bytes that its pattern needs around it.
pub(super) const REACH: usize = 16 * 1024;
/// Bytes before [`REACH`] in which the beginning of a line is searched for. A search that begins
/// inside a line may mistake part of a word for a whole one.
pub(super) const LINE: usize = 4 * 1024;

/// The part of content that must be read to mask a block.
pub(super) struct Window {
    /// The bytes to read.
    pub(super) bytes: Range<u64>,
    /// The block.
    pub(super) block: Range<u64>,
}

impl Window {
    /// Returns the window of a block, by number, in content of `length` bytes.
    pub(super) fn of(number: u64, length: u64) -> Self {
        let start = (number * BLOCK).min(length);
        let end = (start + BLOCK).min(length);
        let from = start.saturating_sub((REACH + LINE) as u64);
        let to = end.saturating_add(REACH as u64).min(length);
        Self { bytes: from..to, block: start..end }
    }

    /// Returns the masked block, or none if `is_over` returns true before. `bytes` are those of the
    /// window, or fewer if the content has become shorter.
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

    /// Returns the range of the block in `bytes`.
    fn inside(&self, bytes: &[u8]) -> Range<usize> {
        let inside = |offset: u64| ((offset - self.bytes.start) as usize).min(bytes.len());
        inside(self.block.start)..inside(self.block.end)
    }

    /// Returns the index in `bytes` at which the search begins.
    fn first(&self, bytes: &[u8], block: usize) -> usize {
        if self.bytes.start == 0 {
            return 0;
        }
        let latest = block.saturating_sub(REACH);
        memchr::memrchr(b'\n', &bytes[..latest]).map_or(latest, |newline| newline + 1)
    }
}

/// Returns the bytes that are read to mask those in `range`, which is not empty, of content of
/// `length` bytes.
pub fn read_to_mask(range: &Range<u64>, length: u64) -> Range<u64> {
    let first = Window::of(range.start / BLOCK, length);
    let last = Window::of(range.end.saturating_sub(1) / BLOCK, length);
    first.bytes.start..last.bytes.end
}

/// Returns the masks for the secrets that begin in a block, by number, each with its offset. The
/// content has `length` bytes, which `read` reads.
///
/// The masks must be written before the next block is requested: they may extend into it.
pub fn masks<E>(
    rules: &SecretRules,
    number: u64,
    length: u64,
    read: impl FnOnce(u64, usize) -> Result<Vec<u8>, E>,
) -> Result<Vec<(u64, Vec<u8>)>, E> {
    let window = Window::of(number, length);
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

/// Returns how many bytes of content of `length` bytes have masks that stay the same when it grows.
/// A secret at its end may yet continue.
pub fn settled(length: u64) -> u64 {
    length.saturating_sub(REACH as u64)
}
