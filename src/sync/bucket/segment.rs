//! Segments: archives of what a host publishes of a conversation at one time.
//!
//! ```text
//! segment.json        writer, covered segments, and the end of the records
//! records.jsonl       one record per line
//! bytes/<origin>      bytes of small artifacts
//! parts/<origin>      some of the bytes of larger artifacts
//! ```
//!
//! A segment is a tar archive. Each member, with its header and padding, is a zstd frame of its
//! own, as is the end of the archive: `zstd -d | tar x` unpacks everything, and a reader that knows
//! the range of a frame can unpack that frame alone. The same content gives the same bytes. A merge
//! copies frames unchanged from the segments that it covers; members are named by origins because
//! these are the same in every segment.

mod member;
mod reader;
mod writer;

use serde::{Deserialize, Serialize};

use crate::bucket::FormatError;
use crate::replica::{Covers, Origin, SegmentId, WriterId};

pub use reader::{Lines, SegmentHead, lines, unpack_member, unpack_parts};
pub use writer::{PutBytes, PutParts, SegmentWriter, packed_parts};

///+ Format that this code writes, and the newest that it reads.
const FORMAT: u32 = 1;
///+ Maximum bytes of a segment.
pub const SEGMENT_BYTES: u64 = 64 << 20;
///+ Maximum bytes of the unpacked records, all of which a reader holds in memory.
pub const RECORDS_BYTES: u64 = 32 << 20;
///+ Maximum growth of a line in a merge, which states its origin.
const ORIGIN_BYTES: u64 = 64;
///+ Maximum bytes of the unpacked head: a quarter of a million covered segments.
const HEAD_BYTES: usize = 16 << 20;
const HEAD: &str = "segment.json";
const RECORDS: &str = "records.jsonl";

///+ Content of `segment.json`.
#[derive(Debug, Serialize, Deserialize)]
struct Head {
    format: u32,
    writer: WriterId,
    number: u64,
    covers: Covers,
    records: RecordsFrame,
}

#[derive(Debug, Serialize, Deserialize)]
struct RecordsFrame {
    packed: u64,
    ///+ Bytes of the records without the header of their member.
    size: u64,
    lines: u32,
}

///+ Returns the origin of the artifact or message in line `place` of segment `id`. A line may state
///+ an origin only in a segment that this one covers.
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
