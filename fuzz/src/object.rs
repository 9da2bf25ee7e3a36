//! Objects of a bucket and their block tables, from an arbitrary source.
//!
//! If the first byte is `m`, the rest is a list of texts, separated by 0xFE. Each text after the
//! first is repeated to fill a block; the last one is not repeated. The blocks are packed into an
//! object. The first text has changes of the object and its table, four bytes each: which of the
//! two is changed, the position, and the bits to flip.
//!
//! Otherwise the input has the size of an artifact and the size of its object, 8 bytes each,
//! little-endian, followed by the table and the object. If the table is refused, it is tried again
//! with the actual end of the object.

use std::ops::Range;

use ctxfs_sync::bucket::{BLOCK_BYTES, BlockPacker, Blocks, PackedObject, unpack_block};

const SEPARATOR: u8 = 0xFE;
/// Bytes of a row of a table, and the range of the digest in it.
const ROW: usize = 48;
const DIGEST: Range<usize> = 8..40;
/// Maximum number of blocks that are unpacked.
const MOST_BLOCKS: usize = 4;

/// Asserts that a table is refused or plausible, and that a block is refused or has the digest in
/// the table. A packed object must be readable.
pub fn object(data: &[u8]) {
    tried(data);
}

/// Returns the number of readable blocks. Returns `None` if the table is refused.
fn tried(data: &[u8]) -> Option<usize> {
    if let Some((b'm', texts)) = data.split_first() {
        return changed(texts);
    }
    let (size, rest) = number(data)?;
    let (packed, rest) = number(rest)?;
    let (table, frames) = rest.split_at(rest.len().min(Blocks::table_bytes(size) as usize));
    read(table, frames, (size, packed)).or_else(|| {
        let end = frames.len() as u64;
        read(&ending_at(table, end)?, frames, (size, end))
    })
}

fn number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (number, rest) = bytes.split_first_chunk()?;
    Some((u64::from_le_bytes(*number), rest))
}

/// Returns `table` with the end of its last block set to `end`. Returns `None` if the table has no
/// block.
fn ending_at(table: &[u8], end: u64) -> Option<Vec<u8>> {
    let mut table = table.to_vec();
    let last = table.len().checked_sub(ROW)?;
    table[last..last + 8].copy_from_slice(&end.to_le_bytes());
    Some(table)
}

/// Packs an object, reads it, changes it, and reads it again.
fn changed(texts: &[u8]) -> Option<usize> {
    let end = memchr::memchr(SEPARATOR, texts).unwrap_or(texts.len());
    let content = filled(texts.get(end + 1..).unwrap_or_default());
    let mut packer = BlockPacker::new(Vec::new());
    packer.push(&content).expect("memory");
    let (mut frames, mut object) = packer.finish().expect("memory");
    check_whole(&object, &frames, &content);
    let (changes, _) = texts[..end].as_chunks::<4>();
    for [place, high, low, flipped] in changes {
        let bytes = if place % 2 == 0 { &mut object.blocks } else { &mut frames };
        let at = usize::from(place / 2) * 65_536 + usize::from(*high) * 256 + usize::from(*low);
        if let Some(at) = at.checked_rem(bytes.len()) {
            bytes[at] ^= flipped;
        }
    }
    read(&object.blocks, &frames, (object.size, object.packed))
}

/// Returns content whose blocks are filled with `texts`.
fn filled(texts: &[u8]) -> Vec<u8> {
    let texts: Vec<_> = texts.split(|byte| *byte == SEPARATOR).take(MOST_BLOCKS).collect();
    let mut content = Vec::new();
    if let Some((last, others)) = texts.split_last() {
        for text in others {
            content.extend(text.iter().cycle().take(BLOCK_BYTES as usize));
        }
        content.extend_from_slice(last);
    }
    content
}

/// Asserts that a packed object is read completely.
fn check_whole(object: &PackedObject, frames: &[u8], content: &[u8]) {
    let PackedObject { size, packed, digest, blocks: table, blocks_digest } = object;
    assert_eq!((*size, *packed), (content.len() as u64, frames.len() as u64));
    assert_eq!(digest, blake3::hash(content).to_hex().as_str());
    let blocks = Blocks::parse(table, *size, *packed).expect("what was packed has a table");
    assert_eq!(blocks.digest_text(), blocks_digest);
    let tried = blocks.len().min(MOST_BLOCKS);
    assert_eq!(read(table, frames, (*size, *packed)), Some(tried));
    let unpacked = (0..blocks.len()).map(|block| {
        let frame = cut(frames, &blocks.frame_range(block)).expect("it is all there");
        unpack_block(frame, block, &blocks).expect("what was packed is unpacked")
    });
    assert!(unpacked.collect::<Vec<_>>().concat() == content, "{object:?}");
}

fn cut<'a>(frames: &'a [u8], range: &Range<u64>) -> Option<&'a [u8]> {
    frames.get(range.start as usize..range.end as usize)
}

/// Reads an object. Returns the number of readable blocks among the first [`MOST_BLOCKS`]. Returns
/// `None` if the table is refused.
fn read(table: &[u8], frames: &[u8], (size, packed): (u64, u64)) -> Option<usize> {
    let blocks = Blocks::parse(table, size, packed).ok()?;
    check_table(&blocks, table, (size, packed));
    let tried = blocks.len().min(MOST_BLOCKS);
    for first in 0..tried {
        for block in first..tried {
            check_frame(&blocks, frames, (first, block));
        }
    }
    assert!(unpack_block(frames, blocks.len(), &blocks).is_err(), "there is no such block");
    Some((0..tried).filter(|block| is_read(&blocks, table, frames, *block)).count())
}

/// Asserts that the blocks are contiguous up to `ends`, and that no block has more newlines than
/// bytes.
fn check_table(blocks: &Blocks, table: &[u8], ends: (u64, u64)) {
    assert_eq!(blocks.digest_text(), blake3::hash(table).to_hex().as_str());
    assert_eq!(table.len() as u64, Blocks::table_bytes(ends.0));
    let (mut reached, mut lines) = ((0, 0), 0);
    for block in 0..blocks.len() {
        let (content, frame) = (blocks.content_range(block), blocks.frame_range(block));
        assert_eq!((content.start, frame.start), reached);
        assert!(content.start < content.end && frame.start < frame.end);
        assert!(content.end - content.start <= BLOCK_BYTES);
        let before = blocks.lines_before(block);
        assert!((lines..=content.start).contains(&before), "{before}");
        (reached, lines) = ((content.end, frame.end), before);
    }
    assert_eq!(reached, ends);
    assert!(blocks.content_range(blocks.len()).is_empty());
}

/// Asserts that the frame of `block` is found in frames that start with block `first`, if it is
/// included.
fn check_frame(blocks: &Blocks, frames: &[u8], (first, block): (usize, usize)) {
    let (range, start) = (blocks.frame_range(block), blocks.frame_range(first).start);
    let end = block + 1;
    assert_eq!(blocks.frames_range(first..end), start..range.end);
    let from_first = frames.get(start as usize..).unwrap_or_default();
    assert_eq!(blocks.frame_in(from_first, first, block).ok(), cut(frames, &range));
}

/// Returns true if a block is not refused. Asserts that the block matches its row in the table.
fn is_read(blocks: &Blocks, table: &[u8], frames: &[u8], block: usize) -> bool {
    let frame = cut(frames, &blocks.frame_range(block)).unwrap_or_default();
    let Ok(content) = unpack_block(frame, block, blocks) else { return false };
    let row = &table[block * ROW..];
    assert_eq!(blake3::hash(&content).as_bytes()[..], row[DIGEST]);
    let range = blocks.content_range(block);
    assert_eq!(content.len() as u64, range.end - range.start);
    true
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn objects_come_as_far_as_their_bytes() {
        let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/object");
        for (name, blocks) in [
            ("blocks", Some(3)),
            ("changed-digest", Some(2)),
            ("changed-end", None),
            ("changed-frame", Some(2)),
            ("nothing", Some(0)),
            ("raw", Some(1)),
            ("raw-cut", Some(0)),
            ("raw-other-end", Some(1)),
            ("endless", None),
        ] {
            assert_eq!(tried(&fs::read(kept.join(name)).unwrap()), blocks, "{name}");
        }
    }
}
