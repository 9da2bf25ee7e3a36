//! What one segment says.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::replica::{Covers, Origin, SegmentId, Stamp};

/// What a segment says of a conversation. `A` is what its reader keeps of each artifact beside what
/// the rules need, and `M` of each message: the rules never look at these.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment<A, M> {
    /// Its name.
    pub id: SegmentId,
    /// The segments for which it stands, if it merges some.
    pub covers: Covers,
    /// The artifacts that it publishes. In a merge these have origins of covered segments.
    pub artifacts: BTreeMap<Origin, Claim<A>>,
    /// The artifacts that it moves to other names.
    pub moves: BTreeMap<Origin, Move>,
    /// What it removes.
    pub removed: Removed,
    /// The messages that it publishes.
    pub messages: BTreeMap<Origin, (Stamp, M)>,
}

/// An artifact that claims a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim<A> {
    /// When it was given that name.
    pub stamp: Stamp,
    /// The name: a path in the conversation, as `RelPath::to_text` writes it.
    pub path: String,
    /// The digest of its bytes.
    pub digest: Arc<str>,
    /// What else is known of it.
    pub artifact: A,
}

/// A new name of an artifact. The latest one counts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Move {
    /// When it was moved.
    pub stamp: Stamp,
    /// Its path from then on.
    pub to: String,
}

/// Origins that were removed, singly or all of a segment. It is for ever.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Removed {
    /// Artifacts and messages.
    pub origins: BTreeSet<Origin>,
    /// Segments, all of whose artifacts and messages were removed.
    pub segments: BTreeSet<SegmentId>,
    /// True if a host removed all of the conversation that it had seen. A merge does not repeat it.
    pub ends: bool,
}

impl<A, M> Segment<A, M> {
    /// Returns a segment that says nothing.
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

    /// Returns true if nobody would miss it.
    pub fn says_nothing(&self) -> bool {
        self.artifacts.is_empty()
            && self.moves.is_empty()
            && self.removed.is_empty()
            && self.messages.is_empty()
    }

    /// Returns the latest stamp in it.
    pub fn latest(&self) -> Stamp {
        let artifacts = self.artifacts.values().map(|claim| claim.stamp);
        let moves = self.moves.values().map(|to| to.stamp);
        let messages = self.messages.values().map(|(stamp, _)| *stamp);
        artifacts.chain(moves).chain(messages).max().unwrap_or_default()
    }
}

impl Removed {
    /// Returns true if the origin is among them.
    pub fn contains(&self, origin: &Origin) -> bool {
        self.segments.contains(&origin.segment) || self.origins.contains(origin)
    }

    /// Returns true if nothing is.
    pub fn is_empty(&self) -> bool {
        self.origins.is_empty() && self.segments.is_empty()
    }

    /// Adds what `other` has.
    pub fn extend(&mut self, other: &Self) {
        self.origins.extend(&other.origins);
        self.segments.extend(&other.segments);
        self.ends |= other.ends;
    }
}
