//! A log whose reader sees the text alone.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;

use crate::materialize::plain::Checkpoints;
use crate::materialize::plain::EscapeStripper;
use crate::materialize::plain::checkpoints::Checkpoint;
use crate::model::Content;
use crate::model::read_pieces;

/// Bytes of the log that are read at once.
const STEP: usize = 64 * 1024;
/// Blocks that are kept: those of a stretch between two checkpoints, so that who reads backwards, or here and
/// there, does not read it again and again.
const KEPT: usize = 16;

/// The text of a log, as content: shorter than the log by what is left out.
///
/// Reading on from where a recent reading ended costs no more than what is read; elsewhere, what
/// lies between it and the checkpoint before.
pub struct PlainText<C> {
    log: C,
    checkpoints: Checkpoints,
    length: u64,
    recent: Mutex<VecDeque<Arc<Block>>>,
}

/// A stretch of the text, and how to go on after it.
struct Block {
    start: u64,
    bytes: Vec<u8>,
    raw: u64,
    stripper: EscapeStripper,
    /// Nothing follows.
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
    /// The text of `log`; `checkpoints` are of a log that begins with it, or with which it begins. Reads on
    /// from the last checkpoint, to learn the length.
    pub fn new(log: C, checkpoints: Checkpoints) -> io::Result<Self> {
        let mut block = Block::at(checkpoints.before(u64::MAX, log.len()));
        while !block.is_last {
            block = next(&log, &block)?;
        }
        Ok(Self { length: block.end(), log, checkpoints, recent: Mutex::default() })
    }

    /// The block that has the byte at `offset`, which is below the length.
    fn block(&self, offset: u64) -> io::Result<Arc<Block>> {
        let mut block = self.nearest(offset);
        while block.end() <= offset && !block.is_last {
            block = Arc::new(next(&self.log, &block)?);
            self.keep(&block);
        }
        Ok(block)
    }

    /// Among the blocks that are kept and the checkpoint, the last that does not begin past `offset`.
    fn nearest(&self, offset: u64) -> Arc<Block> {
        let recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
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
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        if recent.len() == KEPT {
            recent.pop_front();
        }
        recent.push_back(Arc::clone(block));
    }
}

/// The block after `block`.
fn next(log: &dyn Content, block: &Block) -> io::Result<Block> {
    let (mut stripper, mut bytes) = (block.stripper.clone(), Vec::new());
    let read = log.bytes(block.raw, STEP)?;
    stripper.push(&read, &mut bytes);
    let is_last = read.is_empty();
    if is_last {
        bytes.extend_from_slice(stripper.tail());
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
}

impl<C> std::fmt::Debug for PlainText<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PlainText").field("length", &self.length).finish_non_exhaustive()
    }
}
