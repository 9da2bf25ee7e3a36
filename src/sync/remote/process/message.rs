//! The documents that two processes send each other.

use std::ops::Range;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::fault::Fault;
use crate::bucket::{BucketError, Identity, RequestCounts};

/// The most bytes of an object that are read or created at once, as of a bucket.
pub(super) const LARGEST: u64 = 128 << 20;
/// The objects that one request reads: so many may be held twice.
pub(super) const READS: usize = 64;
/// The objects that one request deletes.
pub(super) const DELETES: usize = 1000;
/// The names of one document.
pub(super) const NAMES: usize = 1000;

/// What is asked.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Asked {
    /// The time until nobody waits for the answer any more.
    pub(super) left: Duration,
    pub(super) request: Request,
}

/// A request of [`Objects`](crate::remote::Objects).
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Request {
    /// The bytes of the answer follow it, one object after the other.
    Get {
        wanted: Vec<(String, Option<Range<u64>>)>,
    },
    /// A body follows.
    Create {
        key: String,
    },
    /// A body follows.
    Upload {
        key: String,
        expected: u64,
    },
    /// The names follow the answer.
    List {
        prefix: String,
    },
    /// The names follow the answer.
    ListDirs {
        prefix: String,
        limit: usize,
    },
    /// The names follow the answer.
    ListStaged {
        directories: Vec<String>,
    },
    Modified {
        key: String,
    },
    Delete {
        keys: Vec<String>,
    },
    Identity,
    Found {
        write_once: bool,
    },
    Met {
        write_once: bool,
    },
}

impl Request {
    /// Returns what the request would change, a key; `None` if it only reads.
    pub(super) fn changed(&self) -> Option<&str> {
        match self {
            Self::Create { key } | Self::Upload { key, .. } => Some(key),
            Self::Delete { keys } => Some(keys.first().map_or("", String::as_str)),
            // The second tries whether the store refuses another mark.
            Self::Found { .. } | Self::Met { .. } => Some("ctxfs.json"),
            Self::Get { .. }
            | Self::List { .. }
            | Self::ListDirs { .. }
            | Self::ListStaged { .. }
            | Self::Modified { .. }
            | Self::Identity => None,
        }
    }
}

/// What became of it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Replied {
    /// The process that answers.
    pub(super) process: u32,
    /// The requests that it made so far.
    pub(super) requests: RequestCounts,
    pub(super) outcome: Result<Answer, Fault>,
}

/// The outcome of a request that succeeded.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Answer {
    /// The length of each object.
    Got(Vec<Result<u64, Fault>>),
    /// True if it is new.
    Created(bool),
    Uploaded(u64),
    /// The number of names.
    Listed(usize),
    Modified(u64),
    /// The failure of each key, if it failed.
    Deleted(Vec<Option<Fault>>),
    Bucket(Option<Mark>),
}

/// An object of a list: name, bytes, time.
pub(super) type Name = (String, u64, u64);

/// An [`Identity`].
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Mark {
    format: u64,
    id: String,
    write_once: bool,
    conditional: bool,
}

impl From<Identity> for Mark {
    fn from(identity: Identity) -> Self {
        let Identity { format, id, write_once, conditional } = identity;
        Self { format, id: id.to_string(), write_once, conditional }
    }
}

impl TryFrom<Mark> for Identity {
    type Error = BucketError;

    fn try_from(mark: Mark) -> Result<Self, BucketError> {
        let Mark { format, id, write_once, conditional } = mark;
        Ok(Self { format, id: id.parse()?, write_once, conditional })
    }
}
