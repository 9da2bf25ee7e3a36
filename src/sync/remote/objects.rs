//! The requests that this layer makes.

use std::io::Read;
use std::ops::Range;

use bytes::Bytes;

use crate::bucket::{Bucket, BucketError, Created, Deadline, Identity, Listed, RequestCounts};

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

    /// Reads objects: at once where that can be, and else one after the other.
    fn get_many(
        &self,
        wanted: &[(String, Option<Range<u64>>)],
        deadline: Deadline,
    ) -> Vec<Result<Bytes, BucketError>> {
        wanted.iter().map(|(key, range)| self.get(key, range.clone(), deadline)).collect()
    }

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

    /// Lists the first `limit` directories of a directory.
    fn list_dirs(
        &self,
        prefix: &str,
        limit: usize,
        deadline: Deadline,
    ) -> Result<Vec<String>, BucketError>;

    /// Returns when the store wrote an object, in milliseconds since the epoch by its clock.
    fn modified(&self, key: &str, deadline: Deadline) -> Result<u64, BucketError>;

    /// Deletes objects.
    fn delete(
        &self,
        keys: Vec<String>,
        deadline: Deadline,
    ) -> Vec<(String, Result<(), BucketError>)>;

    /// Lists what writes that were cut off have left in directories, as whole keys that
    /// [`Self::delete`] takes. Nothing where only the store could tell.
    fn list_staged(
        &self,
        _directories: &[String],
        _deadline: Deadline,
    ) -> Result<Vec<Listed>, BucketError> {
        Ok(Vec::new())
    }

    /// Reads who the bucket is; `None` if no host ever wrote to it.
    fn identity(&self, deadline: Deadline) -> Result<Option<Identity>, BucketError>;

    /// Reads who the bucket is, and marks it first if no host did.
    fn found(&self, write_once: bool, deadline: Deadline) -> Result<Identity, BucketError>;

    /// Does what [`Self::found`] does for a bucket that was marked before; `None` if it is not
    /// any more. Marks nothing.
    fn met(&self, write_once: bool, deadline: Deadline) -> Result<Option<Identity>, BucketError>;

    /// Returns how many requests there were, and the bytes of them.
    fn requests(&self) -> RequestCounts;

    /// Returns a number of the process that answers: another one where that began anew.
    fn answerer(&self) -> u32 {
        0
    }

    /// Returns why no request can be made at all, for people; `None` if one can.
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
