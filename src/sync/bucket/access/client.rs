use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use object_store::list::{PaginatedListOptions, PaginatedListResult};
use object_store::path::Path;
use object_store::{GetOptions, GetRange, GetResult, ObjectMeta, ObjectStore, PutMode};
use parking_lot::Mutex;

use crate::bucket::access::fault::Fault;
use crate::bucket::directory::Directory;
use crate::bucket::name::MARK;
use crate::bucket::objects::{Deadline, RequestCounts};
use crate::bucket::url::{CloudStore, OpenStore};

/// Maximum bytes to reserve for a response body before its first byte arrives. The announced size
/// may be wrong.
const SET_ASIDE: u64 = 8 << 20;
/// Number of keys per batch of deletions if the object store needs one request per deletion.
const TURN: usize = 100;

/// Client of an object store. Each call makes one request and counts it; [`StoreClient::persist`]
/// adds the retries. Each error becomes a [`Fault`], which says what the caller can do next. Only
/// the code that makes a [`Fault`] looks at the error texts of `object_store`.
pub(super) struct StoreClient {
    pub(super) opened: OpenStore,
    pub(super) requests: Mutex<RequestCounts>,
    pub(super) last_failure: Mutex<Option<String>>,
    /// True once the object store has refused checksums.
    refuses_checksums: AtomicBool,
}

impl StoreClient {
    pub(super) fn new(opened: OpenStore) -> Self {
        Self {
            opened,
            requests: Mutex::default(),
            last_failure: Mutex::default(),
            refuses_checksums: AtomicBool::new(false),
        }
    }

    pub(super) fn cloud(&self) -> Option<&Arc<dyn CloudStore>> {
        match &self.opened {
            OpenStore::Cloud { plain: Some(plain), .. } if self.refuses_checksums.load(Relaxed) => {
                Some(plain)
            }
            OpenStore::Cloud { store, .. } => Some(store),
            OpenStore::Directory(_) | OpenStore::Memory(_) => None,
        }
    }

    /// Makes a request that may carry a checksum. If the object store refuses it as malformed, makes
    /// it again without one. If that succeeds, no later request carries one. The signature covers
    /// the bytes in any case.
    pub(super) async fn adapting<T, F: Future<Output = Result<T, Fault>>>(
        &self,
        request: impl Fn() -> F,
    ) -> Result<T, Fault> {
        let has_plain = matches!(self.opened, OpenStore::Cloud { plain: Some(_), .. });
        let may_adapt = has_plain && !self.refuses_checksums.load(Relaxed);
        let outcome = request().await;
        let is_refused = matches!(outcome, Err(Fault::Malformed(_) | Fault::Unsupported(_)));
        if !is_refused || !may_adapt {
            return outcome;
        }
        self.refuses_checksums.store(true, Relaxed);
        let again = request().await;
        if matches!(again, Ok(_) | Err(Fault::Exists)) {
            tracing::info!("the store refuses checksums, so they are left out");
            return again;
        }
        self.refuses_checksums.store(false, Relaxed);
        outcome
    }

    /// Returns the time that the last response told, in milliseconds since the epoch.
    pub(super) fn answered_ms(&self) -> Option<u64> {
        match &self.opened {
            OpenStore::Cloud { clock, .. } => clock.last_ms(),
            OpenStore::Directory(_) | OpenStore::Memory(_) => None,
        }
    }

    pub(super) fn directory(&self) -> Option<&Arc<Directory>> {
        match &self.opened {
            OpenStore::Directory(directory) => Some(directory),
            OpenStore::Cloud { .. } | OpenStore::Memory(_) => None,
        }
    }

    /// Retries `attempt` with backoff until it succeeds, fails permanently, or `deadline` passes.
    ///
    /// Each attempt takes at most `limit`. Between attempts there are [`Pauses`]. If the next pause
    /// would end after the deadline, fails without waiting.
    pub(super) async fn persist<T, F: Future<Output = Result<T, Fault>>>(
        &self,
        deadline: Deadline,
        limit: Duration,
        mut attempt: impl FnMut() -> F,
    ) -> Result<T, Fault> {
        let mut pauses = Pauses::new();
        loop {
            let outcome = within(limit.min(deadline.left()), attempt()).await;
            let again =
                if let Err(Fault::Again(why)) = &outcome { Some(why.clone()) } else { None };
            self.last_failure.lock().clone_from(&again);
            match again {
                Some(why) if pauses.wait(deadline, &why).await => {}
                _ => return outcome,
            }
        }
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

    /// Returns `size` if the object exists with this size, and otherwise fails with `fault`. An
    /// upload may fail with `fault` although an earlier attempt has created the object: the
    /// response to that attempt was lost.
    pub(super) async fn uploaded(
        &self,
        path: &Path,
        size: u64,
        fault: Fault,
        deadline: Deadline,
    ) -> Result<u64, Fault> {
        match self.stat(path, deadline).await {
            Ok(object) if object.size == size => Ok(size),
            Ok(_) | Err(Fault::Absent) => Err(fault),
            Err(other) => Err(other),
        }
    }

    fn store(&self) -> Result<&dyn ObjectStore, Fault> {
        match &self.opened {
            OpenStore::Cloud { store, .. } => Ok(&**self.cloud().unwrap_or(store)),
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
        self.requests.lock().get.requests += 1;
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
            self.requests.lock().get.bytes += piece.len() as u64;
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
        self.requests.lock().head.requests += 1;
        let options = GetOptions { head: true, ..GetOptions::default() };
        let store = self.store_of(path).await?;
        Ok(call(QUIET, store.get_opts(path, options)).await?.meta)
    }

    pub(super) fn count_put(&self, bytes: usize) {
        let put = &mut self.requests.lock().put;
        put.requests += 1;
        put.bytes += bytes as u64;
    }

    pub(super) async fn put(&self, path: &Path, bytes: Bytes, mode: PutMode) -> Result<(), Fault> {
        let put = || async {
            self.count_put(bytes.len());
            let (bytes, mode) = (bytes.clone().into(), mode.clone().into());
            let put = self.store_of(path).await?.put_opts(path, bytes, mode).await;
            put.map(drop).map_err(|error| Fault::of(&error))
        };
        match self.adapting(put).await {
            Err(Fault::Absent) => Err(Fault::no_bucket()),
            outcome => outcome,
        }
    }

    pub(super) async fn request_page(
        &self,
        store: &Arc<dyn CloudStore>,
        prefix: &str,
        options: PaginatedListOptions,
    ) -> Result<PaginatedListResult, Fault> {
        self.requests.lock().list.requests += 1;
        let prefix = (!prefix.is_empty()).then_some(prefix);
        call(QUIET, store.list_paginated(prefix, options)).await
    }

    pub(super) async fn request_names(&self, prefix: &Path) -> Result<Vec<ObjectMeta>, Fault> {
        self.requests.lock().list.requests += 1;
        call(QUIET, self.store()?.list(Some(prefix)).try_collect()).await
    }

    pub(super) async fn request_prefixes(&self, prefix: &Path) -> Result<Vec<Path>, Fault> {
        self.requests.lock().list.requests += 1;
        Ok(call(QUIET, self.store()?.list_with_delimiter(Some(prefix))).await?.common_prefixes)
    }

    pub(super) async fn of_directory<T: Send + 'static>(
        &self,
        directory: &Arc<Directory>,
        prefix: &str,
        list: impl FnOnce(&Directory, &str) -> io::Result<T> + Send + 'static,
    ) -> Result<T, Fault> {
        self.requests.lock().list.requests += 1;
        on_disk(Arc::clone(directory), prefix.to_owned(), list).await
    }

    pub(super) fn deletes(&self) -> usize {
        self.bulk_deletes().unwrap_or(TURN)
    }

    /// Returns the number of keys that one request deletes, or `None` if each key needs a request.
    fn bulk_deletes(&self) -> Option<usize> {
        match &self.opened {
            OpenStore::Cloud { deletes, .. } if *deletes > 1 => {
                (!self.refuses_checksums.load(Relaxed)).then_some(*deletes)
            }
            _ => None,
        }
    }

    pub(super) async fn delete(&self, paths: Vec<Path>) -> Vec<Result<(), Fault>> {
        let count = paths.len();
        let is_bulk = self.bulk_deletes().is_some();
        self.requests.lock().delete.requests += if is_bulk { 1 } else { count as u64 };
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

/// Exponential backoff. The maximum of a pause starts at 100 ms and doubles up to 5 s. Each pause
/// is a random part of its maximum, at least half, so that hosts whose requests failed at the same
/// time do not all retry at the same time.
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
