//! Objects. An object has the bytes of one artifact that is too large for a segment. The bytes are
//! packed in blocks that can be read separately.
//!
//! An object is a sequence of zstd frames. Each frame has a block of 1 MiB of content; the last
//! block may be shorter. `zstd -d` unpacks the whole object. A separate table has 48 bytes per
//! block:
//!
//! | bytes | content |
//! |---|---|
//! | 8 | end of the block's frame in the object, little-endian |
//! | 32 | BLAKE3 digest of the block's content |
//! | 8 | number of newlines in the content before the block, little-endian |

use std::ops::Range;
use std::{io, mem};

use crate::bucket::frame::Packer;
use crate::bucket::{FormatError, frame};

/// Number of bytes of content in a block. The last block may have fewer.
pub const BLOCK_BYTES: u64 = 1 << 20;

/// Unpacks `frame`, which is the frame of block number `block`, and checks the digest of its
/// content.
pub fn unpack_block(frame: &[u8], block: usize, blocks: &Blocks) -> Result<Vec<u8>, FormatError> {
    let what = "a block of an object";
    let Some(digest) = blocks.digest_of(block) else {
        return Err(FormatError::damaged("there are fewer blocks"));
    };
    let content = frame::unpack(frame, blocks.bytes_of(block) as usize, what)?;
    if blake3::hash(&content) != *digest {
        return Err(FormatError::damaged(format!("{what} has another digest than it should")));
    }
    Ok(content)
}

const ROW: usize = 48;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct BlockRow {
    end: u64,
    digest: [u8; blake3::OUT_LEN],
    lines: u64,
}

/// Table of the blocks of an object. Blocks and lines are counted from 0.
///
/// [`Self::parse`] checks only that frame sizes and line counts are plausible.
/// `ObjectPlace::read_table` also compares the digest of the table with the digest in the record,
/// which proves that the table is correct.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocks {
    rows: Vec<BlockRow>,
    size: u64,
    digest: String,
}

impl BlockRow {
    fn to_bytes(self) -> [u8; ROW] {
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
    /// Parses the table of an object. The object has `packed` bytes, and its content has `size`
    /// bytes.
    pub fn parse(table: &[u8], size: u64, packed: u64) -> Result<Self, FormatError> {
        let (rows, rest) = table.as_chunks::<ROW>();
        let is_whole = rest.is_empty() && rows.len() as u64 == size.div_ceil(BLOCK_BYTES);
        let rows: Vec<BlockRow> = rows.iter().map(BlockRow::from_bytes).collect();
        if !is_whole || rows.last().map_or(0, |last| last.end) != packed || !are_possible(&rows) {
            let what = "the table of an object's blocks says what cannot be";
            return Err(FormatError::damaged(what));
        }
        Ok(Self { rows, size, digest: digest_text(table) })
    }

    /// Returns the size of the table of an object with `size` bytes of content.
    pub fn table_bytes(size: u64) -> u64 {
        size.div_ceil(BLOCK_BYTES) * ROW as u64
    }

    /// Returns the number of blocks.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns true if the object is empty.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the BLAKE3 digest of the table, in lower-case hexadecimal.
    pub fn digest_text(&self) -> &str {
        &self.digest
    }

    /// Returns the range of a block's frame in the object. Panics if the block does not exist.
    pub fn frame_range(&self, block: usize) -> Range<u64> {
        let start = block.checked_sub(1).map_or(0, |before| self.rows[before].end);
        start..self.rows[block].end
    }

    /// Returns the range of the frames of a non-empty range of blocks. Panics if a block does not
    /// exist.
    pub fn frames_range(&self, blocks: Range<usize>) -> Range<u64> {
        self.frame_range(blocks.start).start..self.frame_range(blocks.end - 1).end
    }

    /// Returns the frame of `block`. `frames` starts with the frame of block `first`. Panics if a
    /// block does not exist.
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

    /// Returns the range of a block in the content, which is empty if the block does not exist.
    pub fn content_range(&self, block: usize) -> Range<u64> {
        let start = (block as u64).saturating_mul(BLOCK_BYTES).min(self.size);
        start..start.saturating_add(BLOCK_BYTES).min(self.size)
    }

    /// Returns the number of newlines before a block. Panics if the block does not exist.
    pub fn lines_before(&self, block: usize) -> u64 {
        self.rows[block].lines
    }

    fn digest_of(&self, block: usize) -> Option<&[u8; blake3::OUT_LEN]> {
        self.rows.get(block).map(|row| &row.digest)
    }

    fn bytes_of(&self, block: usize) -> u64 {
        let range = self.content_range(block);
        range.end - range.start
    }
}

fn digest_text(table: &[u8]) -> String {
    blake3::hash(table).to_hex().to_string()
}

/// Returns false if the rows are impossible. Each frame must end after the previous one and must
/// not be longer than the largest frame of a block. No block can have more newlines than bytes.
fn are_possible(rows: &[BlockRow]) -> bool {
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

/// Packs content into the blocks of an object. Writes each block to `W` when it is full. Holds one
/// block, its frame and the table in memory.
///
/// Equal content results in equal objects. After a failed write the object is incomplete and must
/// be discarded.
#[derive(Debug)]
pub struct BlockPacker<W> {
    out: W,
    packer: Packer,
    block: Vec<u8>,
    hasher: blake3::Hasher,
    done: PackedObject,
    lines: u64,
}

/// Result of packing content into an object. `size` is the number of bytes of the content, and
/// `packed` is the number of bytes of the object. `blocks` is the table of blocks. `digest` and
/// `blocks_digest` are the BLAKE3 digests of the content and of the table, in lower-case
/// hexadecimal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "described above")]
pub struct PackedObject {
    pub size: u64,
    pub packed: u64,
    pub digest: String,
    pub blocks: Vec<u8>,
    pub blocks_digest: String,
}

impl<W: std::io::Write> BlockPacker<W> {
    /// Starts an object. Writes its frames to `out`.
    pub fn new(out: W) -> Self {
        Self {
            out,
            packer: Packer::new(false),
            block: Vec::with_capacity(BLOCK_BYTES as usize),
            hasher: blake3::Hasher::new(),
            done: PackedObject::default(),
            lines: 0,
        }
    }

    /// Appends content.
    pub fn push(&mut self, mut content: &[u8]) -> io::Result<()> {
        self.hasher.update(content);
        while !content.is_empty() {
            let room = BLOCK_BYTES as usize - self.block.len();
            let (taken, rest) = content.split_at(content.len().min(room));
            self.block.extend_from_slice(taken);
            content = rest;
            if self.block.len() as u64 == BLOCK_BYTES {
                self.write_block()?;
            }
        }
        Ok(())
    }

    /// Writes the last block. Returns the writer, without flushing it, and the result.
    pub fn finish(mut self) -> io::Result<(W, PackedObject)> {
        if !self.block.is_empty() {
            self.write_block()?;
        }
        let mut done = mem::take(&mut self.done);
        done.digest = self.hasher.finalize().to_hex().to_string();
        done.blocks_digest = digest_text(&done.blocks);
        Ok((self.out, done))
    }

    fn write_block(&mut self) -> io::Result<()> {
        let frame = self.packer.pack(&self.block);
        self.out.write_all(frame)?;
        self.done.packed += frame.len() as u64;
        self.done.size += self.block.len() as u64;
        let digest = *blake3::hash(&self.block).as_bytes();
        let row = BlockRow { end: self.done.packed, digest, lines: self.lines };
        self.done.blocks.extend_from_slice(&row.to_bytes());
        self.lines += memchr::memchr_iter(b'\n', &self.block).count() as u64;
        self.block.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests;
