//! The line that publishes an artifact.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::bucket::line::check_path;
use crate::bucket::line::parts::{AROUND, Parts, is_digest};
use crate::bucket::name::ObjectName;
use crate::bucket::object::Blocks;
use crate::bucket::{FormatError, frame};
use crate::replica::{Origin, Stamp};
use ctxfs_core::model::{ArtifactState, NAME_MAX, Record};

/// The most bytes of an artifact that lies in a segment itself.
pub const SMALL_BYTES: u64 = 256 << 10;
/// The first generation that is refused: the limit of integers in JavaScript.
const MOST_GENERATIONS: u64 = 1 << 53;
/// The most milliseconds before or after the epoch: the range of dates in JavaScript.
const MOST_MILLIS: u64 = 8_640_000_000_000_000;
/// The beginning of the names of the attributes that users set.
const ATTRIBUTE: &str = "user.";
/// The permission bits that are kept, without set-user-ID and set-group-ID.
pub(super) const MODE: u32 = 0o777;

/// A line that publishes an artifact. What that replaces, another line removes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PutLine {
    /// Its record, with its path. What is of one host alone is neither written nor read: `file`,
    /// `owner`, `view_sizes` and `far`.
    pub record: Record,
    /// The permission bits of its file.
    pub mode: u32,
    /// Its extended attributes `user.*`. The values are texts as those of names: bytes that are not
    /// UTF-8 are escaped.
    pub attributes: BTreeMap<String, String>,
    /// When it was given its name.
    pub stamp: Stamp,
    /// Where its bytes are.
    pub place: Place,
    /// Those of the bytes of a larger one that are in the segment, too.
    pub parts: Option<Parts>,
    /// Where it was first published, if that is not here.
    pub origin: Option<Origin>,
}

/// A place of the bytes of an artifact.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Place {
    /// There are none: it is empty.
    #[default]
    Empty,
    /// In the segment itself.
    Inside {
        /// Where their frame begins, counted from the end of the records' frame.
        at: u64,
        /// The bytes of the frame.
        packed: u64,
        /// The bytes of the artifact.
        size: u64,
    },
    /// In an object of their own.
    Object(ObjectPlace),
}

/// An object that has all bytes of an artifact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectPlace {
    /// The object.
    pub name: ObjectName,
    /// The bytes of the object.
    pub packed: u64,
    /// The bytes of the artifact.
    pub size: u64,
    /// BLAKE3 of the table of its blocks, in lower-case hexadecimal.
    pub blocks: String,
}

impl ObjectPlace {
    /// Reads the table of its blocks, if it is the one that the record means.
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
    /// Returns the bytes of the artifact.
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
    /// Returns BLAKE3 of the artifact's bytes, if its record tells.
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
        // The record of content that was removed tells how large that was.
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
