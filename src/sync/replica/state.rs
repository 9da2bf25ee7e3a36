
use std::collections::{BTreeMap, BTreeSet};
use std::mem;

use crate::replica::{Claim, Covers, Move, Origin, Removed, Segment, SegmentId, Stamp};

///+ Merged state of a set of segments, independent of their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State<A, M> {
    ///+ Living artifacts, each with its latest path.
    pub artifacts: BTreeMap<Origin, Claim<A>>,
    ///+ Living messages, in order.
    pub messages: BTreeMap<(Stamp, Origin), M>,
    ///+ Removals in uncovered segments.
    pub removed: Removed,
    ///+ Moves in uncovered segments.
    pub moves: BTreeMap<Origin, Move>,
    ///+ Covered segments, present or not.
    pub covered: BTreeSet<SegmentId>,
}

///+ Origins in a merge.
struct Merge {
    covers: Covers,
    artifacts: BTreeSet<Origin>,
    messages: BTreeSet<Origin>,
}

impl Merge {
    fn of<A, M>(segment: &mut Segment<A, M>) -> Self {
        Self {
            covers: mem::take(&mut segment.covers),
            artifacts: segment.artifacts.keys().copied().collect(),
            messages: segment.messages.keys().copied().collect(),
        }
    }
}

impl<A: Clone, M: Clone> State<A, M> {
    ///+ Merges the segments into a state.
    ///+
    ///+ A covered segment is ignored even if it arrives later. Origins that a merge covers but does
    ///+ not contain are removed.
    pub fn of<'a>(segments: impl IntoIterator<Item = &'a Segment<A, M>> + Clone) -> Self
    where
        A: 'a,
        M: 'a,
    {
        let covered = covered(segments.clone());
        let held = segments.into_iter().filter(|segment| !covered.contains(&segment.id));
        let held: Vec<_> = held.cloned().collect();
        Self::after(covered, held)
    }
}

impl<A, M> State<A, M> {
    ///+ Does what [`Self::of`] does, and consumes the segments.
    pub fn of_all(mut segments: Vec<Segment<A, M>>) -> Self {
        let covered = covered(&segments);
        segments.retain(|segment| !covered.contains(&segment.id));
        Self::after(covered, segments)
    }

    ///+ Returns true if nothing is alive.
    pub fn is_over(&self) -> bool {
        self.artifacts.is_empty() && self.messages.is_empty()
    }

    fn after(covered: BTreeSet<SegmentId>, held: Vec<Segment<A, M>>) -> Self {
        let (mut state, mut merges) = (Self::empty(covered), Vec::new());
        let mut claims = Vec::with_capacity(held.iter().map(|each| each.artifacts.len()).sum());
        for mut segment in held {
            if !segment.covers.is_empty() {
                merges.push(Merge::of(&mut segment));
            }
            claims.extend(mem::take(&mut segment.artifacts));
            state.add(segment);
        }
        state.artifacts = latest(claims);
        for merge in &merges {
            state.forget_what_it_covers_and_lacks(merge);
        }
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

    fn add(&mut self, segment: Segment<A, M>) {
        for (origin, to) in segment.moves {
            add_move(&mut self.moves, origin, to);
        }
        for (origin, (stamp, message)) in segment.messages {
            self.messages.insert((stamp, origin), message);
        }
        self.removed.extend(&segment.removed);
    }

    fn forget_what_it_covers_and_lacks(&mut self, merge: &Merge) {
        let lacks = |origin: &Origin, has: bool| !has && merge.covers.contains_key(&origin.segment);
        let artifacts = self.artifacts.keys().copied();
        let gone = artifacts.filter(|origin| lacks(origin, merge.artifacts.contains(origin)));
        let messages = self.messages.keys().map(|(_, origin)| *origin);
        let silent = messages.filter(|origin| lacks(origin, merge.messages.contains(origin)));
        let gone: BTreeSet<_> = gone.chain(silent).collect();
        self.removed.origins.extend(gone);
    }

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

fn covered<'a, A: 'a, M: 'a>(
    segments: impl IntoIterator<Item = &'a Segment<A, M>>,
) -> BTreeSet<SegmentId> {
    segments.into_iter().flat_map(|segment| segment.covers.keys().copied()).collect()
}

pub(super) fn take_later_name<A>(claim: &mut Claim<A>, to: &Move) {
    if (to.stamp, to.to.as_str()) > (claim.stamp, claim.path.as_str()) {
        claim.stamp = to.stamp;
        claim.path.clone_from(&to.to);
    }
}

///+ Returns the artifacts, each with its latest path: two merges may have the same artifact with
///+ different paths.
///+
///+ Collected at once: a B-tree filled in order has half-empty nodes.
fn latest<A>(mut claims: Vec<(Origin, Claim<A>)>) -> BTreeMap<Origin, Claim<A>> {
    claims.sort_by(|(origin, claim), (other, than)| {
        (origin, claim.stamp, &claim.path).cmp(&(other, than.stamp, &than.path))
    });
    claims.into_iter().collect()
}

///+ Keeps the latest move of an artifact.
pub(super) fn add_move(all: &mut BTreeMap<Origin, Move>, origin: Origin, to: Move) {
    let known = all.entry(origin).or_insert_with(|| to.clone());
    if to > *known {
        *known = to;
    }
}
