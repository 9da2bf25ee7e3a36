//! An output that is not stored if it stays short.

use crate::model::Limits;

/// The bytes of an output that is not stored if it stays within the limits.
pub(super) struct ShortOutput {
    /// `None` once there are too many, or if every output is stored.
    bytes: Option<Vec<u8>>,
    limits: Limits,
}

impl ShortOutput {
    /// Begins an output that is stored whatever its length, unless `is_discarded` is set.
    pub(super) fn new(is_discarded: bool, limits: Limits) -> Self {
        Self { bytes: (is_discarded && !limits.mirror).then(Vec::new), limits }
    }

    /// Adds bytes at the end.
    pub(super) fn add(&mut self, more: &[u8]) {
        let most = self.limits.max_inline_bytes;
        self.bytes = self.bytes.take().filter(|bytes| (bytes.len() + more.len()) as u64 <= most);
        if let Some(bytes) = &mut self.bytes {
            bytes.extend(more);
        }
    }

    /// Returns the whole output if it is within the limits.
    pub(super) fn finish(self) -> Option<Vec<u8>> {
        let chars = |bytes: &[u8]| String::from_utf8_lossy(bytes).chars().count() as u64;
        let limits = self.limits;
        self.bytes.filter(|bytes| limits.are_kept_by(bytes.len() as u64, chars(bytes)))
    }
}
