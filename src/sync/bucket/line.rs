//! The records of a segment, `records.jsonl`: JSON objects, one per line.
//!
//! The kind of a record follows from the one key that only that kind has: `put`, `move`, `remove`
//! or `message`. Unknown keys are ignored.

mod parts;
mod put;
mod raw;

use std::collections::BTreeSet;

use crate::bucket::FormatError;
use crate::bucket::line::raw::RawLine;
use crate::replica::{Origin, SegmentId, Stamp};
use ctxfs_core::model::{MAX_DEPTH, RelPath};

pub use parts::{PARTS_BYTES, Parts};
pub use put::{ObjectPlace, Place, PutLine, SMALL_BYTES};

///+ Maximum bytes of a line, without its newline.
pub const LINE_BYTES: usize = 16 << 20;

///+ A record of a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    ///+ Publishes an artifact.
    Put(Box<PutLine>),
    ///+ Renames an artifact.
    Move(MoveLine),
    ///+ Removes artifacts and messages.
    Remove(RemoveLine),
    ///+ Publishes a message.
    Message(MessageLine),
}

///+ Renames an artifact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MoveLine {
    ///+ The renamed artifact.
    pub artifact: Origin,
    ///+ New path, as `RelPath::to_text` writes it.
    pub to: String,
    ///+ Time of the rename.
    pub stamp: Stamp,
}

///+ Removes artifacts and messages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RemoveLine {
    ///+ Single artifacts and messages.
    pub origins: BTreeSet<Origin>,
    ///+ Segments of which all artifacts and messages are removed.
    pub segments: BTreeSet<SegmentId>,
    ///+ True if the writer removed the conversation.
    pub ends: bool,
}

///+ Publishes a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageLine {
    ///+ Line of the message log, without its newline.
    pub text: String,
    ///+ Time of the append.
    pub stamp: Stamp,
    ///+ Where the message was first published, if not in this segment.
    pub origin: Option<Origin>,
}

impl Line {
    ///+ Parses a line without its newline.
    pub fn parse(line: &[u8]) -> Result<Self, FormatError> {
        check_length(line.len())?;
        // Serde accepts arrays for structs too.
        if line.first() != Some(&b'{') {
            return Err(FormatError::damaged("it is no JSON object"));
        }
        let raw: RawLine =
            serde_json::from_slice(line).map_err(|error| raw::refusal(line, &error))?;
        let line = raw.into_line()?;
        line.check()?;
        Ok(line)
    }

    ///+ Appends the line and a newline to `out`. Fails and appends nothing if [`Self::parse`] would
    ///+ refuse the result.
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

    ///+ Returns the origin that the line states.
    pub fn stated_origin(&self) -> Option<Origin> {
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

///+ Checks that `path` stays in the conversation, is not too deep, and is spelled as ctxfs spells
///+ it.
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

#[cfg(test)]
mod tests;
