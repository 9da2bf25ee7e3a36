
use std::ops::Range;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::fault::Fault;
use crate::bucket::{BucketError, Identity, RequestCounts};

///+ Maximum bytes of an object in one read or create, as for a bucket.
pub(super) const LARGEST: u64 = 128 << 20;
///+ Objects per read request; each may be in memory twice.
pub(super) const READS: usize = 64;
///+ Objects per delete request.
pub(super) const DELETES: usize = 1000;
///+ Names per document.
pub(super) const NAMES: usize = 1000;

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Asked {
    ///+ Remaining time until the client gives up.
    pub(super) left: Duration,
    pub(super) request: Request,
}

///+ A request of [`Objects`](crate::remote::Objects).
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Request {
    ///+ The bytes follow the reply, object by object.
    Get {
        wanted: Vec<(String, Option<Range<u64>>)>,
    },
    ///+ The body follows.
    Create {
        key: String,
    },
    ///+ The body follows.
    Upload {
        key: String,
        expected: u64,
    },
    ///+ The names follow the reply.
    List {
        prefix: String,
    },
    ListDirs {
        prefix: String,
        limit: usize,
    },
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
    ///+ Returns a key that the request changes; `None` if it only reads.
    pub(super) fn changed(&self) -> Option<&str> {
        match self {
            Self::Create { key } | Self::Upload { key, .. } => Some(key),
            Self::Delete { keys } => Some(keys.first().map_or("", String::as_str)),
            // `Met` tests whether the store refuses a second mark.
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

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Replied {
    pub(super) process: u32,
    pub(super) requests: RequestCounts,
    pub(super) outcome: Result<Answer, Fault>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Answer {
    Got(Vec<Result<u64, Fault>>),
    Created(bool),
    Uploaded(u64),
    Listed(usize),
    Modified(u64),
    Deleted(Vec<Option<Fault>>),
    Bucket(Option<Mark>),
}

///+ An object in a list: name, bytes, time.
pub(super) type Name = (String, u64, u64);

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
