//! Pieces of a stream: blocks with the positions of their newlines, and the unfinished line at the
//! end of a block.

use std::ops::Range;

/// Consecutive bytes of a stream, with the positions of their newlines. The newlines are found once
/// for all analysers.
#[derive(Debug, Clone, Copy)]
pub(super) struct ByteBlock<'b> {
    pub(super) bytes: &'b [u8],
    pub(super) newlines: &'b [u32],
}

impl<'b> ByteBlock<'b> {
    // Positions are `u32`, so `bytes` must be smaller than 4 GiB. `places` is a reused buffer.
    pub(super) fn new(bytes: &'b [u8], places: &'b mut Vec<u32>) -> Self {
        places.clear();
        places.extend(memchr::memchr_iter(b'\n', bytes).map(|at| at as u32));
        Self { bytes, newlines: places }
    }

    pub(super) fn line(&self, index: usize) -> Range<usize> {
        let start = index.checked_sub(1).map_or(0, |before| self.newlines[before] as usize + 1);
        start..self.newlines[index] as usize
    }

    pub(super) fn last_line(&self) -> usize {
        self.newlines.last().map_or(0, |last| *last as usize + 1)
    }
}

/// The unfinished line at the end of a stream. Keeps the position of the line and its first `KEPT`
/// bytes.
#[derive(Debug, Clone, Default)]
pub(super) struct OpenLine<const KEPT: usize> {
    pub(super) lines: u64,
    pub(super) offset: u64,
    head: Vec<u8>,
    bytes: u64,
}

impl<const KEPT: usize> OpenLine<KEPT> {
    pub(super) fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    pub(super) fn length(&self) -> usize {
        usize::try_from(self.bytes).unwrap_or(usize::MAX)
    }

    pub(super) fn push(&mut self, part: &[u8]) {
        let room = KEPT - self.head.len();
        self.head.extend_from_slice(&part[..room.min(part.len())]);
        self.bytes += part.len() as u64;
    }

    /// Ends the line, at its newline or at the end of the stream. Calls `look` with the first bytes
    /// of the line, its number and its offset.
    pub(super) fn end(&mut self, look: impl FnOnce(&[u8], u64, u64)) {
        look(&self.head, self.lines + 1, self.offset);
        self.lines += 1;
        self.offset += self.bytes + 1;
        self.bytes = 0;
        self.head.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newlines_have_places() {
        let mut places = vec![7];
        let block = ByteBlock::new(b"a\n\nbc\nd", &mut places);
        assert_eq!((block.newlines, block.last_line()), (&[1, 2, 5][..], 6));
        assert_eq!([0, 1, 2].map(|index| block.line(index)), [0..1, 2..2, 3..5]);
        assert_eq!(ByteBlock::new(b"a", &mut places).last_line(), 0);
    }
}
