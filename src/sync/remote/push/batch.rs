
use std::collections::BTreeMap;

use super::ready::Ready;
use super::uploads::Upload;
use crate::bucket::{FormatError, MessageLine, MoveLine, PutLine, RemoveLine, SegmentWriter};
use crate::remote::{MessagesAt, Moment};
use crate::replica::{Changes, Clock, Covers, LocalPut, Publication, Segment, SegmentId};

///+ Bytes of small artifacts, and of records, from which on a segment is full. With the longest line
///+ on top it stays a quarter below the limits of readers.
const MOST_BYTES: u64 = 4 << 20;
const MOST_RECORDS: usize = 8 << 20;
///+ Artifacts from which on a segment is full.
const MOST_LINES: usize = 20_000;

///+ Unpublished messages.
#[derive(Debug)]
pub(super) struct Messages {
    pub(super) texts: Vec<String>,
    /// The place after them.
    pub(super) at: MessagesAt,
}

///+ Content of one segment.
#[derive(Debug)]
pub(super) struct Batch {
    changes: Changes,
    ready: BTreeMap<String, Ready>,
    pub(super) messages: Option<Messages>,
    ends: bool,
    bytes: u64,
    weight: usize,
}

///+ A finished segment.
#[derive(Debug)]
pub(super) struct Made {
    pub(super) publication: Publication<(), String>,
    pub(super) bytes: Vec<u8>,
}

impl Batch {
    ///+ Starts a segment with moves and removals of `weight` bytes. With `ends`, they remove the
    ///+ conversation.
    pub(super) fn new(changes: Changes, weight: usize, ends: bool) -> Self {
        Self { changes, ready: BTreeMap::new(), messages: None, ends, bytes: 0, weight }
    }

    pub(super) fn add(&mut self, path: &str, put: &LocalPut, ready: Ready) {
        self.bytes += ready.small_bytes();
        self.weight += ready.weight;
        self.changes.puts.insert(path.to_owned(), put.clone());
        self.ready.insert(path.to_owned(), ready);
    }

    pub(super) fn is_full(&self) -> bool {
        let lines = self.ready.len();
        self.bytes >= MOST_BYTES || self.weight >= MOST_RECORDS || lines >= MOST_LINES
    }

    pub(super) fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.messages.is_none()
    }

    pub(super) fn paths(&self) -> impl Iterator<Item = &String> {
        self.ready.keys()
    }

    ///+ Returns the time from which the age of the segment counts: that of its oldest object, or
    ///+ `now`.
    pub(super) fn since(&self, now: &Moment) -> Moment {
        let objects = self.ready.values().filter_map(Ready::upload);
        let oldest = objects.max_by_key(|upload: &&Upload| now.since(&upload.since));
        oldest.map_or_else(|| now.clone(), |upload| upload.since.clone())
    }

    ///+ Builds the segment `id`. `now` is in microseconds since the epoch.
    pub(super) fn make(
        &self,
        id: SegmentId,
        clock: &mut Clock,
        now: u64,
    ) -> Result<Made, FormatError> {
        let texts = self.messages.iter().flat_map(|messages| messages.texts.iter().cloned());
        let publication = Publication::new(id, &self.changes, texts, clock, now, |_| ());
        let bytes = self.write(&publication.segment)?;
        Ok(Made { publication, bytes })
    }

    ///+ Writes the lines in the order of their places.
    fn write(&self, segment: &Segment<(), String>) -> Result<Vec<u8>, FormatError> {
        let mut writer = SegmentWriter::new(segment.id, Covers::new());
        for (origin, claim) in &segment.artifacts {
            let ready = &self.ready[&claim.path];
            let line = PutLine { stamp: claim.stamp, ..ready.line.clone() };
            let place = writer.put_with_parts(line, ready.bytes(), ready.parts())?;
            assert_eq!(place, *origin, "the lines of artifacts come in the order of their places");
        }
        for (origin, (stamp, text)) in &segment.messages {
            let line = MessageLine { text: text.clone(), stamp: *stamp, origin: None };
            let place = writer.message(line)?;
            assert_eq!(place, *origin, "messages follow the artifacts");
        }
        for (artifact, to) in &segment.moves {
            let (artifact, to, stamp) = (*artifact, to.to.clone(), to.stamp);
            writer.movement(MoveLine { artifact, to, stamp })?;
        }
        if !segment.removed.is_empty() {
            let (origins, segments) =
                (segment.removed.origins.clone(), segment.removed.segments.clone());
            writer.remove(RemoveLine { origins, segments, ends: self.ends })?;
        }
        writer.finish()
    }
}
