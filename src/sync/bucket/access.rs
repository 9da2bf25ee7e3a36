//! Blocking requests to the bucket.
//!
//! Each request has a deadline. After a failure of the network or of the object store, the request
//! is retried until its deadline. All requests are counted. Keys are relative to the prefix of the
//! bucket. No request replaces an object.

mod client;
mod fault;
mod listing;
mod upload;

use std::io::Read;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{fmt, io, thread};

use bytes::Bytes;
use futures_util::{FutureExt as _, StreamExt as _, stream};
use object_store::PutMode;
use object_store::path::Path;
use parking_lot::Mutex;
use tokio::runtime::{Builder, Handle, Runtime};

use crate::bucket::access::client::{Pauses, StoreClient, within};
use crate::bucket::access::fault::{Fault, WRITE};
use crate::bucket::access::listing::{milliseconds, remove_staged, staged_in};
use crate::bucket::access::upload::{PartUpload, part_size};
use crate::bucket::error::BucketError;
use crate::bucket::identity::{Identity, new_mark, read_mark};
use crate::bucket::name::{MARK, staged_for};
use crate::bucket::objects::{
    Created, Deadline, Listed, NameRange, NewNames, Objects, RequestCounts, StoreTime,
};
use crate::bucket::url::{BucketUrl, WebPage};

const LARGEST_BODY: u64 = 128 << 20;
const LARGEST_MARK: u64 = 64 << 10;
const AT_ONCE: usize = 64;
/// Initial buffer size in bytes for an upload of unknown size.
const SET_ASIDE: usize = 64 << 10;
/// Pause before `ctxfs.json` is read again while another host writes it.
const AGAIN: Duration = Duration::from_millis(100);

/// A bucket: objects under keys. Clones share connections, threads and counters. Requests are the
/// methods of [`Objects`]. Requests block, so they must not be made on a thread of an async
/// runtime.
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
        Ok(Self(Arc::new(BucketInner {
            url: url.clone(),
            store: Arc::new(StoreClient::new(url.open(environment)?)),
            runtime: RequestRuntime::default(),
            lacks_conditional_create: AtomicBool::new(false),
        })))
    }

    /// Returns the URL of the bucket.
    pub fn url(&self) -> &BucketUrl {
        &self.0.url
    }

    /// Creates the directory of a `file://` bucket with mode 0700 if it is missing and its parent
    /// exists. Call this only before writing the mark of the bucket, `ctxfs.json`. Readers create
    /// nothing.
    pub fn make_directory(&self) -> Result<(), BucketError> {
        let Some(directory) = self.0.store.directory() else { return Ok(()) };
        directory.make().map_err(|error| BucketError::Url {
            url: self.url().to_string(),
            why: format!("cannot make that directory ({error}): make it, or its parent"),
        })
    }

    /// Returns the last error of a request that is being retried. Returns `None` if no request is
    /// being retried.
    pub fn last_failure(&self) -> Option<String> {
        self.0.store.last_failure.lock().clone()
    }

    /// Lists the entries that [`Objects::list`] and [`Objects::list_dirs`] skip: links, special
    /// files, and names that are not UTF-8. ctxfs creates none of these. Only a bucket that is a
    /// directory can have such entries. For other buckets, this makes no request and returns an
    /// empty list.
    pub fn list_odd(&self, prefix: &str) -> Result<Vec<String>, BucketError> {
        let Some(bucket) = self.0.store.directory() else { return Ok(Vec::new()) };
        let fault = |error: io::Error| Fault::at(bucket, prefix, &error).into_error("list", prefix);
        bucket.odd(prefix).map_err(fault)
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

    /// Prepends the prefix of the bucket to the prefix of a directory. The result is empty or ends
    /// with a slash.
    fn directory(&self, prefix: &str) -> Result<String, Fault> {
        let path = self.path(prefix.trim_end_matches('/'))?;
        let path: &str = path.as_ref();
        Ok(if path.is_empty() { String::new() } else { format!("{path}/") })
    }

    /// Reads an object, or a range of it. Fails without reading the object if it is larger than
    /// `limit` bytes.
    async fn read(
        &self,
        key: &str,
        range: Option<Range<u64>>,
        limit: u64,
        deadline: Deadline,
    ) -> Result<Bytes, Fault> {
        self.0.store.read(&self.path(key)?, range, limit, deadline).await
    }

    fn mark(&self, deadline: Deadline) -> Result<Option<(Identity, Bytes)>, BucketError> {
        match self.run("read", MARK, self.read(MARK, None, LARGEST_MARK, deadline)) {
            Ok(bytes) if bytes.trim_ascii_start().starts_with(b"<") => {
                Err(Fault::Never(WebPage.to_string()).into_error("read", MARK))
            }
            Ok(bytes) => Ok(Some((read_mark(&bytes)?, bytes))),
            Err(error) if error.is_absent() => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn agreed(
        &self,
        (identity, bytes): (Identity, Bytes),
        write_once: bool,
        deadline: Deadline,
    ) -> Result<Identity, BucketError> {
        let identity = identity.agreeing(write_once)?;
        let conditional = match self.create(MARK, &bytes, deadline) {
            Ok(created) => {
                let lacks = self.0.lacks_conditional_create.load(Ordering::Relaxed);
                created == Created::Exists && !lacks
            }
            Err(BucketError::Refused { .. }) => false,
            Err(error) => return Err(error),
        };
        Ok(Identity { conditional, ..identity })
    }
}

impl Objects for Bucket {
    fn get(
        &self,
        key: &str,
        range: Option<Range<u64>>,
        deadline: Deadline,
    ) -> Result<Bytes, BucketError> {
        self.run("read", key, self.read(key, range, LARGEST_BODY, deadline))
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
            let read = self.read(key, range.clone(), LARGEST_BODY, deadline).await;
            read.map_err(|fault| fault.into_error("read", key))
        });
        handle.block_on(stream::iter(gets).buffered(AT_ONCE).collect())
    }

    fn create(&self, key: &str, bytes: &Bytes, deadline: Deadline) -> Result<Created, BucketError> {
        self.run(WRITE, key, async {
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

    fn modified(&self, key: &str, deadline: Deadline) -> Result<StoreTime, BucketError> {
        self.run("look at", key, async {
            let path = self.path(key)?;
            let written_ms = milliseconds(&self.0.store.stat(&path, deadline).await?);
            Ok(StoreTime { written_ms, answered_ms: self.0.store.answered_ms() })
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
        let size = part_size(expected);
        let mut next = |set_aside| {
            let mut part = Vec::with_capacity(set_aside);
            match source.take(size as u64).read_to_end(&mut part) {
                Ok(_) => Ok(Bytes::from(part)),
                Err(source) => Err(BucketError::Source { key: key.to_owned(), source }),
            }
        };
        let mut part = next(size.min(SET_ASIDE.max(expected as usize)))?;
        let mut after = if part.len() < size { Bytes::new() } else { next(size)? };
        if after.is_empty() {
            return self.run(WRITE, key, async {
                let (path, store, size) = (self.path(key)?, &self.0.store, part.len() as u64);
                let mut written = store.write(&path, &part, PutMode::Create, deadline).await;
                if let Err(Fault::Unsupported(_)) = written {
                    written = store.write(&path, &part, PutMode::Overwrite, deadline).await;
                }
                match written {
                    Err(Fault::Exists) => {
                        store.uploaded(&path, size, Fault::Exists, deadline).await
                    }
                    written => written.map(|()| size),
                }
            });
        }
        let failed = |fault: Fault| fault.into_error(WRITE, key);
        let (store, path) = (Arc::clone(&self.0.store), self.path(key).map_err(failed)?);
        let on = (self.handle().map_err(failed)?, deadline);
        let mut parts = PartUpload::begin(store, path, size, on).map_err(failed)?;
        while !part.is_empty() {
            parts.send(part).map_err(failed)?;
            part = after;
            after = if part.len() < size { Bytes::new() } else { next(size)? };
        }
        parts.complete().map_err(failed)
    }

    fn list(&self, prefix: &str, deadline: Deadline) -> Result<Vec<Listed>, BucketError> {
        Ok(self.list_new(prefix, &[], deadline)?.listed)
    }

    fn list_new(
        &self,
        prefix: &str,
        known: &[NameRange],
        deadline: Deadline,
    ) -> Result<NewNames, BucketError> {
        self.run("list", prefix, async {
            let directory = self.directory(prefix)?;
            let mut new = self.0.store.list(&directory, known, deadline).await?;
            new.listed.sort_unstable();
            new.listed.dedup_by(|second, first| second.name == first.name);
            Ok(new)
        })
    }

    fn list_dirs(
        &self,
        prefix: &str,
        limit: usize,
        deadline: Deadline,
    ) -> Result<Vec<String>, BucketError> {
        self.run("list", prefix, async {
            let names = self.0.store.list_dirs(&self.directory(prefix)?, limit, deadline).await?;
            Ok(names.into_iter().take(limit).collect())
        })
    }

    fn list_staged(
        &self,
        directories: &[String],
        _deadline: Deadline,
    ) -> Result<Vec<Listed>, BucketError> {
        let Some(bucket) = self.0.store.directory() else { return Ok(Vec::new()) };
        let mut staged = Vec::new();
        for directory in directories {
            let found = staged_in(bucket, directory).map_err(|error| {
                Fault::at(bucket, directory, &error).into_error("list", directory)
            });
            staged.extend(found?);
        }
        staged.sort_unstable();
        Ok(staged)
    }

    fn identity(&self, deadline: Deadline) -> Result<Option<Identity>, BucketError> {
        Ok(self.mark(deadline)?.map(|(identity, _)| identity))
    }

    fn found(&self, write_once: bool, deadline: Deadline) -> Result<Identity, BucketError> {
        if let Some(identity) = self.met(write_once, deadline)? {
            return Ok(identity);
        }
        self.make_directory()?;
        loop {
            self.create(MARK, &new_mark(write_once), deadline)?;
            if let Some(mark) = self.mark(deadline)? {
                return self.agreed(mark, write_once, deadline);
            }
            // A store may refuse the second of two concurrent writes before the first is visible.
            if deadline.left() < AGAIN {
                let what = format!("read `{MARK}`");
                let why = "the store says that it is there and that it is not".to_owned();
                return Err(BucketError::Away { what, why });
            }
            thread::sleep(AGAIN);
        }
    }

    fn met(&self, write_once: bool, deadline: Deadline) -> Result<Option<Identity>, BucketError> {
        let mark = self.mark(deadline)?;
        mark.map(|mark| self.agreed(mark, write_once, deadline)).transpose()
    }

    fn requests(&self) -> RequestCounts {
        *self.0.store.requests.lock()
    }
}

/// Number of threads that transfer bytes. Requests mostly wait for the network.
const WORKERS: usize = 2;
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

    /// Returns the outcome for a key that needs no request: the key is invalid, or belongs to a
    /// temporary file. For any other key, returns [`Fault::Again`], so that the first request
    /// includes the key.
    async fn begin(&self, key: &str) -> Result<(), Fault> {
        if let Some(bucket) = self.0.store.directory().filter(|_| staged_for(key).is_some()) {
            return remove_staged(bucket, key).map_err(|error| Fault::at(bucket, key, &error));
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
        let delete = std::panic::AssertUnwindSafe(self.0.store.delete(paths)).catch_unwind();
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
