//! Reading ahead. While one chunk is searched, other threads read the next chunks and find the
//! lines in them that need not be searched.
//!
//! A thread that waits for a chunk reads one itself. Thus all processors have work, and no thread
//! has to wait for another one to wake up.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::Scope;
use std::time::Duration;
use std::{io, thread};

use grep_regex::RegexMatcher;
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::grep::prefilter;
use crate::grep::prefilter::{Chunk, Gap, Prefilter};
use crate::query::SearchOptions;
use ctxfs_core::model::Content;

const CHUNK_BYTES: usize = 1 << 20;
// Maximum number of chunks that are being read, or that were read and not searched. It is high
// because most chunks keep hardly any bytes, and because a thread that waits for a processor should
// not block the others.
const MAX_WAITING_CHUNKS: u64 = 128;
// The waiting chunks together may keep as many bytes as this number of full chunks.
const HELD_CHUNKS: usize = 4;
// A smaller content is read without additional threads.
const MIN_THREADED_BYTES: u64 = 8 << 20;
// Maximum number of threads for one search. Each thread has its own automaton.
pub(super) const MAX_THREADS: usize = 4;

// Interval at which a waiting search checks its deadline.
const DEADLINE_CHECK: Duration = Duration::from_millis(10);
const THREAD_NAME: &str = "ctxfs-scout";

// Sizes in bytes. Tests use small ones.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReadAheadSizes {
    pub(super) content: u64,
    pub(super) chunk: usize,
    pub(super) prefilter: prefilter::PrefilterSizes,
}

impl Default for ReadAheadSizes {
    fn default() -> Self {
        Self {
            content: MIN_THREADED_BYTES,
            chunk: CHUNK_BYTES,
            prefilter: prefilter::PrefilterSizes::default(),
        }
    }
}

/// The pattern to search for, and the search settings. Only tests change `sizes`.
#[derive(Clone, Copy)]
pub(super) struct SearchSpec<'a> {
    pub(super) matcher: &'a RegexMatcher,
    pub(super) options: &'a SearchOptions,
    pub(super) sizes: ReadAheadSizes,
}

/// A content that is read sequentially from one place on, while other threads read the next chunks.
/// There is no queue if the content is too small for additional threads.
pub(super) struct ReadAhead<'a> {
    content: &'a dyn Content,
    expired: &'a dyn Fn() -> bool,
    queue: Option<(Arc<ChunkQueue>, Prefilter<'a>)>,
    chunk: Chunk,
}

impl<'a> SearchSpec<'a> {
    fn prefilter(&self, content: &'a dyn Content) -> Prefilter<'a> {
        Prefilter::new(content, self.matcher, self.options, self.sizes.prefilter)
    }
}

impl<'a> ReadAhead<'a> {
    /// Starts reading at `offset`. The threads end at the end of the content, or when the
    /// `ReadAhead` is dropped.
    pub(super) fn start<'scope>(
        scope: &'scope Scope<'scope, '_>,
        content: &'a dyn Content,
        offset: u64,
        spec: SearchSpec<'a>,
        expired: &'a dyn Fn() -> bool,
    ) -> Self
    where
        'a: 'scope,
    {
        let chunk = Chunk::new(offset, Vec::new());
        if content.len().saturating_sub(offset) < spec.sizes.content {
            return Self { content, expired, queue: None, chunk };
        }
        let queue = Arc::new(ChunkQueue::new(offset, content.len(), spec.sizes.chunk));
        for _ in 1..threads() {
            let queue = Arc::clone(&queue);
            let work = move || {
                // Threads that share a matcher would wait for each other.
                let matcher = spec.matcher.clone();
                queue.work(&mut SearchSpec { matcher: &matcher, ..spec }.prefilter(content));
            };
            // If a thread cannot be started, the search continues without it.
            drop(thread::Builder::new().name(THREAD_NAME.to_owned()).spawn_scoped(scope, work));
        }
        Self { content, expired, queue: Some((queue, spec.prefilter(content))), chunk }
    }

    pub(super) fn has_gaps(&self) -> bool {
        self.queue.as_ref().is_some_and(|(_, prefilter)| prefilter.finder.is_some())
    }

    pub(super) fn gap(&mut self, offset: u64) -> Option<Gap> {
        self.advance(offset);
        self.chunk.gap(offset)
    }

    // Reads bytes from `offset` up to the next gap.
    pub(super) fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.advance(offset);
        match self.chunk.copy(offset, buffer) {
            0 => self.content.read_at(offset, buffer),
            count => Ok(count),
        }
    }

    fn advance(&mut self, offset: u64) {
        let Some((queue, prefilter)) = &mut self.queue else { return };
        while offset >= self.chunk.end()
            && let Some(next) = queue.next(prefilter, self.expired)
        {
            queue.reuse(std::mem::replace(&mut self.chunk, next));
        }
    }
}

impl Drop for ReadAhead<'_> {
    fn drop(&mut self) {
        if let Some((queue, _)) = &self.queue {
            queue.state.lock().closed = true;
            queue.changed.notify_all();
        }
    }
}

// Returns the number of threads, including the one that searches.
fn threads() -> usize {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    processors.clamp(2, MAX_THREADS)
}

// The chunks of a content: those not read yet, those being read, and those that are ready.
struct ChunkQueue {
    end: u64,
    length: usize,
    state: Mutex<ChunkSchedule>,
    changed: Condvar,
}

struct ChunkSchedule {
    // The offset of the first chunk that no thread has claimed.
    next: u64,
    // The offset of the chunk that is searched next.
    wanted: u64,
    ready: BTreeMap<u64, Chunk>,
    // The number of bytes that the chunks in `ready` keep, plus the full size of the chunks that
    // are being read.
    held: usize,
    // Memory that can be reused.
    spare: Vec<Vec<u8>>,
    closed: bool,
}

impl ChunkSchedule {
    fn reuse(&mut self, bytes: Vec<u8>) {
        if self.spare.len() < HELD_CHUNKS {
            self.spare.push(bytes);
        }
    }
}

/// A chunk that is being read. When it is dropped, even by a panic, the bytes that were read become
/// available. The searcher then reads the missing bytes itself and meets the error.
struct ChunkClaim<'a> {
    queue: &'a ChunkQueue,
    start: u64,
    length: usize,
    chunk: Chunk,
}

impl Drop for ChunkClaim<'_> {
    fn drop(&mut self) {
        let mut chunk = std::mem::take(&mut self.chunk);
        let spare = chunk.spare();
        let mut state = self.queue.state.lock();
        state.held = state.held - self.length + chunk.kept.len();
        state.ready.insert(self.start, chunk);
        if let Some(bytes) = spare {
            state.reuse(bytes);
        }
        drop(state);
        self.queue.changed.notify_all();
    }
}

impl ChunkQueue {
    fn new(offset: u64, end: u64, length: usize) -> Self {
        let state = ChunkSchedule {
            next: offset,
            wanted: offset,
            ready: BTreeMap::new(),
            held: 0,
            spare: Vec::new(),
            closed: false,
        };
        Self { end, length, state: Mutex::new(state), changed: Condvar::new() }
    }

    // Reads chunks until there are none left or the queue is closed.
    fn work(&self, prefilter: &mut Prefilter<'_>) {
        let mut state = self.state.lock();
        while !state.closed && state.next < self.end {
            self.read_one(&mut state, prefilter, &|| self.state.lock().closed);
        }
    }

    /// Reads one more chunk with the lock released. If no chunk may be read now, waits briefly for
    /// a change of state.
    fn read_one(
        &self,
        state: &mut MutexGuard<'_, ChunkSchedule>,
        prefilter: &mut Prefilter<'_>,
        stop: &dyn Fn() -> bool,
    ) {
        match self.claim(state) {
            Some(claim) => MutexGuard::unlocked(state, || {
                let mut claim = claim;
                prefilter.fill(&mut claim.chunk, claim.length, stop);
            }),
            None => drop(self.changed.wait_for(state, DEADLINE_CHECK)),
        }
    }

    // Returns `None` if enough chunks wait.
    fn claim(&self, state: &mut ChunkSchedule) -> Option<ChunkClaim<'_>> {
        let start = state.next;
        let far = state.wanted + MAX_WAITING_CHUNKS * self.length as u64;
        if start >= self.end.min(far) || state.held >= HELD_CHUNKS * self.length {
            return None;
        }
        state.next = self.after(start);
        let bytes = state.spare.pop().unwrap_or_default();
        let length = (state.next - start) as usize;
        state.held += length;
        Some(ChunkClaim { queue: self, start, length, chunk: Chunk::new(start, bytes) })
    }

    fn after(&self, start: u64) -> u64 {
        self.end.min(start + self.length as u64)
    }

    // Returns the next chunk to search. Returns `None` at the end of the content or when time runs
    // out.
    fn next(&self, prefilter: &mut Prefilter<'_>, expired: &dyn Fn() -> bool) -> Option<Chunk> {
        let mut state = self.state.lock();
        loop {
            let wanted = state.wanted;
            if let Some(chunk) = state.ready.remove(&wanted) {
                state.wanted = self.after(wanted);
                state.held -= chunk.kept.len();
                self.changed.notify_all();
                return Some(chunk);
            }
            if wanted >= self.end || expired() {
                return None;
            }
            self.read_one(&mut state, prefilter, expired);
        }
    }

    fn reuse(&self, chunk: Chunk) {
        self.state.lock().reuse(chunk.into_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// The offset at which reading starts, in the second line.
    const START: u64 = 8;

    /// Returns lines of 8 bytes. Every 64th line contains an `x`.
    fn text(lines: usize) -> Vec<u8> {
        let line = |line: usize| if line.is_multiple_of(64) { b"fooxbar\n" } else { b"foo bar\n" };
        (0..lines).flat_map(line).copied().collect()
    }

    fn sizes(content: u64, chunk: usize) -> ReadAheadSizes {
        ReadAheadSizes {
            content,
            chunk,
            prefilter: prefilter::PrefilterSizes { block: 1000, min_gap: 100 },
        }
    }

    /// Returns the bytes that were read, with `#` for each byte that was left out, and the number
    /// of lines left out.
    fn read(ahead: &mut ReadAhead<'_>, mut at: u64, stop: usize) -> io::Result<(Vec<u8>, u64)> {
        let (mut read, mut lines, mut buffer) = (Vec::new(), 0, vec![0; 777]);
        while read.len() < stop {
            if let Some(gap) = ahead.gap(at) {
                read.resize(read.len() + gap.length, b'#');
                lines += gap.lines;
                at += gap.length as u64;
                continue;
            }
            let count = ahead.read_at(at, &mut buffer)?;
            if count == 0 {
                break;
            }
            read.extend_from_slice(&buffer[..count]);
            at += count as u64;
        }
        Ok((read, lines))
    }

    /// Runs a search for `x` that reads ahead.
    fn with_ahead<T>(
        content: &dyn Content,
        options: &SearchOptions,
        sizes: ReadAheadSizes,
        test: impl FnOnce(&mut ReadAhead<'_>) -> T,
    ) -> T {
        let matcher = RegexMatcher::new_line_matcher("x").unwrap();
        thread::scope(|scope| {
            let spec = SearchSpec { matcher: &matcher, options, sizes };
            test(&mut ReadAhead::start(scope, content, START, spec, &|| false))
        })
    }

    #[test]
    fn what_does_not_match_is_left_out() {
        let content = text(20_000);
        let all = &content[8..];
        with_ahead(&content, &SearchOptions::default(), sizes(0, 10_000), |ahead| {
            let (read, lines) = read(ahead, START, usize::MAX).unwrap();
            assert_eq!(read.len(), all.len());
            let pairs = || read.chunks(8).zip(all.chunks(8));
            let (out, kept): (Vec<_>, Vec<_>) = pairs().partition(|(got, _)| got.contains(&b'#'));
            let out: Vec<&[u8]> = out.into_iter().map(|(_, line)| line).collect();
            assert!(out.len() > 18_000 && out.len() as u64 == lines, "{lines} {}", out.len());
            assert!(out.concat().iter().all(|byte| *byte != b'x'));
            assert!(kept.into_iter().all(|(got, want)| got == want));
        });
    }

    #[test]
    fn it_reads_the_same_forwards_and_back_and_need_not_be_read_to_the_end() {
        let content = text(20_000);
        let much = SearchOptions { after: 1000, ..SearchOptions::default() };
        for stop in [usize::MAX, 50_000] {
            with_ahead(&content, &much, sizes(0, 10_000), |ahead| {
                assert!(!ahead.has_gaps());
                let (bytes, lines) = read(ahead, START, stop).unwrap();
                assert_eq!(bytes, content[8..8 + bytes.len()]);
                assert!(lines == 0 && bytes.len() >= stop.min(content.len() - 8));
                let (again, _) = read(ahead, 30_001, 5000).unwrap();
                assert_eq!(again, content[30_001..30_001 + again.len()]);
            });
        }
    }

    #[test]
    fn a_small_content_is_not_worth_a_thread() {
        let content = text(1000);
        with_ahead(&content, &SearchOptions::default(), sizes(7993, 1000), |ahead| {
            assert!(ahead.queue.is_none() && !ahead.has_gaps());
            assert_eq!(read(ahead, START, usize::MAX).unwrap().0, content[8..]);
        });
    }

    #[test]
    fn only_so_much_is_read_ahead() {
        let queue = ChunkQueue::new(5, 1_000_000, 1000);
        let mut claims = Vec::new();
        while let Some(claim) = queue.claim(&mut queue.state.lock()) {
            claims.push(claim);
        }
        assert_eq!(claims.len(), HELD_CHUNKS);
        assert_eq!(queue.state.lock().next, 5 + 1000 * HELD_CHUNKS as u64);
        // No bytes of these chunks are kept.
        drop(claims);
        let mut read = HELD_CHUNKS as u64;
        while let Some(claim) = { queue.claim(&mut queue.state.lock()) } {
            drop(claim);
            read += 1;
        }
        assert_eq!(read, MAX_WAITING_CHUNKS);
    }

    /// A content whose reads fail from some offset on, either on other threads or on all.
    struct Failing {
        bytes: Vec<u8>,
        everywhere: bool,
        panics: bool,
        failed: AtomicBool,
    }

    impl Content for Failing {
        fn len(&self) -> u64 {
            self.bytes.len() as u64
        }

        fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
            let elsewhere = thread::current().name() == Some(THREAD_NAME);
            if offset < 70_000 || !(elsewhere || self.everywhere) {
                return self.bytes.read_at(offset, buffer);
            }
            self.failed.store(true, Ordering::Relaxed);
            assert!(!self.panics, "as it should");
            Err(io::Error::other("a bad disk"))
        }
    }

    fn failing(everywhere: bool, panics: bool) -> Failing {
        let bytes = text(20_000);
        Failing { bytes, everywhere, panics, failed: AtomicBool::new(false) }
    }

    #[test]
    fn what_another_thread_cannot_read_is_read_again() {
        let content = failing(false, false);
        let all = &content.bytes[8..];
        with_ahead(&content, &SearchOptions::default(), sizes(0, 10_000), |ahead| {
            let (read, _) = read(ahead, START, usize::MAX).unwrap();
            assert_eq!(read.len(), all.len());
            assert!(read.iter().zip(all).all(|(got, want)| got == want || *got == b'#'));
        });
    }

    #[test]
    fn what_cannot_be_read_is_an_error() {
        let content = failing(true, false);
        let read = with_ahead(&content, &SearchOptions::default(), sizes(0, 10_000), |ahead| {
            read(ahead, START, usize::MAX)
        });
        assert_eq!(read.unwrap_err().to_string(), "a bad disk");
    }

    #[test]
    fn nobody_waits_for_a_thread_that_panicked() {
        let content = failing(false, true);
        let read = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            with_ahead(&content, &SearchOptions::default(), sizes(0, 10_000), |ahead| {
                let read = read(ahead, START, usize::MAX).unwrap().0;
                assert_eq!(read.len(), content.bytes.len() - 8);
            });
        }));
        assert_eq!(read.is_err(), content.failed.load(Ordering::Relaxed));
    }

    /// A content that other threads can read only once that is allowed.
    struct Slow {
        bytes: Vec<u8>,
        allowed: AtomicBool,
    }

    impl Content for Slow {
        fn len(&self) -> u64 {
            self.bytes.len() as u64
        }

        fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
            while thread::current().name() == Some(THREAD_NAME)
                && !self.allowed.load(Ordering::Relaxed)
            {
                thread::sleep(Duration::from_millis(1));
            }
            self.bytes.read_at(offset, buffer)
        }
    }

    #[test]
    fn nobody_waits_longer_than_there_is_time() {
        let content = Slow { bytes: text(20_000), allowed: AtomicBool::new(false) };
        let (matcher, asked) = (RegexMatcher::new_line_matcher("x").unwrap(), Cell::new(0));
        let expired = || asked.replace(asked.get() + 1) > 200;
        let (options, sizes) = (SearchOptions::default(), sizes(0, 10_000));
        let spec = SearchSpec { matcher: &matcher, options: &options, sizes };
        thread::scope(|scope| {
            let mut ahead = ReadAhead::start(scope, &content, START, spec, &expired);
            let (read, _) = read(&mut ahead, START, usize::MAX).unwrap();
            assert_eq!(read.len(), content.bytes.len() - 8);
            content.allowed.store(true, Ordering::Relaxed);
        });
    }
}
