//! An output that is not stored if it stays short.

use std::io;

use crate::hooks::{Host, OutputLength, ReplacePolicy, Replaced, ResultKind, ShownWhole};
use ctxfs_core::model::{Content, Limits};
use ctxfs_engine::Replace;

/// The host that a command runs for, and the settings on which outputs are replaced there.
#[derive(Debug, Clone, Copy)]
pub(super) struct HostRule {
    pub(super) host: Host,
    pub(super) policy: ReplacePolicy,
}

/// The bytes of an output that is not stored if it is short: within the limits, or, for a host that
/// replaces no more than it cuts, what that shows whole.
pub(super) struct ShortOutput {
    /// `None` once there are too many, or if every output is stored.
    bytes: Option<Vec<u8>>,
    limits: Limits,
    host: Option<HostRule>,
}

impl HostRule {
    fn shown_whole(&self, exit_code: Option<i32>) -> ShownWhole {
        self.policy.shown_whole(self.host, ResultKind::of_command(exit_code))
    }

    /// Returns the most bytes of an output that the host shows whole, however its command ends.
    fn most_bytes(&self) -> u64 {
        let succeeded = self.shown_whole(Some(0)).most_bytes();
        succeeded.max(self.shown_whole(Some(1)).most_bytes())
    }

    /// Returns the condition on which a stored output is replaced.
    pub(super) fn replace(
        &self,
        output: &dyn Content,
        limits: &Limits,
        exit_code: i32,
    ) -> io::Result<Replace> {
        let shown = self.shown_whole(Some(exit_code));
        if limits.mirror || output.len() > shown.most_bytes() {
            return Ok(Replace::OverLimits);
        }
        let length =
            OutputLength::of(&output.bytes(0, usize::try_from(output.len()).unwrap_or(0))?);
        Ok(if shown.holds(length) { Replace::Economy } else { Replace::OverLimits })
    }
}

impl ShortOutput {
    /// Begins an output. Without `host` it is stored whatever its length, unless `is_discarded` is
    /// set.
    pub(super) fn new(is_discarded: bool, host: Option<HostRule>, limits: Limits) -> Self {
        let is_held = (is_discarded || host.is_some()) && !limits.mirror;
        Self { bytes: is_held.then(Vec::new), limits, host }
    }

    /// Adds bytes at the end.
    pub(super) fn add(&mut self, more: &[u8]) {
        let most = self.host.map_or(self.limits.max_inline_bytes, |host| host.most_bytes());
        self.bytes = self.bytes.take().filter(|bytes| (bytes.len() + more.len()) as u64 <= most);
        if let Some(bytes) = &mut self.bytes {
            bytes.extend(more);
        }
    }

    /// Returns the whole output if it is short, once its command has ended.
    pub(super) fn finish(self, exit_code: Option<i32>) -> Option<Vec<u8>> {
        let Self { bytes, limits, host } = self;
        bytes.filter(|bytes| {
            let length = OutputLength::of(bytes);
            let is_cut = host.is_none_or(|host| {
                host.policy.replaced == Replaced::Long || !host.shown_whole(exit_code).holds(length)
            });
            limits.are_kept_by(length.bytes, length.chars) || !is_cut
        })
    }
}
