//! The object store that hosts share: what lies in it, and how it is asked.
//!
//! Everything is created under a new name and never changed, and nothing has two writers. So there
//! is no lock, no lease and no coordinator. What was read of a bucket was written by anybody who
//! may write there, and is bounded and checked before it is used.
//!
//! | module | content |
//! |---|---|
//! | `name` | the keys of what lies in a bucket |
//! | `segment` | archives of records, messages, and the bytes of small artifacts |
//! | `line` | the records of a segment |
//! | `object` | the bytes of one larger artifact, in blocks |
//! | `frame` | single zstd frames |
//! | `format_error` | what is not as ctxfs writes it |
//! | `directory` | a bucket that is a directory, as the disk has it |
//! | `url` | which bucket, and the clients for each kind |
//! | `access` | requests, repeated until a deadline |
//! | `identity` | which bucket it is, and its format |
//! | `requests` | how many requests there were, by kind |
//! | `error` | why a request came to nothing |

mod access;
mod directory;
mod error;
mod format_error;
mod frame;
mod identity;
mod line;
mod name;
mod object;
mod requests;
mod segment;
#[cfg(test)]
mod test_server;
mod url;

pub use access::{Bucket, Created, Deadline, Listed};
pub use error::BucketError;
pub use format_error::FormatError;
pub use identity::{BucketId, Identity};
pub use line::{
    LINE_BYTES, Line, MessageLine, MoveLine, ObjectPlace, PARTS_BYTES, Parts, Place, PutLine,
    RemoveLine, SMALL_BYTES,
};
pub use name::{
    CONVERSATIONS, ObjectName, ObjectPart, blocks_key, conversation_of, log_prefix, object_key,
    object_of, objects_prefix, segment_key, segment_of,
};
pub use object::{BLOCK_BYTES, BlockPacker, Blocks, PackedObject, unpack_block};
pub use requests::{RequestCounts, Tally};
pub use segment::{
    Lines, PutBytes, PutParts, RECORDS_BYTES, SEGMENT_BYTES, SegmentHead, SegmentWriter, lines,
    packed_parts, unpack_member, unpack_parts,
};
pub use url::BucketUrl;
