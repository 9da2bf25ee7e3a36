//! The requests to a bucket, as a trait.

use std::io::Read;
use std::ops::Range;

use bytes::Bytes;

use crate::bucket::{BucketError, Created, Deadline, Identity, Listed, RequestCounts};

/// The requests to a bucket, made directly by a [`Bucket`](crate::bucket::Bucket) or by another
/// process.
///
/// Each request blocks until its deadline at most, and retries failures that may pass until then.
/// Keys are relative to the prefix of the bucket. No request replaces an object.
pub trait Objects: Sync {
    /// Reads an object or a range of it, at most 128 MiB. A range may extend past the end of the
    /// object; a range that starts there is an error.
    fn get(
        &self,
        key: &str,
        range: Option<Range<u64>>,
        deadline: Deadline,
    ) -> Result<Bytes, BucketError>;

    /// Reads objects, concurrently where possible. Returns an outcome for each, in order.
    fn get_many(
        &self,
        wanted: &[(String, Option<Range<u64>>)],
        deadline: Deadline,
    ) -> Vec<Result<Bytes, BucketError>> {
        wanted.iter().map(|(key, range)| self.get(key, range.clone(), deadline)).collect()
    }

    /// Creates an object under a free key. Returns [`Created::Exists`] if the key is taken, also if
    /// an earlier attempt of the same call created it and the response was lost.
    ///
    /// Where the store has no conditional create, the key is checked first and written then;
    /// [`Identity::conditional`] tells.
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

    /// Returns when the store wrote an object, in milliseconds since the epoch by its clock.
    fn modified(&self, key: &str, deadline: Deadline) -> Result<u64, BucketError>;

    /// Deletes objects, batching keys where the store can: 1000 per request for S3. Returns each
    /// key with its outcome, in order. A missing object counts as deleted.
    fn delete(
        &self,
        keys: Vec<String>,
        deadline: Deadline,
    ) -> Vec<(String, Result<(), BucketError>)>;

    /// Lists temporary files of interrupted writes, as whole keys that [`Self::delete`] takes.
    fn list_staged(
        &self,
        _directories: &[String],
        _deadline: Deadline,
    ) -> Result<Vec<Listed>, BucketError> {
        Ok(Vec::new())
    }

    /// Reads the identity of the bucket; `None` if the bucket is not initialized.
    fn identity(&self, deadline: Deadline) -> Result<Option<Identity>, BucketError>;

    /// Reads the identity of the bucket, and initializes the bucket first if needed.
    fn found(&self, write_once: bool, deadline: Deadline) -> Result<Identity, BucketError>;

    /// Does what [`Self::found`] does, but never initializes the bucket: returns `None` instead.
    fn met(&self, write_once: bool, deadline: Deadline) -> Result<Option<Identity>, BucketError>;

    /// Returns the requests so far, by kind.
    fn requests(&self) -> RequestCounts;

    /// Returns the id of the process that answers. It changes when that process is restarted.
    fn answerer(&self) -> u32 {
        0
    }

    /// Returns why requests are impossible, for people; `None` if they work.
    fn trouble(&self) -> Option<String> {
        None
    }
}
