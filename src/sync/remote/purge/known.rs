
use std::collections::BTreeSet;

use crate::bucket::{ObjectName, SEGMENT_BYTES, segment_key, segment_of};
use crate::remote::notes::Purging;
use crate::remote::pieces::{piece, pieces};
use crate::remote::{Looked, Notes, Piece, RemoteError, Stored, StoredSegment, Sync, Told};
use crate::replica::{Base, Origin, SegmentId, State};
use ctxfs_core::model::RelPath;
use ctxfs_store::{HISTORY, MESSAGES};

///+ Covered segments that are fetched together.
const AT_ONCE: usize = 16;

///+ The segments of a conversation, including covered ones.
pub(super) struct KnownPieces {
    ///+ Uncovered segments, then covered ones that are still in the bucket.
    pieces: Vec<Piece>,
    state: State<Stored, Told>,
    unreadable: BTreeSet<SegmentId>,
}

impl KnownPieces {
    ///+ Parses all segments. Looks skip covered ones: those that are not stored locally are fetched
    ///+ here.
    pub(super) fn read(
        sync: &Sync<'_>,
        notes: &Notes,
        looked: &Looked,
    ) -> Result<Self, RemoteError> {
        let found = pieces(notes)?.pieces;
        let state = State::of(&found);
        let mut known = Self { pieces: found, state, unreadable: BTreeSet::new() };
        let covered = notes.covered()?;
        let here: BTreeSet<_> = notes.segments()?.into_iter().collect();
        let listed = looked.segments.iter().filter(|listed| listed.size <= SEGMENT_BYTES);
        let listed = listed.filter_map(|listed| segment_of(&listed.name));
        let covered = listed.filter(|id| covered.contains(id));
        let (here, elsewhere): (Vec<_>, Vec<_>) = covered.partition(|id| here.contains(id));
        for id in here {
            known.add(id, notes.open_segment(id))?;
        }
        for some in elsewhere.chunks(AT_ONCE) {
            let key = |id: &SegmentId| (segment_key(notes.conversation(), *id), None);
            let keys: Vec<_> = some.iter().map(key).collect();
            let got = sync.bucket.get_many(&keys, (sync.deadline)());
            for (id, bytes) in some.iter().zip(got) {
                match bytes {
                    Ok(bytes) => known.add(*id, StoredSegment::of(*id, bytes))?,
                    Err(error) if error.is_absent() => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(known)
    }

    fn add(
        &mut self,
        id: SegmentId,
        segment: Result<StoredSegment, RemoteError>,
    ) -> Result<(), RemoteError> {
        match segment.and_then(|segment| piece(&segment)) {
            Ok(piece) => self.pieces.push(piece),
            Err(RemoteError::Segment { .. } | RemoteError::TooMany { .. }) => {
                self.unreadable.insert(id);
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    ///+ Returns the artifacts that ever had this path, here or in the bucket, with those of an
    ///+ interrupted purge; for the message log, its removed messages.
    pub(super) fn wanted(&self, base: &Base, path: &RelPath, before: Purging) -> Purging {
        let mut wanted = before;
        if is_log(path) {
            let messages = self.pieces.iter().flat_map(|piece| piece.messages.iter());
            let living: BTreeSet<_> =
                self.state.messages.keys().map(|(_, origin)| origin).collect();
            let removed = messages.map(|(origin, _)| origin).filter(|each| !living.contains(each));
            wanted.messages.extend(removed);
        } else {
            wanted.origins.extend(self.named(base, &path.to_text()));
        }
        let holders = self.holders(&wanted);
        for piece in &self.pieces {
            let is_holder = holders.contains(&piece.id);
            let goes = |origin: &Origin| {
                wanted.origins.contains(origin)
                    || is_holder && !self.state.artifacts.contains_key(origin)
            };
            let gone = piece.artifacts.iter().filter(|(origin, _)| goes(origin));
            let objects: Vec<ObjectName> =
                gone.filter_map(|(_, claim)| claim.artifact.object).collect();
            wanted.objects.extend(objects);
        }
        wanted
    }

    fn named(&self, base: &Base, path: &str) -> BTreeSet<Origin> {
        let seen = base.entries.iter().filter(|entry| entry.path == path);
        let mut named: BTreeSet<_> = seen.flat_map(|entry| entry.origins.iter().copied()).collect();
        for piece in &self.pieces {
            let put = piece.artifacts.iter().filter(|(_, claim)| claim.path == path);
            named.extend(put.map(|(origin, _)| *origin));
            let moved = piece.moves.iter().filter(|(_, to)| to.to == path);
            named.extend(moved.map(|(origin, _)| *origin));
        }
        named
    }

    ///+ Returns the segments with content to purge, and unreadable ones.
    pub(super) fn holders(&self, wanted: &Purging) -> BTreeSet<SegmentId> {
        let mut holders = holders(&self.pieces, wanted);
        holders.extend(&self.unreadable);
        holders
    }
}

///+ Returns the segments with records, moves or messages to purge.
pub(super) fn holders(found: &[Piece], wanted: &Purging) -> BTreeSet<SegmentId> {
    let has = |piece: &&Piece| {
        piece.artifacts.keys().any(|each| wanted.origins.contains(each))
            || piece.moves.keys().any(|each| wanted.origins.contains(each))
            || piece.messages.keys().any(|each| wanted.messages.contains(each))
    };
    found.iter().filter(has).map(|piece| piece.id).collect()
}

pub(super) fn is_log(path: &RelPath) -> bool {
    path.to_text() == format!("{HISTORY}/{MESSAGES}")
}
