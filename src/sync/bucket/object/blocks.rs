
use std::ops::Range;

use crate::bucket::object::BLOCK_BYTES;
use crate::bucket::{FormatError, frame};

const ROW: usize = 48;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) end: u64,
    pub(super) digest: [u8; blake3::OUT_LEN],
    pub(super) lines: u64,
}

///+ Table of the blocks of an object. Blocks and lines are counted from 0.
///+
///+ Frame sizes and line counts are plausible for the size of the content. Only the digest, compared
///+ with the one in the record, tells whether the table is the right one: see
///+ [`ObjectPlace::read_table`](crate::bucket::ObjectPlace::read_table).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocks {
    rows: Vec<Row>,
    size: u64,
    digest: String,
}

impl Row {
    pub(super) fn to_bytes(self) -> [u8; ROW] {
        let mut bytes = [0; ROW];
        bytes[..8].copy_from_slice(&self.end.to_le_bytes());
        bytes[8..40].copy_from_slice(&self.digest);
        bytes[40..].copy_from_slice(&self.lines.to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8; ROW]) -> Self {
        let number = |at: usize| {
            let number = bytes[at..].first_chunk::<8>();
            u64::from_le_bytes(*number.expect("a row has eight bytes there"))
        };
        let digest = bytes[8..].first_chunk::<{ blake3::OUT_LEN }>();
        let digest = *digest.expect("a row has a digest there");
        Self { end: number(0), digest, lines: number(40) }
    }
}

impl Blocks {
    ///+ Parses the table of an object of `packed` bytes with `size` bytes of content.
    pub fn parse(table: &[u8], size: u64, packed: u64) -> Result<Self, FormatError> {
        let (rows, rest) = table.as_chunks::<ROW>();
        if !rest.is_empty() || rows.len() as u64 != size.div_ceil(BLOCK_BYTES) {
            return Err(damaged());
        }
        let rows: Vec<Row> = rows.iter().map(Row::from_bytes).collect();
        if rows.last().map_or(0, |last| last.end) != packed || !are_possible(&rows) {
            return Err(damaged());
        }
        Ok(Self { rows, size, digest: digest_text(table) })
    }

    ///+ Returns the size of the table of an object with `size` bytes of content.
    pub fn table_bytes(size: u64) -> u64 {
        size.div_ceil(BLOCK_BYTES) * ROW as u64
    }

    ///+ Returns the number of blocks.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    ///+ Returns true for an empty object.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    ///+ Returns BLAKE3 of the table, in lower-case hexadecimal.
    pub fn digest_text(&self) -> &str {
        &self.digest
    }

    ///+ Returns the range of a block's frame in the object. Panics if the block does not exist.
    pub fn frame_range(&self, block: usize) -> Range<u64> {
        let start = block.checked_sub(1).map_or(0, |before| self.rows[before].end);
        start..self.rows[block].end
    }

    ///+ Returns the range of the frames of a non-empty range of blocks. Panics if a block does not
    ///+ exist.
    pub fn frames_range(&self, blocks: Range<usize>) -> Range<u64> {
        self.frame_range(blocks.start).start..self.frame_range(blocks.end - 1).end
    }

    ///+ Returns the frame of `block` in `frames`, which starts with the frame of block `first`.
    ///+ Panics if a block does not exist.
    pub fn frame_in<'a>(
        &self,
        frames: &'a [u8],
        first: usize,
        block: usize,
    ) -> Result<&'a [u8], FormatError> {
        let (start, range) = (self.frame_range(first).start, self.frame_range(block));
        let frame = frames.get((range.start - start) as usize..(range.end - start) as usize);
        frame.ok_or_else(|| FormatError::damaged("an object ends before its last block"))
    }

    ///+ Returns the range of a block in the content; empty if the block does not exist.
    pub fn content_range(&self, block: usize) -> Range<u64> {
        let start = (block as u64).saturating_mul(BLOCK_BYTES).min(self.size);
        start..start.saturating_add(BLOCK_BYTES).min(self.size)
    }

    ///+ Returns the number of newlines before a block. Panics if the block does not exist.
    pub fn lines_before(&self, block: usize) -> u64 {
        self.rows[block].lines
    }

    pub(super) fn digest_of(&self, block: usize) -> Option<&[u8; blake3::OUT_LEN]> {
        self.rows.get(block).map(|row| &row.digest)
    }

    pub(super) fn bytes_of(&self, block: usize) -> u64 {
        let range = self.content_range(block);
        range.end - range.start
    }
}

pub(super) fn digest_text(table: &[u8]) -> String {
    blake3::hash(table).to_hex().to_string()
}

///+ Checks that frames are consecutive and no longer than a block's frame can be, and that no block
///+ has more newlines than bytes.
fn are_possible(rows: &[Row]) -> bool {
    let most = frame::most_packed(BLOCK_BYTES as usize) as u64;
    let (mut end, mut lines, mut most_lines) = (0, 0, 0);
    rows.iter().all(|row| {
        let frame = row.end.checked_sub(end);
        let new = row.lines.checked_sub(lines);
        (end, lines) = (row.end, row.lines);
        let lines_fit = new.is_some_and(|new| new <= most_lines);
        most_lines = BLOCK_BYTES;
        lines_fit && frame.is_some_and(|frame| (1..=most).contains(&frame))
    })
}

fn damaged() -> FormatError {
    FormatError::damaged("the table of an object's blocks says what cannot be")
}
