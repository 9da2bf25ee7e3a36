//! Content with its secrets masked.

use std::io;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::model::{Content, LinesBefore, read_pieces};
use crate::redact::block::Window;
use crate::redact::{BLOCK, SecretRules};

/// Content with its secrets masked: of the same length, and equal except for the secrets.
///
/// The bytes do not depend on where reading begins. Every block that is read is searched; the last
/// one is cached.
pub struct Masked<'a> {
    content: &'a dyn Content,
    rules: &'a SecretRules,
    last: Mutex<Option<(u64, Arc<Vec<u8>>)>>,
}

impl<'a> Masked<'a> {
    /// Returns the masked `content`. Reads nothing yet.
    pub fn new(content: &'a dyn Content, rules: &'a SecretRules) -> Self {
        Self { content, rules, last: Mutex::default() }
    }

    fn block(&self, number: u64) -> io::Result<Arc<Vec<u8>>> {
        let last = self.last.lock().clone();
        if let Some((_, block)) = last.filter(|(kept, _)| *kept == number) {
            return Ok(block);
        }
        let window = Window::of(number, self.content.len());
        let length = (window.bytes.end - window.bytes.start) as usize;
        let bytes = self.content.bytes(window.bytes.start, length)?;
        let masked = window.mask(self.rules, &bytes, &|| self.content.is_over());
        let block = Arc::new(masked.ok_or(io::ErrorKind::TimedOut)?);
        let mut last = self.last.lock();
        *last = Some((number, Arc::clone(&block)));
        Ok(block)
    }
}

impl Content for Masked<'_> {
    fn len(&self) -> u64 {
        self.content.len()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        read_pieces(self.len(), offset, buffer, |at, buffer| {
            self.block(at / BLOCK)?.as_slice().read_at(at % BLOCK, buffer)
        })
    }

    /// Masks keep the newlines.
    fn lines_before(&self, offset: u64) -> io::Result<LinesBefore> {
        self.content.lines_before(offset)
    }

    fn last_line(&self) -> io::Result<Option<u64>> {
        self.content.last_line()
    }

    fn is_over(&self) -> bool {
        self.content.is_over()
    }
}

impl std::fmt::Debug for Masked<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Masked").field("rules", self.rules).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
