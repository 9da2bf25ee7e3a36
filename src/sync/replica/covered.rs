
use std::collections::{BTreeMap, BTreeSet};

use crate::replica::{SegmentDigest, SegmentId};

///+ First segment number of a writer.
const FIRST: u64 = 1;

///+ Segments that a merge covers, with their digests.
pub type Covers = BTreeMap<SegmentId, SegmentDigest>;

///+ Segments that are covered by some merge.
///+
///+ Readers ignore a covered segment by its name alone. A writer compares the digest as well: a copy
///+ of its host may have sent another segment of that name, which was merged and deleted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Covered(BTreeMap<SegmentId, BTreeSet<SegmentDigest>>);

impl Covered {
    ///+ Returns true if a segment of this name is covered.
    pub fn contains(&self, id: &SegmentId) -> bool {
        self.0.contains_key(id)
    }

    ///+ Returns the names of all covered segments.
    pub fn ids(&self) -> impl Iterator<Item = SegmentId> {
        self.0.keys().copied()
    }

    ///+ Returns the first segment of each gap in the numbers of a writer, given the segments `there`
    ///+ in the bucket. Writers skip no number, so a gap means that a segment was lost. A loss of a
    ///+ writer's last segments leaves no gap.
    pub fn gaps(&self, there: impl IntoIterator<Item = SegmentId>) -> Vec<SegmentId> {
        let known: BTreeSet<SegmentId> = there.into_iter().chain(self.ids()).collect();
        let (mut gaps, mut last): (_, Option<SegmentId>) = (Vec::new(), None);
        for id in known {
            let before = last.filter(|last| last.writer == id.writer);
            let next = before.map_or(SegmentId { number: FIRST, ..id }, SegmentId::next);
            if next != id {
                gaps.push(next);
            }
            last = Some(id);
        }
        gaps
    }

    ///+ Returns true if the segment with this name and digest is covered, so that the bucket had it.
    ///+ Returns `None` if no segment of this name is covered.
    ///+
    ///+ Merges may have different digests for one name, after they met different copies of a host. A
    ///+ digest in none of them was not sent.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replica::WriterId;

    fn id(writer: u64, number: u64) -> SegmentId {
        SegmentId { writer: WriterId(writer), number }
    }

    #[test]
    fn a_gap_is_a_number_that_is_neither_there_nor_covered() {
        let digest = SegmentDigest::of(b"");
        let covers: Covers = [id(1, 1), id(1, 2), id(2, 1)].map(|id| (id, digest)).into();
        let covered: Covered = [&covers].into_iter().collect();
        assert_eq!(covered.gaps([id(1, 3), id(2, 2), id(3, 1)]), []);
        assert_eq!(covered.gaps([id(1, 4), id(1, 7), id(3, 2)]), [id(1, 3), id(1, 5), id(3, 1)]);
        assert_eq!(Covered::default().gaps([]), []);
        let last = 999_999_999_999;
        assert_eq!(Covered::default().gaps([id(1, last)]), [id(1, 1)]);
    }
}
