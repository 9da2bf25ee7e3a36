//! Merges of segments, and the choice of the segments to delete because a merge covers them.

use std::collections::{BTreeMap, BTreeSet};

use crate::bucket::{
    FormatError, Line, Listed, MessageLine, MoveLine, Place, PutBytes, PutLine, PutParts,
    RemoveLine, SegmentHead, SegmentWriter, segment_key, segment_of,
};
use crate::remote::push::{LOOK_AGE, MOST_REMOVED};
use crate::remote::tidy::{HOUR, StoreClock, WEEK};
use crate::remote::{
    Intent, LookReport, Piece, Pieces, Push, Pushed, RemoteError, Session, Stored, StoredSegment,
};
use crate::replica::{Accepted, Claim, Covers, Origin, Removed, SegmentId, Stamp, WriterId, merge};

/// Minimum number of small segments for a merge. Fewer are merged only if they contain bytes that
/// were removed at least a week ago.
const MANY: usize = 64;
/// A segment of at least this many bytes counts as large. A large segment is merged only to drop
/// bytes that were removed at least a week ago. Otherwise the merge would copy many bytes to save
/// one request.
const LARGE: u64 = 16 << 20;
const MOST_BYTES: u64 = 32 << 20;
/// A segment with at least this many bytes of records counts as large. A merge has at most
/// `MOST_RECORDS` bytes of records. Readers accept twice as many, so the records still fit if
/// renames have made paths longer.
const LARGE_RECORDS: u64 = MOST_RECORDS / 2;
const MOST_RECORDS: u64 = 16 << 20;
const DAY: u64 = 24 * HOUR;
/// Number of names in a page of a list.
const PAGE: usize = 1000;

type SegmentList = BTreeMap<SegmentId, Listed>;

type Sizes = BTreeMap<SegmentId, SegmentSize>;

#[derive(Debug, Clone, Copy, Default)]
struct SegmentSize {
    bytes: u64,
    records: u64,
}

impl SegmentSize {
    fn is_small(self) -> bool {
        self.bytes < LARGE && self.records < LARGE_RECORDS
    }

    fn and(self, other: Self) -> Self {
        Self { bytes: self.bytes + other.bytes, records: self.records + other.records }
    }

    fn fits(self) -> bool {
        self.bytes <= MOST_BYTES && self.records <= MOST_RECORDS
    }
}

impl Push<'_> {
    /// Merges segments if there are many, or if segments contain bytes that were removed at least a
    /// week ago. Merges as many as fit into one segment. The caller must run a look first. Does
    /// nothing while a segment is being sent or is unreadable. `found` are the parsed segments after
    /// the look, and `stale` are the segments with such bytes: see [`stale()`].
    pub(crate) fn merge(
        &self,
        (looked, found): (&LookReport, &Pieces),
        stale: BTreeSet<SegmentId>,
        session: &mut Session,
    ) -> Result<Pushed, RemoteError> {
        let mut pushed = Pushed { again: self.notes.intent()?.is_some(), ..Pushed::default() };
        if pushed.again || !found.refused.is_empty() || !looked.refused.is_empty() {
            return Ok(pushed);
        }
        let part = self.to_merge((looked, found), stale)?;
        if part.is_empty() {
            return Ok(pushed);
        }
        match self.merge_part(&found.pieces, &part, session, &mut pushed) {
            // Renames have made the records too large for one segment. The segments stay as they
            // are.
            Err(RemoteError::Segment { source: FormatError::TooLarge { .. }, .. }) => {}
            merged => pushed.again = !merged?,
        }
        Ok(pushed)
    }

    pub(crate) fn to_merge(
        &self,
        (looked, found): (&LookReport, &Pieces),
        stale: BTreeSet<SegmentId>,
    ) -> Result<BTreeSet<SegmentId>, RemoteError> {
        let (pieces, log) = (&found.pieces, log(looked));
        if stale.is_empty() && pieces.len() < MANY {
            return Ok(stale);
        }
        let there = pieces.iter().filter_map(|piece| Some((piece.id, log.get(&piece.id)?.size)));
        let sizes = there.map(|(id, bytes)| {
            let size = |head: SegmentHead| SegmentSize { bytes, records: head.merged_bytes() };
            self.notes.head(id).map(|head| (id, size(head)))
        });
        let sizes = sizes.collect::<Result<Sizes, RemoteError>>()?;
        Ok(fitting(stale, &sizes))
    }

    /// Returns the segments to delete: segments that have been covered for long enough, covered ones
    /// of `stale`, and the last segment if it has been empty for a week.
    ///
    /// A covered segment stays for an hour after its merge if all hosts that published something in
    /// the day before have published something since, and otherwise for a day. Each host looks
    /// [`LOOK_AGE`] before it publishes, at most, so these hosts know the merge then, and send
    /// nothing under the names of deleted segments. The delay also protects hosts that list the
    /// bucket in pages, since a list that takes longer than [`LOOK_AGE`] is repeated. Without it, a
    /// list could miss both a merge and the segments that it covers. Stale segments are not kept if
    /// a list has one page.
    pub(crate) fn to_sweep(
        &self,
        looked: &LookReport,
        pieces: &[Piece],
        (clock, stale): (StoreClock, &BTreeSet<SegmentId>),
    ) -> Result<Vec<Listed>, RemoteError> {
        let log = log(looked);
        let latest = latest_of_writers(&log);
        // A merge that another one covers counts, too. Otherwise frequent merges would keep all.
        let mut useless: BTreeSet<SegmentId> = self.notes.with_covers(|covers| {
            let merges = covers.iter().filter_map(|(id, covers)| Some((id, log.get(id)?, covers)));
            let useless = merges.flat_map(|(merge, listed, covers)| {
                let rests = has_rested((*merge, listed.modified_ms), &latest, clock);
                let is_stale = |id: &SegmentId| log.len() < PAGE && stale.contains(id);
                covers.keys().copied().filter(move |id| rests || is_stale(id))
            });
            useless.collect()
        })?;
        if let [piece] = pieces
            && piece.says_nothing()
            && log.len() == 1
            && log.values().all(|listed| clock.now.saturating_sub(listed.modified_ms) >= WEEK)
        {
            useless.insert(piece.id);
        }
        Ok(useless.into_iter().filter_map(|id| log.get(&id).cloned()).collect())
    }

    /// Merges the segments `part` of `all` into one. Returns false if the caller must start over.
    pub(crate) fn merge_part(
        &self,
        all: &[Piece],
        part: &BTreeSet<SegmentId>,
        session: &mut Session,
        pushed: &mut Pushed,
    ) -> Result<bool, RemoteError> {
        let Some(segment) = self.next_id(&self.notes.progress()?)? else {
            self.renew_writer(session, pushed)?;
            return Ok(false);
        };
        let digest = |id: &SegmentId| self.notes.digest(*id).map(|digest| (*id, digest));
        let part = part.iter().map(digest).collect::<Result<Covers, RemoteError>>()?;
        let merged = merge(segment, &all.iter().collect::<Vec<_>>(), &part);
        let bytes = self.write(&merged)?;
        let digest = blake3::hash(&bytes).to_hex().to_string();
        let (accepted, stamp, since) = (Accepted::default(), merged.latest(), (self.now)());
        let intent = Intent { segment, accepted, messages: None, stamp, since, digest };
        self.notes.keep_intent(&intent, &bytes)?;
        self.finish(&intent, &bytes, session, pushed)
    }

    fn write(&self, merged: &Piece) -> Result<Vec<u8>, RemoteError> {
        let refused = RemoteError::of(merged.id);
        let mut writer = SegmentWriter::new(merged.id, merged.covers.clone());
        let mut open: Option<StoredSegment> = None;
        for copied in copied(merged) {
            let segment = match open.take().filter(|open| open.id() == copied.from) {
                Some(segment) => segment,
                None => self.notes.open_segment(copied.from)?,
            };
            open = Some(self.copy(segment, &copied, &mut writer)?);
        }
        for (artifact, to) in &merged.moves {
            let (artifact, to, stamp) = (*artifact, to.to.clone(), to.stamp);
            writer.movement(MoveLine { artifact, to, stamp }).map_err(&refused)?;
        }
        for line in remove_lines(&merged.removed) {
            writer.remove(line).map_err(&refused)?;
        }
        writer.finish().map_err(&refused)
    }

    fn copy(
        &self,
        mut segment: StoredSegment,
        copied: &CopiedLine<'_>,
        writer: &mut SegmentWriter,
    ) -> Result<StoredSegment, RemoteError> {
        let line = segment.line(&copied.line)?;
        let (stamp, origin) = (copied.stamp, Some(copied.origin));
        let written = match (line, copied.claim) {
            (Line::Put(line), Some(claim)) => {
                let mut found = frames(&segment, &line)?;
                if found.is_none() {
                    segment = self.whole(segment.id())?;
                    found = frames(&segment, &line)?;
                }
                put(writer, *line, (copied.origin, claim), found.unwrap_or_default())
            }
            (Line::Message(line), _) => {
                writer.message(MessageLine { text: line.text, stamp, origin }).map(drop)
            }
            _ => Ok(()),
        };
        written.map_err(RemoteError::of(copied.from))?;
        Ok(segment)
    }

    fn whole(&self, id: SegmentId) -> Result<StoredSegment, RemoteError> {
        let key = segment_key(self.notes.conversation(), id);
        let bytes = self.bucket.get(&key, None, (self.deadline)())?;
        self.notes.keep_segment(id, &bytes)?;
        self.notes.open_segment(id)
    }
}

fn log(looked: &LookReport) -> SegmentList {
    let named = |listed: &Listed| Some((segment_of(&listed.name)?, listed.clone()));
    looked.segments.iter().filter_map(named).collect()
}

/// Returns the segments to merge: the stale ones, and the small ones if there are many, up to the
/// limits of one merge. Two small segments always fit, so each merge reduces their number.
fn fitting(stale: BTreeSet<SegmentId>, sizes: &Sizes) -> BTreeSet<SegmentId> {
    let small = sizes.iter().filter(|(_, size)| size.is_small());
    let small: Vec<SegmentId> = small.map(|(id, _)| *id).collect();
    let many = if small.len() >= MANY { small } else { Vec::new() };
    let (mut part, mut sum) = (BTreeSet::new(), SegmentSize::default());
    for id in stale.into_iter().chain(many) {
        let after = sum.and(sizes.get(&id).copied().unwrap_or_default());
        if (part.is_empty() || after.fits()) && part.insert(id) {
            sum = after;
        }
    }
    part
}

fn remove_lines(removed: &Removed) -> Vec<RemoveLine> {
    let origins: Vec<_> = removed.origins.iter().copied().collect();
    let segments: Vec<_> = removed.segments.iter().copied().collect();
    let origins = origins.chunks(MOST_REMOVED).map(|some| {
        let origins = some.iter().copied().collect();
        RemoveLine { origins, ..RemoveLine::default() }
    });
    let segments = segments.chunks(MOST_REMOVED).map(|some| {
        let segments = some.iter().copied().collect();
        RemoveLine { segments, ..RemoveLine::default() }
    });
    origins.chain(segments).collect()
}

/// Returns the segments with bytes that were removed at least a week ago at `now`, by the clock of
/// the object store. Without `now`, uses the time of the latest segment. If that time is too early,
/// the merge is only delayed.
pub(super) fn stale(
    pieces: &[Piece],
    looked: &LookReport,
    now: Option<u64>,
) -> BTreeSet<SegmentId> {
    let log = log(looked);
    let latest = log.values().map(|listed| listed.modified_ms).max();
    let now = now.or(latest).unwrap_or_default();
    let age = |listed: &Listed| now.saturating_sub(listed.modified_ms);
    let is_old = |id: &SegmentId| log.get(id).is_some_and(|listed| age(listed) >= WEEK);
    let old: Vec<_> = pieces.iter().filter(|piece| is_old(&piece.id)).collect();
    let is_gone = |(origin, claim): (&Origin, &Claim<Stored>)| {
        claim.artifact.small && old.iter().any(|piece| piece.removed.contains(origin))
    };
    let stale = pieces.iter().filter(|piece| piece.artifacts.iter().any(is_gone));
    stale.map(|piece| piece.id).filter(|id| log.contains_key(id)).collect()
}

/// Returns the time of the latest segment of each writer.
fn latest_of_writers(log: &SegmentList) -> BTreeMap<WriterId, u64> {
    let mut latest: BTreeMap<WriterId, u64> = BTreeMap::new();
    for (id, listed) in log {
        let latest = latest.entry(id.writer).or_default();
        *latest = listed.modified_ms.max(*latest);
    }
    latest
}

/// Returns true if the segments that a merge covers can be deleted. `at` is the time of the merge.
/// `latest` has the time of the latest segment of each writer.
fn has_rested(
    (merge, at): (SegmentId, u64),
    latest: &BTreeMap<WriterId, u64>,
    StoreClock { now, is_exact }: StoreClock,
) -> bool {
    let age = now.saturating_sub(at);
    let has_passed = |(writer, latest): (&WriterId, &u64)| {
        let look = at + LOOK_AGE.as_millis() as u64;
        *writer == merge.writer || *latest >= look || now.saturating_sub(*latest) >= DAY
    };
    age >= DAY || is_exact && age >= HOUR && latest.iter().all(has_passed)
}

struct CopiedLine<'a> {
    from: SegmentId,
    line: std::ops::Range<u32>,
    origin: Origin,
    stamp: Stamp,
    claim: Option<&'a Claim<Stored>>,
}

fn copied(merged: &Piece) -> Vec<CopiedLine<'_>> {
    let artifacts = merged.artifacts.iter().map(|(origin, claim)| {
        let Stored { segment, line, .. } = &claim.artifact;
        let (from, line, stamp) = (*segment, line.clone(), claim.stamp);
        CopiedLine { from, line, origin: *origin, stamp, claim: Some(claim) }
    });
    let messages = merged.messages.iter().map(|(origin, (stamp, told))| {
        let (from, line) = (told.segment, told.line.clone());
        CopiedLine { from, line, origin: *origin, stamp: *stamp, claim: None }
    });
    let mut copied: Vec<_> = artifacts.chain(messages).collect();
    copied.sort_by_key(|each| (each.from, each.line.start));
    copied
}

/// Two frames of an artifact in its segment: one for its bytes and one for its parts. A frame is
/// empty if the artifact does not have it.
type ArtifactFrames = (Vec<u8>, Vec<u8>);

/// Returns the frames of an artifact. Returns `None` if they are not stored locally.
fn frames(segment: &StoredSegment, line: &PutLine) -> Result<Option<ArtifactFrames>, RemoteError> {
    let bytes = match &line.place {
        Place::Inside { .. } => segment.frame(&line.place)?,
        Place::Empty | Place::Object(_) => Some(Vec::new()),
    };
    let parts = match &line.parts {
        Some(parts) => segment.parts_frame(parts)?,
        None => Some(Vec::new()),
    };
    Ok(bytes.zip(parts))
}

fn put(
    writer: &mut SegmentWriter,
    mut line: PutLine,
    (origin, claim): (Origin, &Claim<Stored>),
    (bytes_frame, parts_frame): ArtifactFrames,
) -> Result<(), FormatError> {
    line.record.path.clone_from(&claim.path);
    (line.stamp, line.origin) = (claim.stamp, Some(origin));
    let bytes = match std::mem::take(&mut line.place) {
        Place::Empty => PutBytes::Empty,
        Place::Inside { size, .. } => PutBytes::Packed { frame: &bytes_frame, size },
        Place::Object(object) => PutBytes::Object(object),
    };
    let parts = line.parts.take();
    let parts = parts.as_ref().map(|parts| PutParts::Packed { frame: &parts_frame, parts });
    writer.put(line, bytes, parts).map(drop)
}

#[cfg(test)]
mod tests;
