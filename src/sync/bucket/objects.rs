//! Trait for the requests to a bucket, and the data of requests and responses.

use std::ops::{Add, Range};
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::bucket::error::BucketError;
use crate::bucket::identity::Identity;

/// Requests to a bucket. A [`Bucket`](crate::bucket::Bucket) makes them directly; other
/// implementations pass them to another process.
///
/// Each request blocks, and returns by its deadline. Temporary failures are retried until then.
/// Keys are relative to the prefix of the bucket. No request replaces an object. Each error names
/// the key and the next step. [`BucketError::may_pass`] tells whether a retry can help.
pub trait Objects: Sync {
    /// Reads an object or a range of it, at most 128 MiB. A range may extend past the end of the
    /// object. It is an error if a range starts at or after the end.
    fn get(
        &self,
        key: &str,
        range: Option<Range<u64>>,
        deadline: Deadline,
    ) -> Result<Bytes, BucketError>;

    /// Reads several objects, concurrently if possible. Returns the outcomes in the order of the
    /// requests.
    fn get_many(
        &self,
        wanted: &[(String, Option<Range<u64>>)],
        deadline: Deadline,
    ) -> Vec<Result<Bytes, BucketError>> {
        wanted.iter().map(|(key, range)| self.get(key, range.clone(), deadline)).collect()
    }

    /// Creates an object under a free key. Returns [`Created::Exists`] if the key is taken. This
    /// includes the case that an earlier attempt of the same call created the object and its
    /// response was lost.
    ///
    /// If the object store has no conditional create, this first checks the key and then writes;
    /// see [`Identity::conditional`].
    fn create(&self, key: &str, bytes: &Bytes, deadline: Deadline) -> Result<Created, BucketError>;

    /// Reads `source` to its end and creates an object from it under a free key. Returns the size
    /// of the object.
    ///
    /// `expected` is an estimate of the size, which determines the size of the parts. An object of
    /// up to 8 MiB takes one request. A larger one is sent in parts, four at a time. Uses at most
    /// 40 MiB of memory, or two parts for an object over 180 GB. On failure, aborts the upload of
    /// parts, and the key stays free.
    ///
    /// An existing object with this key and size counts as the result of an earlier attempt.
    fn upload(
        &self,
        key: &str,
        source: &mut (dyn std::io::Read + Send),
        expected: u64,
        deadline: Deadline,
    ) -> Result<u64, BucketError>;

    /// Lists all objects below a directory, sorted by name. Fails if there are more than 1,000,000.
    fn list(&self, prefix: &str, deadline: Deadline) -> Result<Vec<Listed>, BucketError>;

    /// Like [`Self::list`], but may skip names in the ranges `known`, which the caller need not see
    /// again. The result says which were skipped. Names are skipped only if that saves a request, so
    /// a short list is complete. The ranges must be sorted and must not overlap.
    fn list_new(
        &self,
        prefix: &str,
        _known: &[NameRange],
        deadline: Deadline,
    ) -> Result<NewNames, BucketError> {
        Ok(NewNames { listed: self.list(prefix, deadline)?, skipped: Vec::new() })
    }

    /// Lists the first `limit` subdirectories of a directory, sorted by name. Makes one request per
    /// 1000 subdirectories.
    fn list_dirs(
        &self,
        prefix: &str,
        limit: usize,
        deadline: Deadline,
    ) -> Result<Vec<String>, BucketError>;

    /// Returns the time at which the object store wrote an object, and the time of its response.
    fn modified(&self, key: &str, deadline: Deadline) -> Result<StoreTime, BucketError>;

    /// Deletes objects, in batches if the object store supports them: S3 takes 1000 keys per
    /// request. Returns each key with its outcome, in the order of the keys. A missing object
    /// counts as deleted.
    fn delete(
        &self,
        keys: Vec<String>,
        deadline: Deadline,
    ) -> Vec<(String, Result<(), BucketError>)>;

    /// Lists the temporary files in `directories` that belong to running or interrupted writes of
    /// ctxfs. The `name` of each file is a whole key, which [`Self::delete`] accepts. Times are by
    /// the clock of the disk. Only a bucket that is a directory has such files. For other buckets,
    /// this makes no request and returns an empty list.
    fn list_staged(
        &self,
        _directories: &[String],
        _deadline: Deadline,
    ) -> Result<Vec<Listed>, BucketError> {
        Ok(Vec::new())
    }

    /// Reads the identity of the bucket. [`Identity::conditional`] is not tested, and is false in
    /// the result. Returns `None` if the bucket is not initialized.
    fn identity(&self, deadline: Deadline) -> Result<Option<Identity>, BucketError>;

    /// Reads the identity of the bucket, and initializes the bucket first if needed. Fails if
    /// `write_once` differs from the setting of the first host.
    ///
    /// If two hosts initialize the bucket at the same time, one of them writes the mark and both
    /// get the same identity.
    ///
    /// To set [`Identity::conditional`], tries to create the mark a second time, with the same
    /// bytes. Nothing is lost if the object store accepts that. With read-only credentials,
    /// `conditional` is false.
    fn found(&self, write_once: bool, deadline: Deadline) -> Result<Identity, BucketError>;

    /// Like [`Self::found`], but returns `None` if the bucket is not initialized, instead of
    /// initializing it.
    fn met(&self, write_once: bool, deadline: Deadline) -> Result<Option<Identity>, BucketError>;

    /// Returns the number of requests since the bucket was opened, by kind.
    fn requests(&self) -> RequestCounts;

    /// Returns the id of the process that makes the requests. The id changes when that process is
    /// restarted. The default is 0, for requests that this process makes.
    fn answerer(&self) -> u32 {
        0
    }

    /// Returns the reason why requests are impossible, as a text for users. Returns `None` if
    /// requests are possible, which is the default.
    fn trouble(&self) -> Option<String> {
        None
    }
}

/// Times by the clocks of an object store, in milliseconds since the epoch: `written_ms` of the last
/// write of an object, and `answered_ms` of the response that tells it. A response that tells no time
/// has `None`, and so has a bucket that is a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "described above")]
pub struct StoreTime {
    pub written_ms: u64,
    pub answered_ms: Option<u64>,
}

/// Outcome of [`Objects::create`]. If an object with this key exists, an earlier attempt whose
/// response was lost may have written it, so the caller must compare the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "described above")]
pub enum Created {
    New,
    Exists,
}

/// An object in a list. `name` is the key without the prefix of the list. `size` is in bytes.
/// `modified_ms` is the time of the last write in milliseconds since the epoch, by the clock of the
/// object store.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "described above")]
pub struct Listed {
    pub name: String,
    pub size: u64,
    pub modified_ms: u64,
}

/// A range of names below a prefix, in the order of their bytes. It includes `first` and `last`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "described above")]
pub struct NameRange {
    pub first: String,
    pub last: String,
}

/// Outcome of [`Objects::list_new`]: the objects in the list, and the ranges of names that were
/// skipped.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "described above")]
pub struct NewNames {
    pub listed: Vec<Listed>,
    pub skipped: Vec<NameRange>,
}

/// Time at which a request gives up. The request is not retried after that time, and no pause
/// starts that would end later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline(pub Instant);

impl Deadline {
    /// Returns the deadline `time` from now.
    pub fn after(time: Duration) -> Self {
        Self(Instant::now() + time)
    }

    /// Returns the remaining time; zero after the deadline.
    pub fn left(self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }

    pub(crate) fn is_past(self) -> bool {
        self.left().is_zero()
    }
}

/// Number of requests of one kind, including failed ones, and the number of transferred bytes of
/// objects.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "described above")]
pub struct Tally {
    pub requests: u64,
    pub bytes: u64,
}

/// Number of requests to a bucket since it was opened, by kind: reads and writes of objects and
/// parts, list pages, deletions, and requests for size and time. One deletion request may delete
/// many keys. The bytes of lists are not counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "described above")]
pub struct RequestCounts {
    pub get: Tally,
    pub put: Tally,
    pub list: Tally,
    pub delete: Tally,
    pub head: Tally,
}

impl RequestCounts {
    /// Returns the number of all requests.
    pub fn total(&self) -> u64 {
        let all = [self.get, self.put, self.list, self.delete, self.head];
        all.iter().map(|tally| tally.requests).sum()
    }
}

impl Add for Tally {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            requests: self.requests.saturating_add(other.requests),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }
}

impl Add for RequestCounts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            get: self.get + other.get,
            put: self.put + other.put,
            list: self.list + other.list,
            delete: self.delete + other.delete,
            head: self.head + other.head,
        }
    }
}
