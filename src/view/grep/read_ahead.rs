//! Reading ahead. While one chunk is searched, other threads read the next chunks and find the
//! lines in them that need not be searched.
//!
//! A thread that waits for a chunk reads one itself; see [`parallel`].

use std::sync::Arc;
use std::thread::Scope;
use std::{io, mem};

use grep_regex::RegexMatcher;
use parking_lot::Mutex;

use crate::grep::pattern::CaselessFinder;
use crate::grep::prefilter;
use crate::grep::prefilter::{Chunk, Gap, Prefilter};
use crate::query::SearchOptions;
use ctxfs_core::model::Content;
use ctxfs_core::parallel::{self, OrderedPass, PassBounds};

const CHUNK_BYTES: usize = 1 << 20;
// Maximum number of chunks that are being read, or that were read and not searched. It is high
// because most chunks keep hardly any bytes, and because a thread that waits for a processor should
// not block the others.
const MAX_WAITING_CHUNKS: usize = 128;
// The waiting chunks together may keep as many bytes as this number of full chunks.
const HELD_CHUNKS: usize = 4;
// A smaller content is read without additional threads.
const MIN_THREADED_BYTES: u64 = 8 << 20;
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

/// The pattern to search for, and the search settings. `caseless` finds the same lines faster, if
/// it is set. Only tests change `sizes`.
#[derive(Clone, Copy)]
pub(super) struct SearchSpec<'a> {
    pub(super) matcher: &'a RegexMatcher,
    pub(super) caseless: Option<&'a CaselessFinder>,
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
        Prefilter::new(content, self.matcher, self.caseless, self.options, self.sizes.prefilter)
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
        let helper = Arc::clone(&queue);
        // With a single processor, one thread reads while the other one searches.
        parallel::spawn(scope, THREAD_NAME, parallel::threads().max(2), move || {
            // Threads that share a matcher would wait for each other.
            let matcher = spec.matcher.clone();
            let mut prefilter = SearchSpec { matcher: &matcher, ..spec }.prefilter(content);
            helper.pass.help(|number, stop| helper.read(&mut prefilter, number, stop));
        });
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
        let mut read = |number, stop: &dyn Fn() -> bool| queue.read(prefilter, number, stop);
        while offset >= self.chunk.end()
            && let Some(next) = queue.pass.next(&mut read, self.expired)
        {
            queue.reuse(mem::replace(&mut self.chunk, next).into_bytes());
        }
    }
}

impl Drop for ReadAhead<'_> {
    fn drop(&mut self) {
        if let Some((queue, _)) = &self.queue {
            queue.pass.close();
        }
    }
}

// The chunks of a content from `offset` on, and memory for new ones.
struct ChunkQueue {
    offset: u64,
    end: u64,
    length: usize,
    pass: OrderedPass<Chunk>,
    spare: Mutex<Vec<Vec<u8>>>,
}

impl ChunkQueue {
    fn new(offset: u64, end: u64, length: usize) -> Self {
        let count = (end - offset).div_ceil(length as u64) as usize;
        let bytes = HELD_CHUNKS * length;
        let bounds = PassBounds { results: MAX_WAITING_CHUNKS, bytes, reserved: length };
        let pass = OrderedPass::new(count, bounds);
        Self { offset, end, length, pass, spare: Mutex::default() }
    }

    /// Reads a chunk, and returns it with the number of bytes that it keeps. After an error, the
    /// chunk ends early: the searcher reads the missing bytes itself and meets the error.
    fn read(
        &self,
        prefilter: &mut Prefilter<'_>,
        number: usize,
        stop: &dyn Fn() -> bool,
    ) -> (Chunk, usize) {
        let start = self.offset + number as u64 * self.length as u64;
        let length = (self.length as u64).min(self.end - start) as usize;
        let mut chunk = Chunk::new(start, self.spare.lock().pop().unwrap_or_default());
        prefilter.fill(&mut chunk, length, stop);
        if let Some(spare) = chunk.spare() {
            self.reuse(spare);
        }
        let kept = chunk.kept.len();
        (chunk, kept)
    }

    fn reuse(&self, bytes: Vec<u8>) {
        let mut spare = self.spare.lock();
        if spare.len() < HELD_CHUNKS {
            spare.push(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;
    use std::time::Duration;

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
            let spec = SearchSpec { matcher: &matcher, caseless: None, options, sizes };
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
        let spec = SearchSpec { matcher: &matcher, caseless: None, options: &options, sizes };
        thread::scope(|scope| {
            let mut ahead = ReadAhead::start(scope, &content, START, spec, &expired);
            let (read, _) = read(&mut ahead, START, usize::MAX).unwrap();
            assert_eq!(read.len(), content.bytes.len() - 8);
            content.allowed.store(true, Ordering::Relaxed);
        });
    }
}
