//! A look compares the segments in the bucket with the local ones, and fetches new ones.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{ControlFlow, Range};
use std::{fmt, mem};

use bytes::{Bytes, BytesMut};

use crate::bucket::{
    BucketError, Deadline, FormatError, Listed, NameRange, NewNames, ObjectName, PutLine,
    SEGMENT_BYTES, SegmentHead, log_prefix, segment_key, segment_name, segment_of,
};
use crate::remote::error::Unknown;
use crate::remote::notes::WriterProgress;
use crate::remote::pieces::{ReadPieces, piece, piece_with, pieces_with};
use crate::remote::push::LOOK_AGE;
use crate::remote::{Moment, Notes, Objects, Piece, Pieces, RemoteError, StoredSegment, pieces};
use crate::replica::{Removed, SegmentId, Stamp, State};
use ctxfs_core::model::Component;
use ctxfs_core::parallel;

/// Maximum size in bytes of a segment that is fetched with one request.
const WHOLE: u64 = 1 << 20;
/// Number of bytes in the first request for a larger segment.
const FIRST: u64 = 256 << 10;
/// Maximum number of bytes that are fetched concurrently, unless a single segment is larger.
const AT_ONCE: u64 = 16 << 20;
/// Maximum number of segments that are fetched before they are stored. A look that is cut off
/// loses at most as many.
const BATCH: usize = 128;
/// Number of segments in the first batch of several. A merge among them saves other requests.
const FIRST_BATCH: usize = 16;
/// Maximum number of lists per look. If a segment is merged between a list and the request for the
/// segment, the merge is in the next list.
const LISTS: usize = 3;

/// Result of a look. `new` are the segments that were fetched. `gone` are local segments that were
/// dropped because they left the bucket and are covered or empty. `segments` are the segments that
/// were listed, and `there` are all in the bucket, with those whose names were skipped. `is_copied` is
/// true if a copy of this host also publishes: the bucket has segments of this host's writer id that
/// this host did not write.
///
/// If `refused`, `lost`, `missing`, `absent` or `gaps` has entries, this host does not know the
/// content of some segments, and nothing may be deleted from the bucket.
///
/// `refused` are segments that arrived damaged or in a newer format. Damaged ones are fetched again
/// only by a pull or a check. Each look fetches those in a newer format again. `lost` are segments
/// of this host that left the bucket without being covered, and `missing` are such segments of
/// other hosts. The local copies stay. `absent` are segments that the bucket lists but cannot
/// return. `gaps` has the first segment of each gap in the segment numbers of a writer. This
/// segment was published, but is now neither present nor covered.
#[derive(Debug, Default)]
#[expect(missing_docs, reason = "described above")]
pub struct LookReport {
    pub new: Vec<SegmentId>,
    pub gone: Vec<SegmentId>,
    pub refused: Vec<(SegmentId, RemoteError)>,
    pub lost: Vec<SegmentId>,
    pub missing: Vec<SegmentId>,
    pub absent: Vec<SegmentId>,
    pub gaps: Vec<SegmentId>,
    pub is_copied: bool,
    pub segments: Vec<Listed>,
    pub there: BTreeSet<SegmentId>,
    read: ReadPieces,
}

impl LookReport {
    /// Parses all local segments as [`pieces`](super::pieces()) does, but reuses those that this
    /// look has already parsed.
    pub fn pieces(&mut self, notes: &Notes) -> Result<Pieces, RemoteError> {
        pieces_with(notes, mem::take(&mut self.read))
    }
}

/// Runs a look. Makes one request for the list, and one for each new segment, or two for a large
/// one. The latest segments come first, so that a merge saves the requests for the segments that it
/// covers. Segments that arrived before a failure, or before the process ended, are kept.
///
/// `deadline` returns the deadline of a request that starts now. The caller must hold the push lock
/// and must not push during the look.
pub fn look(
    bucket: &dyn Objects,
    notes: &Notes,
    deadline: &dyn Fn() -> Deadline,
) -> Result<LookReport, RemoteError> {
    look_with(bucket, notes, deadline, LookOptions::default())
}

/// Like [`look()`], but may skip names in the list that are known here. The report then lacks them
/// in `segments`, and does not tell which local segments left the bucket.
pub(super) fn look_at_news(
    bucket: &dyn Objects,
    notes: &Notes,
    deadline: &dyn Fn() -> Deadline,
) -> Result<LookReport, RemoteError> {
    look_with(bucket, notes, deadline, LookOptions { skips: true, ..LookOptions::default() })
}

/// Runs a look on behalf of readers. Fails with [`RemoteError::NoRoom`] if new segments exceed the
/// limits of downloads. Pushes ignore these limits. `listed` has the segments in the bucket if the
/// caller has already listed them. If `skips` is true, known names may be skipped, as in
/// [`look_at_news`].
pub(super) fn look_for_readers(
    bucket: &dyn Objects,
    notes: &Notes,
    deadline: &dyn Fn() -> Deadline,
    (listed, skips): (Option<Vec<Listed>>, bool),
) -> Result<LookReport, RemoteError> {
    let options = LookOptions { listed, skips, is_limited: true };
    look_with(bucket, notes, deadline, options)
}

#[derive(Default)]
struct LookOptions {
    listed: Option<Vec<Listed>>,
    skips: bool,
    is_limited: bool,
}

fn look_with(
    bucket: &dyn Objects,
    notes: &Notes,
    deadline: &dyn Fn() -> Deadline,
    options: LookOptions,
) -> Result<LookReport, RemoteError> {
    let progress = notes.progress()?;
    let mut looking = LookRun {
        bucket,
        notes,
        deadline,
        progress,
        latest: Stamp::default(),
        here: BTreeSet::new(),
        covered: BTreeSet::new(),
        skipped: Vec::new(),
        options,
        doubted: BTreeSet::new(),
        again: Vec::new(),
        removed: Removed::default(),
        looked: LookReport::default(),
    };
    let came = looking.fetch_all();
    if looking.latest > progress.stamp {
        notes.see(looking.latest)?;
    }
    came?;
    looking.compare()?;
    notes.keep_look()?;
    Ok(looking.looked)
}

struct LookRun<'a> {
    bucket: &'a dyn Objects,
    notes: &'a Notes,
    deadline: &'a dyn Fn() -> Deadline,
    progress: WriterProgress,
    latest: Stamp,
    here: BTreeSet<SegmentId>,
    covered: BTreeSet<SegmentId>,
    skipped: Vec<NameRange>,
    options: LookOptions,
    /// Segments that arrived damaged once. A response may be truncated or changed in transit, so
    /// they are fetched a second time.
    doubted: BTreeSet<SegmentId>,
    again: Vec<WantedSegment>,
    removed: Removed,
    looked: LookReport,
}

#[derive(Clone, Copy)]
struct WantedSegment {
    id: SegmentId,
    size: u64,
}

impl LookRun<'_> {
    fn fetch_all(&mut self) -> Result<(), RemoteError> {
        for _ in 0..LISTS {
            let mut wanted = self.list()?;
            let (mut all_came, mut most) = (true, BATCH);
            if wanted.len() > BATCH {
                most = FIRST_BATCH;
            }
            while !wanted.is_empty() {
                let rest = wanted.split_off(batch_of(&wanted, most));
                all_came &= self.fetch(&wanted)?;
                (wanted, most) = (rest, BATCH);
                wanted.retain(|each| !self.covered.contains(&each.id));
            }
            let mut again = mem::take(&mut self.again);
            while !again.is_empty() {
                let rest = again.split_off(batch_of(&again, BATCH));
                all_came &= self.fetch(&again)?;
                again = rest;
            }
            if all_came {
                break;
            }
        }
        Ok(())
    }

    /// Lists the bucket. Returns the new segments, the latest first.
    fn list(&mut self) -> Result<Vec<WantedSegment>, RemoteError> {
        self.here = self.notes.segments()?.into_iter().collect();
        self.covered = self.notes.covered()?.ids().collect();
        let prefix = log_prefix(self.notes.conversation());
        let known = if self.options.skips { self.known_names() } else { Vec::new() };
        self.skipped = Vec::new();
        self.looked.segments = if let Some(listed) = self.options.listed.take() {
            listed
        } else {
            let new = list_promptly(self.bucket, &prefix, &known, self.deadline)?;
            self.skipped = new.skipped;
            new.listed
        };
        let mut known: BTreeSet<_> = self.here.union(&self.covered).copied().collect();
        known.extend(self.notes.refused()?);
        let listed = self.looked.segments.iter();
        let all =
            listed.filter_map(|each| Some((each.modified_ms, segment_of(&each.name)?, each.size)));
        let mut new: Vec<_> = all.filter(|(_, id, _)| !known.contains(id)).collect();
        new.sort_unstable_by_key(|(modified_ms, id, _)| Reverse((*modified_ms, *id)));
        let new = new.into_iter().map(|(_, id, size)| WantedSegment { id, size });
        let (wanted, huge): (Vec<_>, Vec<_>) = new.partition(|wanted| wanted.size <= SEGMENT_BYTES);
        for WantedSegment { id, .. } in huge {
            let too_large = FormatError::TooLarge { what: "a segment", most: SEGMENT_BYTES };
            self.refuse(id, RemoteError::of(id)(too_large))?;
        }
        Ok(wanted)
    }

    /// Returns, for each writer, the names of its first segments up to the first one that is
    /// neither here nor covered.
    fn known_names(&self) -> Vec<NameRange> {
        let mut ranges: Vec<(SegmentId, SegmentId)> = Vec::new();
        for id in self.here.union(&self.covered).copied() {
            match ranges.last_mut() {
                Some((_, last)) if last.next() == id => *last = id,
                _ if id.number == 1 => ranges.push((id, id)),
                _ => {}
            }
        }
        let names = ranges.into_iter().map(|(first, last)| [first, last].map(segment_name));
        names.map(|[first, last]| NameRange { first, last }).collect()
    }

    /// Fetches a batch of segments. Returns false if one of them is gone because it was merged.
    fn fetch(&mut self, batch: &[WantedSegment]) -> Result<bool, RemoteError> {
        let first = |each: &WantedSegment| (each.size > WHOLE).then_some(0..FIRST);
        let wanted = batch.iter().map(|each| (self.key(each.id), first(each)));
        let got = self.bucket.get_many(&wanted.collect::<Vec<_>>(), (self.deadline)());
        let mut batch_outcome = BatchOutcome { all_came: true, failure: None, rest: Vec::new() };
        let mut whole = Vec::new();
        for (each, bytes) in batch.iter().zip(got) {
            let Some(bytes) = batch_outcome.came(bytes) else { continue };
            match rest_of(each, &bytes) {
                Some(range) => batch_outcome.rest.push((each.id, bytes, range)),
                None => whole.push((*each, bytes)),
            }
        }
        self.keep(whole)?;
        let mut parts = mem::take(&mut batch_outcome.rest).into_iter().peekable();
        while parts.peek().is_some() {
            let some = taken_at_once(&mut parts);
            self.fetch_rest(some, &mut batch_outcome)?;
        }
        batch_outcome.failure.map_or(Ok(batch_outcome.all_came), |error| Err(error.into()))
    }

    fn fetch_rest(
        &mut self,
        parts: Vec<SegmentStart>,
        batch_outcome: &mut BatchOutcome,
    ) -> Result<(), RemoteError> {
        let wanted = parts.iter().map(|(id, _, range)| (self.key(*id), Some(range.clone())));
        let got = self.bucket.get_many(&wanted.collect::<Vec<_>>(), (self.deadline)());
        let mut came = Vec::with_capacity(parts.len());
        for ((id, first, range), rest) in parts.into_iter().zip(got) {
            let Some(rest) = batch_outcome.came(rest) else { continue };
            let mut whole = BytesMut::from(&first[..]);
            whole.extend_from_slice(&rest);
            drop((first, rest));
            came.push((WantedSegment { id, size: range.end.max(WHOLE + 1) }, whole.freeze()));
        }
        self.keep(came)
    }

    fn key(&self, id: SegmentId) -> String {
        segment_key(self.notes.conversation(), id)
    }

    fn keep(&mut self, came: Vec<(WantedSegment, Bytes)>) -> Result<(), RemoteError> {
        let came: Vec<_> =
            came.into_iter().map(|(wanted, bytes)| (wanted, kept_of(&wanted, bytes))).collect();
        let (mut kept, mut pieces) = (Vec::new(), Vec::new());
        for ((wanted, bytes), piece) in came.iter().zip(read_all(&came)) {
            let (wanted, id, bytes) = (*wanted, wanted.id, bytes.clone());
            match piece {
                Err(_) | Ok((_, false)) if self.doubted.insert(id) => self.again.push(wanted),
                Err(error) => self.refuse(id, error)?,
                Ok((piece, _)) => {
                    kept.push((id, bytes));
                    pieces.push(piece);
                }
            }
        }
        if self.options.is_limited {
            self.notes.check_room(&kept)?;
        }
        self.notes.keep_segments(&kept)?;
        for piece in pieces {
            self.latest = self.latest.max(piece.latest());
            self.removed.extend(&piece.removed);
            self.covered.extend(piece.covers.keys());
            self.looked.new.push(piece.id);
            self.looked.read.keep(piece);
        }
        Ok(())
    }

    fn refuse(&mut self, id: SegmentId, error: RemoteError) -> Result<(), RemoteError> {
        let is_newer =
            matches!(error, RemoteError::Segment { source: FormatError::Newer { .. }, .. });
        if !is_newer {
            self.notes.refuse_segment(id, &error.to_string())?;
        }
        self.looked.refused.push((id, error));
        Ok(())
    }

    fn compare(&mut self) -> Result<(), RemoteError> {
        let listed = self.looked.segments.iter().filter_map(|each| segment_of(&each.name));
        let skipped = self.here.iter().copied().filter(|id| self.is_skipped(*id));
        let listed: BTreeSet<SegmentId> = listed.chain(skipped).collect();
        let covered = self.notes.covered()?;
        let refused = self.notes.refused()?;
        for id in refused.iter().filter(|id| !listed.contains(id)) {
            self.notes.forget_segment(*id)?;
        }
        let not_there = self.here.difference(&listed).copied();
        let (gone, missing): (Vec<_>, Vec<_>) =
            not_there.partition(|id| covered.contains(id) || self.says_nothing(*id));
        self.forget_objects(&gone)?;
        for id in &gone {
            self.notes.forget_segment(*id)?;
        }
        self.looked.gone = gone;
        (self.looked.lost, self.looked.missing) =
            missing.into_iter().partition(|id| self.progress.writer == Some(id.writer));
        let known: BTreeSet<_> = self.notes.segments()?.into_iter().chain(refused).collect();
        let is_absent = |id: &&SegmentId| !known.contains(id) && !covered.contains(id);
        let named_only = listed.iter().filter(is_absent).filter(|id| !self.is_refused(**id));
        self.looked.absent = named_only.copied().collect();
        self.looked.gaps = covered.gaps(listed.iter().copied());
        self.looked.is_copied = self.is_copied(listed.iter().copied().chain(covered.ids()))?;
        self.looked.there = listed;
        Ok(())
    }

    /// Drops the cached blocks of objects that no living artifact uses after this look.
    /// Must run before the segments `gone` are dropped.
    fn forget_objects(&self, gone: &[SegmentId]) -> Result<(), RemoteError> {
        let mut objects = BTreeSet::new();
        for id in gone {
            let piece = self.notes.open_segment(*id).and_then(|segment| piece(&segment));
            objects.extend(piece.iter().flat_map(objects_of));
        }
        // Without local segments, no block has been cached.
        if self.here.is_empty() || (objects.is_empty() && self.removed.is_empty()) {
            return Ok(());
        }
        let pieces = pieces(self.notes)?.pieces;
        let artifacts = pieces.iter().flat_map(|piece| &piece.artifacts);
        let removed = artifacts.filter(|(origin, _)| self.removed.contains(origin));
        objects.extend(removed.filter_map(|(_, claim)| claim.artifact.object));
        let state = State::of(&pieces);
        let living = state.artifacts.values().filter_map(|claim| claim.artifact.object);
        let living: BTreeSet<ObjectName> = living.collect();
        objects.retain(|object| !living.contains(object));
        self.notes.forget_objects(&objects)
    }

    fn is_skipped(&self, id: SegmentId) -> bool {
        let name = segment_name(id);
        self.skipped.iter().any(|range| range.first <= name && name <= range.last)
    }

    fn says_nothing(&self, id: SegmentId) -> bool {
        self.notes.open_segment(id).is_ok_and(|segment| segment.records.is_empty())
    }

    fn is_refused(&self, id: SegmentId) -> bool {
        self.looked.refused.iter().any(|(refused, _)| *refused == id)
    }

    /// Returns true if the bucket has segments of this host's writer id that this host did not
    /// write.
    fn is_copied(&self, there: impl Iterator<Item = SegmentId>) -> Result<bool, RemoteError> {
        let WriterProgress { writer, next, .. } = self.progress;
        let mut unknown = there.filter(|id| Some(id.writer) == writer && id.number >= next);
        let sending = self.notes.intent()?.map(|(intent, _)| intent.segment);
        Ok(unknown.any(|id| Some(id) != sending))
    }
}

fn objects_of(piece: &Piece) -> impl Iterator<Item = ObjectName> {
    piece.artifacts.values().filter_map(|claim| claim.artifact.object)
}

/// Returns the part of a segment that is stored locally. A large segment is truncated after its
/// records.
fn kept_of(wanted: &WantedSegment, bytes: Bytes) -> Bytes {
    match SegmentHead::read(&bytes) {
        Ok(Some(head)) if wanted.size > WHOLE => {
            bytes.slice(..bytes.len().min(head.records_end as usize))
        }
        _ => bytes,
    }
}

fn read_all(came: &[(WantedSegment, Bytes)]) -> Vec<Result<(Piece, bool), RemoteError>> {
    let fits = came.iter().all(|(_, bytes)| unpacked(bytes) <= AT_ONCE);
    let threads = if fits { parallel::threads() } else { 1 };
    let read = |(): &mut (), number: usize| {
        let (wanted, bytes) = &came[number];
        StoredSegment::of(wanted.id, bytes.clone()).and_then(|segment| read(&segment))
    };
    let mut all = Vec::with_capacity(came.len());
    parallel::in_order(
        came.len(),
        threads,
        || (),
        read,
        |_| 0,
        |(), _, read| {
            all.push(read);
            ControlFlow::Continue(())
        },
    );
    all
}

fn unpacked(segment: &[u8]) -> u64 {
    SegmentHead::read(segment).ok().flatten().map_or(0, |head| head.merged_bytes())
}

fn read(segment: &StoredSegment) -> Result<(Piece, bool), RemoteError> {
    let mut has_bytes = true;
    let piece = piece_with(segment, |put| has_bytes = has_bytes && has_its_bytes(segment, put))?;
    Ok((piece, has_bytes))
}

fn has_its_bytes(segment: &StoredSegment, put: &PutLine) -> bool {
    match segment.bytes(&put.place) {
        Ok(None) => true,
        Ok(Some(bytes)) => put.digest() == Some(&*blake3::hash(&bytes).to_hex()),
        Err(_) => false,
    }
}

type SegmentStart = (SegmentId, Bytes, Range<u64>);

struct BatchOutcome {
    all_came: bool,
    failure: Option<BucketError>,
    rest: Vec<SegmentStart>,
}

impl BatchOutcome {
    fn came(&mut self, bytes: Result<Bytes, BucketError>) -> Option<Bytes> {
        match bytes {
            Ok(bytes) => return Some(bytes),
            Err(error) if error.is_absent() => self.all_came = false,
            Err(error) => self.failure = self.failure.take().or(Some(error)),
        }
        None
    }
}

fn rest_of(wanted: &WantedSegment, bytes: &[u8]) -> Option<Range<u64>> {
    let here = bytes.len() as u64;
    let end = match SegmentHead::read(bytes) {
        Ok(Some(head)) => head.records_end,
        Ok(None) => wanted.size,
        Err(_) => here,
    };
    (wanted.size > here && end > here).then_some(here..end.min(wanted.size))
}

fn taken_at_once(
    parts: &mut std::iter::Peekable<impl Iterator<Item = SegmentStart>>,
) -> Vec<SegmentStart> {
    let (mut taken, mut bytes) = (Vec::new(), 0);
    let length = |(_, _, range): &SegmentStart| range.end - range.start;
    while let Some(part) = parts.next_if(|part| bytes == 0 || bytes + length(part) <= AT_ONCE) {
        bytes += length(&part);
        taken.push(part);
    }
    taken
}

/// Lists names below `prefix`, as [`Objects::list_new`] does. Repeats a list that takes long: a host
/// that was suspended between two pages may have missed a merge and the segments that it covers.
pub(super) fn list_promptly(
    bucket: &dyn Objects,
    prefix: &str,
    known: &[NameRange],
    deadline: &dyn Fn() -> Deadline,
) -> Result<NewNames, BucketError> {
    loop {
        let since = Moment::now();
        let new = bucket.list_new(prefix, known, deadline())?;
        if Moment::now().since(&since) < LOOK_AGE {
            return Ok(new);
        }
    }
}

/// Returns the number of segments at the start of `wanted` that are fetched together.
fn batch_of(wanted: &[WantedSegment], most: usize) -> usize {
    let mut bytes = 0;
    let fits = |each: &&WantedSegment| {
        let has_room = bytes < AT_ONCE;
        bytes += each.size.min(WHOLE);
        has_room
    };
    wanted.iter().take(most).take_while(fits).count()
}

impl LookReport {
    /// Returns an error if segments are missing, absent or unreadable, and `None` otherwise. After
    /// such an error, nothing may be deleted, because only these segments may name an object that
    /// seems unused. `unreadable` are local segments that were refused.
    pub(crate) fn incomplete_log(
        &self,
        notes: &Notes,
        unreadable: &[(SegmentId, RemoteError)],
    ) -> Result<Option<RemoteError>, RemoteError> {
        let refused = self.refused.iter().chain(unreadable).map(|(id, _)| *id);
        let refused = refused.chain(notes.refused()?).map(|id| (id, Unknown::Unreadable));
        let absent = self.absent.iter().map(|id| (*id, Unknown::Absent));
        let gaps = self.gaps.iter().map(|id| (*id, Unknown::Missing));
        let gone = self.lost.iter().chain(&self.missing).map(|id| (*id, Unknown::Missing));
        let unknown: BTreeMap<_, _> = gone.chain(gaps).chain(absent).chain(refused).collect();
        let (others, first) = (unknown.len().saturating_sub(1), unknown.into_iter().next());
        let conversation = notes.conversation().to_text();
        Ok(first.map(|(segment, why)| RemoteError::Blind { conversation, segment, why, others }))
    }

    pub(crate) fn missing_in_bucket(&self) -> Vec<SegmentId> {
        let all = [&self.lost, &self.missing, &self.absent, &self.gaps];
        let all: BTreeSet<SegmentId> = all.into_iter().flatten().copied().collect();
        all.into_iter().collect()
    }
}

pub(super) const MOST_CONVERSATIONS: usize = 10_000;

/// Runs looks and applies the changes that they find. The implementations are a
/// [`Tier`](crate::remote::Tier) in this process, and a client of another process.
pub trait Looker: fmt::Debug + Send + Sync {
    /// Runs a look at the conversation `at`. If `at` is `None`, lists the conversations of the
    /// bucket. Returns within a bounded time.
    fn look_now(&self, at: Option<&Component>) -> Result<LookOutcome, RemoteError>;

    /// Returns the reason why looks are impossible, as a text for users. Returns `None` if looks
    /// are possible, which is the default.
    fn trouble(&self) -> Option<String> {
        None
    }
}

/// Outcome of a look. `is_answered` is true if the bucket answered. `conversations` are the
/// conversations in the bucket, or `None` if the look did not list them.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "described above")]
pub struct LookOutcome {
    pub is_answered: bool,
    pub conversations: Option<Vec<Component>>,
}

#[cfg(test)]
mod tests;
