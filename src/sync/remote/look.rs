//! A look into the bucket: what is new of a conversation there, and what is gone.

mod blindness;

use std::collections::BTreeSet;
use std::iter::Peekable;
use std::mem;
use std::ops::Range;

use bytes::{Bytes, BytesMut};

use crate::bucket::{
    BucketError, Deadline, FormatError, Listed, ObjectName, PutLine, SEGMENT_BYTES, SegmentHead,
    log_prefix, segment_key, segment_of,
};
use crate::remote::notes::Progress;
use crate::remote::pieces::{ReadPieces, piece, piece_with, pieces_with};
use crate::remote::{Notes, Objects, Piece, Pieces, RemoteError, StoredSegment, pieces};
use crate::replica::{Removed, SegmentId, Stamp, State};
use ctxfs_core::materialize::side_by_side;
use ctxfs_core::materialize::side_by_side::Part;

/// The largest segment that is fetched as a whole.
const WHOLE: u64 = 1 << 20;
/// The first bytes of a larger one that are.
const FIRST: u64 = 256 << 10;
/// The bytes that are fetched at once, in several requests, unless one alone has more.
const AT_ONCE: u64 = 16 << 20;
/// The lists of one look: what was merged between a list and a request is in the next one.
const LISTS: usize = 3;

/// What a look found.
#[derive(Debug, Default)]
pub struct Looked {
    /// The segments that came.
    pub new: Vec<SegmentId>,
    /// Those that were forgotten here, as they are gone from the bucket and say nothing any more.
    pub gone: Vec<SegmentId>,
    /// Those that came and cannot be read. They are not asked for again before a pull or a check,
    /// but for those of a newer ctxfs.
    pub refused: Vec<(SegmentId, RemoteError)>,
    /// Segments of this host that are gone from the bucket, and that nothing covers.
    pub lost: Vec<SegmentId>,
    /// The same of other hosts. They stay here.
    pub missing: Vec<SegmentId>,
    /// Segments that the list names, and that the bucket does not have.
    pub absent: Vec<SegmentId>,
    /// The first segment of each gap in the numbers of a writer: the bucket had it, and neither has
    /// it now nor has a merge that covers it.
    pub gaps: Vec<SegmentId>,
    /// True if a copy of this host publishes too: the bucket has segments of its writer that it
    /// does not know.
    pub is_copied: bool,
    /// All segments in the bucket.
    pub segments: Vec<Listed>,
    /// What came, as it was read.
    read: ReadPieces,
}

impl Looked {
    /// Reads all segments that are here, as [`pieces`](super::pieces()) does. What came is read
    /// already.
    pub fn pieces(&mut self, notes: &Notes) -> Result<Pieces, RemoteError> {
        pieces_with(notes, mem::take(&mut self.read))
    }
}

/// Looks into the bucket. Costs one list, and a request for each new segment, or two for a large
/// one. What came before a failure is kept.
///
/// For one caller at a time, who does not push in the meantime.
pub fn look(
    bucket: &dyn Objects,
    notes: &Notes,
    deadline: Deadline,
) -> Result<Looked, RemoteError> {
    look_with(bucket, notes, deadline, (None, false))
}

/// Looks for readers: fails with [`RemoteError::NoRoom`] if new segments exceed the limits of
/// downloads. A push needs them in any case. The caller may have `listed` the segments already.
pub(super) fn look_for_readers(
    bucket: &dyn Objects,
    notes: &Notes,
    deadline: Deadline,
    listed: Option<Vec<Listed>>,
) -> Result<Looked, RemoteError> {
    look_with(bucket, notes, deadline, (listed, true))
}

fn look_with(
    bucket: &dyn Objects,
    notes: &Notes,
    deadline: Deadline,
    (listed, is_limited): (Option<Vec<Listed>>, bool),
) -> Result<Looked, RemoteError> {
    let progress = notes.progress()?;
    let mut looking = Looking {
        bucket,
        notes,
        deadline,
        progress,
        latest: Stamp::default(),
        here: BTreeSet::new(),
        listed,
        is_limited,
        doubted: BTreeSet::new(),
        again: Vec::new(),
        removed: Removed::default(),
        looked: Looked::default(),
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

struct Looking<'a> {
    bucket: &'a dyn Objects,
    notes: &'a Notes,
    deadline: Deadline,
    progress: Progress,
    /// The latest stamp in what came.
    latest: Stamp,
    /// What was here before the last list.
    here: BTreeSet<SegmentId>,
    /// What the caller has listed.
    listed: Option<Vec<Listed>>,
    /// True if downloads stay within their limits.
    is_limited: bool,
    /// What came wrong once: an answer may be cut or changed on its way.
    doubted: BTreeSet<SegmentId>,
    /// Those of it that are to be asked for again.
    again: Vec<Wanted>,
    /// What the segments that came remove.
    removed: Removed,
    looked: Looked,
}

/// A segment that is to be fetched.
#[derive(Clone, Copy)]
struct Wanted {
    id: SegmentId,
    size: u64,
}

impl Looking<'_> {
    fn fetch_all(&mut self) -> Result<(), RemoteError> {
        for _ in 0..LISTS {
            let wanted = self.list()?;
            let mut all_came = true;
            for batch in batches(&wanted) {
                all_came &= self.fetch(batch)?;
            }
            for batch in batches(&mem::take(&mut self.again)) {
                all_came &= self.fetch(batch)?;
            }
            if all_came {
                break;
            }
        }
        Ok(())
    }

    /// Lists the segments. Returns those that are to be fetched.
    fn list(&mut self) -> Result<Vec<Wanted>, RemoteError> {
        self.here = self.notes.segments()?.into_iter().collect();
        let prefix = log_prefix(self.notes.conversation());
        self.looked.segments = match self.listed.take() {
            Some(listed) => listed,
            None => self.bucket.list(&prefix, self.deadline)?,
        };
        let mut known = self.here.clone();
        known.extend(self.notes.refused()?);
        known.extend(self.notes.covered()?.ids());
        let listed = self.looked.segments.iter();
        let all = listed.filter_map(|each| Some((segment_of(&each.name)?, each.size)));
        let new = all.filter(|(id, _)| !known.contains(id));
        let (wanted, huge): (Vec<_>, Vec<_>) = new.partition(|(_, size)| *size <= SEGMENT_BYTES);
        for (id, _) in huge {
            let too_large = FormatError::TooLarge { what: "a segment", most: SEGMENT_BYTES };
            self.refuse(id, RemoteError::of(id)(too_large))?;
        }
        Ok(wanted.into_iter().map(|(id, size)| Wanted { id, size }).collect())
    }

    /// Fetches some segments at once. Returns false if one is gone: it was merged.
    fn fetch(&mut self, batch: &[Wanted]) -> Result<bool, RemoteError> {
        let first = |each: &Wanted| (each.size > WHOLE).then_some(0..FIRST);
        let wanted = batch.iter().map(|each| (self.key(each.id), first(each)));
        let got = self.bucket.get_many(&wanted.collect::<Vec<_>>(), self.deadline);
        let mut coming = Coming { all_came: true, failure: None, rest: Vec::new() };
        let mut whole = Vec::new();
        for (each, bytes) in batch.iter().zip(got) {
            let Some(bytes) = coming.came(bytes) else { continue };
            match rest_of(each, &bytes) {
                Some(range) => coming.rest.push((each.id, bytes, range)),
                None => whole.push((*each, bytes)),
            }
        }
        self.keep(whole)?;
        let mut parts = mem::take(&mut coming.rest).into_iter().peekable();
        while parts.peek().is_some() {
            let some = taken_at_once(&mut parts);
            self.fetch_rest(some, &mut coming)?;
        }
        coming.failure.map_or(Ok(coming.all_came), |error| Err(error.into()))
    }

    /// Fetches the rest of the records of large segments.
    fn fetch_rest(
        &mut self,
        parts: Vec<Beginning>,
        coming: &mut Coming,
    ) -> Result<(), RemoteError> {
        let wanted = parts.iter().map(|(id, _, range)| (self.key(*id), Some(range.clone())));
        let got = self.bucket.get_many(&wanted.collect::<Vec<_>>(), self.deadline);
        let mut came = Vec::with_capacity(parts.len());
        for ((id, first, range), rest) in parts.into_iter().zip(got) {
            let Some(rest) = coming.came(rest) else { continue };
            let mut whole = BytesMut::from(&first[..]);
            whole.extend_from_slice(&rest);
            drop((first, rest));
            came.push((Wanted { id, size: range.end.max(WHOLE + 1) }, whole.freeze()));
        }
        self.keep(came)
    }

    fn key(&self, id: SegmentId) -> String {
        segment_key(self.notes.conversation(), id)
    }

    /// Keeps segments that came, as far as they can be read. One that came wrong is asked for again
    /// once.
    fn keep(&mut self, came: Vec<(Wanted, Bytes)>) -> Result<(), RemoteError> {
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
        if self.is_limited {
            self.notes.check_room(&kept)?;
        }
        self.notes.keep_segments(&kept)?;
        for piece in pieces {
            self.latest = self.latest.max(piece.latest());
            self.removed.extend(&piece.removed);
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

    /// Compares what is here with what is there.
    fn compare(&mut self) -> Result<(), RemoteError> {
        let listed = self.looked.segments.iter().filter_map(|each| segment_of(&each.name));
        let listed: BTreeSet<SegmentId> = listed.collect();
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
        Ok(())
    }

    /// Removes what is kept of objects that no artifact has any more, as far as this look found
    /// that out. It forgets the segments `gone` next.
    fn forget_objects(&self, gone: &[SegmentId]) -> Result<(), RemoteError> {
        let mut objects = BTreeSet::new();
        for id in gone {
            let piece = self.notes.open_segment(*id).and_then(|segment| piece(&segment));
            objects.extend(piece.iter().flat_map(objects_of));
        }
        // Where nothing was known, nothing was fetched.
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

    fn says_nothing(&self, id: SegmentId) -> bool {
        self.notes.open_segment(id).is_ok_and(|segment| segment.records.is_empty())
    }

    /// Returns true if a segment came and cannot be read.
    fn is_refused(&self, id: SegmentId) -> bool {
        self.looked.refused.iter().any(|(refused, _)| *refused == id)
    }

    /// Returns true if there are segments of this host's writer that it does not know.
    fn is_copied(&self, there: impl Iterator<Item = SegmentId>) -> Result<bool, RemoteError> {
        let Progress { writer, next, .. } = self.progress;
        let mut unknown = there.filter(|id| Some(id.writer) == writer && id.number >= next);
        let sending = self.notes.intent()?.map(|(intent, _)| intent.segment);
        Ok(unknown.any(|id| Some(id) != sending))
    }
}

fn objects_of(piece: &Piece) -> impl Iterator<Item = ObjectName> {
    piece.artifacts.values().filter_map(|claim| claim.artifact.object)
}

/// Returns what is kept of a segment that came: of a large one all but the bytes of artifacts.
fn kept_of(wanted: &Wanted, bytes: Bytes) -> Bytes {
    match SegmentHead::read(&bytes) {
        Ok(Some(head)) if wanted.size > WHOLE => {
            bytes.slice(..bytes.len().min(head.records_end as usize))
        }
        _ => bytes,
    }
}

/// Reads segments, side by side unless one takes much memory: that is most of the time of a long
/// look.
fn read_all(came: &[(Wanted, Bytes)]) -> Vec<Result<(Piece, bool), RemoteError>> {
    let mut all: Vec<_> = came.iter().map(|_| None).collect();
    let parts = came.iter().zip(&mut all).map(|((wanted, bytes), place)| -> Part<'_> {
        Box::new(move || {
            let segment = StoredSegment::of(wanted.id, bytes.clone());
            *place = Some(segment.and_then(|segment| read(&segment)));
        })
    });
    if came.iter().all(|(_, bytes)| unpacked(bytes) <= AT_ONCE) {
        side_by_side::run(parts.collect());
    } else {
        for part in parts {
            part();
        }
    }
    all.into_iter().flatten().collect()
}

/// Returns the bytes of the records of a segment when they are unpacked, about.
fn unpacked(segment: &[u8]) -> u64 {
    SegmentHead::read(segment).ok().flatten().map_or(0, |head| head.merged_bytes())
}

/// Reads a segment. Returns false with it if small artifacts have other bytes than their digests
/// say.
fn read(segment: &StoredSegment) -> Result<(Piece, bool), RemoteError> {
    let mut has_bytes = true;
    let piece = piece_with(segment, |put| has_bytes = has_bytes && has_its_bytes(segment, put))?;
    Ok((piece, has_bytes))
}

/// Returns true if a small artifact has the bytes of its digest, or they are not here.
fn has_its_bytes(segment: &StoredSegment, put: &PutLine) -> bool {
    match segment.bytes(&put.place) {
        Ok(None) => true,
        Ok(Some(bytes)) => put.digest() == Some(&*blake3::hash(&bytes).to_hex()),
        Err(_) => false,
    }
}

/// A segment whose first bytes came, and the range of the others.
type Beginning = (SegmentId, Bytes, Range<u64>);

/// What comes of requests.
struct Coming {
    all_came: bool,
    failure: Option<BucketError>,
    rest: Vec<Beginning>,
}

impl Coming {
    /// Returns the bytes, if they came.
    fn came(&mut self, bytes: Result<Bytes, BucketError>) -> Option<Bytes> {
        match bytes {
            Ok(bytes) => return Some(bytes),
            Err(error) if error.is_absent() => self.all_came = false,
            Err(error) => self.failure = self.failure.take().or(Some(error)),
        }
        None
    }
}

/// Returns the range of what is still needed of a segment, up to the end of its records.
fn rest_of(wanted: &Wanted, bytes: &[u8]) -> Option<Range<u64>> {
    let here = bytes.len() as u64;
    let end = match SegmentHead::read(bytes) {
        Ok(Some(head)) => head.records_end,
        Ok(None) => wanted.size,
        Err(_) => here,
    };
    (wanted.size > here && end > here).then_some(here..end.min(wanted.size))
}

/// Takes as many of the parts as are fetched at once: one at least.
fn taken_at_once(parts: &mut Peekable<impl Iterator<Item = Beginning>>) -> Vec<Beginning> {
    let (mut taken, mut bytes) = (Vec::new(), 0);
    let length = |(_, _, range): &Beginning| range.end - range.start;
    while let Some(part) = parts.next_if(|part| bytes == 0 || bytes + length(part) <= AT_ONCE) {
        bytes += length(&part);
        taken.push(part);
    }
    taken
}

/// Cuts what is to be fetched into what is fetched at once.
fn batches(wanted: &[Wanted]) -> Vec<&[Wanted]> {
    let mut batches = Vec::new();
    let (mut start, mut bytes) = (0, 0);
    for (at, each) in wanted.iter().enumerate() {
        if bytes >= AT_ONCE {
            batches.push(&wanted[start..at]);
            (start, bytes) = (at, 0);
        }
        bytes += each.size.min(WHOLE);
    }
    if start < wanted.len() {
        batches.push(&wanted[start..]);
    }
    batches
}

#[cfg(test)]
mod tests;
