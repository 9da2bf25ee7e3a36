//! Why an archive cannot be written or read.

use std::io;

use crate::model::Component;
use crate::model::NameError;
use crate::store::error::StoreError;

/// A failure of export or import. After a failed import the store is as it was.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The archive could not be written.
    #[error("cannot write the archive: {0}")]
    Write(io::Error),
    /// The archive could not be read to its end.
    #[error("cannot read the archive: {0}; it may be cut off or damaged: get it again")]
    Read(io::Error),
    /// A file became shorter while it was exported.
    #[error("`{path}` was cut while it was exported: export again when nobody writes it")]
    Cut {
        /// The file, from the conversation on.
        path: String,
    },
    /// It is no archive of ctxfs.
    #[error("this is no archive of a conversation: `ctxfs export` makes one")]
    Foreign,
    /// It was made by a later ctxfs.
    #[error(
        "the archive has format {found}, and this ctxfs knows formats up to {known}: use a later one"
    )]
    Newer {
        /// Its format.
        found: u32,
        /// The newest format known.
        known: u32,
    },
    /// There is such a conversation already.
    #[error("there is a conversation `{id}` already")]
    Exists {
        /// Its id.
        id: Component,
    },
    /// It holds more than it may.
    #[error("the archive holds more than {most} bytes")]
    TooLarge {
        /// The bound that was given.
        most: u64,
    },
    /// It does not fit on the store's disk.
    #[error(
        "the archive does not fit: {needed} more bytes are needed, and {left} are there beside the {min_free} that are kept free"
    )]
    NoRoom {
        /// Bytes that were to be written next.
        needed: u64,
        /// Bytes that there is room for.
        left: u64,
        /// Bytes that stay free.
        min_free: u64,
    },
    /// It holds what no archive of ctxfs holds.
    #[error("the archive is refused, and nothing of it is kept: `{member}`: {flaw}")]
    Refused {
        /// The member, as text.
        member: String,
        /// What is wrong with it.
        flaw: Flaw,
    },
}

/// What makes an archive be refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Flaw {
    /// A link, device, fifo or an unknown extension.
    #[error("it is neither a file nor a directory")]
    Kind,
    /// It does not stand in the conversation's directory.
    #[error("it stands outside of the conversation")]
    Outside,
    /// A name that cannot be.
    #[error(transparent)]
    Name(#[from] NameError),
    /// Its directory does not come before it.
    #[error("it stands in no directory of the archive")]
    NoDirectory,
    /// Out of order, which is how names that come twice show.
    #[error("it comes twice, or too late")]
    Order,
    /// The extended header cannot be understood, or is too large.
    #[error("its header is damaged, too large, or says what ctxfs does not write")]
    Header,
    /// A line of the manifest is no record, or one that cannot be.
    #[error("line {0} is no record of a file")]
    Record(u64),
    /// A record has another digest than the file.
    #[error("the digest in its record is not that of its content")]
    RecordedDigest,
    /// The list of digests has another digest than the file, or none.
    #[error("its digest is not the one in the list of digests")]
    Digest,
    /// There is more after the end.
    #[error("something follows the end of the archive")]
    Garbage,
    /// The end is missing.
    #[error("the archive ends before its list of digests")]
    NoEnd,
}

impl ArchiveError {
    /// The archive is refused for `flaw` of `member`.
    pub(super) fn refused(member: impl Into<String>, flaw: impl Into<Flaw>) -> Self {
        Self::Refused { member: member.into(), flaw: flaw.into() }
    }
}
