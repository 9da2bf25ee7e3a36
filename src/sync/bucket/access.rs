//! Requests to the bucket, for code that waits.
//!
//! Every request has a deadline, is repeated until then if the network or the store fails, and is
//! counted. Keys are relative to the prefix of the bucket. Nothing is ever replaced.

mod counted;
mod deadline;
mod fault;
mod listing;
mod removal;
mod retry;
mod staged;
mod upload;
mod upload_parts;
mod workers;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use object_store::path::Path;
use object_store::{ObjectMeta, PutMode};
use tokio::runtime::Handle;

pub use deadline::Deadline;
pub use listing::Listed;

use counted::Counted;
use fault::Fault;
use retry::{QUIET, patience};
use workers::Workers;

use crate::bucket::error::BucketError;
use crate::bucket::requests::RequestCounts;
use crate::bucket::url::BucketUrl;

/// The most bytes that one `get` returns, more than a segment may have.
const LARGEST_BODY: u64 = 128 << 20;
/// The requests of one `get_many` that are under way.
const AT_ONCE: usize = 16;

/// What `create` found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Created {
    /// Nothing: the object is new.
    New,
    /// An object of this key. It may be what an earlier attempt wrote, so compare the bytes.
    Exists,
}

/// A bucket: objects under keys. Clones share connections, threads and counts.
///
/// All methods wait, so none may be called from code that runs on tokio.
#[derive(Clone)]
pub struct Bucket(Arc<Inner>);

struct Inner {
    url: BucketUrl,
    store: Arc<Counted>,
    workers: Workers,
    /// True once the store refused to create on a condition.
    creates_in_two: AtomicBool,
}

impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Bucket").field(&self.0.url.to_string()).finish()
    }
}

impl Bucket {
    /// Opens a bucket with the keys and settings that are in `environment`. Makes no request.
    pub fn open(
        url: &BucketUrl,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, BucketError> {
        let store = Arc::new(Counted::new(url.open(environment)?));
        let workers = Workers::default();
        let creates_in_two = AtomicBool::new(false);
        Ok(Self(Arc::new(Inner { url: url.clone(), store, workers, creates_in_two })))
    }

    /// Returns where the bucket is.
    pub fn url(&self) -> &BucketUrl {
        &self.0.url
    }

    /// Makes the directory with mode 0700, if the bucket is one that is not there and whose parent
    /// is. For whoever is about to mark it: readers make nothing.
    pub fn make_directory(&self) -> Result<(), BucketError> {
        let Some(directory) = self.0.store.directory() else { return Ok(()) };
        directory.make().map_err(|error| BucketError::Url {
            url: self.url().to_string(),
            why: format!("cannot make that directory ({error}): make it, or its parent"),
        })
    }

    /// Returns how many requests this bucket had since it was opened.
    pub fn requests(&self) -> RequestCounts {
        self.0.store.requests.snapshot()
    }

    /// Returns why a request is being repeated, if one is.
    pub fn last_failure(&self) -> Option<String> {
        self.0.store.last_failure.get()
    }

    /// Reads an object, or a range of it. A range that ends after the object ends with it; one
    /// that begins there is an error. At most 128 MiB.
    pub fn get(
        &self,
        key: &str,
        range: Option<Range<u64>>,
        deadline: Deadline,
    ) -> Result<Bytes, BucketError> {
        self.run("read", key, self.getting(key, range, LARGEST_BODY, deadline))
    }

    /// Reads an object of at most `most` bytes; it may have none.
    pub(super) fn get_small(
        &self,
        key: &str,
        most: u64,
        deadline: Deadline,
    ) -> Result<Bytes, BucketError> {
        self.run("read", key, self.getting(key, None, most, deadline))
    }

    /// Reads objects, 16 at once. Returns an outcome for each, in their order.
    pub fn get_many(
        &self,
        wanted: &[(String, Option<Range<u64>>)],
        deadline: Deadline,
    ) -> Vec<Result<Bytes, BucketError>> {
        let handle = match self.handle() {
            Ok(handle) => handle,
            Err(fault) => {
                let error = |key: &str| Err(fault.clone().into_error("read", key));
                return wanted.iter().map(|(key, _)| error(key)).collect();
            }
        };
        let gets = wanted.iter().map(|(key, range)| async move {
            let bytes = self.getting(key, range.clone(), LARGEST_BODY, deadline).await;
            bytes.map_err(|fault| fault.into_error("read", key))
        });
        handle.block_on(stream::iter(gets).buffered(AT_ONCE).collect())
    }

    /// Writes an object under a key that nothing has. Where an answer was lost, the next attempt
    /// may find what this one wrote, and so tells `Exists`.
    ///
    /// A store that cannot do this at once is asked whether the key is free, and then written to;
    /// `Identity::conditional` tells.
    pub fn create(
        &self,
        key: &str,
        bytes: &Bytes,
        deadline: Deadline,
    ) -> Result<Created, BucketError> {
        self.run("write", key, async {
            let path = self.path(key)?;
            match self.putting(&path, bytes, PutMode::Create, deadline).await {
                Ok(()) => Ok(Created::New),
                Err(Fault::Exists) => Ok(Created::Exists),
                Err(Fault::Unsupported(_)) => self.creating_in_two(&path, bytes, deadline).await,
                Err(fault) => Err(fault),
            }
        })
    }

    /// Returns when the store wrote an object, in milliseconds since 1970 by the store's clock.
    pub fn modified(&self, key: &str, deadline: Deadline) -> Result<u64, BucketError> {
        self.run("look at", key, async {
            let path = self.path(key)?;
            Ok(milliseconds(&self.looking(&path, deadline).await?))
        })
    }

    /// Returns true if the store refused to create on a condition, so two hosts may both create.
    pub(super) fn creates_in_two(&self) -> bool {
        self.0.creates_in_two.load(Ordering::Relaxed)
    }

    async fn getting(
        &self,
        key: &str,
        range: Option<Range<u64>>,
        most: u64,
        deadline: Deadline,
    ) -> Result<Bytes, Fault> {
        let path = self.path(key)?;
        let get = || self.0.store.get(&path, range.clone(), most);
        self.0.store.persist(deadline, patience(most), get).await
    }

    async fn looking(&self, path: &Path, deadline: Deadline) -> Result<ObjectMeta, Fault> {
        self.0.store.persist(deadline, QUIET, || self.0.store.head(path)).await
    }

    async fn putting(
        &self,
        path: &Path,
        bytes: &Bytes,
        mode: PutMode,
        deadline: Deadline,
    ) -> Result<(), Fault> {
        let put = || self.0.store.put(path, bytes.clone(), mode.clone());
        self.0.store.persist(deadline, patience(bytes.len() as u64), put).await
    }

    /// Creates an object where the store has no condition for that.
    async fn creating_in_two(
        &self,
        path: &Path,
        bytes: &Bytes,
        deadline: Deadline,
    ) -> Result<Created, Fault> {
        self.0.creates_in_two.store(true, Ordering::Relaxed);
        match self.looking(path, deadline).await {
            Ok(_) => Ok(Created::Exists),
            Err(Fault::Absent) => {
                self.putting(path, bytes, PutMode::Overwrite, deadline).await?;
                Ok(Created::New)
            }
            Err(fault) => Err(fault),
        }
    }

    /// Waits for an attempt to do `what` with `key`.
    fn run<T>(
        &self,
        what: &str,
        key: &str,
        attempt: impl Future<Output = Result<T, Fault>>,
    ) -> Result<T, BucketError> {
        let outcome = self.handle().and_then(|handle| handle.block_on(attempt));
        outcome.map_err(|fault| fault.into_error(what, key))
    }

    fn handle(&self) -> Result<Handle, Fault> {
        let fault = |error| Fault::Never(format!("this host has no room for threads: {error}"));
        self.0.workers.handle().map_err(fault)
    }

    /// Returns the path of a key, which is taken as it is: its `%` stay.
    fn path(&self, key: &str) -> Result<Path, Fault> {
        let full = match (self.0.url.prefix(), key) {
            ("", key) => key.to_owned(),
            (prefix, "") => prefix.to_owned(),
            (prefix, key) => format!("{prefix}/{key}"),
        };
        Path::parse(full).map_err(|error| Fault::Never(format!("that is no key: {error}")))
    }
}

fn milliseconds(object: &ObjectMeta) -> u64 {
    u64::try_from(object.last_modified.timestamp_millis()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
