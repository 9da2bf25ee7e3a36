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

pub use access::Bucket;
pub use access::Created;
pub use access::Deadline;
pub use access::Listed;
pub use error::BucketError;
pub use format_error::FormatError;
pub use identity::BucketId;
pub use identity::Identity;
pub use line::LINE_BYTES;
pub use line::Line;
pub use line::MessageLine;
pub use line::MoveLine;
pub use line::ObjectPlace;
pub use line::PARTS_BYTES;
pub use line::Parts;
pub use line::Place;
pub use line::PutLine;
pub use line::RemoveLine;
pub use line::SMALL_BYTES;
pub use name::CONVERSATIONS;
pub use name::ObjectName;
pub use name::ObjectPart;
pub use name::blocks_key;
pub use name::conversation_of;
pub use name::log_prefix;
pub use name::object_key;
pub use name::object_of;
pub use name::objects_prefix;
pub use name::segment_key;
pub use name::segment_of;
pub use object::BLOCK_BYTES;
pub use object::BlockPacker;
pub use object::Blocks;
pub use object::PackedObject;
pub use object::unpack_block;
pub use requests::RequestCounts;
pub use requests::Tally;
pub use segment::Lines;
pub use segment::PutBytes;
pub use segment::PutParts;
pub use segment::RECORDS_BYTES;
pub use segment::SEGMENT_BYTES;
pub use segment::SegmentHead;
pub use segment::SegmentWriter;
pub use segment::lines;
pub use segment::packed_parts;
pub use segment::unpack_member;
pub use segment::unpack_parts;
pub use url::BucketUrl;
