use std::io::Read as _;

use proptest::prelude::*;

use super::*;

const BLOCK: usize = BLOCK_BYTES as usize;

fn packed(content: &[u8], step: usize) -> (Vec<u8>, PackedObject) {
    let mut packer = BlockPacker::new(Vec::new());
    for part in content.chunks(step) {
        packer.push(part).unwrap();
    }
    packer.finish().unwrap()
}

fn blocks(object: &PackedObject) -> Blocks {
    Blocks::parse(&object.blocks, object.size, object.packed).unwrap()
}

/// Returns `size` bytes that compress badly, with newlines at intervals.
fn noise(size: usize) -> Vec<u8> {
    let mut bytes = vec![0; size];
    blake3::Hasher::new().finalize_xof().fill(&mut bytes);
    bytes
}

fn frame_of<'a>(bytes: &'a [u8], blocks: &Blocks, block: usize) -> &'a [u8] {
    let range = blocks.frame_range(block);
    &bytes[range.start as usize..range.end as usize]
}

#[test]
fn what_is_packed_comes_back_block_by_block() {
    for size in [1, 1000, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 7] {
        let content = noise(size);
        let (bytes, object) = packed(&content, 300_000);
        assert_eq!((object.size, object.packed), (size as u64, bytes.len() as u64));
        assert_eq!(object.digest, blake3::hash(&content).to_hex().as_str());
        let blocks = blocks(&object);
        assert_eq!(blocks.len(), size.div_ceil(BLOCK));
        assert_eq!(blocks.digest_text(), object.blocks_digest);
        assert_eq!(object.blocks.len() as u64, Blocks::table_bytes(object.size));
        for (block, part) in content.chunks(BLOCK).enumerate() {
            let range = blocks.content_range(block);
            assert_eq!(&content[range.start as usize..range.end as usize], part);
            let before = &content[..range.start as usize];
            let newlines = memchr::memchr_iter(b'\n', before).count() as u64;
            assert_eq!(blocks.lines_before(block), newlines);
            let unpacked = unpack_block(frame_of(&bytes, &blocks, block), block, &blocks);
            assert!(unpacked.unwrap() == part, "block {block} of {size}");
        }
    }
}

#[test]
fn zstd_unpacks_all_of_it() {
    let content = b"a line of text\n".repeat(200_000);
    let (bytes, _) = packed(&content, 1 << 16);
    let mut unpacked = Vec::new();
    zstd::Decoder::new(&bytes[..]).unwrap().read_to_end(&mut unpacked).unwrap();
    assert!(unpacked == content);
}

#[test]
fn the_same_content_makes_the_same_object() {
    let content = noise(2 * BLOCK + 5);
    let whole = packed(&content, content.len());
    assert!(packed(&content, 4093) == whole);
    assert!(packed(&content, BLOCK) == whole);
}

#[test]
fn of_nothing_is_an_object_of_nothing() {
    let (bytes, object) = packed(b"", 1);
    assert!(bytes.is_empty() && object.blocks.is_empty());
    let blocks = blocks(&object);
    assert!(blocks.is_empty());
    assert!(blocks.content_range(3).is_empty());
    assert!(unpack_block(b"", 0, &blocks).is_err());
}

#[test]
fn the_lines_before_each_block_are_counted() {
    // A block without newlines, a block that ends in a newline, and one more line.
    let mut content = vec![b'a'; BLOCK];
    content.extend(b"\nb\n");
    content.resize(2 * BLOCK - 1, b'c');
    content.extend(b"\nd\ne");
    let (_, object) = packed(&content, BLOCK);
    let blocks = blocks(&object);
    let before: Vec<_> = (0..blocks.len()).map(|block| blocks.lines_before(block)).collect();
    assert_eq!(before, [0, 0, 3]);
}

#[test]
fn tables_that_cannot_be_are_refused() {
    let (_, object) = packed(&noise(3 * BLOCK), BLOCK);
    let PackedObject { size, packed, blocks: table, .. } = object;
    let refused = |table: &[u8], size, packed| Blocks::parse(table, size, packed).is_err();
    assert!(!refused(&table, size, packed));
    for end in 0..table.len() {
        assert!(refused(&table[..end], size, packed), "{end}");
    }
    assert!(refused(&[&table[..], &[0; 48]].concat(), size, packed));
    for size in [0, 1, size - BLOCK_BYTES, size + 1, u64::MAX] {
        assert!(refused(&table, size, packed), "{size}");
    }
    for packed in [0, packed - 1, packed + 1, u64::MAX] {
        assert!(refused(&table, size, packed), "{packed}");
    }
    let change = |at: usize, number: u64| {
        let mut changed = table.clone();
        changed[at..at + 8].copy_from_slice(&number.to_le_bytes());
        refused(&changed, size, packed)
    };
    for (at, number) in [
        (0, 0),
        (0, packed),
        (0, packed + 1),
        (0, u64::MAX),
        (48, 1),
        (96, u64::MAX),
        (40, 1),
        (88, BLOCK_BYTES + 1),
        (88, u64::MAX),
        (136, 0),
    ] {
        assert!(change(at, number), "{number} at {at}");
    }
    assert!(refused(&[], 0, 1));
}

#[test]
fn a_frame_larger_than_a_block_can_have_is_refused() {
    let row = BlockRow { end: 2 * BLOCK_BYTES, digest: [0; 32], lines: 0 };
    assert!(Blocks::parse(&row.to_bytes(), 1, 2 * BLOCK_BYTES).is_err());
}

#[test]
fn blocks_that_are_others_are_refused() {
    let (bytes, object) = packed(&noise(2 * BLOCK + 100), BLOCK);
    let blocks = blocks(&object);
    let frame = frame_of(&bytes, &blocks, 0);
    assert!(unpack_block(frame, 0, &blocks).is_ok());
    assert!(unpack_block(frame, 1, &blocks).is_err(), "the digest is another one");
    assert!(unpack_block(frame, 2, &blocks).is_err(), "the size is another one");
    assert!(unpack_block(frame, 3, &blocks).is_err(), "there is no such block");
    assert!(unpack_block(&frame[..frame.len() - 1], 0, &blocks).is_err());
    assert!(unpack_block(&bytes, 0, &blocks).is_err());
    assert!(unpack_block(b"", 0, &blocks).is_err());
    let mut changed = frame.to_vec();
    let middle = changed.len() / 2;
    changed[middle] ^= 1;
    assert!(unpack_block(&changed, 0, &blocks).is_err());
}

#[test]
fn a_bomb_in_place_of_a_block_is_refused() {
    let (_, object) = packed(b"small", 5);
    let bomb = zstd::bulk::compress(&vec![0; 64 << 20], 3).unwrap();
    assert!(unpack_block(&bomb, 0, &blocks(&object)).is_err());
}

/// A disk with room for this number of bytes.
#[derive(Debug)]
struct Full(usize);

impl std::io::Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(self.0);
        self.0 -= taken;
        if taken == 0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(taken) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_writer_that_fails_is_told_of() {
    let mut packer = BlockPacker::new(Full(10));
    packer.push(&noise(100)).unwrap();
    assert_eq!(packer.finish().unwrap_err().kind(), io::ErrorKind::StorageFull);
    let mut packer = BlockPacker::new(Full(10));
    assert!(packer.push(&noise(BLOCK)).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_content_comes_back(
        text in proptest::collection::vec(any::<u8>(), 1..2000),
        times in 1..2000_usize,
        step in 1..3_000_000_usize,
    ) {
        let content = text.repeat(times);
        let (bytes, object) = packed(&content, step);
        let blocks = blocks(&object);
        let mut read = Vec::new();
        for block in 0..blocks.len() {
            read.extend(unpack_block(frame_of(&bytes, &blocks, block), block, &blocks).unwrap());
        }
        prop_assert!(read == content);
    }

    #[test]
    fn any_table_is_parsed_or_refused(
        table in proptest::collection::vec(any::<u8>(), 0..200),
        size in any::<u64>(),
        packed in any::<u64>(),
    ) {
        for size in [size, table.len() as u64 / 48 * BLOCK_BYTES] {
            if let Ok(blocks) = Blocks::parse(&table, size, packed) {
                let last = blocks.len().checked_sub(1);
                prop_assert!(last.is_none_or(|last| blocks.frame_range(last).end == packed));
            }
        }
    }
}
