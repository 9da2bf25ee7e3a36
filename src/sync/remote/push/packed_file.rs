//! Packing of larger files while they are read: blocks, and the parts that go into the segment with
//! the record.

use std::io::{Read, Write};
use std::sync::Arc;
use std::{fmt, io, mem};

use parking_lot::Mutex;

use crate::bucket::{BLOCK_BYTES, BlockPacker, PackedObject};

///+ Reader of the packed object with the content of `F`. Holds one block and its frame.
pub(crate) struct PackedFile<F> {
    content: F,
    packer: Option<BlockPacker<Pipe>>,
    pipe: Pipe,
    block: Vec<u8>,
    ready: Vec<u8>,
    at: usize,
    done: Option<PackedObject>,
}

#[derive(Clone, Default)]
struct Pipe(Arc<Mutex<Vec<u8>>>);

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<F> fmt::Debug for PackedFile<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PackedFile").field("done", &self.done).finish_non_exhaustive()
    }
}

impl<F: Read> PackedFile<F> {
    pub(crate) fn new(content: F) -> Self {
        let pipe = Pipe::default();
        let packer = Some(BlockPacker::new(pipe.clone()));
        let (block, ready) = (Vec::new(), Vec::new());
        Self { content, packer, pipe, block, ready, at: 0, done: None }
    }

    ///+ Returns the result, if the object was read to its end.
    pub(crate) fn done(self) -> Option<PackedObject> {
        self.done
    }

    ///+ Packs the next block or the end. Returns false after the end.
    fn pack(&mut self) -> io::Result<bool> {
        let Some(packer) = &mut self.packer else { return Ok(false) };
        self.block.clear();
        let content = self.content.by_ref();
        let read = content.take(BLOCK_BYTES).read_to_end(&mut self.block)?;
        if read > 0 {
            packer.push(&self.block)?;
        } else if let Some(packer) = self.packer.take() {
            self.done = Some(packer.finish()?.1);
        }
        self.ready = mem::take(&mut *self.pipe.0.lock());
        self.at = 0;
        Ok(true)
    }
}

impl<F: Read> Read for PackedFile<F> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        while self.at == self.ready.len() {
            if !self.pack()? {
                return Ok(0);
            }
        }
        let count = bytes.len().min(self.ready.len() - self.at);
        bytes[..count].copy_from_slice(&self.ready[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bucket::{Blocks, unpack_block};

    #[test]
    fn it_is_packed_as_it_is_read() {
        for size in [1, BLOCK_BYTES, 2 * BLOCK_BYTES + 7] {
            let content: Vec<u8> = (0..size).map(|at| (at % 251) as u8).collect();
            let mut file = PackedFile::new(&content[..]);
            let mut packed = Vec::new();
            file.read_to_end(&mut packed).unwrap();
            let done = file.done().unwrap();
            assert_eq!((done.size, done.packed), (size, packed.len() as u64));
            assert_eq!(done.digest, blake3::hash(&content).to_hex().as_str());
            let blocks = Blocks::parse(&done.blocks, size, done.packed).unwrap();
            let unpacked = (0..blocks.len()).flat_map(|block| {
                let range = blocks.frame_range(block);
                let frame = &packed[range.start as usize..range.end as usize];
                unpack_block(frame, block, &blocks).unwrap()
            });
            assert!(unpacked.eq(content.iter().copied()), "{size}");
        }
    }
}
