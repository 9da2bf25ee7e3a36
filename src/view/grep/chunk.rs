//! A first pass that finds lines which the searcher need not see.
//!
//! Most lines of a large content do not match. Here a second searcher with the same settings finds
//! those that do, block by block while the bytes are in the processor's cache. Long runs of other
//! lines are left out of the chunks that the searcher gets, and only counted. The matches found
//! here are only a hint of what to keep, so that all rules on what is shown stay in one place.

/// Consecutive bytes of a content. Of lines that are left out, only the place and the number are
/// known.
#[derive(Default)]
pub(super) struct Chunk {
    start: u64,
    regions: Vec<Region>,
    kept: Vec<u8>,
}

struct Region {
    start: u64,
    length: usize,
    verdict: Verdict,
}

#[derive(Clone, Copy)]
enum Verdict {
    // At this offset in `Chunk::kept`.
    Kept(usize),
    // This many whole lines.
    LeftOut(u64),
}

/// Whole lines that are left out: their bytes and their number.
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
    /// Returns an empty chunk that begins at `start`. Reuses the memory of `kept`.
    pub(super) fn new(start: u64, mut kept: Vec<u8>) -> Self {
        kept.clear();
        Self { start, kept, ..Self::default() }
    }

    /// Returns the offset after the last byte that was kept or left out.
    pub(super) fn end(&self) -> u64 {
        self.regions.last().map_or(self.start, Region::end)
    }

    /// Returns the number of bytes that are kept.
    pub(super) fn held(&self) -> usize {
        self.kept.len()
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.kept
    }

    /// Exchanges memory of which most is free for as much as is needed. Returns the old memory.
    pub(super) fn spare(&mut self) -> Option<Vec<u8>> {
        let wasted = self.kept.len() < self.kept.capacity() / 2;
        wasted.then(|| {
            let needed = self.kept.as_slice().to_vec();
            std::mem::replace(&mut self.kept, needed)
        })
    }

    pub(super) fn is_new(&self) -> bool {
        self.regions.is_empty()
    }

    /// Keeps `bytes`, which have to be the next ones.
    pub(super) fn keep(&mut self, bytes: &[u8]) {
        let (start, at, length) = (self.end(), self.kept.len(), bytes.len());
        match self.regions.last_mut() {
            _ if length == 0 => {}
            Some(Region { length: before, verdict: Verdict::Kept(_), .. }) => *before += length,
            _ => self.regions.push(Region { start, length, verdict: Verdict::Kept(at) }),
        }
        self.kept.extend_from_slice(bytes);
    }

    /// Leaves out the lines of `gap`, which have to be the next ones.
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
    }

    fn region(&self, offset: u64) -> Option<&Region> {
        let at = self.regions.partition_point(|region| region.end() <= offset);
        self.regions.get(at).filter(|region| region.start <= offset)
    }

    /// Returns the lines that are left out, if they begin exactly at `offset`.
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
        buffer[..count].copy_from_slice(&self.kept[at + skipped..][..count]);
        count
    }
}
