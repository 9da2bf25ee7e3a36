//! Segments. A segment is an archive of changes to a conversation that a host publishes together.
//!
//! ```text
//! segment.json        writer, covered segments, and the end of the records
//! records.jsonl       one record per line
//! bytes/<origin>      bytes of small artifacts
//! parts/<origin>      some of the bytes of larger artifacts
//! ```
//!
//! A segment is a tar archive. Each member, with its header and padding, is a separate zstd frame.
//! The end of the archive is a frame, too. `zstd -d | tar x` unpacks everything. A reader that has
//! the range of a frame can unpack that frame alone. Equal content results in equal bytes. A merge
//! copies frames unchanged from the segments that it covers. Members are named by origins, because
//! the origin of an artifact is the same in every segment.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use tar::{EntryType, Header};

use crate::bucket::frame::Packer;
use crate::bucket::line::{
    LINE_BYTES, Line, MessageLine, MoveLine, ObjectPlace, PARTS_BYTES, Parts, Place, PutLine,
    RemoveLine, SMALL_BYTES,
};
use crate::bucket::{FormatError, frame};
use crate::replica::{Covers, Origin, SegmentDigest, SegmentId, WriterId};

/// Newest segment format that this code reads, and the one that it writes.
const FORMAT: u32 = 1;
/// Maximum bytes of a segment.
pub const SEGMENT_BYTES: u64 = 64 << 20;
/// Maximum bytes of the unpacked records. A reader holds all of them in memory.
pub const RECORDS_BYTES: u64 = 32 << 20;
/// Maximum number of bytes by which a merge lengthens a line: it adds the origin.
const ORIGIN_BYTES: u64 = 64;
/// Maximum bytes of the unpacked head, enough for 250,000 covered segments.
const HEAD_BYTES: usize = 16 << 20;
const HEAD: &str = "segment.json";
const RECORDS: &str = "records.jsonl";

#[derive(Debug, Serialize, Deserialize)]
struct HeadFile {
    format: u32,
    writer: WriterId,
    number: u64,
    covers: Covers,
    records: RecordsFrame,
}

#[derive(Debug, Serialize, Deserialize)]
struct RecordsFrame {
    packed: u64,
    size: u64,
    lines: u32,
}

/// Returns the origin of the artifact or message in line `place` of segment `id`: the `stated`
/// origin, or by default the position of the line. A line may state an origin in another segment
/// only if segment `id` covers that segment.
fn origin_of(
    id: SegmentId,
    covers: &Covers,
    place: u32,
    stated: Option<Origin>,
) -> Result<Origin, FormatError> {
    let own = Origin { segment: id, place };
    match stated {
        Some(origin) if origin != own && !covers.contains_key(&origin.segment) => {
            Err(FormatError::damaged("it states an origin in a segment that is not covered"))
        }
        stated => Ok(stated.unwrap_or(own)),
    }
}

const BLOCK: u64 = 512;
const END: [u8; 2 * BLOCK as usize] = [0; 2 * BLOCK as usize];
const MODE: u32 = 0o644;

#[derive(Debug)]
struct ArchiveMember {
    name: Vec<u8>,
    content: Vec<u8>,
}

fn member_length(size: u64) -> Option<u64> {
    size.checked_next_multiple_of(BLOCK)?.checked_add(BLOCK)
}

fn member_bytes(name: &str, content: &[u8]) -> Vec<u8> {
    let mut header = Header::new_ustar();
    header.set_entry_type(EntryType::Regular);
    header.set_mode(MODE);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header.set_size(content.len() as u64);
    header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
    header.set_cksum();
    let padding = content.len().next_multiple_of(BLOCK as usize) - content.len();
    [&header.as_bytes()[..], content, &END[..padding]].concat()
}

impl ArchiveMember {
    fn read(mut bytes: Vec<u8>) -> Result<Self, FormatError> {
        let found = name_and_size(&bytes);
        let (name, size) =
            found.ok_or_else(|| FormatError::damaged("a member is not as ctxfs writes it"))?;
        bytes.truncate((BLOCK + size) as usize);
        bytes.drain(..BLOCK as usize);
        Ok(Self { name, content: bytes })
    }

    fn content_of(self, name: &str) -> Result<Vec<u8>, FormatError> {
        let wrong = || FormatError::damaged(format!("there should be `{name}`"));
        if self.name == name.as_bytes() { Ok(self.content) } else { Err(wrong()) }
    }
}

fn name_and_size(bytes: &[u8]) -> Option<(Vec<u8>, u64)> {
    let mut archive = tar::Archive::new(bytes);
    let entry = archive.entries().ok()?.raw(true).next()?.ok()?;
    let is_file = entry.header().entry_type() == EntryType::Regular;
    let fits = is_file && member_length(entry.size()) == Some(bytes.len() as u64);
    fits.then(|| (entry.header().path_bytes().into_owned(), entry.size()))
}

/// Head of a segment, read from its first frame and checked for plausibility. Nothing in a segment
/// is trusted. A range outside the segment is an error, and sizes over the limits are refused
/// before memory is allocated.
///
/// `id` is the name that the head states. The reader must compare it with the key. `covers` are the
/// segments that this segment covers. The frame of the records is at `records_start..records_end`.
/// The offsets of the bytes of artifacts are relative to `records_end`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "described above")]
pub struct SegmentHead {
    pub id: SegmentId,
    pub covers: Covers,
    pub records_start: u64,
    pub records_end: u64,
    size: u64,
    lines: u32,
}

#[derive(Deserialize)]
struct HeadFormat {
    format: u32,
}

impl SegmentHead {
    /// Reads the head of a segment. `first_bytes` is the beginning of the segment. Returns `None`
    /// if more bytes are needed.
    pub fn read(first_bytes: &[u8]) -> Result<Option<Self>, FormatError> {
        let Some(length) = frame::length(first_bytes)? else {
            let is_endless = first_bytes.len() as u64 >= SEGMENT_BYTES;
            return if is_endless { Err(too_large()) } else { Ok(None) };
        };
        let what = "the head of a segment";
        let member = frame::unpack_at_most(&first_bytes[..length], HEAD_BYTES, what)?;
        let json = ArchiveMember::read(member)?.content_of(HEAD)?;
        let wrong = |_| FormatError::damaged("the head of a segment is not as ctxfs writes it");
        let HeadFormat { format } = serde_json::from_slice(&json).map_err(wrong)?;
        if format > FORMAT {
            return Err(FormatError::Newer { format });
        }
        let head: HeadFile = serde_json::from_slice(&json).map_err(wrong)?;
        Self::checked(head, length as u64).map(Some)
    }

    fn checked(head: HeadFile, records_start: u64) -> Result<Self, FormatError> {
        let HeadFile { writer, number, covers, records, .. } = head;
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
        let member = member_length(records.size).unwrap_or(u64::MAX);
        if records.packed > frame::most_packed(member as usize) as u64 {
            let what = "the frame of the records has more bytes than they can need";
            return Err(FormatError::damaged(what));
        }
        let (size, lines) = (records.size, records.lines);
        Ok(Self { id, covers, records_start, records_end, size, lines })
    }

    /// Returns the digest by which a merge identifies this segment. The digest is computed from the
    /// stored head and records, which contain the digests of everything else. `first_bytes` is the
    /// beginning of the segment. Returns `None` if `first_bytes` does not include all records.
    pub fn digest(&self, first_bytes: &[u8]) -> Option<SegmentDigest> {
        first_bytes.get(..self.records_end as usize).map(SegmentDigest::of)
    }

    /// Returns the maximum number of bytes that the records of this segment take in a merge,
    /// provided that renames make no path longer.
    pub fn merged_bytes(&self) -> u64 {
        self.size + ORIGIN_BYTES * u64::from(self.lines)
    }

    /// Unpacks the records. `frame` has the bytes from `records_start` to `records_end` of the
    /// segment.
    pub fn records(&self, frame: &[u8]) -> Result<Vec<u8>, FormatError> {
        unpack(frame, self.size, "the member of the records")?.content_of(RECORDS)
    }

    /// Returns the range of an artifact's frame in the segment. Returns `None` if the bytes of the
    /// artifact are not in the segment.
    pub fn range_of(&self, place: &Place) -> Result<Option<Range<u64>>, FormatError> {
        let Place::Inside { at, packed, .. } = place else { return Ok(None) };
        self.range(*at, *packed).map(Some)
    }

    /// Returns the lines of the segment. `records` has the unpacked records.
    pub fn lines<'a>(&'a self, records: &'a [u8]) -> Lines<'a> {
        Lines { head: self, jsonl: records, at: 0, place: 0, ended: false }
    }

    /// Returns the range of a frame in the segment. `at` and `packed` are the offset and the size
    /// that a record states for it.
    pub fn range(&self, at: u64, packed: u64) -> Result<Range<u64>, FormatError> {
        let start = self.records_end.checked_add(at);
        let end = start.and_then(|start| start.checked_add(packed));
        let end = end.filter(|end| *end <= SEGMENT_BYTES).ok_or_else(too_large)?;
        Ok(end - packed..end)
    }
}

/// Iterator over the lines of a segment. Each line comes with its origin and its range in the
/// records. The iterator ends after the first error, because later origins would be wrong.
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
            put.parts.as_ref().map(|parts| self.head.range(parts.at, parts.packed)).transpose()?;
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

impl std::iter::FusedIterator for Lines<'_> {}

/// Unpacks a small artifact of `size` bytes. The caller must compare the digest of the result with
/// the one in the record.
pub fn unpack_member(frame: &[u8], size: u64) -> Result<Vec<u8>, FormatError> {
    let what = "the member of a small artifact";
    if size > SMALL_BYTES {
        return Err(FormatError::TooLarge { what, most: SMALL_BYTES });
    }
    Ok(unpack(frame, size, what)?.content)
}

/// Unpacks the bytes of `parts` and checks their digest.
pub fn unpack_parts(frame: &[u8], parts: &Parts) -> Result<Vec<u8>, FormatError> {
    let bytes = unpack(frame, parts.size(), "the parts of an artifact")?.content;
    if blake3::hash(&bytes).to_hex().as_str() == parts.digest {
        Ok(bytes)
    } else {
        Err(FormatError::damaged("the parts of an artifact have another digest"))
    }
}

fn unpack(frame: &[u8], size: u64, what: &'static str) -> Result<ArchiveMember, FormatError> {
    let wrong = || FormatError::damaged(format!("{what} has another size than it should"));
    let length = member_length(size).ok_or_else(wrong)?;
    let member = ArchiveMember::read(frame::unpack(frame, length as usize, what)?)?;
    if member.content.len() as u64 == size { Ok(member) } else { Err(wrong()) }
}

fn too_large() -> FormatError {
    FormatError::TooLarge { what: "a segment", most: SEGMENT_BYTES }
}

const PARTS: &str = "parts/";

/// Bytes of an artifact to publish. `Bytes` are at most [`SMALL_BYTES`], and are packed into the
/// segment. `Packed` is a frame of another segment, which is copied; the content of the frame has
/// `size` bytes. `Object` is an object that has the bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "described above")]
pub enum PutBytes<'a> {
    Empty,
    Bytes(&'a [u8]),
    Packed { frame: &'a [u8], size: u64 },
    Object(ObjectPlace),
}

/// Bytes to store in the segment as [`Parts`] of an artifact that has an object. `Bytes` has at
/// most [`PARTS_BYTES`] to pack, concatenated from `ranges`, which are sorted and disjoint.
/// `Packed` has a frame of another segment, with the description of that frame in the other
/// segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "described above")]
pub enum PutParts<'a> {
    Bytes { ranges: &'a [Range<u64>], bytes: &'a [u8] },
    Packed { frame: &'a [u8], parts: &'a Parts },
}

pub(crate) fn packed_parts(bytes: &[u8]) -> u64 {
    let member = member_bytes(PARTS, bytes);
    Packer::new(true).pack(&member).len() as u64
}

/// A segment under construction, in memory. A call that fails leaves the segment unchanged, so that
/// the caller can skip one artifact and continue.
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
    /// Starts the segment `id`. If the segment is a merge, `covers` names the segments that it
    /// covers.
    pub fn new(id: SegmentId, covers: Covers) -> Self {
        let (records, members) = (Vec::new(), Vec::new());
        Self { id, covers, records, lines: 0, members, packer: Packer::new(true) }
    }

    /// Publishes an artifact and returns its origin. Sets `line.place` from `bytes`, and
    /// `line.parts` from `parts`.
    pub fn put(
        &mut self,
        line: PutLine,
        bytes: PutBytes<'_>,
        parts: Option<PutParts<'_>>,
    ) -> Result<Origin, FormatError> {
        let origin = origin_of(self.id, &self.covers, self.lines, line.origin)?;
        let start = self.members.len();
        let written = self.write_put(origin, line, bytes, parts);
        written.map(|()| origin).inspect_err(|_| self.members.truncate(start))
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

    /// Renames an artifact.
    pub fn movement(&mut self, line: MoveLine) -> Result<(), FormatError> {
        self.write(&Line::Move(line))
    }

    /// Removes artifacts and messages.
    pub fn remove(&mut self, line: RemoveLine) -> Result<(), FormatError> {
        self.write(&Line::Remove(line))
    }

    /// Publishes a message. Returns its origin.
    pub fn message(&mut self, line: MessageLine) -> Result<Origin, FormatError> {
        let origin = origin_of(self.id, &self.covers, self.lines, line.origin)?;
        self.write(&Line::Message(line))?;
        Ok(origin)
    }

    /// Completes the segment and returns its bytes.
    pub fn finish(mut self) -> Result<Vec<u8>, FormatError> {
        let records = self.packer.pack(&member_bytes(RECORDS, &self.records)).to_vec();
        let head = self.head(records.len() as u64)?;
        let mut segment = self.packer.pack(&member_bytes(HEAD, &head)).to_vec();
        segment.extend(records);
        segment.append(&mut self.members);
        segment.extend_from_slice(self.packer.pack(&END));
        check("a segment", segment.len() as u64, SEGMENT_BYTES)?;
        Ok(segment)
    }

    fn head(&self, packed: u64) -> Result<Vec<u8>, FormatError> {
        let SegmentId { writer, number } = self.id;
        let (size, lines) = (self.records.len() as u64, self.lines);
        check("the records", size, RECORDS_BYTES)?;
        let records = RecordsFrame { packed, size, lines };
        let head =
            HeadFile { format: FORMAT, writer, number, covers: self.covers.clone(), records };
        let mut json = serde_json::to_vec(&head).expect("a head can be JSON");
        json.push(b'\n');
        let length = member_length(json.len() as u64).unwrap_or(u64::MAX);
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
                let member = member_bytes(&format!("bytes/{origin}"), bytes);
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
                let frame = self.packer.pack(&member_bytes(&format!("{PARTS}{origin}"), bytes));
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

/// Checks that `frame` is exactly one complete frame, so that the bytes after it stay readable.
fn check_frame(frame: &[u8]) -> Result<(), FormatError> {
    let is_whole = frame::length(frame)? == Some(frame.len());
    let wrong = || FormatError::damaged("the bytes of an artifact are not one whole zstd frame");
    is_whole.then_some(()).ok_or_else(wrong)
}

#[cfg(test)]
impl SegmentWriter {
    fn added(&self) -> usize {
        self.members.len() + self.records.len()
    }
}

#[cfg(test)]
mod tests;
