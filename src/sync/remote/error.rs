//! The errors of the remote tier, each with what it is about and the next step.

use std::io;
use std::path::{Path, PathBuf};

use crate::bucket::{BucketError, BucketId, FormatError};
use crate::replica::{Origin, SegmentId};
use ctxfs_store::StoreError;

/// A failure to send or to get what hosts share.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// A request to the bucket failed.
    #[error(transparent)]
    Bucket(#[from] BucketError),
    /// The disk of this host failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A segment cannot be read.
    #[error("segment `{segment}`: {source}")]
    Segment {
        /// The segment.
        segment: SegmentId,
        /// What is wrong with it.
        source: FormatError,
    },
    /// A segment was refused when it came, and is not asked for again before a pull or a check.
    #[error("segment `{segment}` was refused before: {why}")]
    Refused {
        /// The segment.
        segment: SegmentId,
        /// What was wrong with it.
        why: String,
    },
    /// A conversation has more than ctxfs takes.
    #[error(
        "segment `{segment}` is passed over: with it the conversation would have more than {most} \
         {what}; use another conversation"
    )]
    TooMany {
        /// The segment.
        segment: SegmentId,
        /// What there is too much of.
        what: &'static str,
        /// The most that are taken.
        most: usize,
    },
    /// What this host kept is not as ctxfs writes it.
    #[error(
        "`{path}` is damaged ({why}): remove that file, and this host compares with the bucket \
         anew"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// No segment says where an artifact is whose bytes are not here.
    #[error(
        "no segment of `{conversation}` that is here has `{origin}`: `ctxfs pull {conversation}` \
         looks into the bucket anew"
    )]
    Unknown {
        /// The conversation.
        conversation: String,
        /// The artifact.
        origin: Origin,
    },
    /// The bucket that this store knows is not where it was.
    #[error(
        "the bucket `{url}` has no ctxfs.json; this store knew it as bucket `{id}`: is its disk \
         mounted? If it was emptied for good, `ctxfs push --new-bucket` begins a new one there"
    )]
    Lost {
        /// Its URL.
        url: String,
        /// The bucket that was there.
        id: BucketId,
    },
    /// Another bucket has come to the place of one that is being used.
    #[error(
        "the bucket `{url}` is `{now}` now, and was `{id}`: is the right disk mounted? If it was \
         replaced for good, start this process of ctxfs again, such as the mount"
    )]
    Replaced {
        /// Its URL.
        url: String,
        /// The bucket that was there.
        id: BucketId,
        /// The one that is there.
        now: BucketId,
    },
    /// Another process looks for this one, and failed.
    #[error("{why}")]
    Looker {
        /// Its error.
        why: String,
    },
    /// The disk of this host has no room for what others did.
    #[error("some outputs of other hosts are not shown here: {why}")]
    NoRoom {
        /// The error of the disk.
        why: String,
    },
    /// Nothing leaves a write-once bucket.
    #[error(
        "the bucket is write-once, and no host removes anything from it: what must go, such as a \
         secret, is deleted with the tools of the store, by its operator"
    )]
    WriteOnce,
    /// Segments were not read, so nobody knows what they name.
    #[error(
        "nothing is deleted in `{conversation}`, as not all that hosts said of it can be read: \
         segment `{segment}` {why}{}; `ctxfs remote check {conversation}` names all", more(*others)
    )]
    Blind {
        /// The conversation.
        conversation: String,
        /// The first of the segments.
        segment: SegmentId,
        /// Why it was not read.
        why: Unknown,
        /// The number of the others.
        others: usize,
    },
    /// The bucket has objects of a conversation, and no segment that could name them.
    #[error(
        "nothing is deleted in `{conversation}`, as the bucket has objects of it and no segment: a \
         host that has sent some sends them again with `ctxfs push {conversation}`"
    )]
    NoLog {
        /// The conversation.
        conversation: String,
    },
}

/// Why it is not known what a segment says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unknown {
    /// It is gone from the bucket, or later ones of its writer are there alone.
    #[error("is missing in the bucket (its host sends it again with `ctxfs push`)")]
    Missing,
    /// The list has its name, and the bucket says that there is no such object.
    #[error("is in the list of the bucket, which has no such object")]
    Absent,
    /// It is damaged, or written by a newer ctxfs.
    #[error("cannot be read")]
    Unreadable,
}

fn more(others: usize) -> String {
    if others == 0 { String::new() } else { format!(", and {others} more") }
}

impl RemoteError {
    /// Returns what makes an error of the system an error of `action` on `path`.
    pub(super) fn at(action: &'static str, path: &Path) -> impl Fn(io::Error) -> Self {
        move |error| Self::Store(StoreError::io(action, path, error))
    }

    /// Returns what makes an error of its format one of the segment.
    pub(super) fn of(segment: SegmentId) -> impl Fn(FormatError) -> Self {
        move |source| Self::Segment { segment, source }
    }

    /// Returns true if what was asked for is not in the bucket, or not here any more.
    pub(super) fn is_absent(&self) -> bool {
        match self {
            Self::Bucket(error) => error.is_absent(),
            Self::Store(error) => error.raw_os_error() == Some(libc::ENOENT),
            Self::Unknown { .. } => true,
            _ => false,
        }
    }

    /// Returns true if the same may succeed later, without a change by anyone here.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Bucket(error) => error.may_pass(),
            // Its disk may come back.
            Self::Lost { .. } | Self::Replaced { .. } => true,
            _ => false,
        }
    }

    /// Returns true if it says nothing of other conversations than the one that it is about.
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
            | Self::NoLog { .. } => true,
            Self::NoRoom { .. }
            | Self::Looker { .. }
            | Self::WriteOnce
            | Self::Lost { .. }
            | Self::Replaced { .. } => false,
        }
    }
}
