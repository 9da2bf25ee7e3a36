//! Blocking requests to the bucket.
//!
//! Each request has a deadline. Until then, it is retried after failures of the network or the
//! store. All requests are counted. Keys are relative to the prefix of the bucket. No request
//! replaces an object.

mod client;
mod fault;
mod listing;
mod upload;

use std::io::Read;
use std::ops::Range;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{fmt, io};

use bytes::Bytes;
use futures_util::{FutureExt as _, StreamExt as _, stream};
use object_store::path::Path;
use object_store::{ObjectMeta, PutMode};
use parking_lot::Mutex;
use tokio::runtime::{Builder, Handle, Runtime};

use crate::bucket::access::client::{Pauses, QUIET, StoreClient, patience, within};
use crate::bucket::access::fault::Fault;
use crate::bucket::error::BucketError;
use crate::bucket::identity::Identity;
use crate::bucket::objects::Objects;
use crate::bucket::url::BucketUrl;

pub use client::{Deadline, RequestCounts, Tally};
pub use listing::Listed;

const LARGEST_BODY: u64 = 128 << 20;
const AT_ONCE: usize = 16;

/// Outcome of [`Bucket::create`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Created {
    /// The object was created.
    New,
    /// An object with this key exists. An earlier attempt whose response was lost may have written
    /// it, so the caller must compare the bytes.
    Exists,
}

/// A bucket: objects under keys. Clones share connections, threads and counters.
///
/// All methods block, so they must not be called on a thread of an async runtime. Each error names
/// the key and the next step. [`BucketError::may_pass`] tells whether a retry can help.
#[derive(Clone)]
pub struct Bucket(Arc<BucketInner>);

struct BucketInner {
    url: BucketUrl,
    store: Arc<StoreClient>,
    runtime: RequestRuntime,
    lacks_conditional_create: AtomicBool,
}

impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Bucket").field(&self.0.url.to_string()).finish()
    }
}

impl Bucket {
    /// Opens a bucket with the credentials and settings in `environment`. Makes no request.
    pub fn open(
        url: &BucketUrl,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, BucketError> {
        let store = Arc::new(StoreClient::new(url.open(environment)?));
        let runtime = RequestRuntime::default();
        let lacks_conditional_create = AtomicBool::new(false);
        Ok(Self(Arc::new(BucketInner {
            url: url.clone(),
            store,
            runtime,
            lacks_conditional_create,
        })))
    }

    /// Returns the URL of the bucket.
    pub fn url(&self) -> &BucketUrl {
        &self.0.url
    }

    /// Creates the directory of a `file://` bucket with mode 0700 if it is missing and its parent
    /// exists. Call this only before writing the mark of the bucket. Readers create nothing.
    pub fn make_directory(&self) -> Result<(), BucketError> {
        let Some(directory) = self.0.store.directory() else { return Ok(()) };
        directory.make().map_err(|error| BucketError::Url {
            url: self.url().to_string(),
            why: format!("cannot make that directory ({error}): make it, or its parent"),
        })
    }

    /// Returns the number of requests since the bucket was opened, by kind.
    pub fn requests(&self) -> RequestCounts {
        self.0.store.requests.snapshot()
    }

    /// Returns the error because of which a request is being retried; `None` if no request is.
    pub fn last_failure(&self) -> Option<String> {
        self.0.store.last_failure.get()
    }

    /// Reads an object, or a range of it. Fails without reading the object if it is larger than
    /// `limit` bytes.
    pub(super) fn get_at_most(
        &self,
        key: &str,
        range: Option<Range<u64>>,
        limit: u64,
        deadline: Deadline,
    ) -> Result<Bytes, BucketError> {
        self.run("read", key, async {
            self.0.store.read(&self.path(key)?, range, limit, deadline).await
        })
    }

    pub(super) fn lacks_conditional_create(&self) -> bool {
        self.0.lacks_conditional_create.load(Ordering::Relaxed)
    }

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
        self.0.runtime.handle().map_err(fault)
    }

    /// Converts a key to a path without encoding it. `Path::from` would encode each `%` of the key
    /// a second time.
    fn path(&self, key: &str) -> Result<Path, Fault> {
        let full = match (self.0.url.prefix(), key) {
            ("", key) => key.to_owned(),
            (prefix, "") => prefix.to_owned(),
            (prefix, key) => format!("{prefix}/{key}"),
        };
        Path::parse(full).map_err(|error| Fault::Never(format!("that is no key: {error}")))
    }
}

impl Objects for Bucket {
    fn get(
        &self,
        key: &str,
        range: Option<Range<u64>>,
        deadline: Deadline,
    ) -> Result<Bytes, BucketError> {
        self.get_at_most(key, range, LARGEST_BODY, deadline)
    }

    fn get_many(
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
            let read = async {
                self.0.store.read(&self.path(key)?, range.clone(), LARGEST_BODY, deadline).await
            };
            read.await.map_err(|fault: Fault| fault.into_error("read", key))
        });
        handle.block_on(stream::iter(gets).buffered(AT_ONCE).collect())
    }

    fn create(&self, key: &str, bytes: &Bytes, deadline: Deadline) -> Result<Created, BucketError> {
        self.run("write", key, async {
            let path = self.path(key)?;
            match self.0.store.write(&path, bytes, PutMode::Create, deadline).await {
                Ok(()) => Ok(Created::New),
                Err(Fault::Exists) => Ok(Created::Exists),
                Err(Fault::Unsupported(_)) => {
                    self.0.lacks_conditional_create.store(true, Ordering::Relaxed);
                    match self.0.store.stat(&path, deadline).await {
                        Ok(_) => Ok(Created::Exists),
                        Err(Fault::Absent) => {
                            let mode = PutMode::Overwrite;
                            self.0.store.write(&path, bytes, mode, deadline).await?;
                            Ok(Created::New)
                        }
                        Err(fault) => Err(fault),
                    }
                }
                Err(fault) => Err(fault),
            }
        })
    }

    fn modified(&self, key: &str, deadline: Deadline) -> Result<u64, BucketError> {
        self.run("look at", key, async {
            let path = self.path(key)?;
            Ok(milliseconds(&self.0.store.stat(&path, deadline).await?))
        })
    }

    fn delete(
        &self,
        keys: Vec<String>,
        deadline: Deadline,
    ) -> Vec<(String, Result<(), BucketError>)> {
        let mut outcomes = Vec::with_capacity(keys.len());
        for turn in keys.chunks(self.0.store.deletes()) {
            let deleted = match self.handle() {
                Ok(handle) => handle.block_on(self.deleting(turn, deadline)),
                Err(fault) => vec![Err(fault); turn.len()],
            };
            outcomes.extend(deleted);
        }
        let told = |(key, outcome): (String, Result<(), Fault>)| {
            let outcome = outcome.map_err(|fault| fault.into_error("delete", &key));
            (key, outcome)
        };
        keys.into_iter().zip(outcomes).map(told).collect()
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

fn milliseconds(object: &ObjectMeta) -> u64 {
    u64::try_from(object.last_modified.timestamp_millis()).unwrap_or_default()
}

/// Number of threads that transfer bytes. Requests mostly wait for the network.
const WORKERS: usize = 2;
/// Number of threads that wait for a disk, if the bucket is a directory.
const DISK_WORKERS: usize = 8;

/// A runtime that starts with the first request. Before that it has no threads, so a process that
/// has only opened a bucket can still fork or confine itself.
#[derive(Default)]
struct RequestRuntime(Mutex<Option<Runtime>>);

impl RequestRuntime {
    fn handle(&self) -> io::Result<Handle> {
        let mut held = self.0.lock();
        if let Some(runtime) = held.as_ref() {
            return Ok(runtime.handle().clone());
        }
        let runtime = Builder::new_multi_thread()
            .worker_threads(WORKERS)
            .max_blocking_threads(DISK_WORKERS)
            .thread_name("bucket")
            .enable_all()
            .build()?;
        Ok(held.insert(runtime).handle().clone())
    }
}

impl Drop for RequestRuntime {
    /// Shuts down without waiting, because the callers of the requests in flight are gone.
    fn drop(&mut self) {
        if let Some(runtime) = self.0.get_mut().take() {
            runtime.shutdown_background();
        }
    }
}

/// Time limit of one deletion request, which may delete 1000 objects.
const PATIENCE: Duration = Duration::from_secs(30);

impl Bucket {
    async fn deleting(&self, keys: &[String], deadline: Deadline) -> Vec<Result<(), Fault>> {
        let mut outcomes = Vec::with_capacity(keys.len());
        for key in keys {
            outcomes.push(within(PATIENCE.min(deadline.left()), self.begin(key)).await);
        }
        let mut pauses = Pauses::new();
        loop {
            let places = to_try(&outcomes);
            for (&place, outcome) in places.iter().zip(self.turn(keys, &places, deadline).await) {
                outcomes[place] = if outcome == Err(Fault::Absent) { Ok(()) } else { outcome };
            }
            let is_done = to_try(&outcomes).is_empty();
            if is_done || !pauses.wait(deadline, "some keys were not deleted").await {
                return outcomes;
            }
        }
    }

    /// Returns the final outcome if the key needs no request. Otherwise returns `Again` as its
    /// initial state.
    async fn begin(&self, key: &str) -> Result<(), Fault> {
        if let Some(outcome) = self.remove_staged(key) {
            return outcome;
        }
        self.0.store.store_of(&self.path(key)?).await?;
        Err(Fault::Again("there was no time".to_owned()))
    }

    async fn turn(
        &self,
        keys: &[String],
        places: &[usize],
        deadline: Deadline,
    ) -> Vec<Result<(), Fault>> {
        let paths: Vec<Path> =
            places.iter().filter_map(|&place| self.path(&keys[place]).ok()).collect();
        if paths.is_empty() {
            return Vec::new();
        }
        let all = |fault: Fault| vec![Err(fault); places.len()];
        // The client panics if the response names a key that the request did not contain.
        let delete = AssertUnwindSafe(self.0.store.delete(paths)).catch_unwind();
        match tokio::time::timeout(PATIENCE.min(deadline.left()), delete).await {
            Ok(Ok(outcomes)) => outcomes,
            Ok(Err(_)) => all(Fault::Never("the answer names other keys".to_owned())),
            Err(_) => all(Fault::Again("no answer in time".to_owned())),
        }
    }
}

fn to_try(outcomes: &[Result<(), Fault>]) -> Vec<usize> {
    let is_open = |outcome: &Result<(), Fault>| matches!(outcome, Err(Fault::Again(_)));
    (0..outcomes.len()).filter(|&place| is_open(&outcomes[place])).collect()
}

#[cfg(test)]
mod tests;
