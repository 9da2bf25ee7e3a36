
use std::io::Write;
use std::{io, mem};

use crate::bucket::frame::Packer;
use crate::bucket::object::BLOCK_BYTES;
use crate::bucket::object::blocks::{Row, digest_text};

///+ Packs content into the blocks of an object, and writes each block to `W` when it is full. Holds
///+ one block, its frame and the table.
///+
///+ The same content gives the same object. After a failed write the object is incomplete and must
///+ be discarded.
#[derive(Debug)]
pub struct BlockPacker<W> {
    out: W,
    packer: Packer,
    block: Vec<u8>,
    hasher: blake3::Hasher,
    done: PackedObject,
    lines: u64,
}

///+ Result of packing an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PackedObject {
    ///+ Bytes of the content.
    pub size: u64,
    ///+ Bytes of the object.
    pub packed: u64,
    ///+ BLAKE3 of the content, in lower-case hexadecimal.
    pub digest: String,
    ///+ Table of blocks.
    pub blocks: Vec<u8>,
    ///+ BLAKE3 of the table, in lower-case hexadecimal.
    pub blocks_digest: String,
}

impl<W: Write> BlockPacker<W> {
    ///+ Starts an object that is written to `out`.
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

    ///+ Adds content.
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

    ///+ Writes the last block. Returns the writer, which was not flushed, and the result.
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
        let row = Row { end: self.done.packed, digest, lines: self.lines };
        self.done.blocks.extend_from_slice(&row.to_bytes());
        self.lines += memchr::memchr_iter(b'\n', &self.block).count() as u64;
        self.block.clear();
        Ok(())
    }
}
