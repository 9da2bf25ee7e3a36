//! The content of an object, of which only the blocks are fetched that somebody reads.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::OnceLock;
use std::time::Duration;
use std::time::Instant;

use parking_lot::Mutex;

use crate::bucket::BLOCK_BYTES;
use crate::bucket::Blocks;
use crate::bucket::BucketError;
use crate::bucket::Deadline;
use crate::bucket::FormatError;
use crate::bucket::ObjectName;
use crate::bucket::blocks_key;
use crate::bucket::object_key;
use crate::bucket::unpack_block;
use crate::model::Component;
use crate::model::Content;
use crate::model::LinesBefore;
use crate::model::read_pieces;
use crate::remote::Objects;
use crate::remote::blocks::BlockCache;
use crate::remote::blocks::flights::Flights;

/// The most blocks that a sequential reader has fetched at once.
const MOST_AHEAD: usize = 8;
/// The blocks that are kept in memory, unpacked, for all readers together.
const IN_MEMORY: usize = 8;

/// An object of a bucket, as a record tells of it.
#[derive(Debug, Clone)]
pub(in crate::remote) struct Location {
    pub(in crate::remote) conversation: Component,
    pub(in crate::remote) name: ObjectName,
    /// The bytes of the artifact.
    pub(in crate::remote) size: u64,
    /// The bytes of the object.
    pub(in crate::remote) packed: u64,
    /// BLAKE3 of the table of its blocks, in lower-case hexadecimal.
    pub(in crate::remote) blocks: String,
}

/// The source of blocks: memory, the cache, or the bucket.
pub(in crate::remote) struct Source {
    bucket: Arc<dyn Objects + Send>,
    pub(in crate::remote) cache: BlockCache,
    /// The time that a read waits at most.
    patience: Duration,
    tables: Flights<ObjectName>,
    blocks: Flights<BlockId>,
    recent: Mutex<VecDeque<(BlockId, Arc<Vec<u8>>)>>,
}

/// A block of an object.
type BlockId = (ObjectName, usize);

/// The content of an object. Fetches nothing before it is read.
pub(in crate::remote) struct ObjectContent {
    source: Arc<Source>,
    location: Location,
    table: OnceLock<Blocks>,
    reader: Mutex<Reader>,
}

/// How the content is read.
#[derive(Default)]
struct Reader {
    /// The block that was read last.
    last: Option<usize>,
    /// The blocks to fetch at once.
    ahead: usize,
}

impl Source {
    pub(in crate::remote) fn new(
        bucket: Arc<dyn Objects + Send>,
        cache: BlockCache,
        patience: Duration,
    ) -> Arc<Self> {
        let (tables, blocks) = (Flights::default(), Flights::default());
        Arc::new(Self { bucket, cache, patience, tables, blocks, recent: Mutex::default() })
    }

    /// Returns the bucket.
    pub(in crate::remote) fn bucket(&self) -> &dyn Objects {
        &*self.bucket
    }

    /// Returns until when a request that begins now is repeated.
    pub(in crate::remote) fn deadline(&self) -> Deadline {
        Deadline::after(self.patience)
    }

    /// Returns the table of an object's blocks.
    pub(in crate::remote) fn table(&self, location: &Location) -> io::Result<Blocks> {
        let name = format!("{}.blocks", location.name);
        if let Some(table) = self.cache.get(&name) {
            match table_of(&table, location) {
                Ok(table) => return Ok(table),
                Err(_) => self.cache.forget(&name),
            }
        }
        let until = Instant::now() + self.patience;
        let fetched = self.tables.once(location.name, until, || {
            let key = blocks_key(&location.conversation, location.name);
            let range = Some(0..Blocks::table_bytes(location.size));
            let table = self.bucket.get(&key, range, self.deadline()).map_err(failed)?;
            table_of(&table, location).map_err(io::Error::other)?;
            self.cache.put(&name, &table);
            Ok(Arc::new(table.to_vec()))
        })?;
        table_of(&fetched, location).map_err(io::Error::other)
    }

    /// Returns the content of block `number`. Where it has to be fetched, those that follow are
    /// fetched with it, `count` in all.
    fn block(
        &self,
        (location, table): (&Location, &Blocks),
        number: usize,
        count: usize,
    ) -> io::Result<Arc<Vec<u8>>> {
        let id = (location.name, number);
        let known = || self.recent(id).or_else(|| self.kept(table, id));
        if let Some(block) = known() {
            return Ok(block);
        }
        let until = Instant::now() + self.patience;
        self.blocks.once(id, until, || match known() {
            Some(block) => Ok(block),
            None => self.fetch((location, table), number, count),
        })
    }

    /// Fetches blocks. Returns the content of the first one.
    fn fetch(
        &self,
        (location, table): (&Location, &Blocks),
        number: usize,
        count: usize,
    ) -> io::Result<Arc<Vec<u8>>> {
        let end = table.len().min(number + count.max(1));
        let start = table.frame_range(number).start;
        let range = start..table.frame_range(end - 1).end;
        let key = object_key(&location.conversation, location.name);
        let frames = self.bucket.get(&key, Some(range), self.deadline()).map_err(failed)?;
        let frame = |block| {
            let range = table.frame_range(block);
            frames.get((range.start - start) as usize..(range.end - start) as usize)
        };
        let first = frame(number).ok_or(io::ErrorKind::UnexpectedEof)?;
        let content = unpack_block(first, number, table).map_err(io::Error::other)?;
        for block in number..end {
            // Those after the first are checked when they are read.
            let frame = frame(block).ok_or(io::ErrorKind::UnexpectedEof)?;
            self.cache.put(&name_of((location.name, block)), frame);
        }
        Ok(self.remember((location.name, number), content))
    }

    /// Returns a block from the cache, if it is there and right.
    fn kept(&self, table: &Blocks, id: BlockId) -> Option<Arc<Vec<u8>>> {
        let name = name_of(id);
        let frame = self.cache.get(&name)?;
        let Ok(content) = unpack_block(&frame, id.1, table) else {
            self.cache.forget(&name);
            return None;
        };
        Some(self.remember(id, content))
    }

    /// Keeps the frame of a block, which the caller has checked.
    pub(in crate::remote) fn keep(&self, (location, block): (&Location, usize), frame: &[u8]) {
        self.cache.put(&name_of((location.name, block)), frame);
    }

    fn recent(&self, id: BlockId) -> Option<Arc<Vec<u8>>> {
        let mut recent = self.recent.lock();
        let at = recent.iter().position(|(known, _)| *known == id)?;
        let found = recent.remove(at)?;
        let block = Arc::clone(&found.1);
        recent.push_back(found);
        Some(block)
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

impl ObjectContent {
    pub(in crate::remote) fn new(source: Arc<Source>, location: Location) -> Self {
        Self { source, location, table: OnceLock::new(), reader: Mutex::default() }
    }

    fn table(&self) -> io::Result<&Blocks> {
        if let Some(table) = self.table.get() {
            return Ok(table);
        }
        let table = self.source.table(&self.location)?;
        Ok(self.table.get_or_init(|| table))
    }

    fn block(&self, number: usize) -> io::Result<Arc<Vec<u8>>> {
        let count = self.reader.lock().count_for(number);
        if let Some(block) = self.source.recent((self.location.name, number)) {
            return Ok(block);
        }
        let table = self.table()?;
        self.source.block((&self.location, table), number, count)
    }
}

impl Content for ObjectContent {
    fn len(&self) -> u64 {
        self.location.size
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        read_pieces(self.len(), offset, buffer, |at, buffer| {
            let block = self.block((at / BLOCK_BYTES) as usize)?;
            block.as_slice().read_at(at % BLOCK_BYTES, buffer)
        })
    }

    fn lines_before(&self, offset: u64) -> io::Result<LinesBefore> {
        let table = self.table()?;
        let block = (offset / BLOCK_BYTES) as usize;
        let Some(last) = table.len().checked_sub(1) else { return Ok(LinesBefore::default()) };
        let block = block.min(last);
        let (offset, newlines) = (table.content_range(block).start, table.lines_before(block));
        Ok(LinesBefore { offset, newlines })
    }
}

impl Reader {
    /// Returns how many blocks to fetch from `number` on, if it has to be fetched: twice as many
    /// with each block that is read after the one before it.
    fn count_for(&mut self, number: usize) -> usize {
        if self.last != Some(number) {
            let is_next = self.last.is_some_and(|last| number == last + 1);
            self.ahead = if is_next { (2 * self.ahead).min(MOST_AHEAD) } else { 1 };
            self.last = Some(number);
        }
        self.ahead
    }
}

/// Returns the name of a block in the cache.
fn name_of((object, block): BlockId) -> String {
    format!("{object}-{block:08}")
}

/// Reads the table of an object's blocks, if it is the one that the record means.
fn table_of(table: &[u8], location: &Location) -> Result<Blocks, FormatError> {
    let blocks = Blocks::parse(table, location.size, location.packed)?;
    if blocks.digest_text() != location.blocks {
        let what = "the table of the blocks of an object has another digest".to_owned();
        return Err(FormatError::Damaged { what });
    }
    Ok(blocks)
}

/// Returns the error of a read. What has left the bucket was removed.
fn failed(error: BucketError) -> io::Error {
    if error.is_absent() {
        return io::Error::from_raw_os_error(libc::ESTALE);
    }
    io::Error::other(error)
}
