//! Which segments merges cover.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use crate::replica::SegmentDigest;
use crate::replica::SegmentId;

/// The segments that a merge covers, each with its digest.
pub type Covers = BTreeMap<SegmentId, SegmentDigest>;

/// The segments that some merges cover.
///
/// Whoever reads them passes over what is covered by its name alone. Whoever is about to send a
/// segment asks for its digest too: a copy of his host may have sent another one of that name, which
/// was merged and is gone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Covered(BTreeMap<SegmentId, BTreeSet<SegmentDigest>>);

impl Covered {
    /// Returns true if a segment of this name is covered.
    pub fn contains(&self, id: &SegmentId) -> bool {
        self.0.contains_key(id)
    }

    /// Returns the names of all.
    pub fn ids(&self) -> impl Iterator<Item = SegmentId> {
        self.0.keys().copied()
    }

    /// Returns true if the segment of this name and digest is covered: then the bucket has had it.
    /// `None` if nothing of that name is.
    ///
    /// Merges may say different digests of one name, as each may have met another copy of a host.
    /// What none of them says was not sent.
    pub fn has(&self, id: SegmentId, digest: SegmentDigest) -> Option<bool> {
        self.0.get(&id).map(|digests| digests.contains(&digest))
    }
}

impl<'a> FromIterator<&'a Covers> for Covered {
    fn from_iter<I: IntoIterator<Item = &'a Covers>>(merges: I) -> Self {
        let mut covered = Self::default();
        for (id, digest) in merges.into_iter().flatten() {
            covered.0.entry(*id).or_default().insert(*digest);
        }
        covered
    }
}
