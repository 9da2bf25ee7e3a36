//! Segments that the bucket loses temporarily, and the decisions of hosts during that time.

use std::collections::BTreeSet;

use crate::replica::tests::host::Piece;
use crate::replica::{Covered, SegmentId, WriterId};

use super::World;

/// Way in which a segment is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Loss {
    /// The segment is missing in lists.
    Unlisted,
    /// The segment is in lists but cannot be read.
    Absent,
}

impl World {
    /// Makes the world lose segments and find them again.
    pub(crate) fn losing(mut self) -> Self {
        self.loses = true;
        self
    }

    pub(super) fn lose_or_find(&mut self) {
        if !self.loses || !self.once_in(6) {
            return;
        }
        if self.once_in(3) {
            self.lost.clear();
            return;
        }
        let log: Vec<_> = self.log.keys().copied().collect();
        let at = self.below(log.len().max(1) as u64) as usize;
        let Some(id) = log.get(at) else { return };
        let loss = self.pick(&[Loss::Unlisted, Loss::Absent]);
        let before = self.lost.insert(*id, loss);
        if self.talks {
            println!("{:6} {id} is lost: {loss:?}", self.now);
        }
        if !self.lost.keys().all(|id| self.is_noticed(*id)) {
            // Hosts cannot notice the loss of the last segment of a writer, so undo it.
            self.lost.remove(id);
            self.lost.extend(before.map(|before| (*id, before)));
        }
    }

    fn is_noticed(&self, id: SegmentId) -> bool {
        let is_later = |other: &SegmentId| other.writer == id.writer && other.number > id.number;
        let covered = self.got().map(|(_, piece)| &piece.covers).collect::<Covered>();
        self.is_listed(id)
            || self.listed().any(|other| is_later(&other))
            || covered.ids().any(|other| is_later(&other))
    }

    /// Returns the names of the segments in a list.
    fn listed(&self) -> impl Iterator<Item = SegmentId> {
        let names = self.log.keys().copied();
        names.filter(|id| self.lost.get(id) != Some(&Loss::Unlisted))
    }

    pub(super) fn is_listed(&self, id: SegmentId) -> bool {
        self.log.contains_key(&id) && self.lost.get(&id) != Some(&Loss::Unlisted)
    }

    /// Returns the segments that can be read.
    fn got(&self) -> impl Iterator<Item = (&SegmentId, &Piece)> + Clone {
        let all = self.log.iter().map(|(id, (_, piece))| (id, piece));
        all.filter(|(id, _)| !self.lost.contains_key(id))
    }

    /// Returns the segments that a host has after a look. If a segment is lost, the host keeps its
    /// local copy.
    pub(super) fn seen_by(
        &self,
        host: usize,
    ) -> impl Iterator<Item = (&SegmentId, &Piece)> + Clone {
        let seen = &self.hosts[host].disk.seen;
        self.got().chain(seen.iter().filter(|(id, _)| self.lost.contains_key(id)))
    }

    /// Returns the segments covered by the merges that a host has after a look.
    pub(super) fn covered_for(&self, host: usize) -> Covered {
        self.seen_by(host).map(|(_, piece)| &piece.covers).collect()
    }

    /// Returns true if a host detects in a look that it cannot read part of the log.
    pub(super) fn is_blind(&self, host: usize) -> bool {
        let seen: BTreeSet<_> = self.seen_by(host).map(|(id, _)| *id).collect();
        let covered = self.covered_for(host);
        let is_absent = |id: SegmentId| !seen.contains(&id) && !covered.contains(&id);
        let is_gone = |id: SegmentId| !self.is_listed(id) && !covered.contains(&id);
        self.listed().any(is_absent)
            || seen.iter().copied().any(is_gone)
            || !covered.gaps(self.listed()).is_empty()
    }

    /// Returns the name of the next segment of a host. Returns `None` and gives the host a new
    /// writer id if its previous segment is unknown, because the log ended and was deleted. With
    /// the old id, other hosts would miss the previous segment.
    pub(super) fn next_id(&mut self, host: usize) -> Option<SegmentId> {
        let disk = &self.hosts[host].disk;
        let id = SegmentId { writer: disk.writer, number: disk.next };
        let before = SegmentId { number: id.number - 1, ..id };
        let covered: Covered = disk.seen.values().map(|piece| &piece.covers).collect();
        if before.number == 0 || disk.seen.contains_key(&before) || covered.contains(&before) {
            return Some(id);
        }
        self.last += 1;
        let disk = &mut self.hosts[host].disk;
        (disk.writer, disk.next) = (WriterId(self.last), 1);
        self.hosts[host].uploads.clear();
        None
    }
}
