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
    /// Takes in `bytes`, which go on where `unfinished` stopped, and gives the messages that they
    /// complete. Long outputs in them are on the disk by then.
    ///
    /// Where one of the lines is no message none counts, and the unfinished line is forgotten with
    /// them: its end was in these bytes.
    pub fn taken(
        unfinished: &mut Unfinished,
        bytes: &[u8],
        desk: &Desk<'_>,
    ) -> Result<Self, MessageError> {
        let mut so_far = std::mem::take(unfinished);
        let Some(last) = memchr::memrchr(b'\n', bytes) else {
            so_far.push(bytes, desk.conversation)?;
            *unfinished = so_far;
            return Ok(Self::default());
        };
        let mut lines = Vec::new();
        for line in bytes[..last].split(|byte| *byte == b'\n') {
            so_far.push(line, desk.conversation)?;
            lines.push(so_far.take()?);
        }
        so_far.push(&bytes[last + 1..], desk.conversation)?;
        let batch = Self::of(lines, desk)?;
        *unfinished = so_far;
        Ok(batch)
    }

    /// The message that `unfinished` is, if it lacks nothing but its newline. Otherwise it stays
    /// unfinished: whoever has the log open may go on.
    pub fn finished(unfinished: &mut Unfinished, desk: &Desk<'_>) -> Result<Self, MessageError> {
        let batch = Self::of(vec![unfinished.line()?], desk)?;
        *unfinished = Unfinished::default();
        Ok(batch)
    }

    /// Whether there is nothing to append.
    pub fn is_empty(&self) -> bool {
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
