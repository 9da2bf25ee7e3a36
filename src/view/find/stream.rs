use std::io;

use ctxfs_core::model::Content;

// Bytes that are read at once.
pub(super) const BLOCK: usize = 256 << 10;
// Bytes in which the end of the last line is looked for at first.
const AHEAD: usize = 4 << 10;

/// The bytes of a content that were read and not used yet, from the start to the end of the line
/// that has the byte at offset `last`. Reads block by block, and stops when time runs out.
pub(super) struct Stream<'a> {
    content: &'a dyn Content,
    expired: &'a dyn Fn() -> bool,
    block: usize,
    buffer: Vec<u8>,
    filled: usize,
    used: usize,
    // The offset of the first byte of the buffer.
    start: u64,
    last: u64,
    // Bytes that are read at once after `last`.
    ahead: usize,
    ended: bool,
    out_of_time: bool,
}

impl<'a> Stream<'a> {
    /// Reads `content` in blocks of `block` bytes.
    pub(super) fn new(
        content: &'a dyn Content,
        last: u64,
        expired: &'a dyn Fn() -> bool,
        block: usize,
    ) -> Self {
        let buffer = Vec::new();
        let (filled, used, start) = (0, 0, 0);
        Self {
            content,
            expired,
            block,
            buffer,
            filled,
            used,
            start,
            last,
            ahead: AHEAD.min(block),
            ended: false,
            out_of_time: false,
        }
    }

    /// Returns the bytes that were read and not used.
    pub(super) fn rest(&self) -> &[u8] {
        &self.buffer[self.used..self.filled]
    }

    /// Returns the offset of the first byte that was not used.
    pub(super) fn offset(&self) -> u64 {
        self.start + self.used as u64
    }

    pub(super) fn skip(&mut self, count: usize) {
        self.used += count;
    }

    /// Reads one more block. Returns false at the end, and once time has run out.
    pub(super) fn fill(&mut self) -> io::Result<bool> {
        if self.ended {
            return Ok(false);
        }
        self.out_of_time = (self.expired)();
        if self.out_of_time {
            self.ended = true;
            return Ok(false);
        }
        self.buffer.copy_within(self.used..self.filled, 0);
        self.start += self.used as u64;
        self.filled -= self.used;
        self.used = 0;
        let offset = self.start + self.filled as u64;
        let before = self.last.saturating_add(1).saturating_sub(offset);
        let most = if before > 0 {
            before.min(self.block as u64)
        } else {
            self.ahead = (2 * self.ahead).min(self.block);
            self.ahead as u64
        };
        let most = self.content.len().saturating_sub(offset).min(most) as usize;
        if self.buffer.len() < self.filled + most {
            self.buffer.resize(self.filled + most, 0);
        }
        let new = &mut self.buffer[self.filled..self.filled + most];
        let count = self.content.read_at(offset, new)?;
        let from = usize::try_from(self.last.saturating_sub(offset)).unwrap_or(count).min(count);
        let end = memchr::memchr(b'\n', &new[from..count]).map(|at| from + at + 1);
        self.filled += end.unwrap_or(count);
        self.ended = count == 0 || end.is_some();
        Ok(count > 0)
    }

    /// Returns the offset after the last byte that was read.
    pub(super) fn end(&self) -> u64 {
        self.start + self.filled as u64
    }

    /// Returns the offset at which time ran out, if it did.
    pub(super) fn stopped(&self) -> Option<u64> {
        self.out_of_time.then(|| self.offset())
    }
}
