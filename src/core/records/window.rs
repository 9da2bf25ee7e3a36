//! The bytes of content around the position of a walk.

use std::io;

use crate::model::Content;

/// Number of bytes that are read at once.
const BLOCK_BYTES: usize = 256 << 10;

/// A part of content that moves forward. Bytes before the position that [`Window::fill`] is told
/// to keep are dropped.
pub(super) struct Window<'a> {
    content: &'a dyn Content,
    expired: &'a dyn Fn() -> bool,
    bytes: Vec<u8>,
    start: u64,
    ended: bool,
    late: bool,
}

impl<'a> Window<'a> {
    pub(super) fn new(content: &'a dyn Content, expired: &'a dyn Fn() -> bool) -> Self {
        Self { content, expired, bytes: Vec::new(), start: 0, ended: false, late: false }
    }

    /// Returns the bytes that were read from `offset` on.
    pub(super) fn from(&self, offset: u64) -> &[u8] {
        let at = usize::try_from(offset.saturating_sub(self.start)).unwrap_or(usize::MAX);
        self.bytes.get(at..).unwrap_or_default()
    }

    /// Returns the bytes between two offsets, as far as they are in the window.
    pub(super) fn between(&self, start: u64, end: u64) -> &[u8] {
        let bytes = self.from(start.max(self.start));
        &bytes[..bytes.len().min(end.saturating_sub(start.max(self.start)) as usize)]
    }

    /// Reads one more block, and drops the bytes before `keep`. Returns false at the end, and when
    /// time has run out.
    pub(super) fn fill(&mut self, keep: u64) -> io::Result<bool> {
        if self.ended || self.late {
            return Ok(false);
        }
        if (self.expired)() {
            self.late = true;
            return Ok(false);
        }
        let keep = keep.max(self.start);
        let dropped = usize::try_from(keep - self.start).unwrap_or(usize::MAX);
        if dropped >= self.bytes.len() {
            self.bytes.clear();
        } else {
            self.bytes.drain(..dropped);
        }
        self.start = keep;
        let (filled, offset) = (self.bytes.len(), self.start + self.bytes.len() as u64);
        self.bytes.resize(filled + BLOCK_BYTES, 0);
        let got = self.content.read_at(offset, &mut self.bytes[filled..])?;
        self.bytes.truncate(filled + got);
        self.ended = got == 0;
        Ok(got > 0)
    }

    /// Returns true if the window extends to the end of the content.
    pub(super) fn ended(&self) -> bool {
        self.ended
    }

    /// Returns true if time has run out.
    pub(super) fn is_late(&self) -> bool {
        self.late
    }
}
