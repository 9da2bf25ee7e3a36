//! Reading a part of a line, and knowing where that has come to.

use std::cell::Cell;
use std::io;
use std::io::BufRead;
use std::io::Read;
use std::ops::Range;

use crate::message::BLOCK;
use crate::model::Content;

/// Bytes of a line, by their offsets.
pub(super) type Span = Range<u64>;

/// Brackets within each other that a message may have, as for `serde_json`.
const DEEPEST: u32 = 128;
/// Bytes that the name of a member may have.
const LONGEST_NAME: u64 = 64 << 10;

/// Reads a span of some content.
pub(super) struct SpanReader<'a> {
    content: &'a dyn Content,
    /// What has not been read from `content`.
    left: Span,
    block: Vec<u8>,
    used: usize,
}

impl<'a> SpanReader<'a> {
    pub(super) fn new(content: &'a dyn Content, span: Span) -> Self {
        Self { content, left: span, block: Vec::new(), used: 0 }
    }

    /// The next byte.
    pub(super) fn next(&mut self) -> io::Result<Option<u8>> {
        let byte = self.fill_buf()?.first().copied();
        self.used += usize::from(byte.is_some());
        Ok(byte)
    }
}

impl BufRead for SpanReader<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.used == self.block.len() && !self.left.is_empty() {
            let length = (BLOCK as u64).min(self.left.end - self.left.start) as usize;
            self.block = self.content.bytes(self.left.start, length)?;
            self.used = 0;
            if self.block.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.left.start += self.block.len() as u64;
        }
        Ok(&self.block[self.used..])
    }

    fn consume(&mut self, count: usize) {
        self.used += count;
    }
}

impl Read for SpanReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let at_hand = self.fill_buf()?;
        let count = buffer.len().min(at_hand.len());
        buffer[..count].copy_from_slice(&at_hand[..count]);
        self.used += count;
        Ok(count)
    }
}

/// Counts what a parser reads byte by byte, and refuses what would take it memory without bound:
/// brackets without end, and endless names of members.
pub(super) struct BoundedReader<'a> {
    inner: SpanReader<'a>,
    position: &'a Cell<u64>,
    depth: u32,
    string: InString,
    /// Whether a string would be the name of a member of the outermost object.
    names: bool,
    name_began: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum InString {
    No,
    Yes,
    Escaped,
}

impl<'a> BoundedReader<'a> {
    /// Counts into `position`, which is that of the first byte.
    pub(super) fn new(inner: SpanReader<'a>, position: &'a Cell<u64>) -> Self {
        Self { inner, position, depth: 0, string: InString::No, names: false, name_began: 0 }
    }

    fn see(&mut self, byte: u8) -> io::Result<()> {
        let at = self.position.get() + 1;
        self.position.set(at);
        if self.string == InString::No {
            self.see_outside(byte, at);
        } else {
            self.string = match (self.string, byte) {
                (InString::Yes, b'\\') => InString::Escaped,
                (InString::Yes, b'"') => InString::No,
                _ => InString::Yes,
            };
        }
        let endless =
            self.names && self.string != InString::No && at - self.name_began > LONGEST_NAME;
        if endless || self.depth > DEEPEST {
            return Err(io::Error::other("too many brackets, or too long a name"));
        }
        Ok(())
    }

    fn see_outside(&mut self, byte: u8, at: u64) {
        match byte {
            b'"' => (self.string, self.name_began) = (InString::Yes, at),
            b'{' | b'[' => {
                self.depth += 1;
                self.names = self.depth == 1;
            }
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            b',' => self.names = self.depth == 1,
            b':' => self.names = false,
            _ => {}
        }
    }
}

impl Read for BoundedReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(first) = buffer.first_mut() else { return Ok(0) };
        let Some(byte) = self.inner.next()? else { return Ok(0) };
        self.see(byte)?;
        *first = byte;
        Ok(1)
    }
}
