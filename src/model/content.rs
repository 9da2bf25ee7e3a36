//! What a view may ask of an artifact.

use std::io;

use crate::model::Analysis;
use crate::model::Filters;
use crate::model::Limits;
use crate::model::Place;
use crate::model::Record;

/// Bytes that can be read at any offset: an artifact on disk, or a slice in a test.
///
/// An implementation stands for one moment: `len` does not change, and neither do the bytes below
/// it, as far as the implementation can know.
pub trait Content: Send + Sync {
    /// Bytes in all.
    fn len(&self) -> u64;

    /// Whether there is nothing.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fills `buffer` from `offset` on. Fewer bytes than asked come back only at the end.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// Up to `length` bytes from `offset` on, in a buffer of their own.
    fn bytes(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let left = self.len().saturating_sub(offset);
        let mut buffer = vec![0; length.min(usize::try_from(left).unwrap_or(usize::MAX))];
        let got = self.read_at(offset, &mut buffer)?;
        buffer.truncate(got);
        Ok(buffer)
    }
}

impl<C: Content + ?Sized> Content for &C {
    fn len(&self) -> u64 {
        (**self).len()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        (**self).read_at(offset, buffer)
    }
}

impl Content for Vec<u8> {
    fn len(&self) -> u64 {
        <[u8] as Content>::len(self)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        <[u8] as Content>::read_at(self, offset, buffer)
    }
}

impl Content for [u8] {
    fn len(&self) -> u64 {
        <[u8]>::len(self) as u64
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let start = usize::try_from(offset).map_or(self.len(), |at| at.min(self.len()));
        let count = buffer.len().min(self.len() - start);
        buffer[..count].copy_from_slice(&self[start..start + count]);
        Ok(count)
    }
}

/// As [`Content::read_at`] of a content of `length` bytes that is made in pieces: `copy` puts into a
/// buffer what it has from an offset on, at least a byte, or none where the content has been cut
/// meanwhile.
pub fn read_pieces(
    length: u64,
    offset: u64,
    buffer: &mut [u8],
    mut copy: impl FnMut(u64, &mut [u8]) -> io::Result<usize>,
) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() && offset + (done as u64) < length {
        match copy(offset + done as u64, &mut buffer[done..])? {
            0 => break,
            count => done += count,
        }
    }
    Ok(done)
}

/// All that a view is made from.
#[derive(Clone, Copy)]
pub struct Subject<'a> {
    /// The bytes.
    pub content: &'a dyn Content,
    /// What was found in them; speaks of all of `content`, or, where there was no time to read it
    /// all, of its first `analysis.bytes` bytes.
    pub analysis: &'a Analysis,
    /// What is known beside the bytes.
    pub record: &'a Record,
    /// How the reader names this artifact.
    pub place: &'a Place,
    /// What fits into a conversation.
    pub limits: &'a Limits,
    /// What masks in `content` can be called; nothing, where secrets are shown.
    pub redacts: &'a [String],
    /// Where jq filters run.
    pub filters: &'a dyn Filters,
}

/// Bytes of a view that are kept for the line which says that secrets are redacted.
pub const REDACTION_BYTES: usize = 256;

impl Subject<'_> {
    /// Bytes that are stored: of the log of a terminal, more than `content` has.
    pub fn size(&self) -> u64 {
        if self.analysis.plain.is_some() { self.record.size } else { self.content.len() }
    }

    /// Bytes of a view, its notices included but for the one on redaction.
    pub fn view_bytes(&self) -> usize {
        view_bytes(!self.redacts.is_empty())
    }
}

/// As [`Subject::view_bytes`], where secrets are masked or not.
pub fn view_bytes(masked: bool) -> usize {
    Limits::VIEW_BYTES - if masked { REDACTION_BYTES } else { 0 }
}

impl std::fmt::Debug for Subject<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Subject").field("place", self.place).finish_non_exhaustive()
    }
}
