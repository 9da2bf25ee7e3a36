//! What all segments of a conversation say together.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::collections::btree_map::Entry;

use crate::replica::Claim;
use crate::replica::Move;
use crate::replica::Origin;
use crate::replica::Removed;
use crate::replica::Segment;
use crate::replica::SegmentId;
use crate::replica::Stamp;

/// What segments say together. It depends on which they are alone, not on their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State<A, M> {
    /// The artifacts that live, each under the name that it was given last.
    pub artifacts: BTreeMap<Origin, Claim<A>>,
    /// The messages that live, in their order.
    pub messages: BTreeMap<(Stamp, Origin), M>,
    /// What was removed, as far as segments say so that are not covered.
    pub removed: Removed,
    /// The moves that these say.
    pub moves: BTreeMap<Origin, Move>,
    /// The segments that a merge covers, whether they are still there or not.
    pub covered: BTreeSet<SegmentId>,
}

impl<A: Clone, M: Clone> State<A, M> {
    /// Returns the state after these segments.
    ///
    /// What is covered says nothing, even where it comes later. What a merge covers and does not
    /// contain was removed.
    pub fn of<'a>(segments: impl IntoIterator<Item = &'a Segment<A, M>> + Clone) -> Self
    where
        A: 'a,
        M: 'a,
    {
        let covers = segments.clone().into_iter().flat_map(|segment| segment.covers.keys());
        let covered: BTreeSet<_> = covers.copied().collect();
        let held = segments.into_iter().filter(|segment| !covered.contains(&segment.id));
        let held: Vec<_> = held.collect();
        let mut state = Self::empty(covered);
        for segment in &held {
            state.add(segment);
        }
        let merges = held.iter().filter(|segment| !segment.covers.is_empty());
        merges.for_each(|merge| state.forget_what_it_covers_and_lacks(merge));
        state.apply();
        state
    }

    fn empty(covered: BTreeSet<SegmentId>) -> Self {
        Self {
            artifacts: BTreeMap::new(),
            messages: BTreeMap::new(),
            removed: Removed::default(),
            moves: BTreeMap::new(),
            covered,
        }
    }

    fn add(&mut self, segment: &Segment<A, M>) {
        for (origin, claim) in &segment.artifacts {
            add_claim(&mut self.artifacts, *origin, claim);
        }
        for (origin, to) in &segment.moves {
            add_move(&mut self.moves, *origin, to.clone());
        }
        for (origin, (stamp, message)) in &segment.messages {
            self.messages.insert((*stamp, *origin), message.clone());
        }
        self.removed.extend(&segment.removed);
    }

    fn forget_what_it_covers_and_lacks(&mut self, merge: &Segment<A, M>) {
        let lacks = |origin: &Origin, has: bool| !has && merge.covers.contains_key(&origin.segment);
        let artifacts = self.artifacts.keys().copied();
        let gone = artifacts.filter(|origin| lacks(origin, merge.artifacts.contains_key(origin)));
        let messages = self.messages.keys().map(|(_, origin)| *origin);
        let silent = messages.filter(|origin| lacks(origin, merge.messages.contains_key(origin)));
        let gone: BTreeSet<_> = gone.chain(silent).collect();
        self.removed.origins.extend(gone);
    }

    /// Lets the removals and moves do what they say.
    fn apply(&mut self) {
        let Self { artifacts, messages, removed, moves, .. } = self;
        artifacts.retain(|origin, _| !removed.contains(origin));
        messages.retain(|(_, origin), _| !removed.contains(origin));
        for (origin, claim) in artifacts {
            if let Some(to) = moves.get(origin) {
                take_later_name(claim, to);
            }
        }
    }
}

/// Gives an artifact the name `to`, if that is later than its own.
pub(super) fn take_later_name<A>(claim: &mut Claim<A>, to: &Move) {
    if (to.stamp, to.to.as_str()) > (claim.stamp, claim.path.as_str()) {
        claim.stamp = to.stamp;
        claim.path.clone_from(&to.to);
    }
}

/// Two merges may have the same artifact, each as it was named when it was merged.
fn add_claim<A: Clone>(all: &mut BTreeMap<Origin, Claim<A>>, origin: Origin, claim: &Claim<A>) {
    match all.entry(origin) {
        Entry::Vacant(place) => {
            place.insert(claim.clone());
        }
        Entry::Occupied(mut known) => {
            let later = |claim: &Claim<A>| (claim.stamp, claim.path.clone());
            if later(claim) > later(known.get()) {
                known.insert(claim.clone());
            }
        }
    }
}

/// Keeps the latest move of an artifact.
pub(super) fn add_move(all: &mut BTreeMap<Origin, Move>, origin: Origin, to: Move) {
    let known = all.entry(origin).or_insert_with(|| to.clone());
    if to > *known {
        *known = to;
    }
}
