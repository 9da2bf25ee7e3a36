//! Reading ahead. While one chunk is searched, other threads read the next chunks and find the
//! lines in them that need not be searched ([`Prefilter`]).
//!
//! A thread that waits for a chunk reads one itself; see [`parallel`].

use std::sync::Arc;
use std::thread::Scope;
use std::{io, mem};

use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkMatch};
use parking_lot::Mutex;

use crate::grep::matcher::LineMatcher;
use crate::query::SearchOptions;
use crate::scan;
use ctxfs_core::model::Content;
use ctxfs_core::parallel::{self, OrderedPass, PassBounds};

const CHUNK_BYTES: usize = 1 << 20;
// Maximum number of chunks that are being read, or that were read and not searched. It is high
// because most chunks keep hardly any bytes, and because a thread that waits for a processor should
// not block the others.
const MAX_WAITING_CHUNKS: usize = 128;
// The waiting chunks together may keep as many bytes as this number of full chunks.
const HELD_CHUNKS: usize = 4;
// Smaller content is read without additional threads.
const MIN_THREADED_BYTES: u64 = 8 << 20;
const THREAD_NAME: &str = "ctxfs-scout";
// Number of bytes that are read and searched at once. It is large enough to make the overhead of a
// read call small, and small enough for the cache of one processor.
const BLOCK_BYTES: usize = 128 << 10;
// Minimum size in bytes of consecutive lines that are left out.
const MIN_GAP: usize = 4 << 10;
// If a search has more lines of context than this, nothing is left out. This many lines of any
// length fit into the searcher's memory, so leaving out lines cannot change how a search ends.
const MAX_CONTEXT: u64 = 30;

// Sizes in bytes. Tests use small ones.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReadAheadSizes {
    pub(super) content: u64,
    pub(super) chunk: usize,
    pub(super) block: usize,
    pub(super) min_gap: usize,
}

impl Default for ReadAheadSizes {
    fn default() -> Self {
        Self {
            content: MIN_THREADED_BYTES,
            chunk: CHUNK_BYTES,
            block: BLOCK_BYTES,
            min_gap: MIN_GAP,
        }
    }
}

/// The pattern to search for, and the search settings. Only tests change `sizes`.
#[derive(Clone, Copy)]
pub(super) struct SearchSpec<'a> {
    pub(super) matcher: &'a LineMatcher,
    pub(super) options: &'a SearchOptions,
    pub(super) sizes: ReadAheadSizes,
}

/// Reads content sequentially from one place on, while other threads read the next chunks. `queue`
/// is `None` if the content is too small for additional threads.
pub(super) struct ReadAhead<'a> {
    content: &'a dyn Content,
    expired: &'a dyn Fn() -> bool,
    queue: Option<(Arc<ChunkQueue>, Prefilter<'a>)>,
    chunk: Chunk,
    is_slow: bool,
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
        let (chunk, is_slow) = (Chunk::new(offset, Vec::new()), spec.matcher.is_slow());
        if content.len().saturating_sub(offset) < spec.sizes.content {
            return Self { content, expired, queue: None, chunk, is_slow };
        }
        let queue = Arc::new(ChunkQueue::new(offset, content.len(), spec.sizes.chunk));
        let helper = Arc::clone(&queue);
        // With a single processor, one thread reads while the other one searches.
        parallel::spawn(scope, THREAD_NAME, parallel::threads().max(2), move || {
            // Threads that share a matcher would wait for each other.
            let matcher = spec.matcher.clone();
            let mut prefilter = Prefilter::new(content, &SearchSpec { matcher: &matcher, ..spec });
            helper.pass.help(|number, stop| helper.read(&mut prefilter, number, stop));
        });
        let prefilter = Prefilter::new(content, &spec);
        Self { content, expired, queue: Some((queue, prefilter)), chunk, is_slow }
    }

    // Returns true if the matcher may be slow.
    pub(super) fn is_slow(&self) -> bool {
        self.is_slow
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

// The chunks of the content from `offset` on, and memory for new ones.
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

/// Reads chunks of content, and finds the lines in them that need not be searched.
///
/// Most lines of large content do not match. A second searcher with the same settings finds the
/// matching lines block by block, while the bytes are in the processor's cache. Long runs of other
/// lines are left out of the chunks for the main searcher, and are only counted. The main searcher
/// alone decides which lines are shown.
///
/// `block` holds the bytes that were read but not searched, and free space.
struct Prefilter<'a> {
    content: &'a dyn Content,
    sizes: ReadAheadSizes,
    // `None` if no lines may be left out.
    finder: Option<MatchFinder<'a>>,
    block: Vec<u8>,
    gaps: Vec<(usize, Gap)>,
}

/// The searcher that finds matching lines. `margin` is the number of lines to keep on both sides of
/// a gap. If the search shows context, this is the maximum context, and one more line to show that
/// the lines around the gap are not adjacent.
struct MatchFinder<'a> {
    matcher: &'a LineMatcher,
    searcher: Searcher,
    margin: usize,
}

impl<'a> MatchFinder<'a> {
    fn new(spec: &SearchSpec<'a>) -> Option<Self> {
        let SearchSpec { matcher, options, .. } = *spec;
        let (before, after) = options.context();
        let context = before.max(after);
        let searcher = SearcherBuilder::new()
            .line_number(false)
            .invert_match(options.invert)
            .binary_detection(BinaryDetection::none())
            .bom_sniffing(false)
            .build();
        let margin = if context == 0 { 0 } else { context as usize + 1 };
        (context <= MAX_CONTEXT && !matcher.is_slow()).then_some(Self { matcher, searcher, margin })
    }
}

impl<'a> Prefilter<'a> {
    fn new(content: &'a dyn Content, spec: &SearchSpec<'a>) -> Self {
        let finder = MatchFinder::new(spec);
        Self { content, sizes: spec.sizes, finder, block: Vec::new(), gaps: Vec::new() }
    }

    // Reads the `length` bytes of `chunk`. Reads fewer if reading fails or `stop` returns true.
    fn fill(&mut self, chunk: &mut Chunk, length: usize, stop: &dyn Fn() -> bool) {
        let (start, mut read, mut pending) = (chunk.end(), 0, 0);
        let mut sparse = true;
        while read < length && !stop() {
            let Ok(count @ 1..) = self.read(start + read as u64, pending, length - read) else {
                break;
            };
            read += count;
            let filled = pending + count;
            let lines = if sparse { self.whole_lines(pending, filled) } else { 0 };
            if lines > 0 {
                sparse = self.judge(chunk, lines);
            }
            let judged = if sparse { lines } else { filled };
            chunk.keep(&self.block[lines..judged.max(lines)]);
            self.block.copy_within(judged..filled, 0);
            pending = filled - judged;
        }
        chunk.keep(&self.block[..pending]);
    }

    // Reads bytes to the position after the first `pending` bytes of the block. Returns the number
    // of bytes read.
    fn read(&mut self, offset: u64, pending: usize, most: usize) -> io::Result<usize> {
        let end = pending + self.sizes.block.min(most);
        if self.block.len() < end {
            self.block.resize(end, 0);
        }
        self.content.read_at(offset, &mut self.block[pending..end])
    }

    // Returns the length of the whole lines in the first `filled` bytes. No line ends in the first
    // `pending` bytes.
    fn whole_lines(&self, pending: usize, filled: usize) -> usize {
        let last = memchr::memrchr(b'\n', &self.block[pending..filled]);
        last.map_or(0, |last| pending + last + 1)
    }

    /// Searches the first `length` bytes of the block, which are whole lines, and adds them to
    /// `chunk`. Returns true if few of the lines match.
    fn judge(&mut self, chunk: &mut Chunk, length: usize) -> bool {
        let Some(finder) = &mut self.finder else {
            chunk.keep(&self.block[..length]);
            return false;
        };
        let mut lines = &self.block[..length];
        if chunk.regions.is_empty() {
            // The first line is kept, because the chunk may begin inside a line.
            let first = memchr::memchr(b'\n', lines).map_or(length, |at| at + 1);
            chunk.keep(&lines[..first]);
            lines = &lines[first..];
        }
        self.gaps.clear();
        let mut gap_finder = GapFinder {
            lines,
            margin: finder.margin,
            min_gap: self.sizes.min_gap,
            gaps: &mut self.gaps,
            end: 0,
            left: lines.len() / self.sizes.min_gap + 1,
        };
        let MatchFinder { matcher, searcher, .. } = finder;
        let searched = searcher.search_slice(*matcher, lines, &mut gap_finder);
        let sparse = searched.is_ok() && gap_finder.left > 0;
        if sparse {
            gap_finder.note(lines.len());
        }
        let mut at = 0;
        for (start, gap) in &self.gaps {
            chunk.keep(&lines[at..*start]);
            chunk.leave_out(*gap);
            at = start + gap.length;
        }
        chunk.keep(&lines[at..]);
        sparse
    }
}

/// Receives the matches in `lines`, and records the gaps between them. `end` is the offset after
/// the last match. `left` is the number of further matches after which leaving out lines no longer
/// pays off.
struct GapFinder<'a> {
    lines: &'a [u8],
    margin: usize,
    min_gap: usize,
    gaps: &'a mut Vec<(usize, Gap)>,
    end: usize,
    left: usize,
}

impl GapFinder<'_> {
    // Records the gap between the last match and `start`, unless it is too short without its
    // margins.
    fn note(&mut self, start: usize) {
        let between = &self.lines[self.end..start];
        if between.len() < self.min_gap {
            return;
        }
        let from = match self.margin.checked_sub(1) {
            None => Some(0),
            Some(last) => memchr::memchr_iter(b'\n', between).nth(last).map(|at| at + 1),
        };
        let to = memchr::memrchr_iter(b'\n', between).nth(self.margin).map(|at| at + 1);
        let (Some(from), Some(to)) = (from, to) else { return };
        if from + self.min_gap <= to {
            let lines = scan::newlines(&between[from..to]);
            self.gaps.push((self.end + from, Gap { length: to - from, lines }));
        }
    }
}

impl Sink for GapFinder<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        let start = found.absolute_byte_offset() as usize;
        self.note(start);
        self.end = start + found.bytes().len();
        self.left = self.left.saturating_sub(1);
        // Ends the search once leaving out lines no longer pays off.
        Ok(self.left > 0)
    }
}

/// Consecutive bytes of content. Lines that are left out are represented only by their place and
/// number.
#[derive(Default)]
struct Chunk {
    start: u64,
    regions: Vec<Region>,
    kept: Vec<u8>,
}

struct Region {
    start: u64,
    length: usize,
    verdict: RegionContent,
}

#[derive(Clone, Copy)]
enum RegionContent {
    // The bytes are at this offset in `Chunk::kept`.
    Kept(usize),
    // This many whole lines were left out.
    LeftOut(u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Gap {
    pub(super) length: usize,
    pub(super) lines: u64,
}

impl Region {
    fn end(&self) -> u64 {
        self.start + self.length as u64
    }
}

impl Chunk {
    // Returns an empty chunk that begins at `start`. Reuses the memory of `kept`.
    fn new(start: u64, mut kept: Vec<u8>) -> Self {
        kept.clear();
        Self { start, kept, ..Self::default() }
    }

    fn end(&self) -> u64 {
        self.regions.last().map_or(self.start, Region::end)
    }

    fn into_bytes(self) -> Vec<u8> {
        self.kept
    }

    // If most of the memory is unused, replaces it by as much as is needed and returns the old
    // memory.
    fn spare(&mut self) -> Option<Vec<u8>> {
        let wasted = self.kept.len() < self.kept.capacity() / 2;
        wasted.then(|| {
            let needed = self.kept.as_slice().to_vec();
            std::mem::replace(&mut self.kept, needed)
        })
    }

    // Appends `bytes`, which must follow the previous bytes directly.
    fn keep(&mut self, bytes: &[u8]) {
        let (start, at, length) = (self.end(), self.kept.len(), bytes.len());
        match self.regions.last_mut() {
            _ if length == 0 => {}
            Some(Region { length: before, verdict: RegionContent::Kept(_), .. }) => {
                *before += length;
            }
            _ => self.regions.push(Region { start, length, verdict: RegionContent::Kept(at) }),
        }
        self.kept.extend_from_slice(bytes);
    }

    // Leaves out the lines of `gap`, which must follow the previous bytes directly.
    fn leave_out(&mut self, gap: Gap) {
        let Gap { length, lines } = gap;
        let start = self.end();
        match self.regions.last_mut() {
            Some(Region { length: before, verdict: RegionContent::LeftOut(more), .. }) => {
                *before += length;
                *more += lines;
            }
            _ => {
                self.regions.push(Region { start, length, verdict: RegionContent::LeftOut(lines) });
            }
        }
    }

    fn region(&self, offset: u64) -> Option<&Region> {
        let at = self.regions.partition_point(|region| region.end() <= offset);
        self.regions.get(at).filter(|region| region.start <= offset)
    }

    // Returns the lines that are left out if they begin exactly at `offset`.
    fn gap(&self, offset: u64) -> Option<Gap> {
        let region = self.region(offset).filter(|region| region.start == offset)?;
        let RegionContent::LeftOut(lines) = region.verdict else { return None };
        Some(Gap { length: region.length, lines })
    }

    /// Copies kept bytes from `offset` up to the next gap. Returns the number of bytes copied,
    /// which is 0 if the byte at `offset` is not kept.
    fn copy(&self, offset: u64, buffer: &mut [u8]) -> usize {
        let Some(Region { start, length, verdict: RegionContent::Kept(at) }) = self.region(offset)
        else {
            return 0;
        };
        let skipped = (offset - start) as usize;
        let count = buffer.len().min(length - skipped);
        buffer[..count].copy_from_slice(&self.kept[at + skipped..][..count]);
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use grep_regex::RegexMatcher;
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
        ReadAheadSizes { content, chunk, block: 1000, min_gap: 100 }
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

    /// Calls `test` with a [`ReadAhead`] for a search for the letter x.
    fn with_ahead<T>(
        content: &dyn Content,
        options: &SearchOptions,
        sizes: ReadAheadSizes,
        test: impl FnOnce(&mut ReadAhead<'_>) -> T,
    ) -> T {
        let matcher = LineMatcher::Linear(RegexMatcher::new_line_matcher("x").unwrap());
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
        let much = SearchOptions { after: Some(1000), ..SearchOptions::default() };
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

    /// Content whose reads fail from some offset on, either on all threads or only on other
    /// threads.
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

    /// Content that other threads can read only after a test allows it.
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
        let (matcher, asked) =
            (LineMatcher::Linear(RegexMatcher::new_line_matcher("x").unwrap()), Cell::new(0));
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
