//! Source of blocks: memory, the local cache, or the bucket.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use std::{io, thread};

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};

use crate::bucket::{
    BLOCK_BYTES, Blocks, BucketId, Deadline, ObjectName, ObjectPlace, blocks_key, object_key,
    unpack_block,
};
use crate::remote::Objects;
use crate::remote::blocks::BlockCache;
use ctxfs_core::model::{Component, Content, LinesBefore, read_pieces};

/// Maximum number of unpacked blocks in memory, shared by all readers.
const IN_MEMORY: usize = 8;
/// Maximum number of concurrent prefetches. Each holds the bytes of one window in memory.
const MOST_AHEAD: usize = 2;
const THREAD: &str = "read-ahead";
const NOT_THERE: &str = "the bucket that has the bytes is not there: is its disk mounted?";

#[derive(Debug, Clone)]
pub(crate) struct ObjectLocation {
    pub(crate) conversation: Component,
    pub(crate) object: ObjectPlace,
}

#[derive(Debug)]
struct RemoteObject {
    location: ObjectLocation,
    table: Blocks,
}

/// Source of blocks: memory, the local cache, or the bucket. Concurrent readers of a block share
/// one fetch.
pub(crate) struct BlockSource {
    bucket: Arc<dyn Objects + Send>,
    id: BucketId,
    pub(crate) cache: BlockCache,
    patience: Duration,
    tables: SingleFlight<ObjectName>,
    blocks: SingleFlight<BlockId>,
    recent: Mutex<VecDeque<(BlockId, Arc<Vec<u8>>)>>,
    keeps: AtomicBool,
    ahead: Arc<()>,
}

type BlockId = (ObjectName, usize);

impl BlockSource {
    pub(crate) fn new(
        (bucket, id): (Arc<dyn Objects + Send>, BucketId),
        cache: BlockCache,
        patience: Duration,
    ) -> Arc<Self> {
        Arc::new(Self {
            bucket,
            id,
            cache,
            patience,
            tables: SingleFlight::default(),
            blocks: SingleFlight::default(),
            recent: Mutex::default(),
            keeps: AtomicBool::new(true),
            ahead: Arc::default(),
        })
    }

    pub(crate) fn bucket(&self) -> &dyn Objects {
        &*self.bucket
    }

    pub(crate) fn deadline(&self) -> Deadline {
        Deadline::after(self.patience)
    }

    /// Returns the error for bytes that are missing in the bucket. If the bucket still has the same
    /// id, another host has removed the bytes, and the error is ESTALE. Otherwise it is another
    /// error, because the bytes may still exist: while the disk of a bucket is not mounted, an
    /// empty directory is in its place.
    pub(crate) fn gone(&self) -> io::Error {
        match self.bucket.identity(self.deadline()) {
            Ok(Some(found)) if found.id == self.id => io::Error::from_raw_os_error(libc::ESTALE),
            Ok(_) => io::Error::other(NOT_THERE),
            Err(error) => io::Error::other(error),
        }
    }

    fn get(&self, key: &str, range: Range<u64>) -> io::Result<Bytes> {
        self.bucket
            .get(key, Some(range), self.deadline())
            .map_err(|error| if error.is_absent() { self.gone() } else { io::Error::other(error) })
    }

    pub(crate) fn table(&self, location: &ObjectLocation) -> io::Result<Blocks> {
        let until = Instant::now() + self.patience;
        let mut waited = false;
        loop {
            if let Some(table) = self.kept_table(location) {
                return Ok(table);
            }
            match self.tables.begin([location.object.name]) {
                Ok(duty) => return duty.end(self.fetch_table(location)),
                // The table could not be cached, so each reader fetches it.
                Err(_) if waited => return self.fetch_table(location),
                Err(flight) => flight.wait(until)?,
            }
            waited = true;
        }
    }

    fn kept_table(&self, location: &ObjectLocation) -> Option<Blocks> {
        let name = table_name(location);
        let table = self.cache.get(&name)?;
        location.object.read_table(&table).inspect_err(|_| self.cache.forget(&name)).ok()
    }

    fn fetch_table(&self, location: &ObjectLocation) -> io::Result<Blocks> {
        let key = blocks_key(&location.conversation, location.object.name);
        let bytes = self.get(&key, 0..Blocks::table_bytes(location.object.size))?;
        let table = location.object.read_table(&bytes).map_err(io::Error::other)?;
        self.cache.put(&table_name(location), &bytes);
        Ok(table)
    }

    fn recent(&self, object: ObjectName, number: usize) -> Option<Arc<Vec<u8>>> {
        let id = (object, number);
        let mut recent = self.recent.lock();
        let at = recent.iter().position(|(known, _)| *known == id)?;
        let found = recent.remove(at)?;
        let block = Arc::clone(&found.1);
        recent.push_back(found);
        Some(block)
    }

    fn known(&self, object: &RemoteObject, number: usize) -> Option<Arc<Vec<u8>>> {
        let name = object.location.object.name;
        self.recent(name, number).or_else(|| self.kept(object, number))
    }

    /// Returns the content of block `number`. If the block must be fetched, calls `window` for the
    /// range of blocks to fetch together.
    fn block(
        &self,
        object: &RemoteObject,
        number: usize,
        window: impl FnOnce() -> Range<usize>,
    ) -> io::Result<Arc<Vec<u8>>> {
        let until = Instant::now() + self.patience;
        let mut window = Some(window);
        loop {
            if let Some(block) = self.known(object, number) {
                return Ok(block);
            }
            if let Some(flight) = self.blocks.under_way((object.location.object.name, number)) {
                flight.wait(until)?;
                continue;
            }
            let blocks = window.take().map_or_else(|| number..number + 1, |window| window());
            match self.begin(object, blocks) {
                Ok(duty) => {
                    let fetched = self.fetch(object, number..number + duty.keys.len());
                    return duty.end(fetched);
                }
                Err(flight) => flight.wait(until)?,
            }
        }
    }

    /// Prefetches blocks in a new thread. Starts no thread and returns false if enough threads are
    /// prefetching, or if blocks cannot be cached.
    fn fetch_ahead(self: &Arc<Self>, object: &Arc<RemoteObject>, blocks: Range<usize>) -> bool {
        let ahead = Arc::clone(&self.ahead);
        if Arc::strong_count(&ahead) > MOST_AHEAD + 1 || !self.keeps.load(Relaxed) {
            return false;
        }
        let Ok(duty) = self.begin(object, blocks.clone()) else { return true };
        let (source, object) = (Arc::clone(self), Arc::clone(object));
        let work = move || {
            let blocks = blocks.start..blocks.start + duty.keys.len();
            if let Err(error) = duty.end(source.fetch(&object, blocks)) {
                tracing::debug!(%error, "nothing was fetched ahead");
            }
            drop(ahead);
        };
        thread::Builder::new().name(THREAD.to_owned()).spawn(work).is_ok()
    }

    fn begin(
        &self,
        object: &RemoteObject,
        blocks: Range<usize>,
    ) -> Result<FlightGuard<BlockId>, Arc<Flight>> {
        let name = object.location.object.name;
        let count = if self.keeps.load(Relaxed) { blocks.len() } else { 1 };
        self.blocks.begin(blocks.take(count).map(|block| (name, block)))
    }

    fn fetch(&self, object: &RemoteObject, blocks: Range<usize>) -> io::Result<Arc<Vec<u8>>> {
        let (location, table) = (&object.location, &object.table);
        let key = object_key(&location.conversation, location.object.name);
        let frames = self.get(&key, table.frames_range(blocks.clone()))?;
        let first = blocks.start;
        let frame = |block| table.frame_in(&frames, first, block).map_err(io::Error::other);
        let content = unpack_block(frame(first)?, first, table).map_err(io::Error::other)?;
        for block in blocks {
            // Later blocks are checked when they are read.
            self.keep((location, block), frame(block)?);
        }
        Ok(self.remember((location.object.name, first), content))
    }

    fn kept(&self, object: &RemoteObject, number: usize) -> Option<Arc<Vec<u8>>> {
        let id = (object.location.object.name, number);
        let name = block_name(id);
        let frame = self.cache.get(&name)?;
        let Ok(content) = unpack_block(&frame, number, &object.table) else {
            self.cache.forget(&name);
            return None;
        };
        Some(self.remember(id, content))
    }

    /// Caches the frame of a block. The caller need not check the frame, because every read checks
    /// it.
    pub(crate) fn keep(&self, (location, block): (&ObjectLocation, usize), frame: &[u8]) {
        let is_kept = self.cache.put(&block_name((location.object.name, block)), frame);
        self.keeps.store(is_kept, Relaxed);
    }

    fn remember(&self, id: BlockId, content: Vec<u8>) -> Arc<Vec<u8>> {
        let block = Arc::new(content);
        let mut recent = self.recent.lock();
        if recent.len() == IN_MEMORY {
            recent.pop_front();
        }
        recent.push_back((id, Arc::clone(&block)));
        block
    }
}

fn block_name((object, block): BlockId) -> String {
    format!("{object}-{block:08}")
}

fn table_name(location: &ObjectLocation) -> String {
    format!("{}.blocks", location.object.name)
}

type FetchOutcome = Result<(), Arc<io::Error>>;

/// Fetches in flight, by key. Concurrent readers of a key share one fetch and its error. Clones
/// share the state.
#[derive(Debug)]
struct SingleFlight<K>(Arc<Mutex<HashMap<K, Arc<Flight>>>>);

#[derive(Debug, Default)]
struct Flight {
    outcome: Mutex<Option<FetchOutcome>>,
    landed: Condvar,
}

/// Guard of a fetch. Its owner must run the fetch and pass the outcome to [`Self::end`]. If the
/// guard is dropped before that, for example during a panic, all waiting readers get an error.
struct FlightGuard<K: Hash + Eq + Copy> {
    flights: SingleFlight<K>,
    keys: Vec<K>,
    flight: Arc<Flight>,
}

impl<K> Clone for SingleFlight<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K> Default for SingleFlight<K> {
    fn default() -> Self {
        Self(Arc::default())
    }
}

impl<K: Hash + Eq + Copy> SingleFlight<K> {
    /// Starts a fetch of the longest prefix of `keys` that no other thread is fetching. If another
    /// thread is fetching the first key, returns that fetch as an error, and the caller must wait
    /// for it.
    fn begin(&self, keys: impl IntoIterator<Item = K>) -> Result<FlightGuard<K>, Arc<Flight>> {
        let mut flights = self.0.lock();
        let (mut mine, flight) = (Vec::new(), Arc::<Flight>::default());
        for key in keys {
            match flights.entry(key) {
                Entry::Occupied(other) if mine.is_empty() => return Err(Arc::clone(other.get())),
                Entry::Occupied(_) => break,
                Entry::Vacant(free) => drop(free.insert(Arc::clone(&flight))),
            }
            mine.push(key);
        }
        Ok(FlightGuard { flights: self.clone(), keys: mine, flight })
    }

    fn under_way(&self, key: K) -> Option<Arc<Flight>> {
        self.0.lock().get(&key).cloned()
    }
}

impl Flight {
    fn wait(&self, deadline: Instant) -> io::Result<()> {
        let mut outcome = self.outcome.lock();
        while outcome.is_none() {
            if self.landed.wait_until(&mut outcome, deadline).timed_out() && outcome.is_none() {
                let why = "the bucket did not answer in time; try again";
                return Err(io::Error::new(io::ErrorKind::TimedOut, why));
            }
        }
        match outcome.as_ref() {
            Some(Err(error)) => Err(copy(error)),
            _ => Ok(()),
        }
    }
}

impl<K: Hash + Eq + Copy> FlightGuard<K> {
    fn end<T>(self, outcome: io::Result<T>) -> io::Result<T> {
        let (told, outcome) = match outcome {
            Ok(value) => (Ok(()), Ok(value)),
            Err(error) => {
                let error = Arc::new(error);
                (Err(Arc::clone(&error)), Err(error))
            }
        };
        *self.flight.outcome.lock() = Some(told);
        outcome.map_err(|error| copy(&error))
    }
}

impl<K: Hash + Eq + Copy> Drop for FlightGuard<K> {
    fn drop(&mut self) {
        let mut flights = self.flights.0.lock();
        for key in &self.keys {
            flights.remove(key);
        }
        drop(flights);
        let mut outcome = self.flight.outcome.lock();
        let stopped = || Err(Arc::new(io::Error::other("a fetch was cut off")));
        outcome.get_or_insert_with(stopped);
        self.flight.landed.notify_all();
    }
}

/// Copies an error, since `io::Error` is not `Clone`. Preserves the errno, such as ESTALE.
fn copy(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(number) => io::Error::from_raw_os_error(number),
        None => io::Error::new(error.kind(), error.to_string()),
    }
}

/// Maximum number of blocks in a window. The blocks of a window are fetched together.
const MOST_BLOCKS: usize = 32;
/// Maximum bytes in a window of several blocks. At 100 MB/s, the transfer takes 40 ms. The next
/// window is requested meanwhile, which hides a round trip of 20 ms.
const WINDOW_BYTES: u64 = 4 << 20;

/// Content of an object. Blocks are fetched when they are read, and ahead of sequential readers.
pub(crate) struct ObjectContent {
    source: Arc<BlockSource>,
    location: ObjectLocation,
    object: OnceLock<Arc<RemoteObject>>,
    reader: Mutex<ReadAhead>,
}

/// State of read-ahead. Threads that together read consecutive parts count as one reader.
#[derive(Debug, Default)]
struct ReadAhead {
    window: Range<usize>,
    /// Number of blocks to fetch next. It doubles while each window directly follows the previous
    /// one.
    count: usize,
}

impl ObjectContent {
    pub(crate) fn new(source: Arc<BlockSource>, location: ObjectLocation) -> Self {
        Self { source, location, object: OnceLock::new(), reader: Mutex::default() }
    }

    pub(crate) fn is_here(&self, offset: u64) -> bool {
        let known = || self.source.kept_table(&self.location).map(|table| self.with_table(table));
        let object = self.object.get().or_else(known);
        let number = (offset / BLOCK_BYTES) as usize;
        object.is_some_and(|object| self.source.known(object, number).is_some())
    }

    fn object(&self) -> io::Result<&Arc<RemoteObject>> {
        if let Some(object) = self.object.get() {
            return Ok(object);
        }
        Ok(self.with_table(self.source.table(&self.location)?))
    }

    fn with_table(&self, table: Blocks) -> &Arc<RemoteObject> {
        let object = Arc::new(RemoteObject { location: self.location.clone(), table });
        self.object.get_or_init(|| object)
    }

    fn block(&self, number: usize) -> io::Result<Arc<Vec<u8>>> {
        if let Some(block) = self.source.recent(self.location.object.name, number) {
            return Ok(block);
        }
        let object = self.object()?;
        self.read_ahead(number, object);
        let window = || self.reader.lock().window(number, &object.table);
        self.source.block(object, number, window)
    }

    fn read_ahead(&self, number: usize, object: &Arc<RemoteObject>) {
        let mut reader = self.reader.lock();
        if reader.count > 1 && reader.window.contains(&number) {
            let next = reader.next(&object.table);
            if !next.window.is_empty() && self.source.fetch_ahead(object, next.window.clone()) {
                *reader = next;
            }
        }
    }
}

impl Content for ObjectContent {
    fn len(&self) -> u64 {
        self.location.object.size
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        read_pieces(self.len(), offset, buffer, |at, buffer| {
            let block = self.block((at / BLOCK_BYTES) as usize)?;
            block.as_slice().read_at(at % BLOCK_BYTES, buffer)
        })
    }

    fn lines_before(&self, offset: u64) -> io::Result<LinesBefore> {
        let table = &self.object()?.table;
        let block = (offset / BLOCK_BYTES) as usize;
        let Some(last) = table.len().checked_sub(1) else { return Ok(LinesBefore::default()) };
        let block = block.min(last);
        let (offset, newlines) = (table.content_range(block).start, table.lines_before(block));
        Ok(LinesBefore { offset, newlines })
    }
}

impl ReadAhead {
    fn window(&mut self, number: usize, table: &Blocks) -> Range<usize> {
        if self.window.contains(&number) {
            return number..self.window.end;
        }
        let follows = self.count > 0 && number == self.window.end;
        *self = if follows { self.next(table) } else { Self::at(number, 1, table) };
        self.window.clone()
    }

    fn next(&self, table: &Blocks) -> Self {
        Self::at(self.window.end, (2 * self.count).min(MOST_BLOCKS), table)
    }

    fn at(start: usize, count: usize, table: &Blocks) -> Self {
        Self { window: start..window_end(start, count, table), count }
    }
}

fn window_end(start: usize, count: usize, table: &Blocks) -> usize {
    let most = table.len().min(start + count);
    if most <= start {
        return start;
    }
    let begin = table.frame_range(start).start;
    let fits = |end: &usize| table.frame_range(end - 1).end - begin <= WINDOW_BYTES;
    (start + 2..=most).take_while(fits).last().unwrap_or(start + 1)
}

#[cfg(test)]
mod tests;
