//! Collecting a line that is written in pieces.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use crate::message::HELD;
use crate::message::LONGEST;
use crate::message::LogLine;
use crate::message::MessageError;
use crate::store::Artifact;
use crate::store::Conversation;

/// The beginning of a line, in memory and, once it is long, in a file without a name.
///
/// A clone does not change with the original: they share the file, but it is only appended to.
#[derive(Debug, Clone, Default)]
pub struct UnfinishedLine {
    held: Vec<u8>,
    /// The file, and the length of the line in it.
    spilled: Option<(Arc<File>, u64)>,
}

impl UnfinishedLine {
    /// Returns the length in bytes.
    pub fn len(&self) -> u64 {
        self.spilled.as_ref().map_or(0, |(_, length)| *length) + self.held.len() as u64
    }

    /// Returns true if the last byte ended a line.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends bytes without a newline.
    pub(super) fn push(
        &mut self,
        bytes: &[u8],
        conversation: &Conversation,
    ) -> Result<(), MessageError> {
        if self.len() + bytes.len() as u64 > LONGEST {
            return Err(MessageError::TooLong);
        }
        if self.held.len() + bytes.len() <= HELD {
            self.held.extend_from_slice(bytes);
            return Ok(());
        }
        let (file, length) = match &mut self.spilled {
            Some(spilled) => spilled,
            None => self.spilled.insert((Arc::new(conversation.nameless_file()?), 0)),
        };
        for bytes in [&self.held[..], bytes] {
            file.write_all_at(bytes, *length)?;
            *length += bytes.len() as u64;
        }
        self.held = Vec::new();
        Ok(())
    }

    /// Returns the line, which is complete. The next bytes begin another one.
    pub fn take(&mut self) -> io::Result<LogLine> {
        let held = std::mem::take(&mut self.held);
        let Some((file, length)) = self.spilled.take() else { return Ok(LogLine::Bytes(held)) };
        file.write_all_at(&held, length)?;
        let length = length + held.len() as u64;
        Ok(LogLine::Part(Artifact::new(file, length), 0, length))
    }

    /// Returns the bytes that are held in memory.
    #[cfg(test)]
    pub(super) fn held_bytes(&self) -> usize {
        self.held.len()
    }

    /// Returns the line so far.
    pub(super) fn line(&self) -> io::Result<LogLine> {
        self.clone().take()
    }
}
