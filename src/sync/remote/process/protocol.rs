//! Documents of requests and replies.

use std::io;
use std::ops::Range;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::bucket::{BucketError, FormatError, Identity, NameRange, RequestCounts, StoreTime};

/// Maximum bytes of an object in one read or create request. The limit of a bucket is the same.
pub(super) const LARGEST: u64 = 128 << 20;
/// Maximum number of objects per read request. Each object may be in memory twice.
pub(super) const READS: usize = 64;
pub(super) const DELETES: usize = 1000;
pub(super) const NAMES: usize = 1000;

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RequestEnvelope {
    pub(super) left: Duration,
    pub(super) request: Request,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Request {
    Get { wanted: Vec<(String, Option<Range<u64>>)> },
    Create { key: String },
    Upload { key: String, expected: u64 },
    List { prefix: String },
    ListNew { prefix: String, known: Vec<NameRange> },
    ListDirs { prefix: String, limit: usize },
    ListStaged { directories: Vec<String> },
    Modified { key: String },
    Delete { keys: Vec<String> },
    Identity,
    Found { write_once: bool },
    Met { write_once: bool },
}

impl Request {
    /// Returns a key that the request changes, for an error text: the first one if there are
    /// several. Returns `None` if the request only reads.
    pub(super) fn changed(&self) -> Option<&str> {
        match self {
            Self::Create { key } | Self::Upload { key, .. } => Some(key),
            Self::Delete { keys } => Some(keys.first().map_or("", String::as_str)),
            // `Met` tests whether the store refuses to create a second mark.
            Self::Found { .. } | Self::Met { .. } => Some("ctxfs.json"),
            Self::Get { .. }
            | Self::List { .. }
            | Self::ListNew { .. }
            | Self::ListDirs { .. }
            | Self::ListStaged { .. }
            | Self::Modified { .. }
            | Self::Identity => None,
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ReplyEnvelope {
    pub(super) process: u32,
    pub(super) requests: RequestCounts,
    pub(super) outcome: Result<Reply, WireError>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Reply {
    Got(Vec<Result<u64, WireError>>),
    Created(bool),
    Uploaded(u64),
    Listed(usize),
    ListedNew { count: usize, skipped: Vec<NameRange> },
    Modified(StoreTime),
    Deleted(Vec<Option<WireError>>),
    Bucket(Option<WireIdentity>),
}

/// An object in a list: its name, its size in bytes, and its time.
pub(super) type ListedName = (String, u64, u64);

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct WireIdentity {
    format: u64,
    id: String,
    write_once: bool,
    conditional: bool,
}

impl From<Identity> for WireIdentity {
    fn from(identity: Identity) -> Self {
        let Identity { format, id, write_once, conditional } = identity;
        Self { format, id: id.to_string(), write_once, conditional }
    }
}

impl TryFrom<WireIdentity> for Identity {
    type Error = BucketError;

    fn try_from(mark: WireIdentity) -> Result<Self, BucketError> {
        let WireIdentity { format, id, write_once, conditional } = mark;
        Ok(Self { format, id: id.parse()?, write_once, conditional })
    }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum WireError {
    Absent { key: String },
    Exists { key: String },
    Refused { key: String, why: String },
    Unfit { key: String, why: String },
    Away { what: String, why: String },
    Disk { what: String, why: String },
    Damaged { what: String },
    NotCtxfs { key: String, why: String },
    Newer { format: u64 },
    WriteOnce,
    NotWriteOnce,
    TooLarge { key: String, size: u64, limit: u64 },
    TooMany { prefix: String, limit: usize },
    Url { url: String, why: String },
    Source { key: String, why: String },
}

impl From<&BucketError> for WireError {
    fn from(error: &BucketError) -> Self {
        match error {
            BucketError::Absent { key } => Self::Absent { key: key.clone() },
            BucketError::Exists { key } => Self::Exists { key: key.clone() },
            BucketError::Refused { key, why } => {
                Self::Refused { key: key.clone(), why: why.clone() }
            }
            BucketError::Unfit { key, why } => Self::Unfit { key: key.clone(), why: why.clone() },
            BucketError::Away { what, why } => Self::Away { what: what.clone(), why: why.clone() },
            BucketError::Disk { what, why } => Self::Disk { what: what.clone(), why: why.clone() },
            BucketError::Format(FormatError::Damaged { what }) => {
                Self::Damaged { what: what.clone() }
            }
            // Requests parse only the format of the mark, which has its own errors.
            BucketError::Format(other) => Self::Damaged { what: other.to_string() },
            BucketError::NotCtxfs { key, why } => {
                Self::NotCtxfs { key: key.clone(), why: why.clone() }
            }
            BucketError::Newer { format } => Self::Newer { format: *format },
            BucketError::WriteOnce => Self::WriteOnce,
            BucketError::NotWriteOnce => Self::NotWriteOnce,
            BucketError::TooLarge { key, size, limit } => {
                Self::TooLarge { key: key.clone(), size: *size, limit: *limit }
            }
            BucketError::TooMany { prefix, limit } => {
                Self::TooMany { prefix: prefix.clone(), limit: *limit }
            }
            BucketError::Url { url, why } => Self::Url { url: url.clone(), why: why.clone() },
            BucketError::Source { key, source } => {
                Self::Source { key: key.clone(), why: source.to_string() }
            }
        }
    }
}

impl From<WireError> for BucketError {
    fn from(fault: WireError) -> Self {
        match fault {
            WireError::Absent { key } => Self::Absent { key },
            WireError::Exists { key } => Self::Exists { key },
            WireError::Refused { key, why } => Self::Refused { key, why },
            WireError::Unfit { key, why } => Self::Unfit { key, why },
            WireError::Away { what, why } => Self::Away { what, why },
            WireError::Disk { what, why } => Self::Disk { what, why },
            WireError::Damaged { what } => Self::Format(FormatError::Damaged { what }),
            WireError::NotCtxfs { key, why } => Self::NotCtxfs { key, why },
            WireError::Newer { format } => Self::Newer { format },
            WireError::WriteOnce => Self::WriteOnce,
            WireError::NotWriteOnce => Self::NotWriteOnce,
            WireError::TooLarge { key, size, limit } => Self::TooLarge { key, size, limit },
            WireError::TooMany { prefix, limit } => Self::TooMany { prefix, limit },
            WireError::Url { url, why } => Self::Url { url, why },
            WireError::Source { key, why } => Self::Source { key, source: io::Error::other(why) },
        }
    }
}
