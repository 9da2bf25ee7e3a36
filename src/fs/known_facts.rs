//! A cache of the facts version of a file at rest, so that finding its views again opens and parses
//! nothing.

use crate::engine::sync::Mutex;
use crate::model::Component;
use crate::model::RelPath;
use crate::store::RecordPosition;
use crate::store::Time;

/// The basis of the facts about a file at rest. While it is the same, the facts are.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FactsBasis {
    pub(super) place: (Component, RelPath),
    /// The position of the last record.
    pub(super) recorded: Option<RecordPosition>,
    /// The time of the last change of anything, including the extended attributes.
    pub(super) changed: Time,
}

/// The facts version of a file, and its basis.
#[derive(Debug, Default)]
pub(crate) struct KnownFacts(Mutex<Option<(FactsBasis, u64)>>);

impl KnownFacts {
    pub(super) fn known(&self, basis: &FactsBasis) -> Option<u64> {
        let known = self.0.lock();
        known.as_ref().filter(|(of, _)| of == basis).map(|(_, version)| *version)
    }

    /// Keeps a version. The file must not be recent by the clock of its disk.
    pub(super) fn keep(&self, basis: FactsBasis, version: u64) {
        *self.0.lock() = Some((basis, version));
    }
}
