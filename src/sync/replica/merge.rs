
use std::collections::BTreeSet;

use crate::replica::{Covers, Origin, Removed, Segment, SegmentId, State};

///+ Merges the segments `part` of `all` into segment `id`: their living content, and moves and
///+ removals of origins that are not covered. Moves of removed origins are dropped.
///+
///+ Two hosts may merge the same segments at once. If these have different digests for one name,
///+ either is valid: the writer whose segment is not the covered one sends its content again.
pub fn merge<A: Clone, M: Clone>(
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
    let elsewhere = |segment: &SegmentId| !merged.covers.contains_key(segment);
    let is_dead = |origin: &Origin| {
        whole.removed.contains(origin)
            || whole.covered.contains(&origin.segment) && !living.contains(origin)
    };
    let moves = said.moves.into_iter().filter(|(origin, _)| elsewhere(&origin.segment));
    merged.moves = moves.filter(|(origin, _)| !is_dead(origin)).collect();
    let Removed { origins, segments, .. } = said.removed;
    merged.removed = Removed {
        origins: origins.into_iter().filter(|origin| elsewhere(&origin.segment)).collect(),
        segments: segments.into_iter().filter(elsewhere).collect(),
        ends: false,
    };
    merged
}
