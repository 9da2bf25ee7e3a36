//! Errors of the remote tier.

use std::io;
use std::path::{Path, PathBuf};

use crate::bucket::{BucketError, BucketId, FormatError};
use crate::replica::{Origin, SegmentId};
use ctxfs_store::StoreError;

/// Failure of a push or pull. Each message names the cause and the next step.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages describe variants and fields")]
pub enum RemoteError {
    #[error(transparent)]
    Bucket(#[from] BucketError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("segment `{segment}`: {source}")]
    Segment { segment: SegmentId, source: FormatError },
    #[error("segment `{segment}` was refused before: {why}")]
    Refused { segment: SegmentId, why: String },
    #[error(
        "segment `{segment}` is passed over: with it the conversation would have more than {most} \
         {what}; use another conversation"
    )]
    TooMany { segment: SegmentId, what: &'static str, most: usize },
    #[error(
        "`{path}` is damaged ({why}): remove that file, and this host compares with the bucket \
         anew"
    )]
    Damaged { path: PathBuf, why: String },
    #[error(
        "no segment of `{conversation}` that is here has `{origin}`: `ctxfs pull {conversation}` \
         looks into the bucket anew. If the bytes are in another bucket, `ctxfs remote status` \
         names it"
    )]
    Unknown { conversation: String, origin: Origin },
    #[error(
        "the bucket `{url}` has no ctxfs.json; this store knew it as bucket `{id}`: is its disk \
         mounted? If it was emptied for good, `ctxfs push --new-bucket` begins a new one there"
    )]
    Lost { url: String, id: BucketId },
    #[error(
        "the bucket `{url}` is `{now}` now, and was `{id}`: is the right disk mounted? If it was \
         replaced for good, start this process of ctxfs again, such as the mount"
    )]
    Replaced { url: String, id: BucketId, now: BucketId },
    #[error("{why}")]
    Looker { why: String },
    #[error("some outputs of other hosts are not shown here: {why}")]
    NoRoom { why: String },
    #[error(
        "the bucket is write-once, and no host removes anything from it: what must go, such as a \
         secret, is deleted with the tools of the store, by its operator"
    )]
    WriteOnce,
    /// At least one segment is unreadable or missing. Such a segment may name any object, so
    /// nothing may be deleted.
    #[error(
        "nothing is deleted in `{conversation}`, as not all that hosts said of it can be read: \
         segment `{segment}` {why}{}; `ctxfs remote check {conversation}` names all", more(*others)
    )]
    Blind { conversation: String, segment: SegmentId, why: Unknown, others: usize },
    #[error(
        "nothing is deleted in `{conversation}`, as the bucket has objects of it and no segment: a \
         host that has sent some sends them again with `ctxfs push {conversation}`"
    )]
    NoLog { conversation: String },
    /// The clock of the object store is not known, so no age is.
    #[error(
        "nothing is deleted in `{conversation}`, as the clock of the object store and that of this \
         host, or what the bucket lists, are {minutes} minutes apart: correct the clock that is wrong"
    )]
    Clocks { conversation: String, minutes: u64 },
}

/// Reason why the content of a segment is unknown. A `Missing` segment is no longer in the bucket.
/// An `Absent` segment is listed, but cannot be read. An `Unreadable` segment is damaged or in a
/// newer format. Such a segment may name any object, so nothing is deleted while there is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unknown {
    #[error("is missing in the bucket (its host sends it again with `ctxfs push`)")]
    Missing,
    #[error("is in the list of the bucket, which has no such object")]
    Absent,
    #[error("cannot be read")]
    Unreadable,
}

fn more(others: usize) -> String {
    if others == 0 { String::new() } else { format!(", and {others} more") }
}

impl RemoteError {
    pub(super) fn at(action: &'static str, path: &Path) -> impl Fn(io::Error) -> Self {
        move |error| Self::Store(StoreError::io(action, path, error))
    }

    pub(super) fn of(segment: SegmentId) -> impl Fn(FormatError) -> Self {
        move |source| Self::Segment { segment, source }
    }

    pub(super) fn is_absent(&self) -> bool {
        match self {
            Self::Bucket(error) => error.is_absent(),
            Self::Store(error) => error.raw_os_error() == Some(libc::ENOENT),
            Self::Unknown { .. } => true,
            _ => false,
        }
    }

    /// Returns true if a retry may succeed without any change on this host.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Bucket(error) => error.may_pass(),
            // The disk of the bucket may be mounted again later.
            Self::Lost { .. } | Self::Replaced { .. } => true,
            _ => false,
        }
    }

    /// Returns true if the error concerns one conversation only.
    pub fn is_of_one_conversation(&self) -> bool {
        match self {
            Self::Bucket(error) => error.is_of_key(),
            Self::Store(error) => error.is_of_place(),
            Self::Segment { .. }
            | Self::Refused { .. }
            | Self::TooMany { .. }
            | Self::Damaged { .. }
            | Self::Unknown { .. }
            | Self::Blind { .. }
            | Self::NoLog { .. }
            | Self::Clocks { .. } => true,
            Self::NoRoom { .. }
            | Self::Looker { .. }
            | Self::WriteOnce
            | Self::Lost { .. }
            | Self::Replaced { .. } => false,
        }
    }
}
