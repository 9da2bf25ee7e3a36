
use std::io;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use crate::bucket::{BLOCK_BYTES, Blocks};
use crate::remote::blocks::source::{Location, Object, Source};
use ctxfs_core::model::{Content, LinesBefore, read_pieces};

///+ Maximum blocks in a window: the blocks of one fetch.
const MOST_BLOCKS: usize = 32;
///+ Maximum bytes in a window of several blocks. At 100 MB/s they take twice the 20 ms of a round
///+ trip, and the next window is fetched meanwhile.
const WINDOW_BYTES: u64 = 4 << 20;

///+ Content of an object. Fetches blocks when they are read, and prefetches for sequential readers.
pub(crate) struct ObjectContent {
    source: Arc<Source>,
    location: Location,
    object: OnceLock<Arc<Object>>,
    reader: Mutex<Reader>,
}

///+ Read-ahead state. Threads that read consecutive parts together count as one reader.
#[derive(Debug, Default)]
struct Reader {
    ///+ Blocks of the last fetch.
    window: Range<usize>,
    ///+ Blocks to fetch next: doubles as long as each window follows the one before.
    count: usize,
}

impl ObjectContent {
    pub(crate) fn new(source: Arc<Source>, location: Location) -> Self {
        Self { source, location, object: OnceLock::new(), reader: Mutex::default() }
    }

    ///+ Returns true if the byte at `offset` can be read without a request.
    pub(crate) fn is_here(&self, offset: u64) -> bool {
        let known = || self.source.kept_table(&self.location).map(|table| self.with_table(table));
        let object = self.object.get().or_else(known);
        let number = (offset / BLOCK_BYTES) as usize;
        object.is_some_and(|object| self.source.known(object, number).is_some())
    }

    fn object(&self) -> io::Result<&Arc<Object>> {
        if let Some(object) = self.object.get() {
            return Ok(object);
        }
        Ok(self.with_table(self.source.table(&self.location)?))
    }

    fn with_table(&self, table: Blocks) -> &Arc<Object> {
        let object = Arc::new(Object { location: self.location.clone(), table });
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

    ///+ Prefetches the next window once a sequential reader is in the last one.
    fn read_ahead(&self, number: usize, object: &Arc<Object>) {
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

impl Reader {
    ///+ Returns the blocks to fetch for `number`, which is not cached.
    fn window(&mut self, number: usize, table: &Blocks) -> Range<usize> {
        if self.window.contains(&number) {
            return number..self.window.end;
        }
        let follows = self.count > 0 && number == self.window.end;
        *self = if follows { self.next(table) } else { Self::at(number, 1, table) };
        self.window.clone()
    }

    ///+ Returns the state with the following window, which is empty at the end.
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
