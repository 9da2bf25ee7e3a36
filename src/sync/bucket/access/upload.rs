//! Uploads of objects that are too large to hold in memory.

use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use object_store::multipart::PartId;
use object_store::path::Path;
use object_store::{MultipartId, MultipartUpload, PutMode, PutMultipartOptions};
use tokio::runtime::Handle;
use tokio::task::JoinSet;

use crate::bucket::access::client::{RequestKind, StoreClient, call};
use crate::bucket::access::fault::Fault;
use crate::bucket::access::{Bucket, Deadline, QUIET, patience};
use crate::bucket::error::BucketError;
use crate::bucket::url::CloudStore;

/// Size of a part in bytes. Larger objects need more than one request.
const PART: usize = 8 << 20;
/// Maximum number of parts of an upload. The stores accept 10,000.
const MOST_PARTS: u64 = 9000;
/// Initial buffer size in bytes for an object of unknown size.
const SET_ASIDE: usize = 64 << 10;

impl Bucket {
    /// Reads `source` to its end and creates an object from it under a free key. Returns the size
    /// of the object.
    ///
    /// `expected` is an estimate of the size, which determines the size of the parts. An object of
    /// up to 8 MiB takes one request. A larger one is sent in parts, four at a time. Uses at most
    /// 40 MiB of memory, or two parts for an object over 180 GB. On failure, aborts the upload of
    /// parts, and the key stays free.
    ///
    /// An existing object with this key and size counts as the result of an earlier attempt.
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
            return self.run("write", key, async {
                let path = self.path(key)?;
                let written =
                    match self.0.store.write(&path, &first, PutMode::Create, deadline).await {
                        Err(Fault::Unsupported(_)) => {
                            self.0.store.write(&path, &first, PutMode::Overwrite, deadline).await
                        }
                        written => written,
                    };
                let size = first.len() as u64;
                match written {
                    Ok(()) => Ok(size),
                    Err(Fault::Exists) => self.uploaded(&path, size, Fault::Exists, deadline).await,
                    Err(fault) => Err(fault),
                }
            });
        }
        let path = self.path(key).map_err(|fault| fault.into_error("write", key))?;
        let mut parts = PartUpload::begin(self, &path, size, deadline)
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

    async fn uploaded(
        &self,
        path: &Path,
        size: u64,
        fault: Fault,
        deadline: Deadline,
    ) -> Result<u64, Fault> {
        match self.0.store.stat(path, deadline).await {
            Ok(object) if object.size == size => Ok(size),
            Ok(_) | Err(Fault::Absent) => Err(fault),
            Err(other) => Err(other),
        }
    }
}

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

const HELD: usize = 40 << 20;
const AT_ONCE: usize = 4;
/// Time limit for completing an upload. S3 takes minutes for the largest objects.
const COMPLETE: Duration = Duration::from_mins(3);
/// Time limit for aborting an upload. If the abort fails, a lifecycle rule of the bucket must
/// remove the parts.
const GIVE_UP: Duration = Duration::from_secs(5);

/// A multipart upload. Dropping it before [`Self::complete`] succeeds aborts the upload, which
/// takes at most 5 s. If the abort fails, a lifecycle rule of the bucket must remove the parts.
struct PartUpload<'a> {
    bucket: &'a Bucket,
    path: Path,
    handle: Handle,
    deadline: Deadline,
    target: UploadTarget,
    at_once: usize,
    flying: JoinSet<Result<SentPart, Fault>>,
    sent: Vec<SentPart>,
    count: usize,
    size: u64,
    is_complete: bool,
}

type SentPart = (usize, Option<PartId>);

enum UploadTarget {
    /// A store that takes one request per part, so that each part can be retried.
    Cloud { store: Arc<dyn CloudStore>, id: MultipartId },
    /// A directory or memory, where no retry is needed.
    Plain(Box<dyn MultipartUpload>),
}

impl<'a> PartUpload<'a> {
    fn begin(
        bucket: &'a Bucket,
        path: &Path,
        part: usize,
        deadline: Deadline,
    ) -> Result<Self, Fault> {
        let handle = bucket.handle()?;
        let target = handle.block_on(begin(&bucket.0.store, path, deadline))?;
        Ok(Self {
            bucket,
            path: path.clone(),
            handle,
            deadline,
            target,
            at_once: (HELD / part).saturating_sub(1).clamp(1, AT_ONCE),
            flying: JoinSet::new(),
            sent: Vec::new(),
            count: 0,
            size: 0,
            is_complete: false,
        })
    }

    fn send(&mut self, bytes: Bytes) -> Result<(), Fault> {
        while self.flying.len() >= self.at_once {
            self.land()?;
        }
        self.size += bytes.len() as u64;
        let part = self.part(bytes);
        self.flying.spawn_on(part, &self.handle);
        self.count += 1;
        Ok(())
    }

    fn complete(mut self) -> Result<u64, Fault> {
        while !self.flying.is_empty() {
            self.land()?;
        }
        self.sent.sort_unstable_by_key(|(place, _)| *place);
        let handle = self.handle.clone();
        let size = handle.block_on(self.completing())?;
        self.is_complete = true;
        Ok(size)
    }

    fn land(&mut self) -> Result<(), Fault> {
        match self.handle.block_on(self.flying.join_next()) {
            Some(Ok(sent)) => self.sent.push(sent?),
            Some(Err(error)) => return Err(Fault::Never(format!("a thread failed: {error}"))),
            None => {}
        }
        Ok(())
    }

    fn part(&mut self, bytes: Bytes) -> BoxFuture<'static, Result<SentPart, Fault>> {
        let place = self.count;
        let counted = Arc::clone(&self.bucket.0.store);
        match &mut self.target {
            UploadTarget::Cloud { store, id } => {
                let (store, id) = (Arc::clone(store), id.clone());
                let deadline = self.deadline;
                send_part(counted, store, self.path.clone(), id, place, bytes, deadline).boxed()
            }
            UploadTarget::Plain(upload) => {
                count_part(&counted, &bytes);
                let part = upload.put_part(bytes.into());
                let sent = move |done: object_store::Result<()>| match done {
                    Ok(()) => Ok((place, None)),
                    Err(error) => Err(Fault::of(&error)),
                };
                part.map(sent).boxed()
            }
        }
    }

    async fn completing(&mut self) -> Result<u64, Fault> {
        let size = self.size;
        let parts: Vec<PartId> = self.sent.iter().filter_map(|(_, id)| id.clone()).collect();
        let counted = &self.bucket.0.store;
        let completed = match &mut self.target {
            UploadTarget::Plain(upload) => call(COMPLETE, upload.complete()).await.map(drop),
            UploadTarget::Cloud { store, id } => {
                let (store, id) = (&*store, &*id);
                let complete = || {
                    counted.requests.count(RequestKind::Put);
                    call(COMPLETE, store.complete_multipart(&self.path, id, parts.clone()))
                };
                counted.persist(self.deadline, COMPLETE, complete).await.map(drop)
            }
        };
        match completed {
            Ok(()) => Ok(size),
            Err(fault @ Fault::Again(_)) => Err(fault),
            // If the response to an earlier attempt was lost, the object already exists. Stores
            // answer differently when the parts are unknown.
            Err(Fault::Absent) => {
                let forgot = Fault::Never("the store forgot the parts".to_owned());
                self.bucket.uploaded(&self.path, size, forgot, self.deadline).await
            }
            Err(fault) => self.bucket.uploaded(&self.path, size, fault, self.deadline).await,
        }
    }

    async fn give_up(&mut self) -> Result<(), Fault> {
        match &mut self.target {
            UploadTarget::Plain(upload) => call(GIVE_UP, upload.abort()).await,
            UploadTarget::Cloud { store, id } => {
                self.bucket.0.store.requests.count(RequestKind::Delete);
                call(GIVE_UP, store.abort_multipart(&self.path, id)).await
            }
        }
    }
}

impl Drop for PartUpload<'_> {
    fn drop(&mut self) {
        if self.is_complete {
            return;
        }
        let handle = self.handle.clone();
        let given_up = handle.block_on(async {
            self.flying.shutdown().await;
            self.give_up().await
        });
        if let Err(fault) = given_up {
            tracing::warn!(key = %self.path, ?fault, "parts of an upload stay in the bucket");
        }
    }
}

async fn begin(
    counted: &StoreClient,
    path: &Path,
    deadline: Deadline,
) -> Result<UploadTarget, Fault> {
    let target = counted.persist(deadline, QUIET, || begin_once(counted, path)).await;
    target.map_err(|fault| if fault == Fault::Absent { Fault::no_bucket() } else { fault })
}

async fn begin_once(counted: &StoreClient, path: &Path) -> Result<UploadTarget, Fault> {
    counted.requests.count(RequestKind::Put);
    if let Some(store) = counted.cloud() {
        let id = call(QUIET, store.create_multipart(path)).await?;
        return Ok(UploadTarget::Cloud { store: Arc::clone(store), id });
    }
    let options = PutMultipartOptions::default();
    let store = counted.store_of(path).await?;
    let upload = call(QUIET, store.put_multipart_opts(path, options)).await?;
    Ok(UploadTarget::Plain(upload))
}

async fn send_part(
    counted: Arc<StoreClient>,
    store: Arc<dyn CloudStore>,
    path: Path,
    id: MultipartId,
    place: usize,
    bytes: Bytes,
    deadline: Deadline,
) -> Result<SentPart, Fault> {
    let limit = patience(bytes.len() as u64);
    let part = || {
        count_part(&counted, &bytes);
        call(limit, store.put_part(&path, &id, place, bytes.clone().into()))
    };
    Ok((place, Some(counted.persist(deadline, limit, part).await?)))
}

fn count_part(counted: &StoreClient, bytes: &Bytes) {
    counted.requests.count(RequestKind::Put);
    counted.requests.add_bytes(RequestKind::Put, bytes.len());
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
