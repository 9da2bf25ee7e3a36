//! Trait for the requests to a bucket.

use std::io::Read;
use std::ops::Range;

use bytes::Bytes;

use crate::bucket::{BucketError, Created, Deadline, Identity, Listed, RequestCounts};

/// Requests to a bucket. A [`Bucket`](crate::bucket::Bucket) makes them directly; other
/// implementations pass them to another process.
///
/// Each request returns by its deadline. Until then, it is retried after temporary failures. Keys
/// are relative to the prefix of the bucket. No request replaces an object.
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
    /// If the store has no conditional create, this first checks the key and then writes; see
    /// [`Identity::conditional`].
    fn create(&self, key: &str, bytes: &Bytes, deadline: Deadline) -> Result<Created, BucketError>;

    /// Creates a large object under a free key. Returns its size.
    fn upload(
        &self,
        key: &str,
        source: &mut (dyn Read + Send),
        expected: u64,
        deadline: Deadline,
    ) -> Result<u64, BucketError>;

    /// Lists all objects below a directory.
    fn list(&self, prefix: &str, deadline: Deadline) -> Result<Vec<Listed>, BucketError>;

    /// Lists the first `limit` subdirectories of a directory.
    fn list_dirs(
        &self,
        prefix: &str,
        limit: usize,
        deadline: Deadline,
    ) -> Result<Vec<String>, BucketError>;

    /// Returns the time at which the store wrote an object, in milliseconds since the epoch, by the
    /// store's clock.
    fn modified(&self, key: &str, deadline: Deadline) -> Result<u64, BucketError>;

    /// Deletes objects, in batches if the store supports them: S3 takes 1000 keys per request.
    /// Returns each key with its outcome, in the order of the keys. A missing object counts as
    /// deleted.
    fn delete(
        &self,
        keys: Vec<String>,
        deadline: Deadline,
    ) -> Vec<(String, Result<(), BucketError>)>;

    /// Lists the temporary files of interrupted writes. Each name is a whole key that
    /// [`Self::delete`] accepts.
    fn list_staged(
        &self,
        _directories: &[String],
        _deadline: Deadline,
    ) -> Result<Vec<Listed>, BucketError> {
        Ok(Vec::new())
    }

    /// Reads the identity of the bucket. Returns `None` if the bucket is not initialized.
    fn identity(&self, deadline: Deadline) -> Result<Option<Identity>, BucketError>;

    /// Reads the identity of the bucket, and initializes the bucket first if needed.
    fn found(&self, write_once: bool, deadline: Deadline) -> Result<Identity, BucketError>;

    /// Does what [`Self::found`] does, except that it returns `None` instead of initializing the
    /// bucket.
    fn met(&self, write_once: bool, deadline: Deadline) -> Result<Option<Identity>, BucketError>;

    /// Returns the number of requests so far, by kind.
    fn requests(&self) -> RequestCounts;

    /// Returns the id of the process that makes the requests. The id changes when that process is
    /// restarted.
    fn answerer(&self) -> u32 {
        0
    }

    /// Returns the reason why requests are impossible, as a text for users. Returns `None` if
    /// requests are possible.
    fn trouble(&self) -> Option<String> {
        None
    }
}
