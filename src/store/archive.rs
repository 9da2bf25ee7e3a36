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

mod export;
mod extract;
mod format;
mod import;
mod staging;

use std::io;

use serde::{Deserialize, Serialize};

use crate::StoreError;
use ctxfs_core::model::{Component, NameError};

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

/// An error of export or import. A failed import leaves the store as it was.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The archive cannot be written.
    #[error("cannot write the archive: {0}")]
    Write(io::Error),
    /// The archive cannot be read to its end.
    #[error("cannot read the archive: {0}; it may be cut off or damaged: get it again")]
    Read(io::Error),
    /// A file became shorter while it was exported.
    #[error(
        "`{path}` became shorter while it was exported: export again when nothing writes to it"
    )]
    Cut {
        /// The path of the file in the conversation.
        path: String,
    },
    /// The file is not an archive of ctxfs.
    #[error("this is not an archive of a conversation: `ctxfs export` makes one")]
    Foreign,
    /// A later version of ctxfs made the archive.
    #[error(
        "the archive has format {found}, and this ctxfs knows formats up to {known}: use a later \
         ctxfs"
    )]
    Newer {
        /// The format of the archive.
        found: u32,
        /// The newest format that this version knows.
        known: u32,
    },
    /// The conversation exists already.
    #[error("there is a conversation `{id}` already")]
    Exists {
        /// The id of the conversation.
        id: Component,
    },
    /// The archive is larger than allowed.
    #[error("the archive holds more than {most} bytes")]
    TooLarge {
        /// The most bytes that are allowed.
        most: u64,
    },
    /// The archive has more files and directories than allowed.
    #[error("the archive holds more than {most} files and directories")]
    TooMany {
        /// The most that are allowed.
        most: u64,
    },
    /// The store's disk can hold hardly more files.
    #[error("the archive does not fit: the disk has room for only {left} more files")]
    NoInodes {
        /// The inodes that are available.
        left: u64,
    },
    /// The archive does not fit on the store's disk.
    #[error(
        "the archive does not fit: it needs {needed} more bytes, and {left} are available beside \
         the {min_free} that are kept free"
    )]
    NoRoom {
        /// The bytes that were to be written next.
        needed: u64,
        /// The bytes that are available.
        left: u64,
        /// The bytes that must stay free.
        min_free: u64,
    },
    /// The conversation would pass its quota.
    #[error("the conversation would pass its quota of {quota} bytes")]
    OverQuota {
        /// The quota in bytes.
        quota: u64,
    },
    /// A member is not as ctxfs writes it.
    #[error("the archive is refused, and nothing of it is kept: `{member}`: {flaw}")]
    Refused {
        /// The name of the member, as text.
        member: String,
        /// The flaw of the member.
        flaw: Flaw,
    },
}

/// A reason to refuse an archive.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Flaw {
    /// The member is a link, device, fifo or unknown extension.
    #[error("it is neither a file nor a directory")]
    Kind,
    /// The member is not in the conversation's directory.
    #[error("it is outside the conversation")]
    Outside,
    /// The name is not valid.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The directory does not come before the member.
    #[error("its directory is not in the archive before it")]
    NoDirectory,
    /// Too many directories lie inside each other.
    #[error("it is more than 256 directories deep")]
    Deep,
    /// The member is out of order, as a name that occurs twice is.
    #[error("it occurs twice, or out of order")]
    Order,
    /// The extended header cannot be parsed, or is too large.
    #[error("its header is damaged, too large, or not as ctxfs writes it")]
    Header,
    /// A line of the manifest is not a valid record.
    #[error("line {0} is not a record of a file")]
    Record(u64),
    /// The digest in the record is not that of the file.
    #[error("the digest in its record is not that of its content")]
    RecordedDigest,
    /// The digest in the list is not that of the file, or is missing.
    #[error("its digest is not the one in the list of digests")]
    Digest,
    /// Something follows the end of the archive.
    #[error("something follows the end of the archive")]
    Garbage,
    /// The end of the archive is missing.
    #[error("the archive ends before its list of digests")]
    NoEnd,
}

impl ArchiveError {
    /// Returns the error that refuses an archive for `flaw` of `member`.
    pub(super) fn refused(member: impl Into<String>, flaw: impl Into<Flaw>) -> Self {
        Self::Refused { member: member.into(), flaw: flaw.into() }
    }
}

#[cfg(test)]
mod tests;
