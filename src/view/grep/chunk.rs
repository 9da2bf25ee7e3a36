//! A chunk of a content as the searcher gets it: without the lines that it need not see.

use std::io;

use crate::model::Content;

/// Consecutive bytes of a content. Of lines that are left out, only the place and the number are
/// known.
#[derive(Default)]
pub(super) struct Chunk {
    start: u64,
    regions: Vec<Region>,
    /// In this order: bytes that are kept, free space up to `pending`, bytes that were read and not
    /// judged yet, and free space from `filled` on.
    bytes: Vec<u8>,
    kept: usize,
    pending: usize,
    filled: usize,
}

struct Region {
    start: u64,
    length: usize,
    verdict: Verdict,
}

#[derive(Clone, Copy)]
enum Verdict {
    /// Kept, at this offset in `Chunk::bytes`.
    Kept(usize),
    /// Left out: this many whole lines.
    LeftOut(u64),
}

/// Whole lines that are left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Gap {
    pub(super) length: usize,
    pub(super) lines: u64,
}

impl Region {
    fn end(&self) -> u64 {
        self.start + self.length as u64
    }
}

impl Chunk {
    /// Returns an empty chunk that begins at `start`. It reuses the memory of `bytes`, whose
    /// content is ignored.
    pub(super) fn new(start: u64, bytes: Vec<u8>) -> Self {
        Self { start, bytes, ..Self::default() }
    }

    /// Returns the offset at which the judged bytes end.
    pub(super) fn end(&self) -> u64 {
        self.regions.last().map_or(self.start, Region::end)
    }

    /// Returns the memory, for another chunk to reuse.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Reads up to `most` more bytes of a chunk of `length` bytes. Returns their number.
    pub(super) fn read(
        &mut self,
        content: &dyn Content,
        length: usize,
        most: usize,
    ) -> io::Result<usize> {
        self.filled = self.compact(self.filled);
        self.pending = self.kept;
        let next = self.end() + self.pending().len() as u64;
        let left = length - (next - self.start) as usize;
        let end = self.filled + left.min(most);
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        let room = &mut self.bytes[self.filled..end];
        let count = if room.is_empty() { 0 } else { content.read_at(next, room)? };
        self.filled += count;
        Ok(count)
    }

    /// Moves the pending bytes up to `end` next to the kept ones. Returns their new end.
    fn compact(&mut self, end: usize) -> usize {
        let room = self.pending - self.kept;
        if room > 0 {
            self.bytes.copy_within(self.pending..end, self.kept);
        }
        end - room
    }

    /// Returns true if no byte has been judged yet.
    pub(super) fn is_new(&self) -> bool {
        self.regions.is_empty()
    }

    /// Returns the bytes that are still to be judged.
    pub(super) fn pending(&self) -> &[u8] {
        &self.bytes[self.pending..self.filled]
    }

    /// Keeps the next `length` pending bytes.
    pub(super) fn keep(&mut self, length: usize) {
        let (start, at) = (self.end(), self.kept);
        self.kept = self.compact(self.pending + length);
        match self.regions.last_mut() {
            _ if length == 0 => {}
            Some(Region { length: before, verdict: Verdict::Kept(_), .. }) => *before += length,
            _ => self.regions.push(Region { start, length, verdict: Verdict::Kept(at) }),
        }
        self.pending += length;
    }

    /// Leaves out the lines of `gap`, which are the next pending ones.
    pub(super) fn leave_out(&mut self, gap: Gap) {
        let Gap { length, lines } = gap;
        let start = self.end();
        match self.regions.last_mut() {
            Some(Region { length: before, verdict: Verdict::LeftOut(more), .. }) => {
                *before += length;
                *more += lines;
            }
            _ => self.regions.push(Region { start, length, verdict: Verdict::LeftOut(lines) }),
        }
        self.pending += length;
    }

    fn region(&self, offset: u64) -> Option<&Region> {
        let at = self.regions.partition_point(|region| region.end() <= offset);
        self.regions.get(at).filter(|region| region.start <= offset)
    }

    /// Returns the lines that are left out from exactly `offset` on.
    pub(super) fn gap(&self, offset: u64) -> Option<Gap> {
        let region = self.region(offset).filter(|region| region.start == offset)?;
        let Verdict::LeftOut(lines) = region.verdict else { return None };
        Some(Gap { length: region.length, lines })
    }

    /// Copies kept bytes from `offset` on, up to the next gap. Returns their number, which is 0 if
    /// the byte at `offset` is not kept.
    pub(super) fn copy(&self, offset: u64, buffer: &mut [u8]) -> usize {
        let Some(Region { start, length, verdict: Verdict::Kept(at) }) = self.region(offset) else {
            return 0;
        };
        let skipped = (offset - start) as usize;
        let count = buffer.len().min(length - skipped);
        buffer[..count].copy_from_slice(&self.bytes[at + skipped..][..count]);
        count
    }
}
