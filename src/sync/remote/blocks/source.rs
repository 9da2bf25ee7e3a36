//! Blocks from memory, the local cache, or the bucket.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use std::{fmt, io, thread};

use bytes::Bytes;
use parking_lot::Mutex;

use crate::bucket::{
    Blocks, BucketId, Deadline, ObjectName, ObjectPlace, blocks_key, object_key, unpack_block,
};
use crate::remote::Objects;
use crate::remote::blocks::BlockCache;
use crate::remote::blocks::flights::{Duty, Flight, Flights};
use ctxfs_core::model::Component;

///+ Unpacked blocks in memory, for all readers together.
const IN_MEMORY: usize = 8;
///+ Maximum concurrent prefetches. Each holds the bytes of a window.
const MOST_AHEAD: usize = 2;
const THREAD: &str = "read-ahead";
const NOT_THERE: &str = "the bucket that has the bytes is not there: is its disk mounted?";

///+ An object of a bucket, as a record names it.
#[derive(Debug, Clone)]
pub(crate) struct Location {
    pub(crate) conversation: Component,
    pub(crate) object: ObjectPlace,
}

///+ An object with its table of blocks.
#[derive(Debug)]
pub(super) struct Object {
    pub(super) location: Location,
    pub(super) table: Blocks,
}

///+ Source of blocks: memory, the local cache, or the bucket. Concurrent reads of a block share one
///+ fetch.
pub(crate) struct Source {
    bucket: Arc<dyn Objects + Send>,
    id: BucketId,
    pub(crate) cache: BlockCache,
    ///+ Maximum time that a read waits.
    patience: Duration,
    tables: Flights<ObjectName>,
    blocks: Flights<BlockId>,
    recent: Mutex<VecDeque<(BlockId, Arc<Vec<u8>>)>>,
    ///+ False while blocks cannot be cached: then prefetching is useless.
    keeps: AtomicBool,
    ///+ Each prefetching thread holds a clone, so the count of references limits them.
    ahead: Arc<()>,
}

type BlockId = (ObjectName, usize);

impl Source {
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
            tables: Flights::default(),
            blocks: Flights::default(),
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

    ///+ Returns the error for bytes that the bucket lacks: ESTALE if this is still the same bucket,
    ///+ since another host has removed them. While a disk is not mounted, an empty directory is in
    ///+ its place: that is another error.
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

    pub(crate) fn table(&self, location: &Location) -> io::Result<Blocks> {
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

    pub(super) fn kept_table(&self, location: &Location) -> Option<Blocks> {
        let name = table_name(location);
        let table = self.cache.get(&name)?;
        location.object.read_table(&table).inspect_err(|_| self.cache.forget(&name)).ok()
    }

    fn fetch_table(&self, location: &Location) -> io::Result<Blocks> {
        let key = blocks_key(&location.conversation, location.object.name);
        let bytes = self.get(&key, 0..Blocks::table_bytes(location.object.size))?;
        let table = location.object.read_table(&bytes).map_err(io::Error::other)?;
        self.cache.put(&table_name(location), &bytes);
        Ok(table)
    }

    pub(super) fn recent(&self, object: ObjectName, number: usize) -> Option<Arc<Vec<u8>>> {
        let id = (object, number);
        let mut recent = self.recent.lock();
        let at = recent.iter().position(|(known, _)| *known == id)?;
        let found = recent.remove(at)?;
        let block = Arc::clone(&found.1);
        recent.push_back(found);
        Some(block)
    }

    pub(super) fn known(&self, object: &Object, number: usize) -> Option<Arc<Vec<u8>>> {
        let name = object.location.object.name;
        self.recent(name, number).or_else(|| self.kept(object, number))
    }

    ///+ Returns the content of block `number`. If it must be fetched, `window` returns the blocks to
    ///+ fetch with it.
    pub(super) fn block(
        &self,
        object: &Object,
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
                    let fetched = self.fetch(object, number..number + duty.len());
                    return duty.end(fetched);
                }
                Err(flight) => flight.wait(until)?,
            }
        }
    }

    ///+ Prefetches blocks in a thread. Returns false if it does not: enough threads do so already,
    ///+ or blocks cannot be cached.
    pub(super) fn fetch_ahead(
        self: &Arc<Self>,
        object: &Arc<Object>,
        blocks: Range<usize>,
    ) -> bool {
        let ahead = Arc::clone(&self.ahead);
        if Arc::strong_count(&ahead) > MOST_AHEAD + 1 || !self.keeps.load(Relaxed) {
            return false;
        }
        let Ok(duty) = self.begin(object, blocks.clone()) else { return true };
        let (source, object) = (Arc::clone(self), Arc::clone(object));
        let work = move || {
            let blocks = blocks.start..blocks.start + duty.len();
            if let Err(error) = duty.end(source.fetch(&object, blocks)) {
                tracing::debug!(%error, "nothing was fetched ahead");
            }
            drop(ahead);
        };
        thread::Builder::new().name(THREAD.to_owned()).spawn(work).is_ok()
    }

    fn begin(&self, object: &Object, blocks: Range<usize>) -> Result<Duty<BlockId>, Arc<Flight>> {
        let name = object.location.object.name;
        let count = if self.keeps.load(Relaxed) { blocks.len() } else { 1 };
        self.blocks.begin(blocks.take(count).map(|block| (name, block)))
    }

    ///+ Fetches blocks. Returns the content of the first.
    fn fetch(&self, object: &Object, blocks: Range<usize>) -> io::Result<Arc<Vec<u8>>> {
        let (location, table) = (&object.location, &object.table);
        let key = object_key(&location.conversation, location.object.name);
        let frames = self.get(&key, table.frames_range(blocks.clone()))?;
        let first = blocks.start;
        let frame = |block| table.frame_in(&frames, first, block).map_err(io::Error::other);
        let content = unpack_block(frame(first)?, first, table).map_err(io::Error::other)?;
        for block in blocks {
            // The blocks after the first are checked when they are read.
            self.keep((location, block), frame(block)?);
        }
        Ok(self.remember((location.object.name, first), content))
    }

    fn kept(&self, object: &Object, number: usize) -> Option<Arc<Vec<u8>>> {
        let id = (object.location.object.name, number);
        let name = block_name(id);
        let frame = self.cache.get(&name)?;
        let Ok(content) = unpack_block(&frame, number, &object.table) else {
            self.cache.forget(&name);
            return None;
        };
        Some(self.remember(id, content))
    }

    ///+ Caches the frame of a block. The caller need not have checked it: every read does.
    pub(crate) fn keep(&self, (location, block): (&Location, usize), frame: &[u8]) {
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

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source").field("cache", &self.cache).finish_non_exhaustive()
    }
}

fn block_name((object, block): BlockId) -> String {
    format!("{object}-{block:08}")
}

fn table_name(location: &Location) -> String {
    format!("{}.blocks", location.object.name)
}
