//! The messages that one write completes: all of them are appended, or none.

use crate::message::AppendContext;
use crate::message::LogLine;
use crate::message::MessageError;
use crate::message::UnfinishedLine;
use crate::message::edited::EditedLine;
use crate::message::layout::MessageLayout;
use crate::message::offload::Offload;

/// Messages ready to be appended.
#[derive(Debug, Default)]
pub struct Batch(pub(super) Vec<EditedLine>);

impl Batch {
    /// Takes in `bytes`, which go on where `unfinished` stopped, and hands the messages that they
    /// complete to `append`. Long outputs in them are on the disk by then.
    ///
    /// Where one of the lines is no message none counts, and the unfinished line is forgotten with
    /// them: its end was in these bytes. Where there was no room, or the disk failed, nothing has
    /// changed, and the same bytes may be tried again.
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

    /// The messages in `bytes`, which have a newline between them, and one after the last.
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

    /// Hands the message that `unfinished` is to `append`, if it lacks nothing but its newline.
    /// Otherwise it stays unfinished: whoever has the log open may go on.
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

    /// Whether there is nothing to append.
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Bytes to append.
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
        // Only now, as one of them might have been no message.
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
