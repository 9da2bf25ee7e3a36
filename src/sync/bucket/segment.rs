//! Segments: archives of what a host publishes of a conversation at once.
//!
//! ```text
//! segment.json        who wrote it, what it covers, and where the records end
//! records.jsonl       what was done, a line each
//! bytes/<origin>      the bytes of small artifacts
//! parts/<origin>      some of the bytes of larger ones
//! ```
//!
//! It is a tar archive. Each member, with its header and padding, is a zstd frame of its own, as
//! are the zeros at the end: `zstd -d | tar x` unpacks all of it, and who knows where a frame is
//! unpacks that alone. The same content makes the same bytes. A merge takes over the frames of what
//! it covers as they are; so the members are named by origins, which are the same in every segment.

mod member;
mod reader;
mod writer;

use serde::{Deserialize, Serialize};

use crate::bucket::FormatError;
use crate::replica::{Covers, Origin, SegmentId, WriterId};

pub use reader::{Lines, SegmentHead, lines, unpack_member, unpack_parts};
pub use writer::{PutBytes, PutParts, SegmentWriter, packed_parts};

/// The format that this code writes, and the newest that it reads.
const FORMAT: u32 = 1;
/// The most bytes of a segment.
pub const SEGMENT_BYTES: u64 = 64 << 20;
/// The most bytes of its records when they are unpacked: a reader holds all of them.
pub const RECORDS_BYTES: u64 = 32 << 20;
/// The most bytes by which a line grows in a merge, where it states its origin.
const ORIGIN_BYTES: u64 = 64;
/// The most bytes of its head when that is unpacked: a quarter of a million covered segments.
const HEAD_BYTES: usize = 16 << 20;
/// The names of the first two members.
const HEAD: &str = "segment.json";
const RECORDS: &str = "records.jsonl";

/// The content of the first member.
#[derive(Debug, Serialize, Deserialize)]
struct Head {
    format: u32,
    writer: WriterId,
    number: u64,
    covers: Covers,
    records: RecordsFrame,
}

/// The frame of the records.
#[derive(Debug, Serialize, Deserialize)]
struct RecordsFrame {
    /// Its bytes.
    packed: u64,
    /// The bytes of the records, without the header of their member.
    size: u64,
    /// The number of records.
    lines: u32,
}

/// Returns the origin of what line `place` of the segment `id` publishes, which may state it. Only
/// what was published in a segment that this one covers has another one.
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

#[cfg(test)]
mod tests;
