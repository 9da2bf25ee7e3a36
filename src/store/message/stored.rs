//! A line in the form in which it is stored.

use std::io;
use std::io::Write;

use crate::message::span::SpanReader;
use crate::message::{AppendContext, LogLine, MessageError, UnfinishedLine};
use ctxfs_core::model::Content as _;

/// Returns `line` as the host stores it, with as many bytes. Memory is bounded, as for any line.
pub fn stored(line: LogLine, context: &AppendContext<'_>) -> Result<LogLine, MessageError> {
    if !context.host.masks_stored() {
        return Ok(line);
    }
    let mut collected = CollectingWriter::new(context);
    context.host.write_stored(&mut SpanReader::new(&line, 0..line.len()), &mut collected)?;
    Ok(collected.line()?)
}

/// A writer of one line, which is held in memory as long as it is short.
pub(super) struct CollectingWriter<'a> {
    line: UnfinishedLine,
    context: &'a AppendContext<'a>,
}

impl<'a> CollectingWriter<'a> {
    pub(super) fn new(context: &'a AppendContext<'a>) -> Self {
        Self { line: UnfinishedLine::default(), context }
    }

    /// Returns what was written.
    pub(super) fn line(mut self) -> io::Result<LogLine> {
        self.line.take()
    }
}

impl Write for CollectingWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.line.push(bytes, self.context.conversation) {
            Ok(()) => Ok(bytes.len()),
            Err(MessageError::Io(error)) => Err(error),
            Err(error) => Err(io::Error::other(error)),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
