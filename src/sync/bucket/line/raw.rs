
use std::collections::{BTreeMap, BTreeSet};

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use crate::bucket::FormatError;
use crate::bucket::line::parts::Parts;
use crate::bucket::line::put::{MODE, ObjectPlace, Place, PutLine};
use crate::bucket::line::{Line, MessageLine, MoveLine, RemoveLine};
use crate::replica::{Origin, SegmentId, Stamp};
use ctxfs_core::model::Record;

///+ Format in which all kinds of lines are known.
const FORMAT: u32 = 1;

///+ A line as JSON has it: the keys of all kinds, each optional.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct RawLine {
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

///+ The keys that tell the kind of a line, whatever their values.
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

pub(super) fn refusal(line: &[u8], error: &serde_json::Error) -> FormatError {
    match serde_json::from_slice(line) {
        Ok(Kinds { put: None, moved: None, remove: None, message: None }) => unknown(),
        // The message of serde would quote the line.
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
    pub(super) fn of(line: &Line) -> Self {
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

    pub(super) fn into_line(mut self) -> Result<Line, FormatError> {
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

///+ Returns the record without the fields that hold for one host only.
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
