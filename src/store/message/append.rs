//! Appends to a log: one writer at a time, complete lines only, and either all messages of a write
//! or none.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::sync::Arc;

use crate::message::layout::{LineSpan, MessageLayout, SpanReader};
use crate::message::lines::{stored, whole, whole_of};
use crate::message::{
    AppendContext, Log, LogLine, LogLines, MessageError, UnfinishedLine, offload,
};
use crate::{Artifact, Conversation, append_all, file_lock, history, stat_file};
use ctxfs_core::model::Content as _;

/// Checked messages that are ready to be appended. Long outputs in them are already stored.
#[derive(Debug, Default)]
pub struct Batch(Vec<EditedLine>);

impl Batch {
    /// Adds `bytes` to `unfinished` and calls `append` with the messages that are now complete. The
    /// long outputs of these messages are on the disk before `append` is called.
    ///
    /// If any of the lines is not a message, all of them are discarded, including the line that was
    /// unfinished before and ended in these bytes. After any other error, such as a full disk,
    /// `unfinished` is unchanged, and the caller may try the same bytes again.
    pub fn take<E: From<MessageError>>(
        unfinished: &mut UnfinishedLine,
        bytes: &[u8],
        context: &AppendContext<'_>,
        append: impl FnOnce(&Self) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(last) = memchr::memrchr(b'\n', bytes) else {
            return Ok(unfinished.push(bytes, false, context.conversation)?);
        };
        let mut so_far = unfinished.clone();
        let taken = Self::completed(&mut so_far, &bytes[..last], context).and_then(|batch| {
            so_far.push(&bytes[last + 1..], false, context.conversation)?;
            Ok(batch)
        });
        let appended = match taken {
            Err(error @ MessageError::NotAMessage(_)) => {
                *unfinished = UnfinishedLine::default();
                return Err(error.into());
            }
            Err(error) => Err(error.into()),
            Ok(batch) if batch.0.is_empty() => Ok(()),
            Ok(batch) => append(&batch),
        };
        if appended.is_ok() {
            *unfinished = so_far;
        }
        appended
    }

    /// Returns the messages in `bytes`, which are separated by newlines. `bytes` does not include
    /// the newline after the last message.
    fn completed(
        so_far: &mut UnfinishedLine,
        bytes: &[u8],
        context: &AppendContext<'_>,
    ) -> Result<Self, MessageError> {
        let mut messages = Vec::new();
        for line in bytes.split(|byte| *byte == b'\n') {
            so_far.push(line, true, context.conversation)?;
            messages.extend(CheckedMessage::of(so_far.take()?, context)?);
        }
        Self::of(messages, context)
    }

    /// Calls `append` with the line in `unfinished` if it is a message that lacks only its newline.
    /// Otherwise the line stays unfinished, and a writer that has the log open may continue it.
    pub fn finish<E: From<MessageError>>(
        unfinished: &mut UnfinishedLine,
        context: &AppendContext<'_>,
        append: impl FnOnce(&Self) -> Result<(), E>,
    ) -> Result<(), E> {
        let line = unfinished.line().map_err(MessageError::from)?;
        let batch = Self::of(CheckedMessage::of(line, context)?, context)?;
        if !batch.0.is_empty() {
            append(&batch)?;
        }
        *unfinished = UnfinishedLine::default();
        Ok(())
    }

    fn len(&self) -> u64 {
        self.0.iter().map(EditedLine::len).sum()
    }

    fn of(
        messages: impl IntoIterator<Item = CheckedMessage>,
        context: &AppendContext<'_>,
    ) -> Result<Self, MessageError> {
        let edited = messages.into_iter().map(|message| message.edited(context));
        Ok(Self(edited.collect::<Result<_, _>>()?))
    }
}

/// A line that is a message. `layout` is present if outputs in the message may have to be stored.
/// It is boxed because a single write may contain 65,536 messages.
struct CheckedMessage {
    line: LogLine,
    layout: Option<Box<MessageLayout>>,
}

impl CheckedMessage {
    fn of(line: LogLine, context: &AppendContext<'_>) -> Result<Option<Self>, MessageError> {
        if line.is_blank()? {
            return Ok(None);
        }
        let layout = MessageLayout::of(&line)?;
        let (line, layout) =
            if context.host.masks_stored() { masked(line, context)? } else { (line, layout) };
        let layout = offload::may_be_needed(&line, &layout)?.then(|| Box::new(layout));
        Ok(Some(Self { line, layout }))
    }

    fn edited(self, context: &AppendContext<'_>) -> Result<EditedLine, MessageError> {
        let Self { line, layout } = self;
        let edits = layout.map(|layout| offload::edits(&line, &layout, context));
        let mut edits = edits.transpose()?.unwrap_or_default();
        edits.sort_by_key(|(span, _)| span.start);
        Ok(EditedLine { line, edits })
    }
}

/// Returns a message with its secrets masked. Fails if the masked line is no longer a message. This
/// happens if a secret begins in one JSON string and ends in another.
fn masked(
    line: LogLine,
    context: &AppendContext<'_>,
) -> Result<(LogLine, MessageLayout), MessageError> {
    let masked = stored(line, context)?;
    match MessageLayout::of(&masked) {
        Ok(layout) => Ok((masked, layout)),
        Err(MessageError::NotAMessage(why)) => {
            let why = format!("with its secrets masked it is none ({why})");
            Err(MessageError::NotAMessage(why))
        }
        Err(error) => Err(error),
    }
}

#[derive(Debug)]
struct EditedLine {
    line: LogLine,
    edits: Vec<(LineSpan, String)>,
}

impl EditedLine {
    fn len(&self) -> u64 {
        let replaced: u64 = self.edits.iter().map(|(span, _)| span.end - span.start).sum();
        let added: u64 = self.edits.iter().map(|(_, text)| text.len() as u64).sum();
        self.line.len() - replaced + added + 1
    }

    fn write(&self, out: &mut dyn io::Write) -> io::Result<()> {
        let mut at = 0;
        for (span, text) in &self.edits {
            self.copy(at..span.start, out)?;
            out.write_all(text.as_bytes())?;
            at = span.end;
        }
        self.copy(at..self.line.len(), out)?;
        out.write_all(b"\n")
    }

    fn copy(&self, span: LineSpan, out: &mut dyn io::Write) -> io::Result<()> {
        match &self.line {
            LogLine::Bytes(bytes) => out.write_all(&bytes[span.start as usize..span.end as usize]),
            LogLine::Part(..) => io::copy(&mut SpanReader::new(&self.line, span), out).map(|_| ()),
        }
    }
}

/// The locked file of a log. Appending needs an exclusive `flock` on this file. No other process
/// appends until this value is dropped.
#[derive(Debug)]
pub struct LockedLog<'a>(&'a Arc<File>);

impl<'a> LockedLog<'a> {
    /// Waits for the lock on `file`, which must be open for reading and writing.
    pub fn wait(file: &'a Arc<File>) -> io::Result<Self> {
        file_lock::lock(file, file_lock::LockKind::Exclusive)?;
        Ok(Self(file))
    }

    /// Takes the lock, or returns `None` if another process holds it.
    pub fn now(file: &'a Arc<File>) -> io::Result<Option<Self>> {
        Ok(file_lock::try_lock(file)?.then_some(Self(file)))
    }

    /// Returns true if a crash has truncated the last line.
    pub fn is_torn(&self) -> io::Result<bool> {
        let size = stat_file(self.0)?.size;
        Ok(whole(self.0, size)? < size)
    }

    /// Repairs a last line that a crash has truncated. If it is a complete message, appends its
    /// newline; otherwise sets the line aside. Returns the length of the log.
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

    /// Appends `batch`, either completely or not at all. `end` is the length of the log, which
    /// [`LockedLog::repair`] returned. If the disk accepts only a part, the log is truncated to
    /// `end`.
    pub fn append(&self, batch: &Batch, end: u64) -> io::Result<()> {
        // A batch that fits into the buffer is written in one call, so that a crash leaves all of
        // it or nothing.
        let length = usize::try_from(batch.len()).unwrap_or(usize::MAX);
        let mut out =
            BufWriter::with_capacity(length.min(2 * crate::message::HELD), AppendWriter(self.0));
        let written = batch.0.iter().try_for_each(|message| message.write(&mut out));
        let written = written.and_then(|()| out.flush());
        if written.is_err() {
            // Dropping the writer would write the rest of its buffer.
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

struct AppendWriter<'a>(&'a File);

impl io::Write for AppendWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        append_all(self.0, bytes).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Appends a line that is not a message to a separate file beside the log of `conversation`. A long
/// line takes several writes; the file is locked until the last of them.
pub fn set_aside(line: &LogLine, conversation: &Conversation) -> Result<(), MessageError> {
    let mut aside = history::set_aside_file(conversation)?;
    file_lock::lock(&aside, file_lock::LockKind::Exclusive)?;
    line.read(|block| aside.write_all(block))?;
    aside.write_all(b"\n")?;
    Ok(aside.sync_data()?)
}

/// Writes the messages of `log` as a JSON array, with one unchanged message per line.
///
/// A line that is not a message becomes a string in the array, with U+FFFD for invalid UTF-8. Only
/// a program that bypasses ctxfs can write such a line.
pub fn array(log: Log, out: &mut dyn Write) -> io::Result<()> {
    out.write_all(b"[")?;
    let mut before: &[u8] = b"\n";
    for line in LogLines::from(log, 0) {
        let line = line?;
        out.write_all(before)?;
        match MessageLayout::of(&line) {
            Ok(_) => line.read(|block| out.write_all(block))?,
            Err(MessageError::NotAMessage(_)) => quoted(&line, out)?,
            Err(error) => return Err(io::Error::other(error)),
        }
        before = b",\n";
    }
    out.write_all(if before == b"\n" { b"]\n" } else { b"\n]\n" })
}

fn quoted(line: &LogLine, out: &mut dyn Write) -> io::Result<()> {
    out.write_all(b"\"")?;
    let mut offset = 0;
    while offset < line.len() {
        let mut block = line.bytes(offset, crate::message::BLOCK)?;
        // If the end of the block splits a character, the character goes to the next block.
        let whole = std::str::from_utf8(&block).map_or_else(
            |error| if error.error_len().is_none() { error.valid_up_to() } else { block.len() },
            str::len,
        );
        if whole > 0 && offset + (block.len() as u64) < line.len() {
            block.truncate(whole);
        }
        let text = serde_json::to_string(&String::from_utf8_lossy(&block))?;
        out.write_all(&text.as_bytes()[1..text.len() - 1])?;
        offset += block.len() as u64;
    }
    out.write_all(b"\"")
}

/// Checks that `file` can be a log: every line must be a message. If the last line lacks its
/// newline, adds it.
pub fn check(file: &Arc<File>) -> Result<(), MessageError> {
    let whole = whole_of(Arc::clone(file))?;
    let (size, end) = (file.metadata()?.len(), whole.len());
    for (number, line) in (1..).zip(LogLines::from(whole, 0)) {
        checked(number, &line?)?;
    }
    if end == size {
        return Ok(());
    }
    let last = LogLine::Part(Artifact::new(Arc::clone(file), size).into(), end, size - end);
    if !last.is_blank()? {
        MessageLayout::of(&last)?;
    }
    std::os::unix::fs::FileExt::write_all_at(&**file, b"\n", size)?;
    Ok(())
}

fn checked(number: u64, line: &LogLine) -> Result<(), MessageError> {
    match MessageLayout::of(line) {
        Err(MessageError::NotAMessage(why)) => {
            Err(MessageError::NotAMessage(format!("line {number}, not counting blank ones: {why}")))
        }
        other => other.map(|_| ()),
    }
}
