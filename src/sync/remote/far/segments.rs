
use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::bucket::{Line, PutLine};
use crate::remote::{Notes, RemoteError, StoredSegment};
use crate::replica::{Origin, SegmentId};
use ctxfs_core::model::Component;

const MOST: usize = 16;
const MOST_BYTES: usize = 16 << 20;
///+ Approximate bytes of an index entry.
const PLACE_BYTES: usize = 64;

///+ An artifact as it was published.
#[derive(Debug)]
pub(crate) struct Published {
    pub(crate) segment: Arc<StoredSegment>,
    pub(crate) put: PutLine,
}

///+ Cache of the segments read last: finding a line takes reading the whole segment.
#[derive(Debug, Default)]
pub(super) struct KnownSegments(Mutex<VecDeque<Arc<IndexedSegment>>>);

#[derive(Debug)]
struct IndexedSegment {
    conversation: Component,
    segment: Arc<StoredSegment>,
    artifacts: HashMap<Origin, Range<u32>>,
}

impl KnownSegments {
    pub(super) fn published(
        &self,
        notes: &Notes,
        origin: Origin,
    ) -> Result<Published, RemoteError> {
        if let Some(known) = self.known(notes.conversation(), origin) {
            return known.published(origin);
        }
        let found = find(notes, origin)?.ok_or_else(|| RemoteError::Unknown {
            conversation: notes.conversation().to_text(),
            origin,
        })?;
        let found = Arc::new(found);
        self.keep(Arc::clone(&found));
        found.published(origin)
    }

    pub(super) fn segment(
        &self,
        notes: &Notes,
        id: SegmentId,
    ) -> Result<Arc<StoredSegment>, RemoteError> {
        let is_it = |known: &&Arc<IndexedSegment>| {
            known.conversation == *notes.conversation() && known.segment.id() == id
        };
        let kept = self.0.lock().iter().find(is_it).map(|known| Arc::clone(&known.segment));
        kept.map_or_else(|| notes.open_segment(id).map(Arc::new), Ok)
    }

    pub(super) fn forget(&self, conversation: &Component) {
        self.0.lock().retain(|known| known.conversation != *conversation);
    }

    fn known(&self, conversation: &Component, origin: Origin) -> Option<Arc<IndexedSegment>> {
        let mut all = self.0.lock();
        let has = |known: &Arc<IndexedSegment>| {
            known.conversation == *conversation && known.artifacts.contains_key(&origin)
        };
        let at = all.iter().position(has)?;
        let known = all.remove(at)?;
        all.push_back(Arc::clone(&known));
        Some(known)
    }

    fn keep(&self, found: Arc<IndexedSegment>) {
        let mut all = self.0.lock();
        let id = found.segment.id();
        all.retain(|known| known.conversation != found.conversation || known.segment.id() != id);
        all.push_back(found);
        let mut bytes: usize = all.iter().map(|known| known.bytes()).sum();
        while (all.len() > MOST || bytes > MOST_BYTES)
            && let Some(oldest) = all.pop_front()
        {
            bytes -= oldest.bytes();
        }
    }
}

impl IndexedSegment {
    fn new(conversation: &Component, segment: StoredSegment) -> Result<Self, RemoteError> {
        let mut artifacts = HashMap::new();
        for line in segment.lines() {
            let (origin, line, range) = line.map_err(RemoteError::of(segment.id()))?;
            if matches!(line, Line::Put(_)) {
                // The records have less than 4 GiB.
                artifacts.insert(origin, range.start as u32..range.end as u32);
            }
        }
        Ok(Self { conversation: conversation.clone(), segment: Arc::new(segment), artifacts })
    }

    fn published(&self, origin: Origin) -> Result<Published, RemoteError> {
        let segment = Arc::clone(&self.segment);
        match self.artifacts.get(&origin).map(|range| segment.line(range)).transpose()? {
            Some(Line::Put(put)) => Ok(Published { segment, put: *put }),
            _ => Err(RemoteError::Unknown { conversation: self.conversation.to_text(), origin }),
        }
    }

    fn bytes(&self) -> usize {
        self.segment.records.len() + PLACE_BYTES * self.artifacts.len()
    }
}

///+ Finds the segment with the line of `origin`: the one that first published it, or a merge that
///+ covers that.
fn find(notes: &Notes, origin: Origin) -> Result<Option<IndexedSegment>, RemoteError> {
    let here = notes.segments()?;
    let first = here.iter().filter(|id| **id == origin.segment);
    let others = here.iter().filter(|id| **id != origin.segment);
    for id in first.chain(others) {
        if *id == origin.segment || notes.covers_of(*id)?.contains_key(&origin.segment) {
            let found = IndexedSegment::new(notes.conversation(), notes.open_segment(*id)?)?;
            if found.artifacts.contains_key(&origin) {
                return Ok(Some(found));
            }
        }
    }
    Ok(None)
}
