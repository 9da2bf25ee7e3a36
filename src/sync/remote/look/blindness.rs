
use std::collections::{BTreeMap, BTreeSet};

use crate::remote::error::Unknown;
use crate::remote::{Looked, Notes, RemoteError};
use crate::replica::SegmentId;

impl Looked {
    ///+ Returns the error for an incomplete log: segments are missing, absent or unreadable.
    ///+ Deleting could then lose objects that only these segments name. `unreadable` are local
    ///+ segments that were refused.
    pub(crate) fn blindness(
        &self,
        notes: &Notes,
        unreadable: &[(SegmentId, RemoteError)],
    ) -> Result<Option<RemoteError>, RemoteError> {
        let refused = self.refused.iter().chain(unreadable).map(|(id, _)| *id);
        let refused = refused.chain(notes.refused()?).map(|id| (id, Unknown::Unreadable));
        let absent = self.absent.iter().map(|id| (*id, Unknown::Absent));
        let gaps = self.gaps.iter().map(|id| (*id, Unknown::Missing));
        let gone = self.lost.iter().chain(&self.missing).map(|id| (*id, Unknown::Missing));
        let unknown: BTreeMap<_, _> = gone.chain(gaps).chain(absent).chain(refused).collect();
        let (others, first) = (unknown.len().saturating_sub(1), unknown.into_iter().next());
        let conversation = notes.conversation().to_text();
        Ok(first.map(|(segment, why)| RemoteError::Blind { conversation, segment, why, others }))
    }

    ///+ Returns the segments that the bucket has lost.
    pub(crate) fn missing_in_bucket(&self) -> Vec<SegmentId> {
        let all = [&self.lost, &self.missing, &self.absent, &self.gaps];
        let all: BTreeSet<SegmentId> = all.into_iter().flatten().copied().collect();
        all.into_iter().collect()
    }
}
