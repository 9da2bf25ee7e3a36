
use std::iter::FusedIterator;
use std::ops::Range;

use serde::Deserialize;

use crate::bucket::line::{LINE_BYTES, Line, Parts, Place, SMALL_BYTES};
use crate::bucket::segment::member::Member;
use crate::bucket::segment::{
    FORMAT, HEAD, HEAD_BYTES, Head, ORIGIN_BYTES, RECORDS, RECORDS_BYTES, SEGMENT_BYTES, member,
    origin_of,
};
use crate::bucket::{FormatError, frame};
use crate::replica::{Covers, Origin, SegmentDigest, SegmentId};

///+ Head of a segment: the first frame, checked for plausibility.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentHead {
    ///+ Name of the segment as the head states it. The reader compares it with the key.
    pub id: SegmentId,
    ///+ Segments that this one covers.
    pub covers: Covers,
    ///+ Start of the records' frame in the segment.
    pub records_start: u64,
    ///+ End of the records' frame. Locations of bytes are relative to it.
    pub records_end: u64,
    size: u64,
    lines: u32,
}

///+ The part of the head that every format has.
#[derive(Deserialize)]
struct AnyHead {
    format: u32,
}

impl SegmentHead {
    ///+ Reads the head of the segment that starts with `first_bytes`. Returns `None` if more bytes
    ///+ are needed.
    pub fn read(first_bytes: &[u8]) -> Result<Option<Self>, FormatError> {
        let Some(length) = frame::length(first_bytes)? else {
            let is_endless = first_bytes.len() as u64 >= SEGMENT_BYTES;
            return if is_endless { Err(too_large()) } else { Ok(None) };
        };
        let what = "the head of a segment";
        let member = frame::unpack_at_most(&first_bytes[..length], HEAD_BYTES, what)?;
        let json = Member::read(member)?.content_of(HEAD)?;
        let wrong = |_| FormatError::damaged("the head of a segment is not as ctxfs writes it");
        let AnyHead { format } = serde_json::from_slice(&json).map_err(wrong)?;
        if format > FORMAT {
            return Err(FormatError::Newer { format });
        }
        let head: Head = serde_json::from_slice(&json).map_err(wrong)?;
        Self::checked(head, length as u64).map(Some)
    }

    fn checked(head: Head, records_start: u64) -> Result<Self, FormatError> {
        let Head { writer, number, covers, records, .. } = head;
        let id = SegmentId { writer, number };
        let named = id.to_string().parse::<SegmentId>() == Ok(id);
        let possible = named && head.format == FORMAT && !covers.contains_key(&id);
        if !possible || u64::from(records.lines) > records.size {
            return Err(FormatError::damaged("the head of a segment says what cannot be"));
        }
        if records.size > RECORDS_BYTES {
            return Err(FormatError::TooLarge { what: "the records", most: RECORDS_BYTES });
        }
        let end = records_start.checked_add(records.packed);
        let records_end = end.filter(|end| *end <= SEGMENT_BYTES).ok_or_else(too_large)?;
        let member = member::length(records.size).unwrap_or(u64::MAX);
        if records.packed > frame::most_packed(member as usize) as u64 {
            let what = "the frame of the records has more bytes than they can need";
            return Err(FormatError::damaged(what));
        }
        let (size, lines) = (records.size, records.lines);
        Ok(Self { id, covers, records_start, records_end, size, lines })
    }

    ///+ Returns the digest of the segment that starts with `first_bytes`, by which a merge
    ///+ identifies it; `None` if bytes are missing. The digest covers the stored head and records
    ///+ only: these contain the digests of everything else.
    pub fn digest(&self, first_bytes: &[u8]) -> Option<SegmentDigest> {
        first_bytes.get(..self.records_end as usize).map(SegmentDigest::of)
    }

    ///+ Returns the maximum bytes of its records in a merge, unless a name grows by a rename.
    pub fn merged_bytes(&self) -> u64 {
        self.size + ORIGIN_BYTES * u64::from(self.lines)
    }

    ///+ Unpacks the records from their frame, the range from `records_start` to `records_end`.
    pub fn records(&self, frame: &[u8]) -> Result<Vec<u8>, FormatError> {
        unpack(frame, self.size, "the member of the records")?.content_of(RECORDS)
    }

    ///+ Returns the range of an artifact's frame in the segment, if its bytes are in the segment.
    pub fn range_of(&self, place: &Place) -> Result<Option<Range<u64>>, FormatError> {
        let Place::Inside { at, packed, .. } = place else { return Ok(None) };
        self.range(*at, *packed).map(Some)
    }

    ///+ Returns the range in the segment of the frame of `parts`.
    pub fn range_of_parts(&self, parts: &Parts) -> Result<Range<u64>, FormatError> {
        self.range(parts.at, parts.packed)
    }

    fn range(&self, at: u64, packed: u64) -> Result<Range<u64>, FormatError> {
        let start = self.records_end.checked_add(at);
        let end = start.and_then(|start| start.checked_add(packed));
        let end = end.filter(|end| *end <= SEGMENT_BYTES).ok_or_else(too_large)?;
        Ok(end - packed..end)
    }
}

///+ Returns the lines of `jsonl`, the records of the segment with this head. Each comes with its
///+ origin and its range without the newline. The iterator ends after an error.
pub fn lines<'a>(head: &'a SegmentHead, jsonl: &'a [u8]) -> Lines<'a> {
    Lines { head, jsonl, at: 0, place: 0, ended: false }
}

///+ Iterator over the lines of a segment.
#[derive(Debug)]
pub struct Lines<'a> {
    head: &'a SegmentHead,
    jsonl: &'a [u8],
    at: usize,
    place: u32,
    ended: bool,
}

impl Lines<'_> {
    fn line(&mut self) -> Result<(Origin, Line, Range<usize>), FormatError> {
        if self.place == self.head.lines {
            return Err(FormatError::damaged("there are more records than it says"));
        }
        let range = self.range()?;
        let place = self.place;
        let within = |error: FormatError| error.within(format_args!("record {place}"));
        let line = Line::parse(&self.jsonl[range.clone()]).map_err(within)?;
        let SegmentHead { id, covers, .. } = self.head;
        let origin = origin_of(*id, covers, place, line.stated_origin()).map_err(within)?;
        if let Line::Put(put) = &line {
            self.head.range_of(&put.place)?;
            put.parts.as_ref().map(|parts| self.head.range_of_parts(parts)).transpose()?;
        }
        self.at = range.end + 1;
        self.place += 1;
        Ok((origin, line, range))
    }

    fn range(&self) -> Result<Range<usize>, FormatError> {
        let rest = &self.jsonl[self.at..];
        let within = &rest[..rest.len().min(LINE_BYTES + 1)];
        match memchr::memchr(b'\n', within) {
            Some(length) => Ok(self.at..self.at + length),
            None if rest.len() > LINE_BYTES => {
                let most = LINE_BYTES as u64;
                Err(FormatError::TooLarge { what: "a line of the records", most })
            }
            None => Err(FormatError::damaged("the last record is cut off")),
        }
    }

    fn end(&self) -> Option<FormatError> {
        let is_all = self.place == self.head.lines;
        (!is_all).then(|| FormatError::damaged("there are fewer records than it says"))
    }
}

impl Iterator for Lines<'_> {
    type Item = Result<(Origin, Line, Range<usize>), FormatError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        if self.at == self.jsonl.len() {
            self.ended = true;
            return self.end().map(Err);
        }
        let line = self.line();
        self.ended = line.is_err();
        Some(line)
    }
}

impl FusedIterator for Lines<'_> {}

///+ Unpacks a small artifact of `size` bytes. The caller compares the digest with the one in the
///+ record.
pub fn unpack_member(frame: &[u8], size: u64) -> Result<Vec<u8>, FormatError> {
    let what = "the member of a small artifact";
    if size > SMALL_BYTES {
        return Err(FormatError::TooLarge { what, most: SMALL_BYTES });
    }
    Ok(unpack(frame, size, what)?.content)
}

///+ Unpacks the bytes of `parts` and checks their digest.
pub fn unpack_parts(frame: &[u8], parts: &Parts) -> Result<Vec<u8>, FormatError> {
    let bytes = unpack(frame, parts.size(), "the parts of an artifact")?.content;
    if blake3::hash(&bytes).to_hex().as_str() == parts.digest {
        Ok(bytes)
    } else {
        Err(FormatError::damaged("the parts of an artifact have another digest"))
    }
}

fn unpack(frame: &[u8], size: u64, what: &'static str) -> Result<Member, FormatError> {
    let wrong = || FormatError::damaged(format!("{what} has another size than it should"));
    let length = member::length(size).ok_or_else(wrong)?;
    let member = Member::read(frame::unpack(frame, length as usize, what)?)?;
    if member.content.len() as u64 == size { Ok(member) } else { Err(wrong()) }
}

fn too_large() -> FormatError {
    FormatError::TooLarge { what: "a segment", most: SEGMENT_BYTES }
}
