
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::bucket::line::check_path;
use crate::bucket::line::parts::{AROUND, Parts, is_digest};
use crate::bucket::name::ObjectName;
use crate::bucket::object::Blocks;
use crate::bucket::{FormatError, frame};
use crate::replica::{Origin, Stamp};
use ctxfs_core::model::{ArtifactState, NAME_MAX, Record};

///+ Maximum bytes of an artifact that is stored in a segment.
pub const SMALL_BYTES: u64 = 256 << 10;
///+ Generations stay below the largest exact integer of JavaScript.
const MOST_GENERATIONS: u64 = 1 << 53;
///+ Range of dates in JavaScript, in milliseconds around the epoch.
const MOST_MILLIS: u64 = 8_640_000_000_000_000;
///+ Prefix of attributes that users may set.
const ATTRIBUTE: &str = "user.";
///+ Permission bits that are kept: no set-user-ID and no set-group-ID.
pub(super) const MODE: u32 = 0o777;

///+ Publishes an artifact. Records that it replaces are removed by a `remove` line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PutLine {
    ///+ Record with its path. Fields that hold for one host only are neither written nor read:
    ///+ `file`, `owner`, `view_sizes` and `far`.
    pub record: Record,
    ///+ Permission bits of the file.
    pub mode: u32,
    ///+ Extended attributes `user.*`. Values are escaped where they are not UTF-8, like file names.
    pub attributes: BTreeMap<String, String>,
    ///+ Time at which the artifact got its path.
    pub stamp: Stamp,
    ///+ Where the bytes are.
    pub place: Place,
    ///+ Ranges of a larger artifact that are in the segment as well.
    pub parts: Option<Parts>,
    ///+ Where the artifact was first published, if not in this segment.
    pub origin: Option<Origin>,
}

///+ Location of the bytes of an artifact.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Place {
    ///+ The artifact is empty.
    #[default]
    Empty,
    ///+ The bytes are in the segment.
    Inside {
        ///+ Start of the frame, relative to the end of the records' frame.
        at: u64,
        ///+ Bytes of the frame.
        packed: u64,
        ///+ Bytes of the artifact.
        size: u64,
    },
    ///+ The bytes are in an object.
    Object(ObjectPlace),
}

///+ An object with all bytes of an artifact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectPlace {
    ///+ Name of the object.
    pub name: ObjectName,
    ///+ Bytes of the object.
    pub packed: u64,
    ///+ Bytes of the artifact.
    pub size: u64,
    ///+ BLAKE3 of the table of blocks, in lower-case hexadecimal.
    pub blocks: String,
}

impl ObjectPlace {
    ///+ Parses the table of blocks, and checks its digest.
    pub fn read_table(&self, table: &[u8]) -> Result<Blocks, FormatError> {
        let blocks = Blocks::parse(table, self.size, self.packed)?;
        if blocks.digest_text() != self.blocks {
            let what = "the table of the blocks of an object has another digest";
            return Err(FormatError::damaged(what));
        }
        Ok(blocks)
    }
}

impl Place {
    ///+ Returns the bytes of the artifact.
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
    ///+ Returns BLAKE3 of the artifact's bytes, if the record has it.
    pub fn digest(&self) -> Option<&str> {
        self.record.analysis.as_ref().map(|analysis| analysis.digest.as_str())
    }

    pub(super) fn check(&self) -> Result<(), FormatError> {
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
        // The record of removed content keeps its original size.
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
