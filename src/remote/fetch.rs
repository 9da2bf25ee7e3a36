//! The bytes of artifacts that are elsewhere, from first to last.

use std::io;
use std::io::Cursor;
use std::io::Read;

use crate::bucket::Blocks;
use crate::bucket::Deadline;
use crate::bucket::Line;
use crate::bucket::ObjectPlace;
use crate::bucket::Place;
use crate::bucket::PutLine;
use crate::bucket::blocks_key;
use crate::bucket::object_key;
use crate::bucket::segment_key;
use crate::bucket::unpack_block;
use crate::remote::Fetch;
use crate::remote::Known;
use crate::remote::Notes;
use crate::remote::Objects;
use crate::remote::Parcel;
use crate::remote::RemoteError;
use crate::remote::Stored;
use crate::remote::StoredSegment;
use crate::remote::Told;
use crate::remote::far::attributes_of;
use crate::replica::Entry;
use crate::replica::Origin;
use crate::replica::State;
use crate::store::Arrived;

/// The blocks of one request, each of at most 1 MiB.
const BLOCKS_AT_ONCE: usize = 8;

/// Fetches artifacts of one conversation.
pub struct Fetcher<'a> {
    /// Where from.
    pub bucket: &'a dyn Objects,
    /// What this host keeps about the conversation.
    pub notes: &'a Notes,
    /// What its segments say.
    pub state: &'a State<Stored, Told>,
    /// True if the bytes of artifacts stay where they are until somebody reads them.
    pub leaves: bool,
    /// Until when each request is repeated. It begins anew with each file.
    pub deadline: &'a dyn Fn() -> Deadline,
}

impl std::fmt::Debug for Fetcher<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Fetcher").field(self.notes).finish()
    }
}

impl Fetch for Fetcher<'_> {
    fn fetch(&self, entry: &Entry) -> Result<Option<Parcel<'_>>, RemoteError> {
        let Some((_, segment, put)) = self.line(entry)? else { return Ok(None) };
        let content = self.content(&segment, &put)?;
        let PutLine { record, mode, attributes, .. } = put;
        Ok(Some(Parcel { record, mode, attributes, content }))
    }

    fn known(&self, entry: &Entry) -> Result<Option<Known>, RemoteError> {
        if !self.leaves {
            return Ok(None);
        }
        let Some((origin, _, put)) = self.line(entry)? else { return Ok(None) };
        let attributes = attributes_of(&put.attributes);
        let arrived = Arrived { record: put.record, mode: put.mode, attributes };
        Ok(Some(Known { origin, arrived }))
    }
}

impl Fetcher<'_> {
    /// Returns the first artifact of `entry` that is known, and the line that published it.
    fn line(&self, entry: &Entry) -> Result<Option<(Origin, StoredSegment, PutLine)>, RemoteError> {
        let claim = |origin: &Origin| Some((*origin, self.state.artifacts.get(origin)?));
        let Some((origin, claim)) = entry.origins.iter().find_map(claim) else { return Ok(None) };
        let segment = self.notes.open_segment(claim.artifact.segment)?;
        let Line::Put(put) = segment.line(&claim.artifact.line)? else { return Ok(None) };
        Ok(Some((origin, segment, *put)))
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

    /// Returns the bytes of a small artifact: they came with its record, but for those of a large
    /// segment.
    fn small(&self, segment: &StoredSegment, place: &Place) -> Result<Vec<u8>, RemoteError> {
        let key = segment_key(self.notes.conversation(), segment.id());
        segment.bytes_or(place, |range| self.bucket.get(&key, range, (self.deadline)()))
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

/// Reads an object from its first block to its last one. Each is checked before it is handed out.
struct ObjectReader<'a> {
    bucket: &'a dyn Objects,
    deadline: &'a dyn Fn() -> Deadline,
    key: String,
    blocks: Blocks,
    /// The block after those that are ready.
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
