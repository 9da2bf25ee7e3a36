//! A chunk of a content as it goes to the searcher: without the lines that it need not see.

use std::io;

use crate::model::Content;

/// Bytes that follow one another in a content. Of lines that are left out only the place and the
/// number are known.
#[derive(Default)]
pub(super) struct Chunk {
    start: u64,
    regions: Vec<Region>,
    /// Verdict is kept, room, what was read and is still to be judged, and room for more.
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
    /// Kept, from this place in the bytes on.
    Kept(usize),
    /// So many whole lines.
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
    /// Begins at `start`; what is in `bytes` is of no use.
    pub(super) fn new(start: u64, bytes: Vec<u8>) -> Self {
        Self { start, bytes, ..Self::default() }
    }

    /// Where what is judged ends.
    pub(super) fn end(&self) -> u64 {
        self.regions.last().map_or(self.start, Region::end)
    }

    /// The memory, for another one.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Reads up to `most` more bytes, of `length` in all; says how many came.
    pub(super) fn read(
        &mut self,
        content: &dyn Content,
        length: usize,
        most: usize,
    ) -> io::Result<usize> {
        self.filled = self.move_back(self.filled);
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

    /// Moves what is pending, up to `end`, to what is kept; says where it ends then.
    fn move_back(&mut self, end: usize) -> usize {
        let room = self.pending - self.kept;
        if room > 0 {
            self.bytes.copy_within(self.pending..end, self.kept);
        }
        end - room
    }

    /// Whether nothing is judged.
    pub(super) fn is_new(&self) -> bool {
        self.regions.is_empty()
    }

    /// Verdict is still to be judged.
    pub(super) fn pending(&self) -> &[u8] {
        &self.bytes[self.pending..self.filled]
    }

    /// Keeps the next `length` bytes of what is pending.
    pub(super) fn keep(&mut self, length: usize) {
        let (start, at) = (self.end(), self.kept);
        self.kept = self.move_back(self.pending + length);
        match self.regions.last_mut() {
            _ if length == 0 => {}
            Some(Region { length: before, verdict: Verdict::Kept(_), .. }) => *before += length,
            _ => self.regions.push(Region { start, length, verdict: Verdict::Kept(at) }),
        }
        self.pending += length;
    }

    /// Leaves out the next lines of what is pending.
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

    /// The lines that are left out from exactly `offset` on.
    pub(super) fn gap(&self, offset: u64) -> Option<Gap> {
        let region = self.region(offset).filter(|region| region.start == offset)?;
        let Verdict::LeftOut(lines) = region.verdict else { return None };
        Some(Gap { length: region.length, lines })
    }

    /// Copies what is kept from `offset` on, up to the next gap; nothing, where nothing is.
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
