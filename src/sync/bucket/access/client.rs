use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::ops::{Add, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use object_store::list::{PaginatedListOptions, PaginatedListResult};
use object_store::path::Path;
use object_store::{GetOptions, GetRange, GetResult, ObjectMeta, ObjectStore, PutMode};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::bucket::access::fault::Fault;
use crate::bucket::directory::Directory;
use crate::bucket::name::MARK;
use crate::bucket::url::{CloudStore, OpenStore};

/// Maximum bytes to reserve for a response body before its first byte arrives. The announced size
/// may be wrong.
const SET_ASIDE: u64 = 8 << 20;
/// Number of keys per batch of deletions if the store needs one request per deletion.
const TURN: usize = 100;

/// Client of an object store. Each call makes one request and counts it; [`StoreClient::persist`]
/// adds the retries. Errors are classified as a [`Fault`] by what the caller can do next, so no
/// other code matches on the error texts of the client.
pub(super) struct StoreClient {
    opened: OpenStore,
    pub(super) requests: Requests,
    pub(super) last_failure: LastFailure,
}

impl StoreClient {
    pub(super) fn new(opened: OpenStore) -> Self {
        Self { opened, requests: Requests::default(), last_failure: LastFailure::default() }
    }

    pub(super) fn cloud(&self) -> Option<&Arc<dyn CloudStore>> {
        match &self.opened {
            OpenStore::Cloud { store, .. } => Some(store),
            OpenStore::Directory(_) | OpenStore::Memory(_) => None,
        }
    }

    pub(super) fn directory(&self) -> Option<&Arc<Directory>> {
        match &self.opened {
            OpenStore::Directory(directory) => Some(directory),
            OpenStore::Cloud { .. } | OpenStore::Memory(_) => None,
        }
    }

    pub(super) async fn persist<T, F: Future<Output = Result<T, Fault>>>(
        &self,
        deadline: Deadline,
        limit: Duration,
        attempt: impl FnMut() -> F,
    ) -> Result<T, Fault> {
        persist(&self.last_failure, deadline, limit, attempt).await
    }

    /// Reads an object, or a range of it, with retries. See [`Self::get`].
    pub(super) async fn read(
        &self,
        path: &Path,
        range: Option<Range<u64>>,
        most: u64,
        deadline: Deadline,
    ) -> Result<Bytes, Fault> {
        self.persist(deadline, patience(most), || self.get(path, range.clone(), most)).await
    }

    pub(super) async fn stat(&self, path: &Path, deadline: Deadline) -> Result<ObjectMeta, Fault> {
        self.persist(deadline, QUIET, || self.head(path)).await
    }

    pub(super) async fn write(
        &self,
        path: &Path,
        bytes: &Bytes,
        mode: PutMode,
        deadline: Deadline,
    ) -> Result<(), Fault> {
        let put = || self.put(path, bytes.clone(), mode.clone());
        self.persist(deadline, patience(bytes.len() as u64), put).await
    }

    fn store(&self) -> Result<&dyn ObjectStore, Fault> {
        match &self.opened {
            OpenStore::Cloud { store, .. } => Ok(&**store),
            OpenStore::Memory(store) => Ok(&**store),
            OpenStore::Directory(directory) => match directory.client() {
                Ok(client) => Ok(client),
                Err(error) => Err(Fault::of(&error)),
            },
        }
    }

    /// Returns the client for a request about `path`. In a bucket that is a directory, first checks
    /// two things: the path must contain no link, and its last component must be a plain file or
    /// must not exist.
    pub(super) async fn store_of(&self, path: &Path) -> Result<&dyn ObjectStore, Fault> {
        if let Some(directory) = self.directory() {
            let (directory, key) = (Arc::clone(directory), path.to_string());
            let is_mark = key == MARK;
            on_disk(directory, key, Directory::check).await.map_err(|fault| match fault {
                // The bucket is not initialized yet.
                fault if is_mark && fault == Fault::no_directory() => Fault::Absent,
                fault => fault,
            })?;
        }
        self.store()
    }

    /// Reads an object, or a range of it, which may extend past the end of the object. Fails with a
    /// retryable fault if the body does not have the announced length. Refuses a body of more than
    /// `limit` bytes without reading any of it.
    pub(super) async fn get(
        &self,
        path: &Path,
        range: Option<Range<u64>>,
        limit: u64,
    ) -> Result<Bytes, Fault> {
        self.requests.count(RequestKind::Get);
        let options = GetOptions { range: range.map(GetRange::Bounded), ..GetOptions::default() };
        let store = self.store_of(path).await?;
        let answer = call(QUIET, store.get_opts(path, options)).await?;
        let size = answer.range.end.saturating_sub(answer.range.start);
        if size > limit {
            return Err(Fault::TooLarge { size, limit });
        }
        self.body(answer, size).await
    }

    async fn body(&self, answer: GetResult, size: u64) -> Result<Bytes, Fault> {
        let mut bytes = BytesMut::with_capacity(size.min(SET_ASIDE) as usize);
        let mut pieces = answer.into_stream();
        while let Some(piece) = call(QUIET, pieces.try_next()).await? {
            self.requests.add_bytes(RequestKind::Get, piece.len());
            bytes.extend_from_slice(&piece);
            if bytes.len() as u64 > size {
                break;
            }
        }
        if bytes.len() as u64 == size {
            return Ok(bytes.freeze());
        }
        Err(Fault::Again(format!("{} bytes came, and {size} were announced", bytes.len())))
    }

    pub(super) async fn head(&self, path: &Path) -> Result<ObjectMeta, Fault> {
        self.requests.count(RequestKind::Head);
        let options = GetOptions { head: true, ..GetOptions::default() };
        let store = self.store_of(path).await?;
        Ok(call(QUIET, store.get_opts(path, options)).await?.meta)
    }

    pub(super) async fn put(&self, path: &Path, bytes: Bytes, mode: PutMode) -> Result<(), Fault> {
        self.requests.count(RequestKind::Put);
        self.requests.add_bytes(RequestKind::Put, bytes.len());
        let put = self.store_of(path).await?.put_opts(path, bytes.into(), mode.into());
        match put.await.map_err(|error| Fault::of(&error)) {
            Ok(_) => Ok(()),
            Err(Fault::Absent) => Err(Fault::no_bucket()),
            Err(fault) => Err(fault),
        }
    }

    pub(super) async fn request_page(
        &self,
        store: &Arc<dyn CloudStore>,
        prefix: &str,
        options: PaginatedListOptions,
    ) -> Result<PaginatedListResult, Fault> {
        self.requests.count(RequestKind::List);
        let prefix = (!prefix.is_empty()).then_some(prefix);
        call(QUIET, store.list_paginated(prefix, options)).await
    }

    pub(super) async fn request_names(&self, prefix: &Path) -> Result<Vec<ObjectMeta>, Fault> {
        self.requests.count(RequestKind::List);
        call(QUIET, self.store()?.list(Some(prefix)).try_collect()).await
    }

    pub(super) async fn request_prefixes(&self, prefix: &Path) -> Result<Vec<Path>, Fault> {
        self.requests.count(RequestKind::List);
        Ok(call(QUIET, self.store()?.list_with_delimiter(Some(prefix))).await?.common_prefixes)
    }

    pub(super) async fn of_directory<T: Send + 'static>(
        &self,
        directory: &Arc<Directory>,
        prefix: &str,
        list: impl FnOnce(&Directory, &str) -> io::Result<T> + Send + 'static,
    ) -> Result<T, Fault> {
        self.requests.count(RequestKind::List);
        on_disk(Arc::clone(directory), prefix.to_owned(), list).await
    }

    pub(super) fn deletes(&self) -> usize {
        match &self.opened {
            OpenStore::Cloud { deletes, .. } if *deletes > 1 => *deletes,
            _ => TURN,
        }
    }

    pub(super) async fn delete(&self, paths: Vec<Path>) -> Vec<Result<(), Fault>> {
        let count = paths.len();
        let is_bulk = matches!(&self.opened, OpenStore::Cloud { deletes, .. } if *deletes > 1);
        for _ in 0..(if is_bulk { 1 } else { count }) {
            self.requests.count(RequestKind::Delete);
        }
        let paths = stream::iter(paths.into_iter().map(Ok)).boxed();
        let store = match self.store() {
            Ok(store) => store,
            Err(fault) => return vec![Err(fault); count],
        };
        let outcomes: Vec<Result<(), Fault>> = store
            .delete_stream(paths)
            .map(|outcome| outcome.map(drop).map_err(|error| Fault::of(&error)))
            .collect()
            .await;
        match outcomes.as_slice() {
            // The request as a whole failed.
            [Err(fault)] if count != 1 => vec![Err(fault.clone()); count],
            outcomes if outcomes.len() == count => outcomes.to_vec(),
            _ => vec![Err(Fault::Again("the answer was cut".to_owned())); count],
        }
    }
}

pub(super) async fn call<T>(
    limit: Duration,
    request: impl Future<Output = object_store::Result<T>>,
) -> Result<T, Fault> {
    within(limit, async { request.await.map_err(|error| Fault::of(&error)) }).await
}

async fn on_disk<T: Send + 'static>(
    directory: Arc<Directory>,
    key: String,
    work: impl FnOnce(&Directory, &str) -> io::Result<T> + Send + 'static,
) -> Result<T, Fault> {
    let done = move || work(&directory, &key).map_err(|error| Fault::at(&directory, &key, &error));
    let done = tokio::task::spawn_blocking(done).await;
    done.unwrap_or_else(|error| Err(Fault::Never(format!("a thread failed: {error}"))))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestKind {
    Get,
    /// Writes an object or a part of one, or starts or completes a multipart upload.
    Put,
    List,
    /// Deletes objects, or aborts a multipart upload.
    Delete,
    Head,
}

/// Number of requests of one kind, and the bytes of objects that they transferred. Failed requests
/// are included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "described above")]
pub struct Tally {
    pub requests: u64,
    pub bytes: u64,
}

/// Number of requests to a bucket since it was opened, by kind: reads and writes of objects and
/// parts, list pages, deletions, and requests for size and time. One deletion request may delete
/// many keys. The byte count of lists is unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "described above")]
pub struct RequestCounts {
    pub get: Tally,
    pub put: Tally,
    pub list: Tally,
    pub delete: Tally,
    pub head: Tally,
}

impl RequestCounts {
    /// Returns the number of all requests.
    pub fn total(&self) -> u64 {
        let all = [self.get, self.put, self.list, self.delete, self.head];
        all.iter().map(|tally| tally.requests).sum()
    }
}

impl Add for Tally {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            requests: self.requests.saturating_add(other.requests),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }
}

impl Add for RequestCounts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            get: self.get + other.get,
            put: self.put + other.put,
            list: self.list + other.list,
            delete: self.delete + other.delete,
            head: self.head + other.head,
        }
    }
}

#[derive(Debug, Default)]
struct RequestCounter {
    requests: AtomicU64,
    bytes: AtomicU64,
}

impl RequestCounter {
    fn tally(&self) -> Tally {
        Tally {
            requests: self.requests.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Requests {
    get: RequestCounter,
    put: RequestCounter,
    list: RequestCounter,
    delete: RequestCounter,
    head: RequestCounter,
}

impl Requests {
    pub(super) fn count(&self, kind: RequestKind) {
        self.counter(kind).requests.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn add_bytes(&self, kind: RequestKind, bytes: usize) {
        self.counter(kind).bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn snapshot(&self) -> RequestCounts {
        RequestCounts {
            get: self.get.tally(),
            put: self.put.tally(),
            list: self.list.tally(),
            delete: self.delete.tally(),
            head: self.head.tally(),
        }
    }

    fn counter(&self, kind: RequestKind) -> &RequestCounter {
        match kind {
            RequestKind::Get => &self.get,
            RequestKind::Put => &self.put,
            RequestKind::List => &self.list,
            RequestKind::Delete => &self.delete,
            RequestKind::Head => &self.head,
        }
    }
}

/// Time at which a request gives up. The request is not retried after that time, and no pause
/// starts that would end later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline(Instant);

impl Deadline {
    /// Returns the deadline `time` from now.
    pub fn after(time: Duration) -> Self {
        Self(Instant::now() + time)
    }

    /// Returns the deadline at `moment`.
    pub fn at(moment: Instant) -> Self {
        Self(moment)
    }

    /// Returns the remaining time; zero after the deadline.
    pub fn left(self) -> Duration {
        self.0.saturating_duration_since(Instant::now())
    }

    pub(crate) fn is_past(self) -> bool {
        self.left().is_zero()
    }
}

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Time without a received byte after which a connection counts as broken.
pub(super) const QUIET: Duration = Duration::from_secs(10);
/// Slowest accepted transfer rate: 64 KiB/s.
const SLOWEST: u64 = 64 << 10;

pub(super) fn patience(bytes: u64) -> Duration {
    QUIET + Duration::from_secs(bytes / SLOWEST)
}

pub(super) async fn within<T>(
    limit: Duration,
    future: impl Future<Output = Result<T, Fault>>,
) -> Result<T, Fault> {
    let late = || Fault::Again(format!("no answer within {:.1} s", limit.as_secs_f32()));
    tokio::time::timeout(limit, future).await.unwrap_or_else(|_| Err(late()))
}

#[derive(Debug, Default)]
pub(super) struct LastFailure(Mutex<Option<String>>);

impl LastFailure {
    pub(super) fn get(&self) -> Option<String> {
        self.0.lock().clone()
    }

    fn note<T>(&self, outcome: &Result<T, Fault>) {
        let why = if let Err(Fault::Again(why)) = outcome { Some(why.clone()) } else { None };
        let mut last = self.0.lock();
        if last.is_some() || why.is_some() {
            *last = why;
        }
    }
}

/// Retries `attempt` with backoff until it succeeds, fails permanently, or `deadline` passes. While
/// it retries, `last` holds the error of the last attempt.
///
/// Each attempt takes at most `limit`. Between attempts there are [`Pauses`]. If the next pause
/// would end after the deadline, fails without waiting.
async fn persist<T, F>(
    last: &LastFailure,
    deadline: Deadline,
    limit: Duration,
    mut attempt: impl FnMut() -> F,
) -> Result<T, Fault>
where
    F: Future<Output = Result<T, Fault>>,
{
    let mut pauses = Pauses::new();
    loop {
        let outcome = within(limit.min(deadline.left()), attempt()).await;
        last.note(&outcome);
        let why = match outcome {
            Err(Fault::Again(why)) => why,
            outcome => return outcome,
        };
        if !pauses.wait(deadline, &why).await {
            return Err(Fault::Again(why));
        }
    }
}

/// Exponential backoff. Each pause is up to twice as long as the previous one, up to 5 s. Pauses
/// are jittered, so that hosts whose requests failed at the same time do not all retry at the same
/// time.
pub(super) struct Pauses {
    longest: Duration,
}

impl Pauses {
    pub(super) fn new() -> Self {
        Self { longest: FIRST_PAUSE }
    }

    pub(super) async fn wait(&mut self, deadline: Deadline, why: &str) -> bool {
        let pause = self.longest.mul_f64(0.5 + 0.5 * chance());
        if pause >= deadline.left() {
            return false;
        }
        tracing::debug!(why, ?pause, "asks the bucket again");
        tokio::time::sleep(pause).await;
        self.longest = LONGEST_PAUSE.min(self.longest * 2);
        true
    }
}

fn chance() -> f64 {
    let random = RandomState::new().hash_one(0);
    random as f64 / u64::MAX as f64
}
