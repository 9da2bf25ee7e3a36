
use std::io;

use serde::{Deserialize, Serialize};

use crate::bucket::{BucketError, FormatError};

///+ Serializable form of a [`BucketError`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Fault {
    Absent { key: String },
    Exists { key: String },
    Refused { key: String, why: String },
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

impl From<&BucketError> for Fault {
    fn from(error: &BucketError) -> Self {
        match error {
            BucketError::Absent { key } => Self::Absent { key: key.clone() },
            BucketError::Exists { key } => Self::Exists { key: key.clone() },
            BucketError::Refused { key, why } => {
                Self::Refused { key: key.clone(), why: why.clone() }
            }
            BucketError::Away { what, why } => Self::Away { what: what.clone(), why: why.clone() },
            BucketError::Disk { what, why } => Self::Disk { what: what.clone(), why: why.clone() },
            BucketError::Format(FormatError::Damaged { what }) => {
                Self::Damaged { what: what.clone() }
            }
            // Requests parse no format except that of the mark, which has its own errors.
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

impl From<Fault> for BucketError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Absent { key } => Self::Absent { key },
            Fault::Exists { key } => Self::Exists { key },
            Fault::Refused { key, why } => Self::Refused { key, why },
            Fault::Away { what, why } => Self::Away { what, why },
            Fault::Disk { what, why } => Self::Disk { what, why },
            Fault::Damaged { what } => Self::Format(FormatError::Damaged { what }),
            Fault::NotCtxfs { key, why } => Self::NotCtxfs { key, why },
            Fault::Newer { format } => Self::Newer { format },
            Fault::WriteOnce => Self::WriteOnce,
            Fault::NotWriteOnce => Self::NotWriteOnce,
            Fault::TooLarge { key, size, limit } => Self::TooLarge { key, size, limit },
            Fault::TooMany { prefix, limit } => Self::TooMany { prefix, limit },
            Fault::Url { url, why } => Self::Url { url, why },
            Fault::Source { key, why } => Self::Source { key, source: io::Error::other(why) },
        }
    }
}
