//! A conversation as a single file, for moving it or backing it up: a tar archive, compressed by
//! zstd.
//!
//! ```text
//! c7/.ctxfs-archive     the description: format and conversation, one line of JSON
//! c7/                   the directory of the conversation
//! c7/...                the directories and files in it, such as `c7/artifacts/`
//! c7/manifest.jsonl     one record for each file, as of the time when the file was read
//! c7/.ctxfs-digests     one line for each file above: its BLAKE3, as `b3sum` prints and checks it
//! ```
//!
//! Directories and files are stored depth first. The entries of a directory are sorted by the bytes
//! of their names. Each directory and file is stored with its mode, its modification time to the
//! nanosecond, and its extended attributes `user.*`.
//!
//! An archive does not store the time at which it was made. Exporting the same conversation twice
//! gives the same bytes. `tar` can read the archive. The names of the archive's own files begin
//! with `.ctxfs`; no file of a conversation can have such a name.
//!
//! An archive is not trusted. Types, order, names and headers must be as `export` writes them.
//! Sizes are compared with the free space before anything is written, and every digest is computed
//! again. Members are first written to a directory that no reader sees. Once everything has been
//! checked, a single rename turns that directory into the conversation.

mod export;
mod extract;
mod format;
mod import;

use std::io;

use serde::{Deserialize, Serialize};

use ctxfs_core::model::{Component, NameError};

pub use export::{ExportParts, Exported, bytes_to_export, export};
pub use import::{ImportOptions, Imported};

pub(super) use import::clean_staging;

/// Format version that this code writes, and the newest that it reads. It must be raised if a
/// change of the format would make an older ctxfs misread an archive.
const FORMAT: u32 = 1;
/// Compression level. This is zstd's default; it is about as fast as a disk.
const LEVEL: i32 = 3;
/// Maximum window of the decoder, as a power of two: 8 MiB, which is the window of zstd up to level
/// 19.
const WINDOW_LOG: u32 = 23;
const BLOCK: usize = 256 * 1024;
/// Maximum size of the extended header of one member, in bytes. On Linux an attribute has at most
/// 64 KiB.
const MAX_HEADER: u64 = 1 << 20;
/// Maximum size of one record, in bytes. It is far above what a command line or an attribute can
/// hold.
const MAX_RECORD: u64 = 16 << 20;

const DESCRIPTION: &str = ".ctxfs-archive";
const DIGESTS: &str = ".ctxfs-digests";

#[derive(Debug, Serialize, Deserialize)]
struct Description {
    format: u32,
    conversation: String,
}

/// An error of an export or import. A failed import leaves the store unchanged.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the text of each error describes it")]
pub enum ArchiveError {
    #[error(transparent)]
    Store(#[from] crate::StoreError),
    #[error("cannot write the archive: {0}")]
    Write(io::Error),
    #[error("cannot read the archive: {0}; it may be cut off or damaged: get it again")]
    Read(io::Error),
    #[error(
        "`{path}` became shorter while it was exported: export again when nothing writes to it"
    )]
    Cut { path: String },
    #[error("this is not an archive of a conversation: `ctxfs export` makes one")]
    Foreign,
    #[error(
        "the archive has format {found}, and this ctxfs knows formats up to {known}: use a later \
         ctxfs"
    )]
    Newer { found: u32, known: u32 },
    #[error("there is a conversation `{id}` already")]
    Exists { id: Component },
    #[error("the archive holds more than {most} bytes")]
    TooLarge { most: u64 },
    #[error("the archive holds more than {most} files and directories")]
    TooMany { most: u64 },
    #[error("the archive does not fit: the disk has room for only {left} more files")]
    NoInodes { left: u64 },
    #[error(
        "the archive does not fit: it needs {needed} more bytes, and {left} are available beside \
         the {min_free} that are kept free"
    )]
    NoRoom { needed: u64, left: u64, min_free: u64 },
    #[error("the conversation would pass its quota of {quota} bytes")]
    OverQuota { quota: u64 },
    #[error("the archive is refused, and nothing of it is kept: `{member}`: {flaw}")]
    Refused { member: String, flaw: ArchiveFlaw },
}

/// The reason why a member makes an archive unacceptable. The text is printed after the name of the
/// member, and "it" in the text is the member.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the text of each flaw describes it")]
pub enum ArchiveFlaw {
    #[error("it is neither a file nor a directory")]
    Kind,
    #[error("it is outside the conversation")]
    Outside,
    #[error(transparent)]
    Name(#[from] NameError),
    #[error("its directory is not in the archive before it")]
    NoDirectory,
    #[error("it is more than 256 directories deep")]
    Deep,
    #[error("it occurs twice, or out of order")]
    Order,
    #[error("its header is damaged, too large, or not as ctxfs writes it")]
    Header,
    #[error("line {0} is not a record of a file")]
    Record(u64),
    #[error("the digest in its record is not that of its content")]
    RecordedDigest,
    #[error("its digest is not the one in the list of digests")]
    Digest,
    #[error("something follows the end of the archive")]
    Garbage,
    #[error("the archive ends before its list of digests")]
    NoEnd,
}

impl ArchiveError {
    pub(super) fn refused(member: impl Into<String>, flaw: impl Into<ArchiveFlaw>) -> Self {
        Self::Refused { member: member.into(), flaw: flaw.into() }
    }
}

#[cfg(test)]
mod tests;
