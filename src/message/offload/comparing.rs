//! Whether what would be written is there already.

use std::io;
use std::io::Write;

use crate::model::Content as _;
use crate::model::RelPath;
use crate::store::Artifact;
use crate::store::Conversation;

/// Takes the bytes of a file; fails with the first that is another one.
pub(super) struct ComparingWriter {
    file: Artifact,
    at: u64,
    differs: bool,
}

impl ComparingWriter {
    /// As the file at `path`, if that has `length` bytes.
    pub(super) fn with(
        conversation: &Conversation,
        path: &RelPath,
        length: u64,
    ) -> io::Result<Option<Self>> {
        let file = Artifact::open(conversation.dir(), path)?;
        Ok((file.len() == length).then_some(Self { file, at: 0, differs: false }))
    }

    /// Whether it has failed because the bytes differ.
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
