//! Masking piece by piece: what a block of a content becomes depends on the content and the block's
//! place alone, so that any reader sees the same bytes.
//!
//! ```text
//!   |<- LINE ->|<------ REACH ------>|<----- BLOCK ----->|<------ REACH ------>|
//!      a line that begins here: the      what is wanted      where secrets end
//!      search begins with it                                 that begin in it
//! ```
//!
//! A secret of at most [`REACH`] bytes is seen whole by each block that it stands in. Of a longer
//! one, blocks in its middle may show a part.

use std::ops::Range;

use crate::redact::SecretRules;
use crate::redact::mask;

/// Bytes of a block: so many that looking around it costs little.
pub const BLOCK: u64 = 256 * 1024;
/// Bytes of a secret, with what its pattern needs around it.
pub(super) const REACH: usize = 16 * 1024;
/// How far back the beginning of a line is looked for; a search that begins in the middle of one
/// may take half a word for a whole one.
const LINE: usize = 4 * 1024;

/// What has to be known to mask a block.
pub(super) struct Window {
    /// The bytes to be read.
    pub(super) bytes: Range<u64>,
    /// The block.
    pub(super) block: Range<u64>,
}

impl Window {
    /// Of the block with this number in a content of `length` bytes.
    pub(super) fn of(number: u64, length: u64) -> Self {
        let start = (number * BLOCK).min(length);
        let end = (start + BLOCK).min(length);
        let from = start.saturating_sub((REACH + LINE) as u64);
        let to = end.saturating_add(REACH as u64).min(length);
        Self { bytes: from..to, block: start..end }
    }

    /// The block, masked; `bytes` are those of the window, or fewer where the content has been cut.
    pub(super) fn mask(&self, rules: &SecretRules, bytes: &[u8]) -> Vec<u8> {
        let block = self.inside(bytes);
        let from = self.first(bytes, block.start);
        let mut masked = bytes[block.clone()].to_vec();
        for secret in rules.find(bytes, from) {
            if secret.range.start >= block.end {
                break;
            }
            let mask = mask::mask(secret.name, &bytes[secret.range.clone()]);
            let (start, end) =
                (secret.range.start.max(block.start), secret.range.end.min(block.end));
            if start < end {
                let part = &mask[start - secret.range.start..end - secret.range.start];
                masked[start - block.start..end - block.start].copy_from_slice(part);
            }
        }
        masked
    }

    /// The block in `bytes`.
    fn inside(&self, bytes: &[u8]) -> Range<usize> {
        let inside = |offset: u64| ((offset - self.bytes.start) as usize).min(bytes.len());
        inside(self.block.start)..inside(self.block.end)
    }

    /// Where the search begins.
    fn first(&self, bytes: &[u8], block: usize) -> usize {
        if self.bytes.start == 0 {
            return 0;
        }
        let latest = block.saturating_sub(REACH);
        memchr::memrchr(b'\n', &bytes[..latest]).map_or(latest, |newline| newline + 1)
    }
}

/// What is to be written over the secrets that begin in the block with this number, in a content of
/// `length` bytes which `read` reads: masks, each with its offset.
///
/// To be written before the next block is asked for: a mask may reach into that.
pub fn masks<E>(
    rules: &SecretRules,
    number: u64,
    length: u64,
    read: impl FnOnce(u64, usize) -> Result<Vec<u8>, E>,
) -> Result<Vec<(u64, Vec<u8>)>, E> {
    let window = Window::of(number, length);
    let bytes = read(window.bytes.start, (window.bytes.end - window.bytes.start) as usize)?;
    let block = window.inside(&bytes);
    let secrets = rules.find(&bytes, window.first(&bytes, block.start));
    let begin_here = secrets
        .skip_while(|secret| secret.range.start < block.start)
        .take_while(|secret| secret.range.start < block.end);
    let masks = begin_here.filter_map(|secret| {
        let hidden = &bytes[secret.range.clone()];
        let mask = mask::mask(secret.name, hidden);
        (mask != hidden).then_some((window.bytes.start + secret.range.start as u64, mask))
    });
    Ok(masks.collect())
}

/// How many bytes of a content of `length` bytes have the masks that they keep when it grows: a
/// secret at its end may have been cut off.
pub fn settled(length: u64) -> u64 {
    length.saturating_sub(REACH as u64)
}
