//! The search for secrets in all renditions of a text.
//!
//! ```text
//!   a  postgres:\/\/u:pw@h      the whole text is searched unchanged;
//!      |<- REACH ->\<- REACH ->|  the part near an escape also in its renditions
//! ```
//!
//! Text without escapes is searched only once. Secrets have at most [`REACH`] bytes, so a secret
//! that contains an escape lies within [`REACH`] bytes of the escape.

use std::ops::Range;

use crate::redact::mask;
use crate::redact::rendition::{each_rendition, escape_around};
use crate::redact::rules::{FoundSecret, LINE, REACH, SecretRules};

// Number of bytes that are checked for an escape at once.
const CHUNK: usize = 256;

impl SecretRules {
    /// Returns the secrets in `bytes` that begin in `range`, in order and without overlap. The
    /// search begins at the start of `range`. It covers all renditions.
    pub(super) fn secrets<'a>(
        &'a self,
        bytes: &'a [u8],
        range: Range<usize>,
    ) -> Vec<FoundSecret<'a>> {
        self.secrets_in_time(bytes, range, &|| false).unwrap_or_default()
    }

    /// Does the same as [`secrets`](Self::secrets), but returns `None` once `is_over` returns true.
    /// `is_over` is called before each rendition is searched.
    pub(super) fn secrets_in_time<'a>(
        &'a self,
        bytes: &'a [u8],
        range: Range<usize>,
        is_over: &dyn Fn() -> bool,
    ) -> Option<Vec<FoundSecret<'a>>> {
        let begins = |secret: &FoundSecret<'_>| secret.range.start < range.end;
        let mut found: Vec<_> = self.find(bytes, range.start).take_while(begins).collect();
        let mut late = is_over();
        for part in near_escapes(bytes, &range) {
            each_rendition(&bytes[part.clone()], &mut |rendition| {
                late = late || is_over();
                if late {
                    return;
                }
                for secret in self.find(&rendition.text, 0) {
                    let Range { start, end } = rendition.original(&secret.range);
                    let range = part.start + start..part.start + end;
                    found.push(FoundSecret { range, ..secret });
                }
            });
        }
        if late {
            return None;
        }
        found.retain(begins);
        for secret in &mut found {
            whole_escapes(bytes, &mut secret.range);
        }
        found.sort_by_key(|secret| (secret.range.start, usize::MAX - secret.range.end));
        found.dedup_by(|next, before| {
            let overlaps = next.range.start < before.range.end;
            before.range.end = before.range.end.max(if overlaps { next.range.end } else { 0 });
            overlaps
        });
        Some(found)
    }

    /// Returns `text` with its secrets masked.
    pub fn mask_text(&self, text: &str) -> String {
        let mut bytes = text.as_bytes().to_vec();
        for secret in self.secrets(text.as_bytes(), 0..text.len()) {
            bytes[secret.range.clone()].copy_from_slice(&secret.mask(text.as_bytes()));
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl FoundSecret<'_> {
    pub(super) fn mask(&self, bytes: &[u8]) -> Vec<u8> {
        mask::mask(self.name, &bytes[self.range.clone()])
    }
}

/// Returns the parts of `bytes` in which a secret that begins in `range` may contain an escape.
/// Each part starts at the beginning of a line, if there is one nearby.
fn near_escapes(bytes: &[u8], range: &Range<usize>) -> Vec<Range<usize>> {
    let end = bytes.len().min(range.end.saturating_add(REACH));
    let mut parts: Vec<Range<usize>> = Vec::new();
    for start in (range.start..end).step_by(CHUNK) {
        if !has_escape(bytes, start..end.min(start + CHUNK)) {
            continue;
        }
        let part_end = bytes.len().min(start + CHUNK + REACH);
        match parts.last_mut() {
            Some(last) if start.saturating_sub(REACH) <= last.end => last.end = part_end,
            _ => parts.push(line_start(bytes, start, range.start)..part_end),
        }
    }
    parts
}

/// Returns true if a chunk contains a character because of which its renditions may differ from the
/// chunk. These characters are the backslash, a carriage return that is not before a newline, and
/// other control characters except tabs, newlines and NUL bytes.
fn has_escape(bytes: &[u8], chunk: Range<usize>) -> bool {
    let is_escape = |byte: &u8| {
        let is_control = *byte < b' ' && !matches!(*byte, b'\n' | b'\r' | b'\t' | 0);
        *byte == b'\\' || *byte == 0x7f || is_control
    };
    let overwrites = |at: usize| bytes.get(chunk.start + at + 1) != Some(&b'\n');
    let text = &bytes[chunk.clone()];
    // Without a branch for each byte, this takes only a few instructions per 32 bytes.
    text.iter().fold(false, |has, byte| has | is_escape(byte))
        || memchr::memchr_iter(b'\r', text).any(overwrites)
}

// Returns the position at which to begin a search for secrets that contain the byte at `at`. This
// is the beginning of the last line that begins in the [`LINE`] bytes before `at - REACH`. If no
// line begins there, it is `first` if that lies in these bytes, and `at - REACH` otherwise. The
// position is never before `first`.
fn line_start(bytes: &[u8], at: usize, first: usize) -> usize {
    let latest = at.saturating_sub(REACH).max(first);
    let earliest = latest.saturating_sub(LINE).max(first);
    let newline = memchr::memrchr(b'\n', &bytes[earliest..latest]);
    newline.map_or(if earliest == first { first } else { latest }, |at| earliest + at + 1)
}

// Extends `range` so that it cuts no JSON escape, because a masked JSON string must stay valid.
fn whole_escapes(bytes: &[u8], range: &mut Range<usize>) {
    if let Some(escape) = escape_around(bytes, range.start) {
        range.start = escape.start;
    }
    if let Some(escape) = escape_around(bytes, range.end) {
        range.end = escape.end;
    }
}

#[cfg(test)]
mod tests;
