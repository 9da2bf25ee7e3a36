//! Downloads of whole artifacts.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::io::{Cursor, Read};
use std::ops::Range;
use std::rc::Rc;

use bytes::Bytes;

use crate::bucket::{
    Blocks, BucketError, Deadline, Line, ObjectPlace, Place, PutLine, blocks_key, object_key,
    segment_key, unpack_block,
};
use crate::remote::files::shared_path;
use crate::remote::{
    Fetch, FetchedFile, Notes, Objects, RemoteArtifact, RemoteError, Stored, StoredMessage,
    StoredSegment,
};
use crate::replica::{Entry, Origin, SegmentId, State};
use ctxfs_core::model::{Far, Record};

const BLOCKS_AT_ONCE: usize = 8;
/// Bits of a mode that are taken from the bucket. What other users of this host may do is not for
/// other hosts to say.
const OWNER: u32 = 0o700;

/// When a pull downloads bytes. With `OnRead`, the bytes of artifacts stay in the bucket until they
/// are read. Files that are not artifacts are downloaded immediately in both cases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "described above")]
pub enum Downloads {
    Immediate,
    OnRead,
}

/// Fetches the artifacts of one conversation. This is the implementation of [`Fetch`] for a bucket.
/// Small artifacts are read from local segments if possible, and otherwise from the bucket in
/// batches.
pub(crate) struct Fetcher<'a> {
    bucket: &'a dyn Objects,
    notes: &'a Notes,
    state: &'a State<Stored, StoredMessage>,
    downloads: Downloads,
    deadline: &'a dyn Fn() -> Deadline,
    last: RefCell<Option<Rc<StoredSegment>>>,
    ranges: RefCell<SegmentRanges>,
}

struct ArtifactLine {
    origin: Origin,
    bytes: usize,
    segment: Rc<StoredSegment>,
    put: PutLine,
}

impl Fetch for Fetcher<'_> {
    /// Sorts the entries by their position in the segments, so that each segment is read only once.
    fn order(&self, entries: &mut [Entry]) {
        entries.sort_by_cached_key(|entry| {
            let found = self.claim(entry);
            found.map(|(_, stored)| (stored.segment, stored.line.start))
        });
    }

    fn prepare(&self, entries: &[Entry]) {
        let is_immediate = self.downloads == Downloads::Immediate;
        let comes = |entry: &&Entry| is_immediate || !is_artifact(entry);
        let lines = entries.iter().filter(comes);
        let lines = lines.filter_map(|entry| self.line(entry).ok().flatten());
        let wanted = lines.filter_map(|ArtifactLine { segment, put, .. }| {
            let is_here = segment.frame(&put.place).ok()?.is_some();
            let range = segment.head.range_of(&put.place).ok()?.filter(|_| !is_here)?;
            Some((segment.id(), range))
        });
        let ranges = SegmentRanges::of(wanted);
        *self.ranges.borrow_mut() = ranges.fetched(|wanted| {
            let key = |id| segment_key(self.notes.conversation(), id);
            let wanted = wanted.into_iter().map(|(id, range)| (key(id), Some(range)));
            self.bucket.get_many(&wanted.collect::<Vec<_>>(), (self.deadline)())
        });
    }

    fn size(&self, entry: &Entry) -> Option<u64> {
        self.claim(entry).map(|(_, stored)| stored.size)
    }

    fn fetch(&self, entry: &Entry) -> Result<Option<FetchedFile<'_>>, RemoteError> {
        let Some(ArtifactLine { segment, put, .. }) = self.line(entry)? else { return Ok(None) };
        let content = self.content(&segment, &put)?;
        let PutLine { record, mode, attributes, .. } = put;
        Ok(Some(FetchedFile { record, mode: mode & OWNER, attributes, content }))
    }

    fn known(&self, entry: &Entry) -> Result<Option<RemoteArtifact>, RemoteError> {
        if self.downloads == Downloads::Immediate {
            return Ok(None);
        }
        let Some(ArtifactLine { origin, bytes, put, .. }) = self.line(entry)? else {
            return Ok(None);
        };
        let far = Some(Far { origin: origin.to_string(), mode: put.mode & OWNER, here: false });
        Ok(Some(RemoteArtifact { origin, record: Record { far, ..put.record }, bytes }))
    }
}

impl<'a> Fetcher<'a> {
    /// Creates a fetcher for `bucket`. `notes` has the local segments, and `state` is their merged
    /// state. `deadline` returns the deadline of a request that starts now.
    pub(crate) fn new(
        bucket: &'a dyn Objects,
        (notes, state): (&'a Notes, &'a State<Stored, StoredMessage>),
        downloads: Downloads,
        deadline: &'a dyn Fn() -> Deadline,
    ) -> Self {
        let (last, ranges) = (RefCell::default(), RefCell::default());
        Self { bucket, notes, state, downloads, deadline, last, ranges }
    }

    fn claim(&self, entry: &Entry) -> Option<(Origin, &Stored)> {
        let known = |origin: &Origin| Some((*origin, &self.state.artifacts.get(origin)?.artifact));
        entry.origins.iter().find_map(known)
    }

    fn line(&self, entry: &Entry) -> Result<Option<ArtifactLine>, RemoteError> {
        let Some((origin, stored)) = self.claim(entry) else { return Ok(None) };
        let segment = self.segment(stored.segment)?;
        let Line::Put(put) = segment.line(&stored.line)? else { return Ok(None) };
        Ok(Some(ArtifactLine { origin, bytes: stored.line.len(), segment, put: *put }))
    }

    fn segment(&self, id: SegmentId) -> Result<Rc<StoredSegment>, RemoteError> {
        let mut last = self.last.borrow_mut();
        if let Some(segment) = last.as_ref().filter(|segment| segment.id() == id) {
            return Ok(Rc::clone(segment));
        }
        // Free the previous segment first, so that only one is in memory.
        *last = None;
        let segment = Rc::new(self.notes.open_segment(id)?);
        *last = Some(Rc::clone(&segment));
        Ok(segment)
    }

    fn content(
        &self,
        segment: &StoredSegment,
        put: &PutLine,
    ) -> Result<Box<dyn Read + '_>, RemoteError> {
        Ok(match &put.place {
            Place::Empty => Box::new(io::empty()),
            Place::Inside { .. } => Box::new(Cursor::new(self.small(segment, &put.place)?)),
            Place::Object(object) => Box::new(self.object(segment, object)?),
        })
    }

    /// Returns the bytes of a small artifact. The bucket is read only if the local copy of the
    /// segment is truncated and lacks them.
    fn small(&self, segment: &StoredSegment, place: &Place) -> Result<Vec<u8>, RemoteError> {
        segment.bytes_or(place, |range| {
            let id = segment.id();
            let fetched = range.as_ref().and_then(|range| self.ranges.borrow().get(id, range));
            if let Some(bytes) = fetched {
                return Ok(bytes);
            }
            let key = segment_key(self.notes.conversation(), id);
            self.bucket.get(&key, range, (self.deadline)())
        })
    }

    fn object(
        &self,
        segment: &StoredSegment,
        object: &ObjectPlace,
    ) -> Result<ObjectReader<'_>, RemoteError> {
        let conversation = self.notes.conversation();
        let table = blocks_key(conversation, object.name);
        let range = Some(0..Blocks::table_bytes(object.size));
        let table = self.bucket.get(&table, range, (self.deadline)())?;
        let blocks = object.read_table(&table).map_err(RemoteError::of(segment.id()))?;
        let key = object_key(conversation, object.name);
        let (bucket, deadline) = (self.bucket, self.deadline);
        Ok(ObjectReader { bucket, deadline, key, blocks, next: 0, ready: Cursor::default() })
    }
}

fn is_artifact(entry: &Entry) -> bool {
    shared_path(&entry.path).is_some_and(|path| path.is_artifact())
}

struct ObjectReader<'a> {
    bucket: &'a dyn Objects,
    deadline: &'a dyn Fn() -> Deadline,
    key: String,
    blocks: Blocks,
    next: usize,
    ready: Cursor<Vec<u8>>,
}

impl ObjectReader<'_> {
    fn fetch(&mut self) -> io::Result<()> {
        let first = self.next;
        let end = self.blocks.len().min(first + BLOCKS_AT_ONCE);
        let range = self.blocks.frames_range(first..end);
        let frames = self.bucket.get(&self.key, Some(range), (self.deadline)());
        let frames = frames.map_err(io::Error::other)?;
        let mut ready = Vec::new();
        for block in first..end {
            let frame = self.blocks.frame_in(&frames, first, block);
            let content = frame.and_then(|frame| unpack_block(frame, block, &self.blocks));
            ready.extend_from_slice(&content.map_err(io::Error::other)?);
        }
        self.next = end;
        self.ready = Cursor::new(ready);
        Ok(())
    }
}

impl Read for ObjectReader<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let is_spent = self.ready.position() == self.ready.get_ref().len() as u64;
        if is_spent && self.next < self.blocks.len() {
            self.fetch()?;
        }
        self.ready.read(bytes)
    }
}

/// Maximum gap in bytes between two artifacts that are fetched with one request.
const GAP: u64 = 64 << 10;
const MOST: u64 = 4 << 20;

/// Ranges in segments, keyed by segment and start. The value is the end of the range, or its bytes
/// once they are fetched.
#[derive(Debug, Default)]
struct SegmentRanges<T = Bytes>(BTreeMap<(SegmentId, u64), T>);

impl SegmentRanges<u64> {
    fn of(wanted: impl Iterator<Item = (SegmentId, Range<u64>)>) -> Self {
        let mut wanted: Vec<_> = wanted.map(|(id, range)| (id, range.start, range.end)).collect();
        wanted.sort_unstable();
        let mut pieces: Vec<(SegmentId, u64, u64)> = Vec::new();
        for (id, start, end) in wanted {
            match pieces.last_mut() {
                Some((last, begin, stop))
                    if *last == id && start <= stop.saturating_add(GAP) && end - *begin <= MOST =>
                {
                    *stop = end.max(*stop);
                }
                _ => pieces.push((id, start, end)),
            }
        }
        Self(pieces.into_iter().map(|(id, start, end)| ((id, start), end)).collect())
    }

    fn fetched(
        self,
        fetch: impl FnOnce(Vec<(SegmentId, Range<u64>)>) -> Vec<Result<Bytes, BucketError>>,
    ) -> SegmentRanges {
        if self.0.is_empty() {
            return SegmentRanges::default();
        }
        let wanted = self.0.iter().map(|((id, start), end)| (*id, *start..*end)).collect();
        let fetched = self.0.keys().copied().zip(fetch(wanted));
        // A failed range is left out. The bytes are later requested alone, and that request reports
        // the error.
        SegmentRanges(fetched.filter_map(|(at, bytes)| Some((at, bytes.ok()?))).collect())
    }
}

impl SegmentRanges {
    fn get(&self, id: SegmentId, range: &Range<u64>) -> Option<Bytes> {
        let ((_, start), bytes) = self.0.range((id, 0)..=(id, range.start)).next_back()?;
        let within = range.start - start..range.end - start;
        (within.end <= bytes.len() as u64)
            .then(|| bytes.slice(within.start as usize..within.end as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u64) -> SegmentId {
        format!("00000000000000ab-{number:012}").parse().unwrap()
    }

    #[test]
    fn what_is_near_comes_with_one_request() {
        let wanted = [
            (id(2), 0..10),
            (id(1), 200..300),
            (id(1), 100..150),
            (id(1), 300 + GAP + 1..300 + GAP + 9),
            (id(2), 10..MOST),
            (id(2), MOST..MOST + 1),
        ];
        let ranges = SegmentRanges::of(wanted.iter().cloned());
        let fetched = ranges.fetched(|asked| {
            let far = 300 + GAP + 1;
            let expected = [
                (id(1), 100..300),
                (id(1), far..far + 8),
                (id(2), 0..MOST),
                (id(2), MOST..MOST + 1),
            ];
            assert_eq!(asked, expected);
            let bytes =
                |range: &Range<u64>| Bytes::from(vec![7; (range.end - range.start) as usize]);
            asked.iter().map(|(_, range)| Ok(bytes(range))).collect()
        });
        for (id, range) in wanted {
            let length = (range.end - range.start) as usize;
            assert_eq!(fetched.get(id, &range).unwrap().len(), length);
        }
        assert_eq!(fetched.get(id(1), &(90..110)), None);
        assert_eq!(fetched.get(id(1), &(290..310)), None);
        assert_eq!(fetched.get(id(3), &(0..1)), None);
    }

    #[test]
    fn what_does_not_come_is_not_there() {
        let ranges = SegmentRanges::of([(id(1), 0..9)].into_iter());
        let away = BucketError::Away { what: "get".to_owned(), why: "test".to_owned() };
        assert_eq!(ranges.fetched(|_| vec![Err(away)]).get(id(1), &(0..9)), None);
        let nothing = SegmentRanges::of(std::iter::empty()).fetched(|_| unreachable!("no request"));
        assert_eq!(nothing.get(id(1), &(0..9)), None);
    }
}
