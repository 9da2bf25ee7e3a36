//! A line that is written in pieces, and the conversion of lines to the form in which they are
//! stored.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use crate::message::json::SpanReader;
use crate::message::{AppendContext, HELD, LONGEST, LogLine, MessageError};
use crate::{Artifact, Conversation};
use ctxfs_core::model::Content as _;

/// The beginning of a line. It is in memory, and if it is long, the first part is in a file without
/// a name.
///
/// A clone is independent of the original: they share the file, but existing bytes in the file are
/// never changed.
#[derive(Debug, Clone)]
pub struct UnfinishedLine {
    held: Vec<u8>,
    most: usize,
    spilled: Option<(Arc<File>, u64)>,
}

impl UnfinishedLine {
    /// Returns the total length in bytes, in memory and in the file.
    pub fn len(&self) -> u64 {
        self.spilled.as_ref().map_or(0, |(_, length)| *length) + self.held.len() as u64
    }

    /// Returns true if there are no bytes of an unfinished line.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Limits the number of bytes that are left in memory, from the next write on. The limit is
    /// never more than [`HELD`].
    pub fn hold_at_most(&mut self, bytes: usize) {
        self.most = bytes.min(HELD);
    }

    /// Appends bytes without a newline. They stay in memory up to the limit of
    /// [`Self::hold_at_most`]. If `is_end` is true, up to [`HELD`] bytes stay in memory, because
    /// the caller takes the line immediately.
    pub(super) fn push(
        &mut self,
        bytes: &[u8],
        is_end: bool,
        conversation: &Conversation,
    ) -> Result<(), MessageError> {
        if self.len() + bytes.len() as u64 > LONGEST {
            return Err(MessageError::TooLong);
        }
        let length = self.held.len() + bytes.len();
        if length <= if is_end { HELD } else { self.most } {
            self.held.reserve_exact(capacity(length) - self.held.len());
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

    /// Returns the complete line. Bytes that are added afterwards begin a new line.
    pub fn take(&mut self) -> io::Result<LogLine> {
        let held = std::mem::take(&mut self.held);
        let Some((file, length)) = self.spilled.take() else { return Ok(LogLine::Bytes(held)) };
        file.write_all_at(&held, length)?;
        let length = length + held.len() as u64;
        Ok(LogLine::Part(Artifact::new(file, length).into(), 0, length))
    }

    /// Returns the number of bytes of memory that the line uses.
    pub fn held_bytes(&self) -> usize {
        self.held.capacity()
    }

    /// Returns the number of bytes of memory that the unfinished line will use after `bytes` are
    /// written.
    pub fn needs(&self, bytes: &[u8]) -> usize {
        match memchr::memrchr(b'\n', bytes) {
            Some(last) => capacity(bytes.len() - last - 1),
            None => capacity(self.held.len() + bytes.len()),
        }
    }

    pub(super) fn line(&self) -> io::Result<LogLine> {
        self.clone().take()
    }
}

/// Returns the capacity to reserve for `length` bytes. It is a power of two, so that a line that
/// grows byte by byte is rarely moved.
fn capacity(length: usize) -> usize {
    if length == 0 { 0 } else { length.next_power_of_two() }
}

impl Default for UnfinishedLine {
    fn default() -> Self {
        Self { held: Vec::new(), most: HELD, spilled: None }
    }
}

/// Returns `line` in the form in which the host stores it. The length does not change. Memory is
/// bounded for a line of any length.
pub fn stored(line: LogLine, context: &AppendContext<'_>) -> Result<LogLine, MessageError> {
    if !context.host.masks_stored() {
        return Ok(line);
    }
    let mut collected = CollectingWriter::new(context);
    context.host.write_stored(&mut SpanReader::new(&line, 0..line.len()), &mut collected)?;
    Ok(collected.line.take()?)
}

pub(super) struct CollectingWriter<'a> {
    pub(super) line: UnfinishedLine,
    context: &'a AppendContext<'a>,
}

impl<'a> CollectingWriter<'a> {
    pub(super) fn new(context: &'a AppendContext<'a>) -> Self {
        Self { line: UnfinishedLine::default(), context }
    }
}

impl Write for CollectingWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.line.push(bytes, false, self.context.conversation) {
            Ok(()) => Ok(bytes.len()),
            Err(MessageError::Io(error)) => Err(error),
            Err(error) => Err(io::Error::other(error)),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
