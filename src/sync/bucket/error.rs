use std::{fmt, io};

/// Failure of a request to the bucket, classified by what a caller can do next.
///
/// Error texts contain no credentials and no tokens. From a response of the object store, they
/// contain only its code and its message.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages describe variants and fields")]
pub enum BucketError {
    #[error("`{key}` is not in the bucket: look again, as it may have been merged or removed")]
    Absent { key: String },
    #[error("`{key}` is in the bucket already, with other bytes: use another name")]
    Exists { key: String },
    #[error("the store refuses `{key}`: {why}")]
    Refused { key: String, why: String },
    #[error(
        "the bucket never takes `{key}`: {why}. Other conversations go on; this one stays on this \
         host. The names of conversations may be too long for the bucket: a directory takes 255 \
         bytes, and each byte that is no ASCII counts three times"
    )]
    Unfit { key: String, why: String },
    #[error(
        "cannot {what}: {why}. Nothing is lost here; look at the network and at `[remote] url`, \
         then try again"
    )]
    Away { what: String, why: String },
    #[error(
        "cannot {what}: {why}. Nothing is lost here; look at the directory that `[remote] url` \
         names and at its disk, then try again"
    )]
    Disk { what: String, why: String },
    #[error(transparent)]
    Format(#[from] FormatError),
    #[error(
        "`{key}` is not a mark of ctxfs ({why}): choose another prefix in `[remote] url`, or \
         delete that object if it is of no use"
    )]
    NotCtxfs { key: String, why: String },
    #[error(
        "the bucket has format {format}, which is newer than this ctxfs knows: update ctxfs on \
         this host. Local work goes on"
    )]
    Newer { format: u64 },
    #[error(
        "the bucket is write-once, as its first host made it, and this host is not: set \
         `write_once = true` in ctxfs.toml, or name another bucket in `[remote] url`"
    )]
    WriteOnce,
    #[error(
        "this host is write-once, and its bucket is not, as its first host made it: name another \
         bucket in `[remote] url`, or set `write_once = false` in ctxfs.toml"
    )]
    NotWriteOnce,
    #[error(
        "`{key}` has {size} bytes, and {limit} are the most that are read at once: no ctxfs \
         wrote it, so delete it"
    )]
    TooLarge { key: String, size: u64, limit: u64 },
    #[error(
        "there are more than {limit} objects below `{prefix}`: `ctxfs remote gc` removes what is \
         of no use"
    )]
    TooMany { prefix: String, limit: usize },
    #[error("cannot use the remote `{url}`: {why}")]
    Url { url: String, why: String },
    #[error("cannot read what was to become `{key}`: {source}")]
    Source { key: String, source: io::Error },
}

impl BucketError {
    pub(crate) fn is_absent(&self) -> bool {
        matches!(self, Self::Absent { .. })
    }

    /// Returns true if the error concerns only one key, so that requests for other keys may
    /// succeed.
    pub(crate) fn is_of_key(&self) -> bool {
        match self {
            Self::Absent { .. }
            | Self::Exists { .. }
            | Self::Refused { .. }
            | Self::Unfit { .. }
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

    /// Returns true if a retry may succeed without any change on this host.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Away { .. } | Self::Disk { .. })
    }
}

/// Error for bytes that are not in the format of ctxfs, whether they were read from the bucket or
/// are about to be written.
///
/// Error texts do not quote the bytes. The subject of each text is `it`; the caller adds the key of
/// the object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages describe variants and fields")]
pub enum FormatError {
    #[error("it is damaged or not of ctxfs: {what}; `ctxfs remote check` tells what is affected")]
    Damaged { what: String },
    #[error("a newer ctxfs wrote it, with format {format} at least: use a later ctxfs")]
    Newer { format: u32 },
    #[error("it is refused: {what} has more than {most} bytes, the most that ctxfs takes")]
    TooLarge { what: &'static str, most: u64 },
}

impl FormatError {
    pub(crate) fn damaged(what: impl Into<String>) -> Self {
        Self::Damaged { what: what.into() }
    }

    #[must_use]
    pub(super) fn within(self, place: impl fmt::Display) -> Self {
        match self {
            Self::Damaged { what } => Self::Damaged { what: format!("{place}: {what}") },
            other @ (Self::Newer { .. } | Self::TooLarge { .. }) => other,
        }
    }
}
