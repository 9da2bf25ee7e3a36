//! Writing an artifact as far as cap, quota and disk allow.

use std::io;
use std::io::Write;
use std::sync::Arc;

use crate::overflow::Overflow;
use crate::quota::RoomRequest;
use crate::tail::Tail;
use crate::{Engine, EngineError, Reservation, Result, space};
use ctxfs_store::{ArtifactWriter, BLOCK, Conversation, whole_blocks};

/// A writer to an artifact that asks for room first, as a write through a mount does.
///
/// Of bytes that pass a limit it takes those that fit. If none fits, the error is the limit, as an
/// [`EngineError`]. With `keeps_end`, no write fails: the overflow goes to `over`.
pub(super) struct BoundedWriter<'a> {
    pub(super) engine: &'a Engine,
    pub(super) conversation: Arc<Conversation>,
    pub(super) artifact: ArtifactWriter,
    /// The end up to which there was room before the first byte came.
    pub(super) reserved: u64,
    /// The room below the quota that was reserved then.
    pub(super) room: Reservation,
    /// True to accept all bytes, and keep the last ones in memory after a write has failed.
    pub(super) keeps_end: bool,
    /// The output from the failed write on, with `keeps_end`.
    pub(super) over: Option<Overflow>,
}

impl BoundedWriter<'_> {
    /// Returns how many of `length` more bytes there is room for, at least one, with the room below
    /// the quota that they take.
    fn room(&self, length: u64) -> Result<(u64, Reservation)> {
        let Engine { options, space, .. } = self.engine;
        let size = self.artifact.written();
        if size + length <= self.reserved {
            return Ok((length, Reservation::default()));
        }
        let is_terminal = self.artifact.path().is_terminal();
        let length = space::fitting_below_cap(options, is_terminal, size, length)?;
        let (length, reserved) = self.below_quota(length)?;
        match space.fitting_on_disk(self.engine, length, true)? {
            0 => Err(EngineError::DiskNearlyFull(options.min_free)),
            fits => Ok((fits, reserved)),
        }
    }

    fn write_fitting(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let (fits, _reserved) = self.room(bytes.len() as u64)?;
        let written = self.artifact.write(&bytes[..fits as usize])?;
        self.room.written(written as u64);
        if written == 0 { Err(io::ErrorKind::WriteZero.into()) } else { Ok(written) }
    }

    /// Returns how many of `length` more bytes stay below the quota.
    fn below_quota(&self, length: u64) -> Result<(u64, Reservation)> {
        if self.engine.options.quota.is_none() {
            return Ok((length, Reservation::default()));
        }
        let size = self.artifact.written();
        let taken = whole_blocks(size);
        let request = RoomRequest {
            id: self.conversation.id(),
            conversation: Some(&self.conversation),
            growth: whole_blocks(size + length).saturating_sub(taken),
            partly: true,
        };
        let growth = request.growth;
        let reserved = self.engine.space.reserve_part(self.engine, &request)?;
        if reserved.bytes() >= growth {
            return Ok((length, reserved));
        }
        match ((taken + reserved.bytes()) / BLOCK * BLOCK).saturating_sub(size).min(length) {
            0 => Err(RoomRequest::refusal(self.engine)),
            fits => Ok((fits, reserved)),
        }
    }
}

impl Write for BoundedWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        if let Some(over) = &mut self.over {
            over.tail.add(bytes);
            return Ok(bytes.len());
        }
        match self.write_fitting(bytes) {
            Err(error) if self.keeps_end && error.kind() != io::ErrorKind::Interrupted => {
                let mut tail = Tail::default();
                tail.add(bytes);
                self.over = Some(Overflow { error, tail });
                Ok(bytes.len())
            }
            written => written,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.artifact.flush()
    }
}
