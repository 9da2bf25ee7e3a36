//! Operations of hosts on the bucket other than publishing: merges, and deletion of unused segments
//! and objects.

use std::collections::{BTreeMap, BTreeSet};

use crate::replica::tests::host::{Message, Piece, Place, digest};
use crate::replica::{Accepted, Publication, SegmentId, State, WriterId, merge};

use super::{DAY, LOOK_AGE, World};

/// Hours of a week.
const WEEK: u64 = 168;

impl World {
    pub(super) fn merge(&mut self, host: usize) {
        if !self.hosts[host].is_up || self.hosts[host].disk.intent.is_some() || self.log.len() <= 2
        {
            return;
        }
        self.look(host);
        let Some(id) = self.next_id(host) else { return };
        let seen = self.hosts[host].disk.seen.keys().copied();
        let ids: Vec<_> = seen.filter(|id| self.is_listed(*id)).collect();
        let part: BTreeSet<_> = ids.into_iter().filter(|_| !self.once_in(5)).collect();
        let now = self.now;
        let disk = &mut self.hosts[host].disk;
        let all: Vec<_> = disk.seen.values().collect();
        let part = all.iter().filter(|piece| part.contains(&piece.id));
        let part = part.map(|piece| (piece.id, digest(piece))).collect();
        let segment = merge(id, &all, &part);
        let after = State::of(all.iter().copied().chain([&segment]));
        assert!(is_same(&State::of(all.iter().copied()), &after), "a merge changes what is said");
        let made = Publication { segment, accepted: Accepted::default() };
        disk.intent = Some((made, now, disk.published_messages));
    }

    /// Deletes unneeded segments.
    pub(super) fn sweep(&mut self, host: usize) {
        if self.is_blind(host) {
            return;
        }
        let now = self.now;
        let covers = |id: &SegmentId| {
            let covering = |(at, piece): &(u64, Piece)| {
                piece.covers.contains_key(id) && self.has_rested(piece.id, *at)
            };
            self.log.values().any(covering)
        };
        let is_alone = self.log.len() == 1;
        let useless = |id: &SegmentId, at: u64, piece: &Piece| {
            covers(id) || is_alone && now - at >= WEEK && piece.says_nothing()
        };
        let gone = self.log.iter().filter(|(id, (at, piece))| useless(id, *at, piece));
        let gone: Vec<_> = gone.map(|(id, _)| *id).collect();
        let before = self.said();
        self.log.retain(|id, _| !gone.contains(id));
        assert!(is_same(&before, &self.said()), "what is swept away said something");
    }

    /// Returns true if the segments that a merge covers can be deleted. `at` is the time of the
    /// merge. Either all hosts that published something in the last day have published something
    /// since the merge, and so have looked since, or the merge is a day old.
    fn has_rested(&self, merge: SegmentId, at: u64) -> bool {
        let mut latest = BTreeMap::new();
        for (id, (at, _)) in &self.log {
            let latest = latest.entry(id.writer).or_insert(*at);
            *latest = (*latest).max(*at);
        }
        let has_passed = |(writer, latest): (WriterId, u64)| {
            writer == merge.writer || latest >= at + LOOK_AGE || self.now - latest >= DAY
        };
        let age = self.now - at;
        age >= DAY || age >= LOOK_AGE && latest.into_iter().all(has_passed)
    }

    /// Adds a segment to the log again after it was merged and deleted. This happens if a request
    /// was sent twice and the second one arrived late.
    pub(super) fn appear_again(&mut self) {
        let covered = self.covered();
        let is_covered = |id: &SegmentId| covered.contains(id) && !self.log.contains_key(id);
        let late: Vec<_> = self.past.keys().copied().filter(is_covered).collect();
        let at = self.below(late.len().max(1) as u64) as usize;
        let Some(id) = late.get(at) else { return };
        let before = self.said();
        self.log.insert(*id, (self.now, self.past[id].clone()));
        assert!(is_same(&before, &self.said()), "what is covered says something");
    }

    /// Chooses the objects to delete, or deletes the ones that were chosen by an earlier call.
    pub(super) fn collect(&mut self, host: usize) {
        let used = self.said().artifacts.into_values().filter_map(|claim| claim.artifact);
        let used: BTreeSet<u64> = used.collect();
        let old = self.objects.iter().filter(|(_, at)| self.now - **at >= WEEK);
        let old: Vec<u64> = old.map(|(object, _)| *object).collect();
        for object in self.to_delete.iter().flatten() {
            assert!(!used.contains(object), "collected {object}, which is referenced");
            if old.contains(object) {
                self.objects.remove(object);
            }
        }
        if self.to_delete.take().is_some() || self.is_blind(host) {
            return;
        }
        let known = State::of(self.seen_by(host).map(|(_, piece)| piece)).artifacts.into_values();
        let known: BTreeSet<u64> = known.filter_map(|claim| claim.artifact).collect();
        self.to_delete = Some(old.into_iter().filter(|each| !known.contains(each)).collect());
    }

    /// Reads the bytes of all artifacts from the bucket, as if all published files had been
    /// evicted.
    pub(super) fn read(&mut self, host: usize) {
        for claim in self.hosts[host].state().artifacts.values() {
            let there = claim.artifact.is_none_or(|object| self.objects.contains_key(&object));
            assert!(there, "{} cannot be read", claim.path);
        }
    }

    /// Returns the merged state of all segments in the bucket.
    fn said(&self) -> Said {
        State::of(self.log.values().map(|(_, piece)| piece))
    }
}

type Said = State<Place, Message>;

/// Returns true if both states have the same artifacts with the same names, and the same messages.
fn is_same(one: &Said, other: &Said) -> bool {
    one.artifacts == other.artifacts && one.messages == other.messages
}
