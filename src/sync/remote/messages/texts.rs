
use std::collections::BTreeMap;

use crate::bucket::{FormatError, Line};
use crate::remote::{Notes, RemoteError, StoredSegment, Told};
use crate::replica::SegmentId;

///+ Maximum bytes of cached records: at least two segments.
const MOST: usize = 64 << 20;

///+ Reads messages from their segments. Messages of several hosts alternate, so it caches some
///+ segments.
pub(super) struct Texts<'a> {
    notes: &'a Notes,
    held: BTreeMap<SegmentId, StoredSegment>,
    bytes: usize,
}

impl<'a> Texts<'a> {
    pub(super) fn of(notes: &'a Notes) -> Self {
        Self { notes, held: BTreeMap::new(), bytes: 0 }
    }

    pub(super) fn text(&mut self, told: &Told) -> Result<String, RemoteError> {
        let id = told.segment;
        if !self.held.contains_key(&id) {
            self.hold(id)?;
        }
        if let Line::Message(line) = self.held[&id].line(&told.line)? {
            return Ok(line.text);
        }
        let what = "a message is none any more".to_owned();
        Err(RemoteError::of(id)(FormatError::Damaged { what }))
    }

    fn hold(&mut self, id: SegmentId) -> Result<(), RemoteError> {
        let segment = self.notes.open_segment(id)?;
        let bytes = segment.records.len();
        if self.bytes + bytes > MOST {
            self.held.clear();
            self.bytes = 0;
        }
        self.bytes += bytes;
        self.held.insert(id, segment);
        Ok(())
    }
}
