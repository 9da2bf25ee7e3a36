//! The errors of the bucket, each with what it is about and the next step.

use std::io;

use crate::bucket::format_error::FormatError;

/// A failure of a request to the bucket, by what a caller does about it.
///
/// No text holds a key of access, a token, or more of a store's answer than its code and message.
#[derive(Debug, thiserror::Error)]
pub enum BucketError {
    /// Nothing has this key.
    #[error("`{key}` is not in the bucket: look again, as it may have been merged or removed")]
    Absent {
        /// The key, below the prefix of the bucket.
        key: String,
    },
    /// Something has this key, and nothing in a bucket is replaced.
    #[error("`{key}` is in the bucket already, with other bytes: use another name")]
    Exists {
        /// The key, below the prefix of the bucket.
        key: String,
    },
    /// The store knows who asks, or does not, and says no.
    #[error("the store refuses `{key}`: {why}")]
    Refused {
        /// The key or the prefix that was asked for.
        key: String,
        /// The answer of the store, and what to look at.
        why: String,
    },
    /// The store did not answer in time, or not in a way that helps.
    #[error(
        "cannot {what}: {why}. Nothing is lost here; look at the network and at `[remote] url`, \
         then try again"
    )]
    Away {
        /// The attempt: a verb and a key.
        what: String,
        /// The last failure.
        why: String,
    },
    /// The disk of a bucket that is a directory failed.
    #[error(
        "cannot {what}: {why}. Nothing is lost here; look at the directory that `[remote] url` \
         names and at its disk, then try again"
    )]
    Disk {
        /// The attempt: a verb and a key.
        what: String,
        /// The error of the system, with the path if it is known.
        why: String,
    },
    /// What lies there cannot be read.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// The prefix holds a `ctxfs.json` that ctxfs did not write.
    #[error(
        "`{key}` is not a mark of ctxfs ({why}): choose another prefix in `[remote] url`, or \
         delete that object if it is of no use"
    )]
    NotCtxfs {
        /// The key of the mark.
        key: String,
        /// What is wrong with it.
        why: String,
    },
    /// A later version of ctxfs made the bucket.
    #[error(
        "the bucket has format {format}, which is newer than this ctxfs knows: update ctxfs on \
         this host. Local work goes on"
    )]
    Newer {
        /// The format of the bucket.
        format: u64,
    },
    /// The first host made the bucket write-once, and this one is not.
    #[error(
        "the bucket is write-once, as its first host made it, and this host is not: set \
         `write_once = true` in ctxfs.toml, or name another bucket in `[remote] url`"
    )]
    WriteOnce,
    /// This host is write-once, and the first host did not make the bucket so.
    #[error(
        "this host is write-once, and its bucket is not, as its first host made it: name another \
         bucket in `[remote] url`, or set `write_once = false` in ctxfs.toml"
    )]
    NotWriteOnce,
    /// An object is larger than whoever asked can take.
    #[error(
        "`{key}` has {size} bytes, and {limit} are the most that are read at once: no ctxfs \
         wrote it, so delete it"
    )]
    TooLarge {
        /// The key, below the prefix of the bucket.
        key: String,
        /// The bytes that the store announced.
        size: u64,
        /// The most bytes.
        limit: u64,
    },
    /// A prefix has more objects than are listed.
    #[error(
        "there are more than {limit} objects below `{prefix}`: `ctxfs remote gc` removes what is \
         of no use"
    )]
    TooMany {
        /// The prefix, below that of the bucket.
        prefix: String,
        /// The most objects.
        limit: usize,
    },
    /// The URL, or the settings in the environment, do not lead to a store.
    #[error("cannot use the remote `{url}`: {why}")]
    Url {
        /// The URL, or its scheme alone if it could hold a secret.
        url: String,
        /// What is wrong, and what to write.
        why: String,
    },
    /// What was to be sent cannot be read.
    #[error("cannot read what was to become `{key}`: {source}")]
    Source {
        /// The key, below the prefix of the bucket.
        key: String,
        /// The error of the system.
        source: io::Error,
    },
}

impl BucketError {
    /// Returns true if nothing has the key.
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Absent { .. })
    }

    /// Returns true if it says nothing of other keys than the one that it is about.
    pub fn is_of_key(&self) -> bool {
        match self {
            Self::Absent { .. }
            | Self::Exists { .. }
            | Self::Refused { .. }
            | Self::Format(_)
            | Self::TooLarge { .. }
            | Self::TooMany { .. }
            | Self::Source { .. } => true,
            Self::Away { .. }
            | Self::Disk { .. }
            | Self::NotCtxfs { .. }
            | Self::Newer { .. }
            | Self::WriteOnce
            | Self::NotWriteOnce
            | Self::Url { .. } => false,
        }
    }

    /// Returns true if the same request may succeed later, without a change by anyone here.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Away { .. } | Self::Disk { .. })
    }
}
