//! The last line of a stream, which has not ended.

/// The position of the line that has not ended, and its beginning.
#[derive(Debug, Clone, Default)]
pub(super) struct OpenLine<const KEPT: usize> {
    /// Lines before it.
    pub(super) lines: u64,
    /// Bytes before it.
    pub(super) offset: u64,
    /// Its first bytes, at most `KEPT`.
    head: Vec<u8>,
    bytes: u64,
}

impl<const KEPT: usize> OpenLine<KEPT> {
    /// Returns true if the line has no bytes yet.
    pub(super) fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Returns the bytes of the line so far.
    pub(super) fn length(&self) -> usize {
        usize::try_from(self.bytes).unwrap_or(usize::MAX)
    }

    /// Appends `part`, which has no newline.
    pub(super) fn push(&mut self, part: &[u8]) {
        let room = KEPT - self.head.len();
        self.head.extend_from_slice(&part[..room.min(part.len())]);
        self.bytes += part.len() as u64;
    }

    /// Ends the line at its newline or the end of the stream. Calls `look` with its beginning,
    /// number and offset.
    pub(super) fn end(&mut self, look: impl FnOnce(&[u8], u64, u64)) {
        look(&self.head, self.lines + 1, self.offset);
        self.lines += 1;
        self.offset += self.bytes + 1;
        self.bytes = 0;
        self.head.clear();
    }
}
