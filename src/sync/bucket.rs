//! The object store that hosts share: its keys and formats, and the requests.
//!
//! Objects are created under new names and never changed, and no key has two writers, so there is
//! no lock, no lease and no coordinator. Anyone with write access may have written the bytes of a
//! bucket: every reader bounds and checks them first.
//!
//! | module | content |
//! |---|---|
//! | `name` | keys |
//! | `segment` | archives of records, messages and the bytes of small artifacts |
//! | `line` | the records of a segment |
//! | `object` | the bytes of one larger artifact, in blocks |
//! | `frame` | single zstd frames |
//! | `directory` | a bucket that is a directory on a local or mounted disk |
//! | `url` | URLs of buckets, and the clients for each kind of store |
//! | `access` | requests, with retries and deadlines |
//! | `identity` | the id and format of a bucket |
//! | `error` | errors |

mod access;
mod directory;
mod error;
mod frame;
mod identity;
mod line;
mod name;
mod object;
mod objects;
mod segment;
#[cfg(test)]
mod test_server;
mod url;

pub use access::{Bucket, Created, Deadline, Listed, RequestCounts, Tally};
pub use error::{BucketError, FormatError};
pub use identity::{BucketId, Identity};
pub use line::{
    Line, MessageLine, MoveLine, ObjectPlace, PARTS_BYTES, Parts, Place, PutLine, RemoveLine,
    SMALL_BYTES,
};
pub use name::{CONVERSATIONS, ObjectName, conversation_of, log_prefix, objects_prefix};
pub use object::{BLOCK_BYTES, BlockPacker, Blocks, PackedObject, unpack_block};
pub use objects::Objects;
pub use segment::{
    Lines, PutBytes, PutParts, RECORDS_BYTES, SEGMENT_BYTES, SegmentHead, SegmentWriter, lines,
    unpack_member, unpack_parts,
};
pub use url::BucketUrl;

pub(crate) use line::LINE_BYTES;
pub(crate) use name::{ObjectPart, blocks_key, object_key, object_of, segment_key, segment_of};
pub(crate) use segment::packed_parts;
