//! Writing an artifact as far as cap, quota and disk allow.

use std::io;
use std::io::Write;
use std::sync::Arc;

use crate::engine::Engine;
use crate::engine::EngineError;
use crate::engine::Result;
use crate::engine::space;
use crate::store::ArtifactWriter;
use crate::store::Conversation;

/// A writer to an artifact that asks for room first, as a write through a mount does.
///
/// Of bytes that pass a limit it takes those that fit. If none fits, the error is the limit, as an
/// [`EngineError`].
pub(super) struct BoundedWriter<'a> {
    pub(super) engine: &'a Engine,
    pub(super) conversation: Arc<Conversation>,
    pub(super) artifact: ArtifactWriter,
    /// The end up to which there was room before the first byte came.
    pub(super) reserved: u64,
}

impl BoundedWriter<'_> {
    /// Returns how many of `length` more bytes there is room for, at least one.
    fn room(&self, length: u64) -> Result<u64> {
        let Engine { options, space, .. } = self.engine;
        let size = self.artifact.written();
        if size + length <= self.reserved {
            return Ok(length);
        }
        let is_terminal = self.artifact.path().is_terminal();
        let length = space::fitting_below_cap(options, is_terminal, size, length)?;
        let length = self.below_quota(length)?;
        match space.fitting_on_disk(self.engine, length, true)? {
            0 => Err(EngineError::DiskNearlyFull(options.min_free)),
            fits => Ok(fits),
        }
    }

    /// Returns how many of `length` more bytes stay below the quota. What replaces other artifacts
    /// counts as far as it is larger: they go when it is complete.
    fn below_quota(&self, length: u64) -> Result<u64> {
        let Engine { options, space, .. } = self.engine;
        let Some(quota) = options.quota else { return Ok(length) };
        let size = self.artifact.written();
        let (hidden, free) = match self.artifact.replaced_bytes() {
            Some(replaced) => (size.saturating_sub(replaced), replaced.saturating_sub(size)),
            None => (0, 0),
        };
        let growth = length.saturating_sub(free);
        let grows = space.fitting_in_quota(self.engine, &self.conversation, growth, hidden)?;
        match length - growth + grows {
            0 => Err(EngineError::OverQuota(quota)),
            fits => Ok(fits),
        }
    }
}

impl Write for BoundedWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        let fits = self.room(bytes.len() as u64)?;
        self.artifact.write(&bytes[..fits as usize])
    }

    fn flush(&mut self) -> io::Result<()> {
        self.artifact.flush()
    }
}
