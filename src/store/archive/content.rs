//! Readers that hash the content of a member.

use std::io;
use std::io::{BufReader, Read};

use crate::archive::BLOCK;
use ctxfs_core::model::Content;

/// A reader of exactly `length` bytes of a file, which hashes them and reports progress.
pub(super) struct MemberContent<'a, R> {
    input: BufReader<io::Take<R>>,
    left: u64,
    /// The digest of the bytes so far.
    pub(super) hasher: blake3::Hasher,
    progress: &'a mut dyn FnMut(u64),
    /// The reason why a read failed. `tar` does not pass errors on unchanged.
    pub(super) failed: Option<ReadFailure>,
}

/// The reason why the content of a file could not be read.
pub(super) enum ReadFailure {
    /// The file is shorter.
    Short,
    /// A read failed.
    Disk(io::Error),
}

impl<'a, R: Read> MemberContent<'a, R> {
    pub(super) fn new(input: R, length: u64, progress: &'a mut dyn FnMut(u64)) -> Self {
        let input = BufReader::with_capacity(BLOCK, input.take(length));
        Self { input, left: length, hasher: blake3::Hasher::new(), progress, failed: None }
    }
}

impl<R: Read> Read for MemberContent<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.input.read(buffer) {
            Ok(0) if self.left > 0 && !buffer.is_empty() => {
                self.failed = Some(ReadFailure::Short);
                Err(io::ErrorKind::UnexpectedEof.into())
            }
            Ok(count) => {
                self.hasher.update(&buffer[..count]);
                self.left -= count as u64;
                (self.progress)(count as u64);
                Ok(count)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Err(error),
            Err(error) => {
                self.failed = Some(ReadFailure::Disk(error));
                Err(io::ErrorKind::Other.into())
            }
        }
    }
}

/// A reader of a content from its start on.
pub(super) struct ContentReader<'a> {
    content: &'a dyn Content,
    offset: u64,
}

impl<'a> ContentReader<'a> {
    pub(super) fn new(content: &'a dyn Content) -> Self {
        Self { content, offset: 0 }
    }
}

impl Read for ContentReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.content.read_at(self.offset, buffer)?;
        self.offset += count as u64;
        Ok(count)
    }
}

/// A reader that hashes what it reads.
pub(super) struct HashingReader<R> {
    pub(super) content: R,
    pub(super) hasher: blake3::Hasher,
}

impl<R: Read> Read for HashingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.content.read(buffer)?;
        self.hasher.update(&buffer[..count]);
        Ok(count)
    }
}
