//! A conversation as one file, to be moved or kept elsewhere: a tar archive, compressed by zstd.
//!
//! ```text
//! c7/.ctxfs-archive     what this is: format and conversation, one line of JSON
//! c7/                   directories and files, depth first, the names in a directory in the order of
//! c7/artifacts/         their bytes; modes, times to the nanosecond, extended attributes `user.*`
//! c7/artifacts/...
//! c7/manifest.jsonl     a record for every file, as it was when the file was read
//! c7/.ctxfs-digests     BLAKE3 of every file above, a line each, as `b3sum` prints and checks it
//! ```
//!
//! No clock is in it: the same conversation makes the same bytes. `tar` reads it; the names of its
//! own files begin with `.ctxfs`, which no other file of a conversation can.
//!
//! Whoever made it is not trusted. It is read strictly: kinds, order, names and headers are those
//! that `export` writes, sizes are held against the room there is before anything is written, and
//! every digest is made again. What is read goes to a directory that nobody else sees, and becomes
//! a conversation in one step when all of it is right.

mod content;
mod digests;
mod error;
mod export;
mod extract;
mod import;
mod member;
mod pax;
mod reader;
mod records;
mod staging;
#[cfg(test)]
mod tests;
mod walk;

use serde::Deserialize;
use serde::Serialize;

pub use error::ArchiveError;
pub use error::Flaw;
pub use export::Exported;
pub use import::ImportOptions;
pub use import::Imported;

pub(super) use staging::clean as clean_staging;

/// The format that this code writes, and the newest it reads.
const FORMAT: u32 = 1;
/// Compression: zstd's own default, which is about as fast as a disk.
const LEVEL: i32 = 3;
/// Bytes that the decoder may look back, as a power of two: 8 MiB, which is what zstd uses up to level
/// 19.
const WINDOW_LOG: u32 = 23;
/// Bytes that are read or written at once.
const BLOCK: usize = 256 * 1024;
/// Bytes of the extended header of one member: some attributes of 64 KiB, the most that Linux takes.
const MOST_HEADER: u64 = 1 << 20;
/// Bytes of one record, far above what a command line or an attribute can hold.
const MOST_RECORD: u64 = 16 << 20;

/// The first member, which says what follows.
const DESCRIPTION: &str = ".ctxfs-archive";
/// The last one.
const DIGESTS: &str = ".ctxfs-digests";

/// What the first member says.
#[derive(Debug, Serialize, Deserialize)]
struct Description {
    /// Raised when an older ctxfs could not read it rightly.
    format: u32,
    /// The conversation, as text.
    conversation: String,
}
