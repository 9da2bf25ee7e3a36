//! The messages that one write completes. All of them are appended, or none.

use crate::message::AppendContext;
use crate::message::LogLine;
use crate::message::MessageError;
use crate::message::UnfinishedLine;
use crate::message::edited::EditedLine;
use crate::message::layout::MessageLayout;
use crate::message::offload::Offload;

/// Messages that are ready to be appended.
#[derive(Debug, Default)]
pub struct Batch(pub(super) Vec<EditedLine>);

impl Batch {
    /// Adds `bytes` to `unfinished`, and passes the messages that they complete to `append`. Long
    /// outputs in them are on the disk by then.
    ///
    /// If one of the lines is not a message, all of them are discarded, and so is the unfinished
    /// line, as it ended in these bytes. If there was no room or the disk failed, nothing has
    /// changed, and the caller may try the same bytes again.
    pub fn take<E: From<MessageError>>(
        unfinished: &mut UnfinishedLine,
        bytes: &[u8],
        context: &AppendContext<'_>,
        append: impl FnOnce(&Self) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(last) = memchr::memrchr(b'\n', bytes) else {
            return Ok(unfinished.push(bytes, context.conversation)?);
        };
        let before = unfinished.clone();
        let mut so_far = std::mem::take(unfinished);
        let taken = Self::completed(&mut so_far, &bytes[..last], context).and_then(|batch| {
            so_far.push(&bytes[last + 1..], context.conversation)?;
            Ok(batch)
        });
        let appended = match taken {
            Err(error @ MessageError::NotAMessage(_)) => return Err(error.into()),
            Err(error) => Err(error.into()),
            Ok(batch) if batch.is_empty() => Ok(()),
            Ok(batch) => append(&batch),
        };
        *unfinished = if appended.is_ok() { so_far } else { before };
        appended
    }

    /// Returns the messages in `bytes`, which are separated by newlines. The newline after the last
    /// is not in `bytes`.
    fn completed(
        so_far: &mut UnfinishedLine,
        bytes: &[u8],
        context: &AppendContext<'_>,
    ) -> Result<Self, MessageError> {
        let mut lines = Vec::new();
        for line in bytes.split(|byte| *byte == b'\n') {
            so_far.push(line, context.conversation)?;
            lines.push(so_far.take()?);
        }
        Self::of(lines, context)
    }

    /// Passes the line in `unfinished` to `append` if it is a message that lacks only its newline.
    /// Otherwise it stays unfinished, and a writer that has the log open may continue it.
    pub fn finish<E: From<MessageError>>(
        unfinished: &mut UnfinishedLine,
        context: &AppendContext<'_>,
        append: impl FnOnce(&Self) -> Result<(), E>,
    ) -> Result<(), E> {
        let line = unfinished.line().map_err(MessageError::from)?;
        let batch = Self::of(vec![line], context)?;
        if !batch.is_empty() {
            append(&batch)?;
        }
        *unfinished = UnfinishedLine::default();
        Ok(())
    }

    /// Returns true if there is nothing to append.
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the number of bytes to append.
    pub(super) fn len(&self) -> u64 {
        self.0.iter().map(EditedLine::len).sum()
    }

    fn of(lines: Vec<LogLine>, context: &AppendContext<'_>) -> Result<Self, MessageError> {
        let mut messages = Vec::with_capacity(lines.len());
        for line in lines {
            if !line.is_blank()? {
                let layout = MessageLayout::of(&line)?;
                messages.push((line, layout));
            }
        }
        // Only now, as all of them must be messages before an output is stored.
        let mut kept = Vec::with_capacity(messages.len());
        for (line, layout) in messages {
            kept.push(match Offload::of(&line, &layout, context)? {
                Some(offload) => EditedLine::edited(line, offload.edits()),
                None => EditedLine::unchanged(line),
            });
        }
        Ok(Self(kept))
    }
}
