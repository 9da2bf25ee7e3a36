//! A bucket whose requests fail with all kinds of errors.

use std::io::Read;
use std::ops::Range;
use std::time::Duration;
use std::{io, thread};

use bytes::Bytes;

use crate::bucket::{
    Bucket, BucketError, Created, Deadline, Identity, Listed, RequestCounts, StoreTime,
};
use crate::remote::Objects;

/// A bucket whose requests for `slow` take some time, and whose other requests fail with all kinds
/// of errors.
pub(super) struct Odd(pub(super) Bucket);

impl Objects for Odd {
    fn get(
        &self,
        key: &str,
        range: Option<Range<u64>>,
        deadline: Deadline,
    ) -> Result<Bytes, BucketError> {
        let key = key.to_owned();
        match key.as_str() {
            "slow" => {
                thread::sleep(deadline.left());
                Err(BucketError::Away { what: "read `slow`".into(), why: "it is slow".into() })
            }
            "stuck" => {
                thread::sleep(deadline.left() + Duration::from_secs(5));
                Ok(Bytes::new())
            }
            "panic" => panic!("a fault of the process"),
            "exists" => Err(BucketError::Exists { key }),
            "refused" => Err(BucketError::Refused { key, why: "403".into() }),
            "newer" => Err(BucketError::Newer { format: 9 }),
            "mark" => Err(BucketError::NotCtxfs { key, why: "text".into() }),
            "large" => Err(BucketError::TooLarge { key, size: 7, limit: 5 }),
            "many" => Err(BucketError::TooMany { prefix: key, limit: 5 }),
            "url" => Err(BucketError::Url { url: "s3://...".into(), why: "no".into() }),
            "source" => Err(BucketError::Source { key, source: io::Error::other("disk") }),
            _ => self.0.get(&key, range, deadline),
        }
    }

    fn create(&self, key: &str, bytes: &Bytes, deadline: Deadline) -> Result<Created, BucketError> {
        self.0.create(key, bytes, deadline)
    }

    fn upload(
        &self,
        key: &str,
        source: &mut (dyn Read + Send),
        expected: u64,
        deadline: Deadline,
    ) -> Result<u64, BucketError> {
        if key == "refused" {
            return Err(BucketError::Refused { key: key.to_owned(), why: "403".into() });
        }
        self.0.upload(key, source, expected, deadline)
    }

    fn list(&self, prefix: &str, deadline: Deadline) -> Result<Vec<Listed>, BucketError> {
        self.0.list(prefix, deadline)
    }

    fn list_dirs(
        &self,
        prefix: &str,
        limit: usize,
        deadline: Deadline,
    ) -> Result<Vec<String>, BucketError> {
        self.0.list_dirs(prefix, limit, deadline)
    }

    fn modified(&self, key: &str, deadline: Deadline) -> Result<StoreTime, BucketError> {
        self.0.modified(key, deadline)
    }

    fn delete(
        &self,
        keys: Vec<String>,
        deadline: Deadline,
    ) -> Vec<(String, Result<(), BucketError>)> {
        let each = |key: String| {
            let refused = || BucketError::Refused { key: key.clone(), why: "403".into() };
            let outcome = if key == "refused" { Err(refused()) } else { Ok(()) };
            (key.clone(), outcome)
        };
        self.0.delete(keys.clone(), deadline);
        keys.into_iter().map(each).collect()
    }

    fn identity(&self, deadline: Deadline) -> Result<Option<Identity>, BucketError> {
        self.0.identity(deadline)
    }

    fn found(&self, write_once: bool, deadline: Deadline) -> Result<Identity, BucketError> {
        self.0.found(write_once, deadline)
    }

    fn met(&self, write_once: bool, deadline: Deadline) -> Result<Option<Identity>, BucketError> {
        self.0.met(write_once, deadline)
    }

    fn requests(&self) -> RequestCounts {
        self.0.requests()
    }
}
