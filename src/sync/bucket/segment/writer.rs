
use std::ops::Range;

use crate::bucket::frame::Packer;
use crate::bucket::line::{
    Line, MessageLine, MoveLine, ObjectPlace, PARTS_BYTES, Parts, Place, PutLine, RemoveLine,
    SMALL_BYTES,
};
use crate::bucket::segment::{
    FORMAT, HEAD, HEAD_BYTES, Head, RECORDS, RECORDS_BYTES, RecordsFrame, SEGMENT_BYTES, member,
    origin_of,
};
use crate::bucket::{FormatError, frame};
use crate::replica::{Covers, Origin, SegmentId};

const PARTS: &str = "parts/";

///+ Bytes of an artifact to publish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PutBytes<'a> {
    ///+ The artifact is empty.
    Empty,
    ///+ Bytes to put into the segment: at most [`SMALL_BYTES`].
    Bytes(&'a [u8]),
    ///+ Bytes that are packed already, from another segment.
    Packed {
        ///+ Frame in the other segment.
        frame: &'a [u8],
        ///+ Bytes of the artifact.
        size: u64,
    },
    ///+ Bytes in an object.
    Object(ObjectPlace),
}

///+ Some bytes of an artifact with an object, to be put into the segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PutParts<'a> {
    ///+ Bytes to pack: at most [`PARTS_BYTES`].
    Bytes {
        ///+ Ranges in the artifact, sorted and disjoint.
        ranges: &'a [Range<u64>],
        ///+ Concatenated bytes of the ranges.
        bytes: &'a [u8],
    },
    ///+ Bytes that are packed already, from another segment.
    Packed {
        ///+ Frame in the other segment.
        frame: &'a [u8],
        ///+ Description in the line of the other segment.
        parts: &'a Parts,
    },
}

pub fn packed_parts(bytes: &[u8]) -> u64 {
    let member = member::bytes(PARTS, bytes);
    Packer::new(true).pack(&member).len() as u64
}

///+ A segment under construction, in memory. A refused call leaves it unchanged.
#[derive(Debug)]
pub struct SegmentWriter {
    id: SegmentId,
    covers: Covers,
    records: Vec<u8>,
    lines: u32,
    members: Vec<u8>,
    packer: Packer,
}

impl SegmentWriter {
    ///+ Starts the segment `id`, which covers others if it is a merge.
    pub fn new(id: SegmentId, covers: Covers) -> Self {
        let (records, members) = (Vec::new(), Vec::new());
        Self { id, covers, records, lines: 0, members, packer: Packer::new(true) }
    }

    ///+ Publishes an artifact, and sets `line.place` from `bytes`. Returns its origin.
    pub fn put(&mut self, line: PutLine, bytes: PutBytes<'_>) -> Result<Origin, FormatError> {
        self.put_with_parts(line, bytes, None)
    }

    ///+ Publishes an artifact as [`Self::put`] does, and some of its bytes with it: sets
    ///+ `line.parts` from `parts`.
    pub fn put_with_parts(
        &mut self,
        line: PutLine,
        bytes: PutBytes<'_>,
        parts: Option<PutParts<'_>>,
    ) -> Result<Origin, FormatError> {
        let origin = origin_of(self.id, &self.covers, self.lines, line.origin)?;
        let start = self.members.len();
        let written = self.write_put(origin, line, bytes, parts);
        if written.is_err() {
            self.members.truncate(start);
        }
        written.map(|()| origin)
    }

    fn write_put(
        &mut self,
        origin: Origin,
        mut line: PutLine,
        bytes: PutBytes<'_>,
        parts: Option<PutParts<'_>>,
    ) -> Result<(), FormatError> {
        line.place = self.add_bytes(origin, bytes)?;
        line.parts = parts.map(|parts| self.add_parts(origin, parts)).transpose()?;
        self.write(&Line::Put(Box::new(line)))
    }

    ///+ Renames an artifact.
    pub fn movement(&mut self, line: MoveLine) -> Result<(), FormatError> {
        self.write(&Line::Move(line))
    }

    ///+ Removes artifacts and messages.
    pub fn remove(&mut self, line: RemoveLine) -> Result<(), FormatError> {
        self.write(&Line::Remove(line))
    }

    ///+ Publishes a message. Returns its origin.
    pub fn message(&mut self, line: MessageLine) -> Result<Origin, FormatError> {
        let origin = origin_of(self.id, &self.covers, self.lines, line.origin)?;
        self.write(&Line::Message(line))?;
        Ok(origin)
    }

    ///+ Returns the bytes of the segment.
    pub fn finish(mut self) -> Result<Vec<u8>, FormatError> {
        let records = self.packer.pack(&member::bytes(RECORDS, &self.records)).to_vec();
        let head = self.head(records.len() as u64)?;
        let mut segment = self.packer.pack(&member::bytes(HEAD, &head)).to_vec();
        segment.extend(records);
        segment.append(&mut self.members);
        segment.extend_from_slice(self.packer.pack(&member::END));
        check("a segment", segment.len() as u64, SEGMENT_BYTES)?;
        Ok(segment)
    }

    fn head(&self, packed: u64) -> Result<Vec<u8>, FormatError> {
        let SegmentId { writer, number } = self.id;
        let (size, lines) = (self.records.len() as u64, self.lines);
        check("the records", size, RECORDS_BYTES)?;
        let records = RecordsFrame { packed, size, lines };
        let head = Head { format: FORMAT, writer, number, covers: self.covers.clone(), records };
        let mut json = serde_json::to_vec(&head).expect("a head can be JSON");
        json.push(b'\n');
        let length = member::length(json.len() as u64).unwrap_or(u64::MAX);
        check("the head of a segment", length, HEAD_BYTES as u64)?;
        Ok(json)
    }

    fn write(&mut self, line: &Line) -> Result<(), FormatError> {
        line.write(&mut self.records)?;
        self.lines += 1;
        Ok(())
    }

    fn add_bytes(&mut self, origin: Origin, bytes: PutBytes<'_>) -> Result<Place, FormatError> {
        let at = self.members.len() as u64;
        let (size, frame) = match bytes {
            PutBytes::Empty | PutBytes::Bytes([]) | PutBytes::Packed { size: 0, .. } => {
                return Ok(Place::Empty);
            }
            PutBytes::Object(object) => return Ok(Place::Object(object)),
            PutBytes::Bytes(bytes) => {
                check("a small artifact", bytes.len() as u64, SMALL_BYTES)?;
                let member = member::bytes(&format!("bytes/{origin}"), bytes);
                (bytes.len() as u64, self.packer.pack(&member))
            }
            PutBytes::Packed { frame, size } => {
                check("a small artifact", size, SMALL_BYTES)?;
                check_frame(frame)?;
                (size, frame)
            }
        };
        self.members.extend_from_slice(frame);
        Ok(Place::Inside { at, packed: frame.len() as u64, size })
    }

    fn add_parts(&mut self, origin: Origin, parts: PutParts<'_>) -> Result<Parts, FormatError> {
        let at = self.members.len() as u64;
        let (frame, parts) = match parts {
            PutParts::Bytes { ranges, bytes } => {
                check("the parts of an artifact", bytes.len() as u64, PARTS_BYTES)?;
                let frame = self.packer.pack(&member::bytes(&format!("{PARTS}{origin}"), bytes));
                let ranges: Vec<_> = ranges.iter().map(|range| (range.start, range.end)).collect();
                let digest = blake3::hash(bytes).to_hex().to_string();
                (frame, Parts { at, packed: frame.len() as u64, digest, ranges })
            }
            PutParts::Packed { frame, parts } => {
                check_frame(frame)?;
                (frame, Parts { at, packed: frame.len() as u64, ..parts.clone() })
            }
        };
        self.members.extend_from_slice(frame);
        Ok(parts)
    }
}

fn check(what: &'static str, bytes: u64, most: u64) -> Result<(), FormatError> {
    if bytes > most { Err(FormatError::TooLarge { what, most }) } else { Ok(()) }
}

///+ Checks that `frame` is one whole frame, so that what follows it stays readable.
fn check_frame(frame: &[u8]) -> Result<(), FormatError> {
    let is_whole = frame::length(frame)? == Some(frame.len());
    let wrong = || FormatError::damaged("the bytes of an artifact are not one whole zstd frame");
    is_whole.then_some(()).ok_or_else(wrong)
}

#[cfg(test)]
impl SegmentWriter {
    pub(super) fn added(&self) -> usize {
        self.members.len() + self.records.len()
    }
}
