//! A part of a stream, with the places of its newlines.

use std::ops::Range;

/// Bytes that follow each other in a stream, with the places of their newlines, which are looked
/// for once for all analysers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block<'b> {
    pub(super) bytes: &'b [u8],
    /// The indexes of all newlines, in order.
    pub(super) newlines: &'b [u32],
}

impl<'b> Block<'b> {
    /// Returns the block of `bytes`, which are fewer than 4 GiB. Its newlines are kept in `places`.
    pub(super) fn new(bytes: &'b [u8], places: &'b mut Vec<u32>) -> Self {
        places.clear();
        places.extend(memchr::memchr_iter(b'\n', bytes).map(|at| at as u32));
        Self { bytes, newlines: places }
    }

    /// Returns the range of the line that ends with the newline of this index.
    pub(super) fn line(&self, index: usize) -> Range<usize> {
        let start = index.checked_sub(1).map_or(0, |before| self.newlines[before] as usize + 1);
        start..self.newlines[index] as usize
    }

    /// Returns the index after the last newline, or 0.
    pub(super) fn last_line(&self) -> usize {
        self.newlines.last().map_or(0, |last| *last as usize + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newlines_have_places() {
        let mut places = vec![7];
        let block = Block::new(b"a\n\nbc\nd", &mut places);
        assert_eq!((block.newlines, block.last_line()), (&[1, 2, 5][..], 6));
        assert_eq!([0, 1, 2].map(|index| block.line(index)), [0..1, 2..2, 3..5]);
        assert_eq!(Block::new(b"a", &mut places).last_line(), 0);
    }
}
