//! Segments, merges of segments, and the state that results from a set of segments.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;

use crate::replica::{Origin, SegmentDigest, SegmentId, Stamp};

/// Content of a segment: published artifacts and messages, renames and removals. `A` and `M` are
/// additional data about each artifact and message, which the rules ignore. A merge covers other
/// segments. The artifacts of a merge keep their origins, which are in the covered segments.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "described above")]
pub struct Segment<A, M> {
    pub id: SegmentId,
    pub covers: Covers,
    pub artifacts: BTreeMap<Origin, Claim<A>>,
    pub moves: BTreeMap<Origin, Move>,
    pub removed: Removed,
    pub messages: BTreeMap<Origin, (Stamp, M)>,
}

/// The path that an artifact requests, in the form of `RelPath::to_text`, and the time `stamp` of
/// that request. `digest` is the digest of the bytes. `artifact` is additional data about the
/// artifact.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "described above")]
pub struct Claim<A> {
    pub stamp: Stamp,
    pub path: String,
    pub digest: std::sync::Arc<str>,
    pub artifact: A,
}

/// New path of an artifact. `stamp` is the time of the move. If there are several moves of an
/// artifact, the latest one applies.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "described above")]
pub struct Move {
    pub stamp: Stamp,
    pub to: String,
}

/// Removed origins: single ones, and all origins of some segments. A removal is permanent. `ends`
/// is true if a host removed the whole conversation. A merge does not copy `ends`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "described above")]
pub struct Removed {
    pub origins: BTreeSet<Origin>,
    pub segments: BTreeSet<SegmentId>,
    pub ends: bool,
}

impl<A, M> Segment<A, M> {
    pub(crate) fn new(id: SegmentId) -> Self {
        Self {
            id,
            covers: Covers::new(),
            artifacts: BTreeMap::new(),
            moves: BTreeMap::new(),
            removed: Removed::default(),
            messages: BTreeMap::new(),
        }
    }

    pub(crate) fn says_nothing(&self) -> bool {
        self.artifacts.is_empty()
            && self.moves.is_empty()
            && self.removed.is_empty()
            && self.messages.is_empty()
    }

    pub(crate) fn latest(&self) -> Stamp {
        let artifacts = self.artifacts.values().map(|claim| claim.stamp);
        let moves = self.moves.values().map(|to| to.stamp);
        let messages = self.messages.values().map(|(stamp, _)| *stamp);
        artifacts.chain(moves).chain(messages).max().unwrap_or_default()
    }
}

impl Removed {
    pub(crate) fn contains(&self, origin: &Origin) -> bool {
        self.segments.contains(&origin.segment) || self.origins.contains(origin)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.origins.is_empty() && self.segments.is_empty()
    }

    pub(crate) fn extend(&mut self, other: &Self) {
        self.origins.extend(&other.origins);
        self.segments.extend(&other.segments);
        self.ends |= other.ends;
    }
}

const FIRST: u64 = 1;

/// Segments that a merge covers, with their digests. A covered segment is ignored, even if it
/// arrives after the merge.
pub type Covers = BTreeMap<SegmentId, SegmentDigest>;

/// Segments that are covered by at least one merge.
///
/// Readers ignore a covered segment by its name alone. A writer also compares the digest, because a
/// copy of its host may have sent another segment with that name, which was then merged and
/// deleted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Covered(BTreeMap<SegmentId, BTreeSet<SegmentDigest>>);

impl Covered {
    pub(crate) fn contains(&self, id: &SegmentId) -> bool {
        self.0.contains_key(id)
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = SegmentId> {
        self.0.keys().copied()
    }

    /// Returns the first segment of each gap in the segment numbers of a writer. `there` are the
    /// segments in the bucket. Writers skip no number, so a gap means that a segment was lost. If
    /// the last segments of a writer are lost, there is no gap.
    pub(crate) fn gaps(&self, there: impl IntoIterator<Item = SegmentId>) -> Vec<SegmentId> {
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

    /// Returns true if a segment with this name and this digest is covered, which means that the
    /// bucket had it. Returns false if only segments of this name with other digests are covered.
    /// Returns `None` if no segment of this name is covered.
    ///
    /// Merges may state different digests for one name if they covered segments of different copies
    /// of a host. If no merge states the digest of a segment, the bucket never had this segment.
    pub(crate) fn has(&self, id: SegmentId, digest: SegmentDigest) -> Option<bool> {
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

/// Merged state of a set of segments, independent of their order. It has the living artifacts with
/// their latest paths, and the living messages in order. Removals and moves are those of uncovered
/// segments. Covered segments are listed even if they are not in the set.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "described above")]
pub struct State<A, M> {
    pub artifacts: BTreeMap<Origin, Claim<A>>,
    pub messages: BTreeMap<(Stamp, Origin), M>,
    pub removed: Removed,
    pub moves: BTreeMap<Origin, Move>,
    pub covered: BTreeSet<SegmentId>,
}

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
    /// Merges the segments into a state.
    ///
    /// A covered segment is ignored, even if it arrives after the merge. If the merge does not
    /// contain an origin of a covered segment, that origin counts as removed.
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
    /// Like [`Self::of`], but consumes the segments.
    pub fn of_all(mut segments: Vec<Segment<A, M>>) -> Self {
        let covered = covered(&segments);
        segments.retain(|segment| !covered.contains(&segment.id));
        Self::after(covered, segments)
    }

    /// Returns true if there are no living artifacts and no living messages.
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

fn take_later_name<A>(claim: &mut Claim<A>, to: &Move) {
    if (to.stamp, to.to.as_str()) > (claim.stamp, claim.path.as_str()) {
        claim.stamp = to.stamp;
        claim.path.clone_from(&to.to);
    }
}

/// Returns the artifacts, each with its latest path. Two merges may contain the same artifact with
/// different paths.
///
/// Collects in one step, because a B-tree that is filled in order has half-empty nodes.
fn latest<A>(mut claims: Vec<(Origin, Claim<A>)>) -> BTreeMap<Origin, Claim<A>> {
    claims.sort_by(|(origin, claim), (other, than)| {
        (origin, claim.stamp, &claim.path).cmp(&(other, than.stamp, &than.path))
    });
    claims.into_iter().collect()
}

pub(crate) fn add_move(all: &mut BTreeMap<Origin, Move>, origin: Origin, to: Move) {
    let known = all.entry(origin).or_insert_with(|| to.clone());
    if to > *known {
        *known = to;
    }
}

/// Merges the segments `part` of `all` into segment `id`. The result has the living content of
/// `part`. From the moves and removals in `part`, the result has only those of uncovered origins.
/// Moves of removed origins are dropped.
///
/// Two hosts may merge the same segments concurrently. Both merges are valid, even if they state
/// different digests for one name. A writer whose segment has none of these digests sends its
/// content again.
pub(crate) fn merge<A: Clone, M: Clone>(
    id: SegmentId,
    all: &[&Segment<A, M>],
    part: &Covers,
) -> Segment<A, M> {
    let parts: Vec<_> = all.iter().copied().filter(|each| part.contains_key(&each.id)).collect();
    let (whole, said) = (State::of(all.iter().copied()), State::of(parts.iter().copied()));
    let mut merged = Segment::new(id);
    merged.covers = parts.iter().flat_map(|each| each.covers.clone()).collect();
    merged.covers.extend(parts.iter().map(|each| (each.id, part[&each.id])));
    let is_part = |origin: &Origin| parts.iter().any(|each| each.artifacts.contains_key(origin));
    let living: BTreeSet<Origin> = whole.artifacts.keys().copied().collect();
    let here = whole.artifacts.into_iter().filter(|(origin, _)| is_part(origin));
    merged.artifacts = here.collect();
    let told = |origin: &Origin| parts.iter().any(|each| each.messages.contains_key(origin));
    let messages = whole.messages.into_iter().filter(|((_, origin), _)| told(origin));
    merged.messages =
        messages.map(|((stamp, origin), message)| (origin, (stamp, message))).collect();
    let uncovered = |segment: &SegmentId| !merged.covers.contains_key(segment);
    let is_dead = |origin: &Origin| {
        whole.removed.contains(origin)
            || whole.covered.contains(&origin.segment) && !living.contains(origin)
    };
    let moves = said.moves.into_iter().filter(|(origin, _)| uncovered(&origin.segment));
    merged.moves = moves.filter(|(origin, _)| !is_dead(origin)).collect();
    let Removed { origins, segments, .. } = said.removed;
    merged.removed = Removed {
        origins: origins.into_iter().filter(|origin| uncovered(&origin.segment)).collect(),
        segments: segments.into_iter().filter(uncovered).collect(),
        ends: false,
    };
    merged
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
