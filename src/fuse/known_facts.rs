//! A cache of the facts version of a file at rest, so that finding its views again opens and parses
//! nothing.

use crate::keyed_hash::keyed_hash;
use ctxfs_core::model::{Component, RelPath};
use ctxfs_engine::sync::Mutex;
use ctxfs_store::{RecordPosition, Time};

/// The basis of the facts about a file at rest: a hash of the conversation and the path in it, the
/// other outputs of its name, the position of the last record, and the time of the last change of
/// anything, including the extended attributes. While it is the same, the facts are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FactsBasis(u64);

impl FactsBasis {
    pub(super) fn new(
        place: &(Component, RelPath),
        same_name: &[String],
        recorded: Option<RecordPosition>,
        changed: Time,
    ) -> Self {
        Self(keyed_hash((place, same_name, recorded, changed)))
    }
}

/// The facts version of a file, and its basis.
#[derive(Debug, Default)]
pub(crate) struct KnownFacts(Mutex<Option<(FactsBasis, u64)>>);

impl KnownFacts {
    pub(super) fn known(&self, basis: FactsBasis) -> Option<u64> {
        let known = self.0.lock();
        known.filter(|(of, _)| *of == basis).map(|(_, version)| version)
    }

    /// Keeps a version. The file must not be recent by the clock of its disk.
    pub(super) fn keep(&self, basis: FactsBasis, version: u64) {
        *self.0.lock() = Some((basis, version));
    }
}
