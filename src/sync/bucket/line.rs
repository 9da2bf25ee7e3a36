//! The records of a segment, `records.jsonl`: JSON objects, one per line.
//!
//! Each kind of record has one key that no other kind has: `put`, `move`, `remove` or `message`.
//! This key determines the kind. Unknown keys are ignored.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use crate::bucket::name::ObjectName;
use crate::bucket::object::Blocks;
use crate::bucket::{FormatError, frame};
use crate::replica::{Origin, SegmentId, Stamp};
use ctxfs_core::model::{ArtifactState, MAX_DEPTH, NAME_MAX, Record, RelPath};

pub(crate) const LINE_BYTES: usize = 16 << 20;

/// A record of a segment. It publishes an artifact, renames an artifact, removes artifacts and
/// messages, or publishes a message.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "described above")]
pub enum Line {
    Put(Box<PutLine>),
    Move(MoveLine),
    Remove(RemoveLine),
    Message(MessageLine),
}

/// Renames the artifact to the path `to`, in the form of `RelPath::to_text`. `stamp` is the time of
/// the rename.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "described above")]
pub struct MoveLine {
    pub artifact: Origin,
    pub to: String,
    pub stamp: Stamp,
}

/// Removes single artifacts and messages, and all artifacts and messages of some segments. `ends`
/// is true if the writer removed the whole conversation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "described above")]
pub struct RemoveLine {
    pub origins: BTreeSet<Origin>,
    pub segments: BTreeSet<SegmentId>,
    pub ends: bool,
}

/// Publishes a line of the message log, without its newline. `stamp` is the time at which the line
/// was appended. In a merge, `origin` is the origin of the first publication.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "described above")]
pub struct MessageLine {
    pub text: String,
    pub stamp: Stamp,
    pub origin: Option<Origin>,
}

impl Line {
    /// Parses a line. `line` does not include the newline.
    pub fn parse(line: &[u8]) -> Result<Self, FormatError> {
        check_length(line.len())?;
        // Serde also accepts an array where a struct is expected.
        if line.first() != Some(&b'{') {
            return Err(FormatError::damaged("it is no JSON object"));
        }
        let raw: RawLine = serde_json::from_slice(line).map_err(|error| refusal(line, &error))?;
        let line = raw.into_line()?;
        line.check()?;
        Ok(line)
    }

    /// Appends the line and a newline to `out`. Fails and appends nothing if [`Self::parse`] would
    /// refuse the result.
    pub fn write(&self, out: &mut Vec<u8>) -> Result<(), FormatError> {
        self.check()?;
        let start = out.len();
        serde_json::to_writer(&mut *out, &RawLine::of(self)).expect("a line can be JSON");
        let checked = check_length(out.len() - start);
        match checked {
            Ok(()) => out.push(b'\n'),
            Err(_) => out.truncate(start),
        }
        checked
    }

    pub(crate) fn stated_origin(&self) -> Option<Origin> {
        match self {
            Self::Put(line) => line.origin,
            Self::Message(line) => line.origin,
            Self::Move(_) | Self::Remove(_) => None,
        }
    }

    fn check(&self) -> Result<(), FormatError> {
        match self {
            Self::Put(line) => line.check(),
            Self::Move(line) => check_path(&line.to),
            Self::Message(line) if line.text.contains('\n') => {
                Err(FormatError::damaged("a message has more than one line"))
            }
            Self::Remove(_) | Self::Message(_) => Ok(()),
        }
    }
}

fn check_length(length: usize) -> Result<(), FormatError> {
    let most = LINE_BYTES as u64;
    let too_large = FormatError::TooLarge { what: "a line of the records", most };
    if length > LINE_BYTES { Err(too_large) } else { Ok(()) }
}

/// Checks that `path` does not leave the conversation, is not too deep, and is spelled as ctxfs
/// spells paths.
fn check_path(path: &str) -> Result<(), FormatError> {
    let refused = |why: &str| FormatError::damaged(format!("a path is refused: {why}"));
    let parsed = RelPath::from_text(path).map_err(|error| refused(&error.to_string()))?;
    if parsed.to_text() != path {
        return Err(refused("it is not written as ctxfs writes it"));
    }
    if memchr::memchr_iter(b'/', path.as_bytes()).count() > MAX_DEPTH {
        return Err(refused("it is too deep"));
    }
    Ok(())
}

/// Maximum size in bytes of an artifact that is stored in a segment.
pub const SMALL_BYTES: u64 = 256 << 10;
/// Exclusive upper limit of generations. JavaScript represents smaller integers exactly.
const MOST_GENERATIONS: u64 = 1 << 53;
/// Range of dates in JavaScript, in milliseconds around the epoch.
const MOST_MILLIS: u64 = 8_640_000_000_000_000;
const ATTRIBUTE: &str = "user.";
/// Mask of the permission bits that are kept. The set-user-ID and set-group-ID bits are dropped.
const MODE: u32 = 0o777;

/// Publishes an artifact. If the artifact replaces others, a separate `remove` line removes them.
/// Parsing and writing check the same limits, so every host can read a line that was written.
///
/// `record` includes the path. The fields `file`, `owner`, `view_sizes` and `far` of `record` are
/// valid on one host only, so they are neither written nor read. `attributes` are the extended
/// attributes `user.*`. Values that are not UTF-8 are escaped like file names. `stamp` is the time
/// at which the artifact got its path, and `place` is the location of the bytes. If the bytes are
/// in an object, the segment may contain `parts` of them too. `origin` is the origin of the first
/// publication, if that was in another segment.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "described above")]
pub struct PutLine {
    pub record: Record,
    pub mode: u32,
    pub attributes: BTreeMap<String, String>,
    pub stamp: Stamp,
    pub place: Place,
    pub parts: Option<Parts>,
    pub origin: Option<Origin>,
}

/// Location of the bytes of an artifact. `Empty` has no bytes, the bytes of `Inside` are in the
/// segment, and those of `Object` are in an object. `size` is the size of the artifact in bytes.
/// The frame of `Inside` starts `at` bytes after the end of the records' frame, and has `packed`
/// bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "described above")]
pub enum Place {
    #[default]
    Empty,
    Inside {
        at: u64,
        packed: u64,
        size: u64,
    },
    Object(ObjectPlace),
}

/// An object with all bytes of an artifact. `packed` is the size of the object, and `size` the size
/// of the artifact, in bytes. `blocks` is the BLAKE3 digest of the table of blocks, in lower-case
/// hexadecimal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "described above")]
pub struct ObjectPlace {
    pub name: ObjectName,
    pub packed: u64,
    pub size: u64,
    pub blocks: String,
}

impl ObjectPlace {
    pub(crate) fn read_table(&self, table: &[u8]) -> Result<Blocks, FormatError> {
        let blocks = Blocks::parse(table, self.size, self.packed)?;
        if blocks.digest_text() != self.blocks {
            let what = "the table of the blocks of an object has another digest";
            return Err(FormatError::damaged(what));
        }
        Ok(blocks)
    }
}

impl Place {
    /// Returns the size of the artifact in bytes.
    pub fn size(&self) -> u64 {
        match self {
            Self::Empty => 0,
            Self::Inside { size, .. } | Self::Object(ObjectPlace { size, .. }) => *size,
        }
    }

    fn is_possible(&self) -> bool {
        match self {
            Self::Empty => true,
            Self::Inside { packed, size, .. } => {
                let most = frame::most_packed(SMALL_BYTES as usize + AROUND) as u64;
                (1..=SMALL_BYTES).contains(size) && (1..=most).contains(packed)
            }
            Self::Object(ObjectPlace { packed, size, blocks, .. }) => {
                *size > 0 && *packed > 0 && is_digest(blocks)
            }
        }
    }
}

impl PutLine {
    /// Returns the BLAKE3 digest of the artifact's bytes. Returns `None` if the record has no
    /// analysis.
    pub fn digest(&self) -> Option<&str> {
        self.record.analysis.as_ref().map(|analysis| analysis.digest.as_str())
    }

    fn check(&self) -> Result<(), FormatError> {
        check_path(&self.record.path)?;
        let refused = |what: &str| Err(FormatError::damaged(what));
        if !is_possible(&self.record) {
            return refused("a record says what cannot be");
        }
        if !self.attributes.keys().all(|name| is_attribute(name)) {
            return refused("an attribute has a name that users cannot set");
        }
        if !self.place.is_possible() {
            return refused("the place of an artifact's bytes cannot be");
        }
        let is_large = matches!(self.place, Place::Object(_));
        let are_possible = |parts: &Parts| is_large && parts.are_possible(self.place.size());
        if !self.parts.as_ref().is_none_or(are_possible) {
            return refused("the parts of an artifact cannot be");
        }
        // A record keeps its original size after its content was removed.
        if self.record.removed.is_none() && self.record.size != self.place.size() {
            return refused("a record has another size than the artifact's bytes");
        }
        Ok(())
    }
}

fn is_possible(record: &Record) -> bool {
    let analysed = record.analysis.as_ref();
    (1..MOST_GENERATIONS).contains(&record.generation)
        && record.created.unsigned_abs() <= MOST_MILLIS
        && record.state != ArtifactState::Gone
        && analysed.is_none_or(|analysis| is_digest(&analysis.digest))
}

fn is_attribute(name: &str) -> bool {
    let rest = name.strip_prefix(ATTRIBUTE).unwrap_or_default();
    !rest.is_empty() && name.len() <= NAME_MAX && !name.contains('\0')
}

const AROUND: usize = 1024;
/// Maximum total number of bytes in the ranges of [`Parts`].
pub const PARTS_BYTES: u64 = 8 << 20;
const MOST: usize = 256;

/// Parts of an artifact whose bytes are in an object. The segment contains a copy of these parts,
/// so that short views need no request for the object. `ranges` are pairs of start and end in the
/// artifact, sorted and disjoint. A single frame has the bytes of all ranges, concatenated. The
/// frame starts `at` bytes after the end of the records' frame, and has `packed` bytes. `digest` is
/// the BLAKE3 digest of the concatenated bytes, in lower-case hexadecimal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "described above")]
pub struct Parts {
    pub at: u64,
    pub packed: u64,
    pub digest: String,
    pub ranges: Vec<(u64, u64)>,
}

impl Parts {
    /// Returns the total number of bytes in the ranges.
    pub fn size(&self) -> u64 {
        self.ranges.iter().map(|(start, end)| end - start).sum()
    }

    /// Returns the range that contains `offset`, and the position of the first byte of that range
    /// in the concatenated bytes.
    pub fn around(&self, offset: u64) -> Option<(Range<u64>, u64)> {
        let mut before = 0;
        for (start, end) in &self.ranges {
            if (*start..*end).contains(&offset) {
                return Some((*start..*end, before));
            }
            before += end - start;
        }
        None
    }

    fn are_possible(&self, length: u64) -> bool {
        let most = frame::most_packed(PARTS_BYTES as usize + AROUND) as u64;
        let (mut after, mut size) = (0, 0);
        let mut ranges = self.ranges.iter();
        let are_apart = ranges.all(|(start, end)| {
            let is_next = after <= *start && start < end && *end <= length;
            if is_next {
                size += end - start;
                after = *end;
            }
            is_next
        });
        are_apart
            && (1..=MOST).contains(&self.ranges.len())
            && size <= PARTS_BYTES
            && (1..=most).contains(&self.packed)
            && is_digest(&self.digest)
    }
}

fn is_digest(text: &str) -> bool {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    text.len() == 2 * blake3::OUT_LEN && text.bytes().all(is_digit)
}

const FORMAT: u32 = 1;

/// JSON form of a line: the keys of all kinds of records, each optional. A line without a key of a
/// known kind is in a newer format.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct RawLine {
    #[serde(skip_serializing_if = "Option::is_none")]
    put: Option<Box<Record>>,
    #[serde(rename = "move", skip_serializing_if = "Option::is_none")]
    moved: Option<Origin>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remove: Option<BTreeSet<Origin>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<String>,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    segments: BTreeSet<SegmentId>,
    #[serde(skip_serializing_if = "is_false")]
    ends: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<u32>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    attributes: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stamp: Option<Stamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<RawBytes>,
    #[serde(skip_serializing_if = "Option::is_none")]
    object: Option<ObjectPlace>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parts: Option<Parts>,
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<Origin>,
}

#[derive(Serialize, Deserialize)]
struct RawBytes {
    at: u64,
    packed: u64,
    size: u64,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Kinds {
    put: Option<IgnoredAny>,
    #[serde(rename = "move")]
    moved: Option<IgnoredAny>,
    remove: Option<IgnoredAny>,
    message: Option<IgnoredAny>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

fn refusal(line: &[u8], error: &serde_json::Error) -> FormatError {
    match serde_json::from_slice(line) {
        Ok(Kinds { put: None, moved: None, remove: None, message: None }) => unknown(),
        // The error message of serde would quote the line.
        _ => FormatError::damaged(format!("it is no record (column {})", error.column())),
    }
}

fn unknown() -> FormatError {
    FormatError::Newer { format: FORMAT + 1 }
}

fn missing(key: &str) -> FormatError {
    FormatError::damaged(format!("it has no `{key}`"))
}

impl RawLine {
    fn of(line: &Line) -> Self {
        match line {
            Line::Put(line) => Self::of_put(line),
            Line::Move(line) => Self {
                moved: Some(line.artifact),
                to: Some(line.to.clone()),
                stamp: Some(line.stamp),
                ..Self::default()
            },
            Line::Remove(line) => Self {
                remove: Some(line.origins.clone()),
                segments: line.segments.clone(),
                ends: line.ends,
                ..Self::default()
            },
            Line::Message(line) => Self {
                message: Some(line.text.clone()),
                stamp: Some(line.stamp),
                origin: line.origin,
                ..Self::default()
            },
        }
    }

    fn of_put(line: &PutLine) -> Self {
        let (bytes, object) = raw_place(&line.place);
        Self {
            put: Some(Box::new(of_all_hosts(line.record.clone()))),
            mode: Some(line.mode & MODE),
            attributes: line.attributes.clone(),
            stamp: Some(line.stamp),
            bytes,
            object,
            parts: line.parts.clone(),
            origin: line.origin,
            ..Self::default()
        }
    }

    fn into_line(mut self) -> Result<Line, FormatError> {
        let kinds = (self.put.take(), self.moved, self.remove.take(), self.message.take());
        match kinds {
            (Some(record), None, None, None) => self.into_put(*record),
            (None, Some(artifact), None, None) => self.into_move(artifact),
            (None, None, Some(origins), None) => {
                Ok(Line::Remove(RemoveLine { origins, segments: self.segments, ends: self.ends }))
            }
            (None, None, None, Some(text)) => {
                let (stamp, origin) = (self.stamp()?, self.origin);
                Ok(Line::Message(MessageLine { text, stamp, origin }))
            }
            (None, None, None, None) => Err(unknown()),
            _ => Err(FormatError::damaged("it is of two kinds")),
        }
    }

    fn into_put(self, record: Record) -> Result<Line, FormatError> {
        let stamp = self.stamp()?;
        let mode = self.mode.ok_or_else(|| missing("mode"))? & MODE;
        let place = place(self.bytes, self.object)?;
        let (record, attributes) = (of_all_hosts(record), self.attributes);
        let (parts, origin) = (self.parts, self.origin);
        let line = PutLine { record, mode, attributes, stamp, place, parts, origin };
        Ok(Line::Put(Box::new(line)))
    }

    fn into_move(self, artifact: Origin) -> Result<Line, FormatError> {
        let stamp = self.stamp()?;
        let to = self.to.ok_or_else(|| missing("to"))?;
        Ok(Line::Move(MoveLine { artifact, to, stamp }))
    }

    fn stamp(&self) -> Result<Stamp, FormatError> {
        self.stamp.ok_or_else(|| missing("stamp"))
    }
}

fn of_all_hosts(record: Record) -> Record {
    Record { file: None, owner: None, view_sizes: None, far: None, ..record }
}

fn raw_place(place: &Place) -> (Option<RawBytes>, Option<ObjectPlace>) {
    match place {
        Place::Empty => (None, None),
        Place::Inside { at, packed, size } => {
            (Some(RawBytes { at: *at, packed: *packed, size: *size }), None)
        }
        Place::Object(object) => (None, Some(object.clone())),
    }
}

fn place(bytes: Option<RawBytes>, object: Option<ObjectPlace>) -> Result<Place, FormatError> {
    match (bytes, object) {
        (None, None) => Ok(Place::Empty),
        (Some(RawBytes { at, packed, size }), None) => Ok(Place::Inside { at, packed, size }),
        (None, Some(object)) => Ok(Place::Object(object)),
        (Some(_), Some(_)) => Err(FormatError::damaged("its bytes are in two places")),
    }
}

#[cfg(test)]
mod tests;
