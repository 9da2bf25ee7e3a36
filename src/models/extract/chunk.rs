//! Divides a document into chunks that a model reads one by one.
//!
//! All chunks have the same size, which avoids a small last chunk. They are cut between lines if
//! lines are short enough, and always between characters.

use std::io;
use std::ops::Range;

use ctxfs_core::model::Content;

/// The ends of a chunk may move to a line start by at most `1 / LEEWAY` of the chunk size.
const LEEWAY: u64 = 8;
const MOST_LEEWAY: u64 = 64 * 1024;
const LEAST: u64 = 256;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Chunks {
    length: u64,
    count: u64,
    size: u64,
    overlap: u64,
}

impl Chunks {
    /// Divides `length` bytes into as few chunks of at most `most` bytes as possible. Each chunk
    /// after the first repeats the last `overlap` percent of the previous chunk, at most 50
    /// percent.
    pub(super) fn plan(length: u64, most: u64, overlap: u64) -> Self {
        let (most, overlap) = (most.max(LEAST), overlap.min(50));
        if length <= most {
            return Self { length, count: u64::from(length > 0), size: length, overlap };
        }
        // The start of a chunk may move back to a line start, which makes the chunk longer.
        let most = most - (most / LEEWAY).min(MOST_LEEWAY);
        // `count` chunks of `size` bytes cover `size * (1 + (count - 1) * (1 - overlap))` bytes.
        let step = most * (100 - overlap);
        let count = 1 + ((length - most) * 100).div_ceil(step);
        let size = (length * 100).div_ceil(100 + (count - 1) * (100 - overlap));
        Self { length, count, size, overlap }
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Returns the approximate number of bytes that two neighbouring chunks share.
    pub(super) fn shared(&self) -> u64 {
        self.size * self.overlap / 100
    }

    /// Returns the range of the chunk `index`, counted from 0. Reads some bytes around its ends.
    pub(super) fn range(&self, content: &dyn Content, index: u64) -> io::Result<Range<u64>> {
        // The last chunk ends at the end of the document, so no chunk is shorter.
        let last = u128::from(self.length - self.size) * u128::from(index);
        let start = (last / u128::from((self.count - 1).max(1))) as u64;
        let end = start + self.size;
        let leeway = leeway(self.size);
        let end = if index + 1 == self.count { self.length } else { end };
        Ok(cut(content, start, leeway)?..cut(content, end, leeway)?)
    }

    pub(super) fn halves(
        &self,
        content: &dyn Content,
        range: &Range<u64>,
    ) -> io::Result<[Range<u64>; 2]> {
        let length = range.end - range.start;
        let (middle, shared) = (range.start + length / 2, length / 2 * self.overlap / 100);
        let leeway = leeway(length / 2);
        let first = range.start..cut(content, middle + shared / 2, leeway)?;
        let second = cut(content, middle - shared / 2, leeway)?..range.end;
        Ok([first, second])
    }
}

fn leeway(size: u64) -> u64 {
    (size / LEEWAY).min(MOST_LEEWAY)
}

/// Returns the best position for a cut at or before `at`. A later `at` never has an earlier cut.
fn cut(content: &dyn Content, at: u64, leeway: u64) -> io::Result<u64> {
    if at == 0 || at >= content.len() {
        return Ok(at.min(content.len()));
    }
    let from = at.saturating_sub(leeway);
    let before = content.bytes(from, (at - from) as usize)?;
    if let Some(newline) = memchr::memrchr(b'\n', &before) {
        return Ok(from + newline as u64 + 1);
    }
    // A character has at most three bytes after its first byte.
    let around = content.bytes(at.saturating_sub(3), 4.min(at as usize + 1))?;
    let back = around.iter().rev().take_while(|byte| **byte & 0xC0 == 0x80).count();
    Ok(if back > 3 { at } else { at - back as u64 })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ranges(text: &[u8], most: u64, overlap: u64) -> Vec<Range<u64>> {
        let chunks = Chunks::plan(text.len() as u64, most, overlap);
        (0..chunks.count()).map(|index| chunks.range(&text, index).unwrap()).collect()
    }

    #[test]
    fn what_fits_is_one_chunk() {
        assert!(ranges(b"", 1000, 10).is_empty());
        assert_eq!(ranges(b"x", 1000, 10).first(), Some(&(0..1)));
        let found = ranges(&[b'x'; 1000], 1000, 10);
        assert_eq!((found.len(), &found[0]), (1, &(0..1000)));
        assert_eq!(ranges(&[b'x'; 1001], 1000, 0).len(), 2);
    }

    #[test]
    fn there_is_no_small_last_one() {
        let found = ranges(&[b'x'; 10_001], 1000, 10);
        let sizes: Vec<u64> = found.iter().map(|range| range.end - range.start).collect();
        let (least, most) = (sizes.iter().min().unwrap(), sizes.iter().max().unwrap());
        assert!(most - least <= most / 100 + 1, "{sizes:?}");
    }

    #[test]
    fn a_line_of_300_mb_is_cut_without_reading_it() {
        /// Fails if more bytes are read than are needed around the cuts.
        struct Long;
        impl Content for Long {
            fn len(&self) -> u64 {
                300 << 20
            }

            fn read_at(&self, _: u64, buffer: &mut [u8]) -> io::Result<usize> {
                assert!(buffer.len() <= 64 * 1024);
                buffer.fill(b'x');
                Ok(buffer.len())
            }
        }
        let chunks = Chunks::plan(Long.len(), 1 << 20, 10);
        let mut seen = 0;
        for index in 0..chunks.count() {
            let range = chunks.range(&Long, index).unwrap();
            assert!(range.start <= seen && range.end > seen && range.end - range.start <= 1 << 20);
            seen = range.end;
        }
        assert_eq!(seen, Long.len());
    }

    proptest! {
        #[test]
        fn chunks_cover_all_and_split_no_character(
            lines in prop::collection::vec("[a-z\u{e9}\u{1f600}]{0,80}", 0..400),
            most in 1000_u64..8000,
            overlap in 0_u64..=50,
            ended in any::<bool>(),
        ) {
            let text = lines.join(if ended { "\n" } else { "" });
            let found = ranges(text.as_bytes(), most, overlap);
            let mut seen = 0;
            for (index, range) in found.iter().enumerate() {
                let size = range.end - range.start;
                prop_assert!(text.get(range.start as usize..range.end as usize).is_some());
                prop_assert!(range.start <= seen && range.end >= seen && size <= most, "{found:?}");
                if index > 0 {
                    // The ends of the chunks have moved by less than an eighth.
                    let shared = seen - range.start;
                    let wanted = size * overlap / 100;
                    prop_assert!(shared.abs_diff(wanted) <= most / 8 + 4, "{found:?}");
                }
                seen = range.end;
            }
            prop_assert_eq!(seen, text.len() as u64);
            let planned = Chunks::plan(text.len() as u64, most, overlap).size();
            let line = lines.iter().map(|line| line.len() as u64 + 1).max().unwrap_or(0);
            let line = if ended { line } else { 4 };
            for range in &found {
                let apart = (range.end - range.start).abs_diff(planned);
                prop_assert!(apart <= line.max(planned / 100) + 2, "{found:?} {planned} {line}");
            }
        }
    }
}
