//! Uploads of objects that are too large to hold in memory.

use std::io::Read;

use bytes::Bytes;
use object_store::PutMode;
use object_store::path::Path;

use super::fault::Fault;
use super::upload_parts::Parts;
use super::{Bucket, Deadline};
use crate::bucket::error::BucketError;

///+ Size of a part, and of the largest object that one request writes.
const PART: usize = 8 << 20;
///+ Maximum parts of an upload; the stores accept 10,000.
const MOST_PARTS: u64 = 9000;
///+ Initial buffer for an object of unknown size.
const SET_ASIDE: usize = 64 << 10;

impl Bucket {
    ///+ Creates an object from `source`, read to its end, under a free key. Returns its size.
    ///+
    ///+ `expected` is an estimate of the size and determines the size of the parts. Up to 8 MiB go
    ///+ in one request, more in parts, four at a time. Holds at most 40 MiB, or two parts of an
    ///+ object over 180 GB. On failure the key stays free and the parts are aborted.
    ///+
    ///+ An object with this key and size counts as the result of an earlier attempt.
    pub fn upload(
        &self,
        key: &str,
        source: &mut (dyn Read + Send),
        expected: u64,
        deadline: Deadline,
    ) -> Result<u64, BucketError> {
        let size = part_size(expected);
        let mut next = |set_aside| {
            read_part(source, size, set_aside)
                .map_err(|source| BucketError::Source { key: key.to_owned(), source })
        };
        let first = next(size.min(SET_ASIDE.max(expected as usize)))?;
        let is_whole = first.len() < size;
        let second = if is_whole { Bytes::new() } else { next(size)? };
        if second.is_empty() {
            return self.run("write", key, self.upload_whole(key, first, deadline));
        }
        let path = self.path(key).map_err(|fault| fault.into_error("write", key))?;
        let mut parts = Parts::begin(self, &path, size, deadline)
            .map_err(|fault| fault.into_error("write", key))?;
        let mut part = first;
        let mut after = second;
        while !part.is_empty() {
            parts.send(part).map_err(|fault| fault.into_error("write", key))?;
            part = after;
            after = if part.len() < size { Bytes::new() } else { next(size)? };
        }
        parts.complete().map_err(|fault| fault.into_error("write", key))
    }

    async fn upload_whole(
        &self,
        key: &str,
        bytes: Bytes,
        deadline: Deadline,
    ) -> Result<u64, Fault> {
        let path = self.path(key)?;
        let size = bytes.len() as u64;
        let put = self.putting(&path, &bytes, PutMode::Create, deadline).await;
        let put = match put {
            Err(Fault::Unsupported(_)) => {
                self.putting(&path, &bytes, PutMode::Overwrite, deadline).await
            }
            put => put,
        };
        match put {
            Ok(()) => Ok(size),
            Err(Fault::Exists) => self.uploaded(&path, size, Fault::Exists, deadline).await,
            Err(fault) => Err(fault),
        }
    }

    pub(super) async fn uploaded(
        &self,
        path: &Path,
        size: u64,
        fault: Fault,
        deadline: Deadline,
    ) -> Result<u64, Fault> {
        match self.looking(path, deadline).await {
            Ok(object) if object.size == size => Ok(size),
            Ok(_) | Err(Fault::Absent) => Err(fault),
            Err(other) => Err(other),
        }
    }
}

///+ Returns the size of the parts, in whole MiB.
fn part_size(expected: u64) -> usize {
    let least = expected.div_ceil(MOST_PARTS).next_multiple_of(1 << 20);
    PART.max(least as usize)
}

fn read_part(
    source: &mut (dyn Read + Send),
    size: usize,
    set_aside: usize,
) -> std::io::Result<Bytes> {
    let mut bytes = Vec::with_capacity(set_aside);
    source.take(size as u64).read_to_end(&mut bytes)?;
    Ok(bytes.into())
}

#[cfg(test)]
mod tests {
    use super::part_size;

    #[test]
    fn parts_grow_with_the_object() {
        assert_eq!(part_size(0), 8 << 20);
        assert_eq!(part_size(9000 * (8 << 20)), 8 << 20);
        assert_eq!(part_size(9000 * (8 << 20) + 1), 9 << 20);
        let largest = 5u64 << 40;
        assert!(largest.div_ceil(part_size(largest) as u64) <= 9000);
    }
}
