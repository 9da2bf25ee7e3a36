//! Segments, merges of segments, and the state that they add up to.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::replica::{Covers, Origin, SegmentId, Stamp};

///+ Content of a segment. `A` and `M` are additional data about each artifact and message, which the
///+ rules ignore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment<A, M> {
    ///+ Name of the segment.
    pub id: SegmentId,
    ///+ Covered segments, if this is a merge.
    pub covers: Covers,
    ///+ Published artifacts. In a merge, their origins are in covered segments.
    pub artifacts: BTreeMap<Origin, Claim<A>>,
    ///+ Renames.
    pub moves: BTreeMap<Origin, Move>,
    ///+ Removals.
    pub removed: Removed,
    ///+ Published messages.
    pub messages: BTreeMap<Origin, (Stamp, M)>,
}

///+ An artifact and its requested path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim<A> {
    ///+ Time at which it got the path.
    pub stamp: Stamp,
    ///+ Path in the conversation, as `RelPath::to_text` writes it.
    pub path: String,
    ///+ Digest of the bytes.
    pub digest: Arc<str>,
    ///+ Additional data.
    pub artifact: A,
}

///+ New path of an artifact. The latest one counts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Move {
    ///+ Time of the rename.
    pub stamp: Stamp,
    ///+ New path.
    pub to: String,
}

///+ Removed origins: single ones and whole segments. A removal is permanent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Removed {
    ///+ Single artifacts and messages.
    pub origins: BTreeSet<Origin>,
    ///+ Segments of which all artifacts and messages are removed.
    pub segments: BTreeSet<SegmentId>,
    ///+ True if a host removed the whole conversation. A merge does not repeat this.
    pub ends: bool,
}

impl<A, M> Segment<A, M> {
    ///+ Returns an empty segment.
    pub fn new(id: SegmentId) -> Self {
        Self {
            id,
            covers: Covers::new(),
            artifacts: BTreeMap::new(),
            moves: BTreeMap::new(),
            removed: Removed::default(),
            messages: BTreeMap::new(),
        }
    }

    ///+ Returns true if the segment is empty.
    pub fn says_nothing(&self) -> bool {
        self.artifacts.is_empty()
            && self.moves.is_empty()
            && self.removed.is_empty()
            && self.messages.is_empty()
    }

    ///+ Returns the latest stamp.
    pub fn latest(&self) -> Stamp {
        let artifacts = self.artifacts.values().map(|claim| claim.stamp);
        let moves = self.moves.values().map(|to| to.stamp);
        let messages = self.messages.values().map(|(stamp, _)| *stamp);
        artifacts.chain(moves).chain(messages).max().unwrap_or_default()
    }
}

impl Removed {
    ///+ Returns true if the origin is removed.
    pub fn contains(&self, origin: &Origin) -> bool {
        self.segments.contains(&origin.segment) || self.origins.contains(origin)
    }

    ///+ Returns true if nothing is removed.
    pub fn is_empty(&self) -> bool {
        self.origins.is_empty() && self.segments.is_empty()
    }

    ///+ Adds the removals of `other`.
    pub fn extend(&mut self, other: &Self) {
        self.origins.extend(&other.origins);
        self.segments.extend(&other.segments);
        self.ends |= other.ends;
    }
}
