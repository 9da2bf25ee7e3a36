//! A cache of the facts version of a file at rest, so that finding its views again opens and parses
//! nothing.

use std::hash::BuildHasher as _;
use std::hash::RandomState;
use std::sync::LazyLock;

use crate::engine::sync::Mutex;
use crate::model::Component;
use crate::model::RelPath;
use crate::store::RecordPosition;
use crate::store::Time;

/// The basis of the facts about a file at rest. While it is the same, the facts are.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FactsBasis {
    /// A number of the conversation and the path in it. Nobody can choose names of equal numbers,
    /// as the hash has a random key.
    place: u64,
    /// The position of the last record.
    recorded: Option<RecordPosition>,
    /// The time of the last change of anything, including the extended attributes.
    changed: Time,
}

impl FactsBasis {
    pub(super) fn new(
        place: &(Component, RelPath),
        recorded: Option<RecordPosition>,
        changed: Time,
    ) -> Self {
        static KEY: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        Self { place: KEY.hash_one(place), recorded, changed }
    }
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
