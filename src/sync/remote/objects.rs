use std::io::Read;
use std::ops::Range;

use bytes::Bytes;

use crate::bucket::{Bucket, BucketError, Created, Deadline, Identity, Listed, RequestCounts};

/// The requests of this layer to a bucket: made directly by a [`Bucket`], or by another process.
/// [`Bucket`] documents each request.
pub trait Objects: Sync {
    /// Reads an object or a range of it.
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

    /// Creates an object under a free key.
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

    /// Deletes objects. Returns each key with its outcome, in order.
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

impl Objects for Bucket {
    fn get(
        &self,
        key: &str,
        range: Option<Range<u64>>,
        deadline: Deadline,
    ) -> Result<Bytes, BucketError> {
        Bucket::get(self, key, range, deadline)
    }

    fn get_many(
        &self,
        wanted: &[(String, Option<Range<u64>>)],
        deadline: Deadline,
    ) -> Vec<Result<Bytes, BucketError>> {
        Bucket::get_many(self, wanted, deadline)
    }

    fn create(&self, key: &str, bytes: &Bytes, deadline: Deadline) -> Result<Created, BucketError> {
        Bucket::create(self, key, bytes, deadline)
    }

    fn upload(
        &self,
        key: &str,
        source: &mut (dyn Read + Send),
        expected: u64,
        deadline: Deadline,
    ) -> Result<u64, BucketError> {
        Bucket::upload(self, key, source, expected, deadline)
    }

    fn list(&self, prefix: &str, deadline: Deadline) -> Result<Vec<Listed>, BucketError> {
        Bucket::list(self, prefix, None, deadline)
    }

    fn modified(&self, key: &str, deadline: Deadline) -> Result<u64, BucketError> {
        Bucket::modified(self, key, deadline)
    }

    fn delete(
        &self,
        keys: Vec<String>,
        deadline: Deadline,
    ) -> Vec<(String, Result<(), BucketError>)> {
        Bucket::delete(self, keys, deadline)
    }

    fn list_dirs(
        &self,
        prefix: &str,
        limit: usize,
        deadline: Deadline,
    ) -> Result<Vec<String>, BucketError> {
        Bucket::list_dirs(self, prefix, limit, deadline)
    }

    fn list_staged(
        &self,
        directories: &[String],
        _deadline: Deadline,
    ) -> Result<Vec<Listed>, BucketError> {
        Bucket::list_staged(self, directories)
    }

    fn identity(&self, deadline: Deadline) -> Result<Option<Identity>, BucketError> {
        Bucket::identity(self, deadline)
    }

    fn found(&self, write_once: bool, deadline: Deadline) -> Result<Identity, BucketError> {
        Bucket::found(self, write_once, deadline)
    }

    fn met(&self, write_once: bool, deadline: Deadline) -> Result<Option<Identity>, BucketError> {
        Bucket::met(self, write_once, deadline)
    }

    fn requests(&self) -> RequestCounts {
        Bucket::requests(self)
    }
}
