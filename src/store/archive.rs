//! A conversation as one file, to move it or keep it elsewhere: a tar archive, compressed by zstd.
//!
//! ```text
//! c7/.ctxfs-archive     the description: format and conversation, one line of JSON
//! c7/                   directories and files, depth first, each directory sorted by the bytes of
//! c7/artifacts/         the names; modes, times to the nanosecond, extended attributes `user.*`
//! c7/artifacts/...
//! c7/manifest.jsonl     a record for every file, as it was when the file was read
//! c7/.ctxfs-digests     BLAKE3 of every file above, a line each, as `b3sum` prints and checks it
//! ```
//!
//! It has no time of its own, so the same conversation makes the same bytes. `tar` can read it. The
//! names of the archive's own files begin with `.ctxfs`, which no other file of a conversation can.
//!
//! An archive is not trusted. Types, order, names and headers must be as `export` writes them,
//! sizes are compared with the free space before anything is written, and every digest is computed
//! again. Members go to a directory that no reader sees, which becomes the conversation in one step
//! once everything has been checked.

mod content;
mod digests;
mod error;
mod export;
mod exported_file;
mod extract;
mod import;
mod member;
mod pax;
mod reader;
mod records;
mod staging;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

pub use error::{ArchiveError, Flaw};
pub use export::{ExportParts, Exported, bytes_to_export, export, export_with};
pub use import::{ImportOptions, Imported};

pub(super) use staging::clean as clean_staging;

/// The format that this code writes, and the newest that it reads.
const FORMAT: u32 = 1;
/// The compression level: zstd's own default, which is about as fast as a disk.
const LEVEL: i32 = 3;
/// The largest window of the decoder, as a power of two: 8 MiB, which zstd uses up to level 19.
const WINDOW_LOG: u32 = 23;
/// The bytes that are read or written at once.
const BLOCK: usize = 256 * 1024;
/// The most bytes in the extended header of one member. An attribute has at most 64 KiB in Linux.
const MOST_HEADER: u64 = 1 << 20;
/// The most bytes of one record, far above what a command line or an attribute can hold.
const MOST_RECORD: u64 = 16 << 20;

/// The name of the first member, which describes the archive.
const DESCRIPTION: &str = ".ctxfs-archive";
/// The name of the last member, the list of digests.
const DIGESTS: &str = ".ctxfs-digests";

/// The content of the first member.
#[derive(Debug, Serialize, Deserialize)]
struct Description {
    /// The format. Raised when an older ctxfs could not read the archive correctly.
    format: u32,
    /// The id of the conversation, as text.
    conversation: String,
}
