//! The messages that one write completes: all of them are appended, or none.

use crate::message::Desk;
use crate::message::Line;
use crate::message::MessageError;
use crate::message::Unfinished;
use crate::message::kept::Kept;
use crate::message::line::Anatomy;
use crate::message::offload::Offload;

/// Messages ready to be appended.
#[derive(Debug, Default)]
pub struct Batch(pub(super) Vec<Kept>);

impl Batch {
    /// Takes in `bytes`, which go on where `unfinished` stopped, and hands the messages that they
    /// complete to `append`. Long outputs in them are on the disk by then.
    ///
    /// Where one of the lines is no message none counts, and the unfinished line is forgotten with
    /// them: its end was in these bytes. Where there was no room, or the disk failed, nothing has
    /// changed, and the same bytes may be tried again.
    pub fn take<E: From<MessageError>>(
        unfinished: &mut Unfinished,
        bytes: &[u8],
        desk: &Desk<'_>,
        append: impl FnOnce(&Self) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(last) = memchr::memrchr(b'\n', bytes) else {
            return Ok(unfinished.push(bytes, desk.conversation)?);
        };
        let before = unfinished.clone();
        let mut so_far = std::mem::take(unfinished);
        let taken = Self::completed(&mut so_far, &bytes[..last], desk).and_then(|batch| {
            so_far.push(&bytes[last + 1..], desk.conversation)?;
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
        so_far: &mut Unfinished,
        bytes: &[u8],
        desk: &Desk<'_>,
    ) -> Result<Self, MessageError> {
        let mut lines = Vec::new();
        for line in bytes.split(|byte| *byte == b'\n') {
            so_far.push(line, desk.conversation)?;
            lines.push(so_far.take()?);
        }
        Self::of(lines, desk)
    }

    /// Hands the message that `unfinished` is to `append`, if it lacks nothing but its newline.
    /// Otherwise it stays unfinished: whoever has the log open may go on.
    pub fn finish<E: From<MessageError>>(
        unfinished: &mut Unfinished,
        desk: &Desk<'_>,
        append: impl FnOnce(&Self) -> Result<(), E>,
    ) -> Result<(), E> {
        let line = unfinished.line().map_err(MessageError::from)?;
        let batch = Self::of(vec![line], desk)?;
        if !batch.is_empty() {
            append(&batch)?;
        }
        *unfinished = Unfinished::default();
        Ok(())
    }

    /// Whether there is nothing to append.
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Bytes to append.
    pub(super) fn len(&self) -> u64 {
        self.0.iter().map(Kept::len).sum()
    }

    fn of(lines: Vec<Line>, desk: &Desk<'_>) -> Result<Self, MessageError> {
        let mut messages = Vec::with_capacity(lines.len());
        for line in lines {
            if !line.is_blank()? {
                let anatomy = Anatomy::of(&line)?;
                messages.push((line, anatomy));
            }
        }
        // Only now, as one of them might have been no message.
        let mut kept = Vec::with_capacity(messages.len());
        for (line, anatomy) in messages {
            kept.push(match Offload::of(&line, &anatomy, desk)? {
                Some(offload) => Kept::edited(line, offload.edits()),
                None => Kept::unchanged(line),
            });
        }
        Ok(Self(kept))
    }
}
