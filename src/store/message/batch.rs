//! The messages that one write completes. All of them are appended, or none.

use crate::message::edited::EditedLine;
use crate::message::layout::MessageLayout;
use crate::message::stored::stored;
use crate::message::{AppendContext, LogLine, MessageError, UnfinishedLine, offload};

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
        let mut so_far = unfinished.clone();
        let taken = Self::completed(&mut so_far, &bytes[..last], context).and_then(|batch| {
            so_far.push(&bytes[last + 1..], context.conversation)?;
            Ok(batch)
        });
        let appended = match taken {
            Err(error @ MessageError::NotAMessage(_)) => {
                *unfinished = UnfinishedLine::default();
                return Err(error.into());
            }
            Err(error) => Err(error.into()),
            Ok(batch) if batch.is_empty() => Ok(()),
            Ok(batch) => append(&batch),
        };
        if appended.is_ok() {
            *unfinished = so_far;
        }
        appended
    }

    /// Returns the messages in `bytes`, which are separated by newlines. The newline after the last
    /// is not in `bytes`.
    fn completed(
        so_far: &mut UnfinishedLine,
        bytes: &[u8],
        context: &AppendContext<'_>,
    ) -> Result<Self, MessageError> {
        let mut messages = Vec::new();
        for line in bytes.split(|byte| *byte == b'\n') {
            so_far.push_end(line, context.conversation)?;
            messages.extend(CheckedMessage::of(so_far.take()?, context)?);
        }
        Self::of(messages, context)
    }

    /// Passes the line in `unfinished` to `append` if it is a message that lacks only its newline.
    /// Otherwise it stays unfinished, and a writer that has the log open may continue it.
    pub fn finish<E: From<MessageError>>(
        unfinished: &mut UnfinishedLine,
        context: &AppendContext<'_>,
        append: impl FnOnce(&Self) -> Result<(), E>,
    ) -> Result<(), E> {
        let line = unfinished.line().map_err(MessageError::from)?;
        let batch = Self::of(CheckedMessage::of(line, context)?, context)?;
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

    /// Stores the long outputs in `messages`. All of them must be messages before.
    fn of(
        messages: impl IntoIterator<Item = CheckedMessage>,
        context: &AppendContext<'_>,
    ) -> Result<Self, MessageError> {
        let edited = messages.into_iter().map(|message| message.edited(context));
        Ok(Self(edited.collect::<Result<_, _>>()?))
    }
}

/// A line that is a message. A write may have 65,536 of them.
struct CheckedMessage {
    line: LogLine,
    /// Present if outputs in it may have to be stored.
    layout: Option<Box<MessageLayout>>,
}

impl CheckedMessage {
    /// Checks `line`, and masks it if that is done. Returns `None` for a blank one.
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

    /// Stores its outputs that are long.
    fn edited(self, context: &AppendContext<'_>) -> Result<EditedLine, MessageError> {
        let Self { line, layout } = self;
        let Some(layout) = layout else { return Ok(EditedLine::unchanged(line)) };
        let edits = offload::edits(&line, &layout, context)?;
        Ok(EditedLine::edited(line, edits))
    }
}

/// Returns a message with its secrets masked. Fails if a mask leaves no message of it: one that
/// begins in one string of JSON and ends in another.
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
