//! Keys and formats of the object store that hosts share, and the requests to it.
//!
//! Objects are created under new names and never changed, and no key has two writers. So no lock,
//! no lease and no coordinator is needed. Anyone with write access may have written the bytes in a
//! bucket, so every reader limits their size and checks them before it uses them.
//!
//! | module | content |
//! |---|---|
//! | `name` | keys |
//! | `segment` | archives of records, messages and the bytes of small artifacts |
//! | `line` | records of a segment |
//! | `object` | bytes of one larger artifact, in blocks |
//! | `frame` | single zstd frames |
//! | `objects` | trait for the requests to a bucket, and their data |
//! | `directory` | a bucket that is a directory on a local or mounted disk |
//! | `url` | URLs of buckets, and a client for each kind of object store |
//! | `access` | requests, with retries and deadlines |
//! | `identity` | id and format of a bucket |
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
mod tests;
mod url;

pub use access::Bucket;
pub use error::{BucketError, FormatError};
pub use identity::{BucketId, Identity};
pub use line::{
    Line, MessageLine, MoveLine, ObjectPlace, PARTS_BYTES, Parts, Place, PutLine, RemoveLine,
    SMALL_BYTES,
};
pub use name::{CONVERSATIONS, ObjectName, conversation_of, log_prefix, objects_prefix};
pub use object::{BLOCK_BYTES, BlockPacker, Blocks, PackedObject, unpack_block};
pub use objects::{
    Created, Deadline, Listed, NameRange, NewNames, Objects, RequestCounts, StoreTime, Tally,
};
pub use segment::{
    Lines, PutBytes, PutParts, RECORDS_BYTES, SEGMENT_BYTES, SegmentHead, SegmentWriter,
    unpack_member, unpack_parts,
};
pub use url::BucketUrl;

pub(crate) use line::LINE_BYTES;
pub(crate) use name::{
    ObjectPart, blocks_key, object_key, object_of, segment_key, segment_name, segment_of,
};
pub(crate) use segment::packed_parts;
