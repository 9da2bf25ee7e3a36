//! Comparing an output with a file that is already there.

use std::io;
use std::io::Write;

use crate::{Artifact, Conversation};
use ctxfs_core::model::{Content as _, RelPath};

/// A writer that compares with a file what it is given, and fails at the first difference.
pub(super) struct ComparingWriter {
    file: Artifact,
    /// The offset of the next byte.
    at: u64,
    differs: bool,
}

impl ComparingWriter {
    /// Compares with the file at `path`. Returns `None` if that does not have `length` bytes.
    pub(super) fn with(
        conversation: &Conversation,
        path: &RelPath,
        length: u64,
    ) -> io::Result<Option<Self>> {
        let file = Artifact::open(conversation.dir(), path)?;
        Ok((file.len() == length).then_some(Self { file, at: 0, differs: false }))
    }

    /// Returns true if it has failed because the bytes differ.
    pub(super) fn differs(&self) -> bool {
        self.differs
    }
}

impl Write for ComparingWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.differs = self.file.bytes(self.at, bytes.len())? != bytes;
        self.at += bytes.len() as u64;
        if self.differs { Err(io::Error::other("other bytes")) } else { Ok(bytes.len()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
