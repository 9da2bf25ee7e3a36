//! Appending to a log: one writer at a time, and whole lines only.

use std::fs::File;
use std::io;
use std::io::{BufWriter, Write as _};
use std::sync::Arc;

use crate::message::layout::MessageLayout;
use crate::message::lines::whole;
use crate::message::{Batch, HELD, LogLine, MessageError};
use crate::{Artifact, Conversation, append_all, file_lock, stat_file};

/// The locked file of a log. Nobody else appends to it until this is dropped, as every process that
/// appends holds an exclusive `flock` of it.
#[derive(Debug)]
pub struct LockedLog<'a>(&'a Arc<File>);

impl<'a> LockedLog<'a> {
    /// Waits for the lock of `file`, which must be open for reading and writing.
    pub fn wait(file: &'a Arc<File>) -> io::Result<Self> {
        file_lock::lock(file)?;
        Ok(Self(file))
    }

    /// Takes the lock, or returns `None` if another process has it.
    pub fn now(file: &'a Arc<File>) -> io::Result<Option<Self>> {
        Ok(file_lock::try_lock(file)?.then_some(Self(file)))
    }

    /// Returns true if a crash has cut off the last line.
    pub fn is_torn(&self) -> io::Result<bool> {
        let size = stat_file(self.0)?.size;
        Ok(whole(self.0, size)? < size)
    }

    /// Repairs a last line that a crash has cut off: a message gets its newline, anything else is
    /// set aside. Returns the length of the log.
    pub fn repair(&self, conversation: &Conversation) -> Result<u64, MessageError> {
        let size = stat_file(self.0)?.size;
        let end = whole(self.0, size)?;
        if end == size {
            return Ok(size);
        }
        let torn = LogLine::Part(Artifact::new(Arc::clone(self.0), size).into(), end, size - end);
        if MessageLayout::of(&torn).is_ok() {
            append_all(self.0, b"\n")?;
            return Ok(size + 1);
        }
        set_aside(&torn, conversation)?;
        self.0.set_len(end)?;
        Ok(end)
    }

    /// Appends `batch`, all of it or nothing: if the disk takes only a part, the log is truncated
    /// to `end`, the length that [`LockedLog::repair`] returned.
    pub fn append(&self, batch: &Batch, end: u64) -> io::Result<()> {
        // A batch that fits into the buffer is one write, so that a crash leaves all of it or
        // nothing.
        let length = usize::try_from(batch.len()).unwrap_or(usize::MAX);
        let mut out = BufWriter::with_capacity(length.min(2 * HELD), AppendWriter(self.0));
        let written = batch.0.iter().try_for_each(|message| message.write(&mut out));
        let written = written.and_then(|()| out.flush());
        if written.is_err() {
            // Otherwise dropping it would write the rest of its buffer.
            drop(out.into_parts());
            self.0.set_len(end)?;
        }
        written
    }
}

impl Drop for LockedLog<'_> {
    fn drop(&mut self) {
        file_lock::unlock(self.0);
    }
}

/// A writer that appends to a file, wherever its end is by then.
struct AppendWriter<'a>(&'a File);

impl io::Write for AppendWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        append_all(self.0, bytes).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Appends a line that is not a message to the file beside the log of `conversation`. It takes
/// several writes if it is long, so others wait with theirs.
pub fn set_aside(line: &LogLine, conversation: &Conversation) -> Result<(), MessageError> {
    let mut aside = conversation.set_aside_file()?;
    file_lock::lock(&aside)?;
    line.read(|block| aside.write_all(block))?;
    aside.write_all(b"\n")?;
    Ok(aside.sync_data()?)
}
