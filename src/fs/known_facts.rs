//! A cache of the facts version of a file at rest, so that finding its views again opens and parses
//! nothing.

use std::time::Duration;
use std::time::SystemTime;

use crate::engine::sync::Mutex;
use crate::fs::attr::system_time;
use crate::model::Component;
use crate::model::RelPath;
use crate::store::RecordPosition;
use crate::store::Time;

/// Changes of a file that are further apart than this have different times on any disk: the
/// coarsest keep whole seconds, and the clocks of disks go in steps.
const COARSEST_TIME: Duration = Duration::from_secs(2);

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

    /// Keeps a version that was determined after `now`, unless the file changed so shortly before
    /// that a later change may have the same time.
    pub(super) fn keep(&self, basis: FactsBasis, version: u64, now: SystemTime) {
        let settled = system_time(basis.changed).checked_add(COARSEST_TIME);
        if settled.is_some_and(|settled| settled < now) {
            *self.0.lock() = Some((basis, version));
        }
    }
}
