//! The log as it is shown: what hosts have published, and what this host appended since.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::{fmt, io};

use crate::message::BLOCK;
use crate::{Artifact, Stat, read_full_at};
use ctxfs_core::model::{Component, Content};

/// The knowledge of what several hosts have published in a conversation.
pub trait OtherMessages: fmt::Debug + Send + Sync {
    /// Returns what stands in front of the log of `conversation`, the local file of which the disk
    /// says `own`. `None` if that file alone is shown, at the cost of one system call.
    fn published(&self, conversation: &Component, own: &Stat)
    -> io::Result<Option<Arc<Published>>>;
}

/// The messages that hosts have published, in their order, whole lines.
#[derive(Debug)]
pub struct Published {
    file: Arc<File>,
    /// Where they are in the file.
    range: Range<u64>,
    /// A number that changes when a message comes that does not follow all others. As long as it is
    /// the same, what is shown only grows.
    edition: u64,
    /// The first bytes of this host's file, which they contain.
    covers: u64,
}

impl Published {
    /// Makes them of a range of `file`. They contain the first `covers` bytes of this host's log.
    pub fn new(file: Arc<File>, range: Range<u64>, edition: u64, covers: u64) -> Self {
        Self { file, range, edition, covers }
    }

    /// Returns the number of their order.
    pub fn edition(&self) -> u64 {
        self.edition
    }

    /// Returns the bytes that are shown if this host's file has `own` bytes.
    pub fn shown_length(&self, own: u64) -> u64 {
        self.len() + own.saturating_sub(self.covers)
    }
}

impl Content for Published {
    fn len(&self) -> u64 {
        self.range.end - self.range.start
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.len().saturating_sub(offset)).unwrap_or(usize::MAX);
        let wanted = buffer.len().min(left);
        read_full_at(&self.file, self.range.start + offset, &mut buffer[..wanted])
    }
}

/// The log as it is shown: messages of all hosts, and then what this host has not published yet.
#[derive(Debug, Clone)]
pub struct Log {
    published: Option<Arc<Published>>,
    own: Artifact,
    length: u64,
}

impl Log {
    /// Makes the log of the whole lines of this host's file, and of what stands in front.
    pub fn new(own: Artifact, published: Option<Arc<Published>>) -> Self {
        let length =
            published.as_ref().map_or(own.len(), |published| published.shown_length(own.len()));
        Self { published, own, length }
    }

    /// Returns it as it was when it had at most `length` bytes.
    #[must_use]
    pub fn up_to(self, length: u64) -> Self {
        Self { length: self.length.min(length), ..self }
    }

    /// Returns true if what hosts have published stands in front.
    pub fn is_shared(&self) -> bool {
        self.published.is_some()
    }

    /// Writes it to `file`, from its beginning.
    pub fn copy_to(&self, file: &File) -> io::Result<()> {
        let mut offset = 0;
        while offset < self.length {
            let block = self.bytes(offset, BLOCK)?;
            if block.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            file.write_all_at(&block, offset)?;
            offset += block.len() as u64;
        }
        Ok(())
    }

    /// Reads without regard to its length.
    fn read_parts(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(published) = &self.published else { return self.own.read_at(offset, buffer) };
        let done = published.read_at(offset, buffer)?;
        let next = offset + done as u64;
        if done == buffer.len() || next < published.len() {
            return Ok(done);
        }
        let own = published.covers + (next - published.len());
        Ok(done + self.own.read_at(own, &mut buffer[done..])?)
    }
}

impl From<Artifact> for Log {
    fn from(own: Artifact) -> Self {
        Self::new(own, None)
    }
}

impl Content for Log {
    fn len(&self) -> u64 {
        self.length
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.length.saturating_sub(offset)).unwrap_or(usize::MAX);
        let wanted = buffer.len().min(left);
        self.read_parts(offset, &mut buffer[..wanted])
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn file(text: &[u8]) -> Arc<File> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(text).unwrap();
        Arc::new(file)
    }

    fn log(published: &[u8], covers: u64, own: &[u8]) -> Log {
        let range = 4..4 + published.len() as u64;
        let front = Published::new(file(&[b"head", published].concat()), range, 1, covers);
        Log::new(Artifact::new(file(own), own.len() as u64), Some(Arc::new(front)))
    }

    #[test]
    fn what_was_published_comes_first_and_what_is_only_here_follows() {
        let log = log(b"others\nmine\n", 5, b"mine\nnew\n");
        let whole = b"others\nmine\nnew\n";
        assert_eq!(log.len(), whole.len() as u64);
        for start in 0..=whole.len() {
            for length in 0..=whole.len() + 1 {
                let end = whole.len().min(start + length);
                let read = log.bytes(start as u64, length).unwrap();
                assert_eq!(read, &whole[start..end], "{start}, {length}");
            }
        }
        assert_eq!(log.clone().up_to(9).bytes(0, 99).unwrap(), b"others\nmi");
        assert_eq!(log.up_to(99).bytes(0, 99).unwrap(), whole);
    }

    #[test]
    fn what_others_cut_off_is_not_read_twice() {
        let log = log(b"a\nb\n", 9, b"b\n");
        assert_eq!(log.bytes(0, 99).unwrap(), b"a\nb\n");
    }
}
