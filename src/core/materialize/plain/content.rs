//! The text of a log as content.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::materialize::plain::checkpoints::Checkpoint;
use crate::materialize::plain::{Checkpoints, EscapeStripper, STEP};
use crate::model::{Content, read_pieces};

/// Blocks that are cached: those between two checkpoints, so that reading backwards or at random
/// does not read them repeatedly.
const KEPT: usize = 16;

/// The text of a log, as content.
///
/// A read that continues a recent one costs no more than the bytes it reads. Any other read begins
/// at the checkpoint before it.
pub struct PlainText<C> {
    log: C,
    checkpoints: Checkpoints,
    length: u64,
    recent: Mutex<VecDeque<Arc<Block>>>,
}

/// A block of the text, with the state of the stripper after it.
struct Block {
    start: u64,
    bytes: Vec<u8>,
    raw: u64,
    stripper: EscapeStripper,
    /// True if no block follows.
    is_last: bool,
}

impl Block {
    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    fn at(checkpoint: Checkpoint) -> Self {
        let Checkpoint { raw, plain, stripper } = checkpoint;
        Self { start: plain, bytes: Vec::new(), raw, stripper, is_last: false }
    }
}

impl<C: Content> PlainText<C> {
    /// Returns the text of `log`. `checkpoints` are those of a log that is a prefix of it, or of
    /// which it is a prefix. Reads the log from the last checkpoint to its end, to learn the
    /// length.
    pub fn new(log: C, checkpoints: Checkpoints) -> io::Result<Self> {
        let mut block = Block::at(checkpoints.before(u64::MAX, log.len()));
        while !block.is_last {
            block = next(&log, &block)?;
        }
        Ok(Self::of_length(log, checkpoints, block.end()))
    }

    /// Returns the text of `log`, which has `length` bytes. Reads nothing.
    pub fn of_length(log: C, checkpoints: Checkpoints, length: u64) -> Self {
        Self { log, checkpoints, length, recent: Mutex::default() }
    }

    /// Returns the block with the byte at `offset`, which is below the length.
    fn block(&self, offset: u64) -> io::Result<Arc<Block>> {
        let mut block = self.nearest(offset);
        while block.end() <= offset && !block.is_last {
            block = Arc::new(next(&self.log, &block)?);
            self.keep(&block);
        }
        Ok(block)
    }

    /// Returns the last block that does not begin after `offset`, of those that are cached and an
    /// empty one at the checkpoint.
    fn nearest(&self, offset: u64) -> Arc<Block> {
        let recent = self.recent.lock();
        let kept = recent.iter().filter(|block| block.start <= offset).max_by_key(|b| b.start);
        let kept = kept.map(Arc::clone);
        drop(recent);
        if let Some(block) = kept.as_ref().filter(|block| offset < block.end() || block.is_last) {
            return Arc::clone(block);
        }
        let marked = Block::at(self.checkpoints.before(offset, self.log.len()));
        kept.filter(|block| block.start >= marked.start).unwrap_or_else(|| Arc::new(marked))
    }

    fn keep(&self, block: &Arc<Block>) {
        let mut recent = self.recent.lock();
        if recent.len() == KEPT {
            recent.pop_front();
        }
        recent.push_back(Arc::clone(block));
    }
}

/// Reads the block after `block`.
fn next(log: &dyn Content, block: &Block) -> io::Result<Block> {
    let (mut stripper, mut bytes) = (block.stripper.clone(), Vec::new());
    let read = log.bytes(block.raw, STEP)?;
    stripper.push(&read, &mut bytes);
    let is_last = read.is_empty();
    if is_last {
        bytes.extend_from_slice(&stripper.tail());
    }
    let raw = block.raw + read.len() as u64;
    Ok(Block { start: block.end(), bytes, raw, stripper, is_last })
}

impl<C: Content> Content for PlainText<C> {
    fn len(&self) -> u64 {
        self.length
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        read_pieces(self.length, offset, buffer, |at, buffer| {
            let block = self.block(at)?;
            block.bytes.read_at(at - block.start, buffer)
        })
    }

    fn is_over(&self) -> bool {
        self.log.is_over()
    }
}

impl<C> std::fmt::Debug for PlainText<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PlainText").field("length", &self.length).finish_non_exhaustive()
    }
}
