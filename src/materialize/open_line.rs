//! The line of a stream that has not ended.

/// Where that line is, and the beginning of it.
#[derive(Debug, Clone, Default)]
pub(super) struct OpenLine<const KEPT: usize> {
    /// Lines before it.
    pub(super) lines: u64,
    /// Bytes before it.
    pub(super) offset: u64,
    /// Its first bytes, `KEPT` at most.
    head: Vec<u8>,
    bytes: u64,
}

impl<const KEPT: usize> OpenLine<KEPT> {
    /// Whether nothing of it has come yet.
    pub(super) fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// `part` follows, without a newline.
    pub(super) fn push(&mut self, part: &[u8]) {
        let room = KEPT - self.head.len();
        self.head.extend_from_slice(&part[..room.min(part.len())]);
        self.bytes += part.len() as u64;
    }

    /// Its newline has come, or the end: `look` gets its beginning, number and offset.
    pub(super) fn end(&mut self, look: impl FnOnce(&[u8], u64, u64)) {
        look(&self.head, self.lines + 1, self.offset);
        self.lines += 1;
        self.offset += self.bytes + 1;
        self.bytes = 0;
        self.head.clear();
    }
}
