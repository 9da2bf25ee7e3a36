//! Reading ahead: while one block is searched, another thread reads the next ones.
//!
//! Copying a large content from the disk's cache costs as much as searching it, so the two are done
//! at once.

use std::io;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::mpsc;
use std::thread::Scope;

use crate::model::Content;

/// Bytes of a block.
const BLOCK: usize = 1 << 20;
/// Blocks that may wait to be searched.
const WAITING: usize = 3;
/// Contents that are smaller are not worth a thread.
const SMALLEST: u64 = 8 << 20;

/// A content that is read from one place on.
pub(super) struct Ahead<'a> {
    content: &'a dyn Content,
    reading: Mutex<Reading>,
}

struct Reading {
    blocks: mpsc::Receiver<Vec<u8>>,
    /// Where blocks go back to, to be filled again.
    used: mpsc::Sender<Vec<u8>>,
    block: Vec<u8>,
    /// Offset of the block.
    start: u64,
}

impl<'a> Ahead<'a> {
    /// Begins to read at `offset`; none, where that is not worth it. The thread ends with the
    /// content, or when this is dropped.
    pub(super) fn start<'scope>(
        scope: &'scope Scope<'scope, '_>,
        content: &'a dyn Content,
        offset: u64,
    ) -> Option<Self>
    where
        'a: 'scope,
    {
        if content.len().saturating_sub(offset) < SMALLEST {
            return None;
        }
        let (full, blocks) = mpsc::sync_channel(WAITING);
        let (used, empty) = mpsc::channel();
        scope.spawn(move || read(content, offset, &full, &empty));
        let reading = Reading { blocks, used, block: Vec::new(), start: offset };
        Some(Self { content, reading: Mutex::new(reading) })
    }
}

/// Reads to the end of the content, or until nobody wants more. A block that cannot be read is not
/// sent: who wants it reads it again, and meets the error.
fn read(
    content: &dyn Content,
    mut offset: u64,
    full: &mpsc::SyncSender<Vec<u8>>,
    empty: &mpsc::Receiver<Vec<u8>>,
) {
    loop {
        let mut block = empty.try_recv().unwrap_or_default();
        block.resize(BLOCK, 0);
        let Ok(count @ 1..) = content.read_at(offset, &mut block) else { return };
        block.truncate(count);
        offset += count as u64;
        if full.send(block).is_err() {
            return;
        }
    }
}

impl Reading {
    /// Copies what it has from `offset` on; nothing, where that is not what comes next.
    fn copy(&mut self, offset: u64, buffer: &mut [u8]) -> usize {
        let end = self.start + self.block.len() as u64;
        if offset == end
            && let Ok(next) = self.blocks.recv()
        {
            let used = std::mem::replace(&mut self.block, next);
            // The thread may have ended: then the block is of no more use.
            drop(self.used.send(used));
            self.start = end;
        }
        let Some(at) = offset.checked_sub(self.start) else { return 0 };
        let rest = usize::try_from(at).ok().and_then(|at| self.block.get(at..)).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        count
    }
}

impl Content for Ahead<'_> {
    fn len(&self) -> u64 {
        self.content.len()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        let mut done = 0;
        while done < buffer.len() {
            match reading.copy(offset + done as u64, &mut buffer[done..]) {
                0 => break,
                count => done += count,
            }
        }
        drop(reading);
        if done == buffer.len() {
            return Ok(done);
        }
        Ok(done + self.content.read_at(offset + done as u64, &mut buffer[done..])?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Bytes(Vec<u8>);

    impl Content for Bytes {
        fn len(&self) -> u64 {
            self.0.len() as u64
        }

        fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
            self.0.as_slice().read_at(offset, buffer)
        }
    }

    #[test]
    fn it_reads_the_same_forwards_and_back_and_need_not_be_read_to_the_end() {
        let bytes: Vec<u8> = (0..9_500_000_u32).map(|n| (n % 251) as u8).collect();
        let content = Bytes(bytes.clone());
        for stop in [bytes.len(), 3_000_000] {
            std::thread::scope(|scope| {
                let ahead = Ahead::start(scope, &content, 100).unwrap();
                let (mut at, mut buffer) = (100, vec![0; 70_001]);
                while at < stop {
                    let count = ahead.read_at(at as u64, &mut buffer).unwrap();
                    assert_eq!(buffer[..count], bytes[at..at + count]);
                    assert!(count == buffer.len() || at + count == bytes.len());
                    let back = ahead.bytes(at as u64 - 50, 7).unwrap();
                    assert_eq!(back, bytes[at - 50..at - 43]);
                    at += count;
                }
            });
        }
    }

    #[test]
    fn a_small_content_is_not_worth_a_thread() {
        let content = Bytes(vec![0; 100]);
        std::thread::scope(|scope| assert!(Ahead::start(scope, &content, 0).is_none()));
    }
}
