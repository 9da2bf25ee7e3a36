//! Reading a span of a line, and tracking the position in it.

use std::cell::Cell;
use std::io;
use std::io::{BufRead, Read};
use std::ops::Range;

use crate::message::BLOCK;
use ctxfs_core::model::Content;

/// A part of a line, by the offsets of its bytes.
pub(super) type Span = Range<u64>;

/// The deepest nesting of brackets in a message, the limit of `serde_json`.
const DEEPEST: u32 = 128;
/// The longest name of a member, in bytes.
const LONGEST_NAME: u64 = 64 << 10;

/// The bytes that are read first.
const FIRST_BLOCK: usize = 1 << 10;

/// A buffered reader of a span.
pub(super) struct SpanReader<'a> {
    content: &'a dyn Content,
    /// The span that has not been read from `content`.
    left: Span,
    block: Vec<u8>,
    /// The bytes of `block` that are consumed.
    used: usize,
    /// The length of the next block. The first ones are short, as many a reader stops soon.
    next_block: usize,
}

impl<'a> SpanReader<'a> {
    pub(super) fn new(content: &'a dyn Content, span: Span) -> Self {
        Self { content, left: span, block: Vec::new(), used: 0, next_block: FIRST_BLOCK }
    }

    /// Returns the next byte, or `None` at the end.
    pub(super) fn next(&mut self) -> io::Result<Option<u8>> {
        let byte = self.fill_buf()?.first().copied();
        self.used += usize::from(byte.is_some());
        Ok(byte)
    }
}

impl BufRead for SpanReader<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.used == self.block.len() && !self.left.is_empty() {
            let length = (self.next_block as u64).min(self.left.end - self.left.start) as usize;
            self.next_block = (4 * self.next_block).min(BLOCK);
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

/// A reader that tracks the position of a parser byte by byte. It fails on input that would take
/// the parser unbounded memory: brackets nested without end, and endless names of members.
pub(super) struct BoundedReader<'a> {
    inner: SpanReader<'a>,
    position: &'a Cell<u64>,
    depth: u32,
    string: InString,
    /// True if a string here would be the name of a member of the outermost object.
    names: bool,
    /// The position after the opening quote of the current string.
    name_began: u64,
}

/// The position relative to a string.
#[derive(Clone, Copy, PartialEq, Eq)]
enum InString {
    No,
    Yes,
    Escaped,
}

impl<'a> BoundedReader<'a> {
    /// Creates a reader that updates `position`, which is that of the first byte.
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
