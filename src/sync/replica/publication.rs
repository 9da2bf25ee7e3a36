
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::replica::{
    Base, Changes, Claim, Clock, Entry, LocalPut, Move, Origin, Segment, SegmentId,
};

///+ A segment to store, and its effects on the base.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Publication<A, M> {
    ///+ Segment. The places of its artifacts count from 0 in the order of their paths; those of its
    ///+ messages follow.
    pub segment: Segment<A, M>,
    pub accepted: Accepted,
}

///+ Changes of the base when a segment is stored. Saved on disk until then.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accepted {
    ///+ Entries of published files.
    pub puts: Vec<Entry>,
    ///+ New paths of moved artifacts.
    pub moves: BTreeMap<Origin, String>,
    ///+ Removed and replaced artifacts.
    pub removed: BTreeSet<Origin>,
}

impl<A, M> Publication<A, M> {
    ///+ Builds the segment `id` from all complete changes and from messages. `now` is the clock of
    ///+ this host in microseconds since the epoch; `artifact` returns the additional data of a file
    ///+ by path.
    pub fn new(
        id: SegmentId,
        changes: &Changes,
        messages: impl IntoIterator<Item = M>,
        clock: &mut Clock,
        now: u64,
        mut artifact: impl FnMut(&str) -> A,
    ) -> Self {
        let mut made = Self { segment: Segment::new(id), accepted: Accepted::default() };
        let mut places = (0..).map(|place| Origin { segment: id, place });
        made.accepted.removed.extend(&changes.removed);
        for (path, put) in &changes.puts {
            let Some(digest) = &put.digest else { continue };
            let origin = places.next().expect("places do not end");
            let (stamp, path, digest) = (clock.stamp(now), path.clone(), digest.clone());
            let artifact = artifact(&path);
            made.accept(origin, &path, put, &digest);
            made.segment.artifacts.insert(origin, Claim { stamp, path, digest, artifact });
        }
        for (message, origin) in messages.into_iter().zip(places) {
            made.segment.messages.insert(origin, (clock.stamp(now), message));
        }
        for (origin, to) in &changes.moves {
            let (stamp, to) = (clock.stamp(now), to.clone());
            made.segment.moves.insert(*origin, Move { stamp, to });
        }
        made.accepted.moves.clone_from(&changes.moves);
        made.segment.removed.origins.clone_from(&made.accepted.removed);
        made
    }

    fn accept(&mut self, origin: Origin, path: &str, put: &LocalPut, digest: &Arc<str>) {
        self.accepted.removed.extend(&put.replaces);
        let (path, origins, asked) = (path.to_owned(), vec![origin], None);
        let (key, version, digest) = (put.key, put.version, Arc::clone(digest));
        self.accepted.puts.push(Entry { path, asked, origins, key, version, digest });
    }
}

impl Base {
    pub fn accept(&mut self, accepted: &Accepted) {
        for entry in &mut self.entries {
            entry.origins.retain(|origin| !accepted.removed.contains(origin));
            if let Some(to) = entry.origins.first().and_then(|first| accepted.moves.get(first)) {
                entry.path.clone_from(to);
                entry.asked = None;
            }
        }
        self.entries.retain(|entry| !entry.origins.is_empty());
        self.entries.extend_from_slice(&accepted.puts);
    }
}
