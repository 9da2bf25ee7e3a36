//! Files of the store's disk for messages that are too long for memory.

use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use ctxfs_engine::Engine;
use ctxfs_store::Draft;

/// Bytes after which the disk is asked again if it has room.
const STEP: u64 = 1 << 20;

/// A file that is being written, and that is removed when it is dropped.
pub(super) struct Scratch {
    engine: Arc<Engine>,
    draft: Draft,
    length: u64,
    /// The length up to which there is room.
    checked: u64,
}

impl Scratch {
    pub(super) fn begin(engine: Arc<Engine>) -> io::Result<Self> {
        // Drafts do not count for the bound of a cache.
        let draft = engine.store().cache(0).draft()?;
        Ok(Self { engine, draft, length: 0, checked: 0 })
    }

    pub(super) fn add(&mut self, bytes: &[u8]) -> io::Result<()> {
        let end = self.length + bytes.len() as u64;
        if end > self.checked {
            self.engine.check_disk(end - self.length + STEP)?;
            self.checked = end + STEP;
        }
        self.draft.file().write_all_at(bytes, self.length)?;
        self.length = end;
        Ok(())
    }

    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Reads bytes of `span` into `block`. Returns how many; 0 at its end.
    pub(super) fn read(&self, span: &mut Range<u64>, block: &mut [u8]) -> io::Result<usize> {
        let left = span.end.saturating_sub(span.start).min(block.len() as u64);
        let count = self.draft.file().read_at(&mut block[..left as usize], span.start)?;
        if count == 0 && left > 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        span.start += count as u64;
        Ok(count)
    }
}
