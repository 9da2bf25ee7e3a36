//! The requests that this layer makes.

use std::io::Read;
use std::ops::Range;

use bytes::Bytes;

use crate::bucket::Bucket;
use crate::bucket::BucketError;
use crate::bucket::Created;
use crate::bucket::Deadline;
use crate::bucket::Listed;

/// A bucket, as far as this layer uses one. [`Bucket`] says what each request does; tests have
/// buckets that fail.
pub trait Objects: Sync {
    /// Reads an object, or a range of it.
    fn get(
        &self,
        key: &str,
        range: Option<Range<u64>>,
        deadline: Deadline,
    ) -> Result<Bytes, BucketError>;

    /// Reads objects at once.
    fn get_many(
        &self,
        wanted: &[(String, Option<Range<u64>>)],
        deadline: Deadline,
    ) -> Vec<Result<Bytes, BucketError>>;

    /// Writes an object under a key that nothing has.
    fn create(&self, key: &str, bytes: &Bytes, deadline: Deadline) -> Result<Created, BucketError>;

    /// Writes a large object under a key that nothing has.
    fn upload(
        &self,
        key: &str,
        source: &mut (dyn Read + Send),
        expected: u64,
        deadline: Deadline,
    ) -> Result<u64, BucketError>;

    /// Lists all objects below a directory.
    fn list(&self, prefix: &str, deadline: Deadline) -> Result<Vec<Listed>, BucketError>;

    /// Returns when the store wrote an object, in milliseconds since the epoch by its clock.
    fn modified(&self, key: &str, deadline: Deadline) -> Result<u64, BucketError>;

    /// Deletes objects.
    fn delete(
        &self,
        keys: Vec<String>,
        deadline: Deadline,
    ) -> Vec<(String, Result<(), BucketError>)>;
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
}
