//! Uploads of objects that are too large to hold in memory.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use object_store::multipart::PartId;
use object_store::path::Path;
use object_store::{MultipartId, MultipartUpload, PutMultipartOptions};
use tokio::runtime::Handle;
use tokio::task::JoinSet;

use crate::bucket::access::client::{QUIET, StoreClient, call, patience};
use crate::bucket::access::fault::Fault;
use crate::bucket::objects::Deadline;
use crate::bucket::url::CloudStore;

const PART: usize = 8 << 20;
/// Maximum number of parts of an upload. The object stores accept 10,000.
const MOST_PARTS: u64 = 9000;

pub(super) fn part_size(expected: u64) -> usize {
    let least = expected.div_ceil(MOST_PARTS).next_multiple_of(1 << 20);
    PART.max(least as usize)
}

const HELD: usize = 40 << 20;
const AT_ONCE: usize = 4;
const COMPLETE: Duration = Duration::from_mins(3);
/// Time limit for aborting an upload.
const GIVE_UP: Duration = Duration::from_secs(5);

/// A multipart upload. If it is dropped before [`Self::complete`] has succeeded, the upload is
/// aborted, which takes at most 5 s. If that fails, a lifecycle rule of the bucket must remove the
/// parts.
pub(super) struct PartUpload {
    store: Arc<StoreClient>,
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
    Cloud { store: Arc<dyn CloudStore>, id: MultipartId },
    Plain(Box<dyn MultipartUpload>),
}

impl PartUpload {
    pub(super) fn begin(
        store: Arc<StoreClient>,
        path: Path,
        part: usize,
        (handle, deadline): (Handle, Deadline),
    ) -> Result<Self, Fault> {
        let target = handle.block_on(begin(&store, &path, deadline))?;
        Ok(Self {
            store,
            path,
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

    pub(super) fn send(&mut self, bytes: Bytes) -> Result<(), Fault> {
        while self.flying.len() >= self.at_once {
            self.land()?;
        }
        self.size += bytes.len() as u64;
        let part = self.part(bytes);
        self.flying.spawn_on(part, &self.handle);
        self.count += 1;
        Ok(())
    }

    pub(super) fn complete(mut self) -> Result<u64, Fault> {
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

    fn part(
        &mut self,
        bytes: Bytes,
    ) -> futures_util::future::BoxFuture<'static, Result<SentPart, Fault>> {
        let place = self.count;
        let counted = Arc::clone(&self.store);
        match &mut self.target {
            UploadTarget::Cloud { store, id } => {
                let (store, path, id) = (Arc::clone(store), self.path.clone(), id.clone());
                let (deadline, limit) = (self.deadline, patience(bytes.len() as u64));
                let sent = async move {
                    let part = || {
                        counted.count_put(bytes.len());
                        call(limit, store.put_part(&path, &id, place, bytes.clone().into()))
                    };
                    Ok((place, Some(counted.persist(deadline, limit, part).await?)))
                };
                sent.boxed()
            }
            UploadTarget::Plain(upload) => {
                counted.count_put(bytes.len());
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
        let counted = &self.store;
        let completed = match &mut self.target {
            UploadTarget::Plain(upload) => call(COMPLETE, upload.complete()).await.map(drop),
            UploadTarget::Cloud { store, id } => {
                let (store, id) = (&*store, &*id);
                let complete = || {
                    counted.requests.lock().put.requests += 1;
                    call(COMPLETE, store.complete_multipart(&self.path, id, parts.clone()))
                };
                counted.persist(self.deadline, COMPLETE, complete).await.map(drop)
            }
        };
        match completed {
            Ok(()) => Ok(size),
            Err(fault @ Fault::Again(_)) => Err(fault),
            // If the response to an earlier attempt was lost, the object exists and the store no
            // longer knows the parts. Stores report unknown parts with different errors.
            Err(Fault::Absent) => {
                let forgot = Fault::Never("the store forgot the parts".to_owned());
                counted.uploaded(&self.path, size, forgot, self.deadline).await
            }
            Err(fault) => counted.uploaded(&self.path, size, fault, self.deadline).await,
        }
    }

    async fn give_up(&mut self) -> Result<(), Fault> {
        match &mut self.target {
            UploadTarget::Plain(upload) => call(GIVE_UP, upload.abort()).await,
            UploadTarget::Cloud { store, id } => {
                self.store.requests.lock().delete.requests += 1;
                call(GIVE_UP, store.abort_multipart(&self.path, id)).await
            }
        }
    }
}

impl Drop for PartUpload {
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
    if counted.cloud().is_some() {
        let begun = || async {
            counted.requests.lock().put.requests += 1;
            let store = Arc::clone(counted.cloud().ok_or(Fault::Absent)?);
            let id = call(QUIET, store.create_multipart(path)).await?;
            Ok(UploadTarget::Cloud { store, id })
        };
        return counted.adapting(begun).await;
    }
    counted.requests.lock().put.requests += 1;
    let options = PutMultipartOptions::default();
    let store = counted.store_of(path).await?;
    let upload = call(QUIET, store.put_multipart_opts(path, options)).await?;
    Ok(UploadTarget::Plain(upload))
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
