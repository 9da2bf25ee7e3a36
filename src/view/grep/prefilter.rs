//! A first pass that finds lines which the searcher need not see.
//!
//! Most lines of a large content do not match. A second searcher with the same settings finds the
//! matching lines block by block, while the bytes are in the processor's cache. Long runs of other
//! lines are left out of the chunks for the main searcher, and are only counted. The matches that
//! this pass finds only determine which lines to keep. All rules about what is shown stay in the
//! main searcher.

use std::io;

use grep_regex::RegexMatcher;
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkMatch};

use crate::query::SearchOptions;
use crate::scan;
use ctxfs_core::model::Content;

// Number of bytes that are read and searched at once. It is large enough to make the overhead of a
// read call small, and small enough for the cache of one processor.
const BLOCK_BYTES: usize = 128 << 10;
// Runs of lines shorter than this number of bytes are not left out.
const MIN_GAP: usize = 4 << 10;
// If a search has more lines of context than this, nothing is left out. This many lines of any
// length fit into the searcher's memory, so leaving out lines cannot change how a search ends.
const MAX_CONTEXT: u64 = 30;

/// Reads chunks of a content and leaves out lines. `block` holds the bytes that were read but not
/// searched, and free space.
pub(super) struct Prefilter<'a> {
    content: &'a dyn Content,
    sizes: PrefilterSizes,
    // `None` if no lines may be left out.
    pub(super) finder: Option<MatchFinder<'a>>,
    block: Vec<u8>,
    gaps: Vec<(usize, Gap)>,
}

// Sizes in bytes. Tests use small ones.
#[derive(Debug, Clone, Copy)]
pub(super) struct PrefilterSizes {
    pub(super) block: usize,
    pub(super) min_gap: usize,
}

impl Default for PrefilterSizes {
    fn default() -> Self {
        Self { block: BLOCK_BYTES, min_gap: MIN_GAP }
    }
}

/// The searcher that finds matching lines. `margin` is the number of lines to keep on both sides of
/// a gap: the maximum context, and one more line to show that the lines around the gap are not
/// adjacent.
pub(super) struct MatchFinder<'a> {
    matcher: &'a RegexMatcher,
    searcher: Searcher,
    margin: usize,
}

impl<'a> MatchFinder<'a> {
    fn new(matcher: &'a RegexMatcher, options: &SearchOptions) -> Option<Self> {
        let context = if options.count { 0 } else { options.before.max(options.after) };
        let searcher = SearcherBuilder::new()
            .line_number(false)
            .invert_match(options.invert)
            .binary_detection(BinaryDetection::none())
            .bom_sniffing(false)
            .build();
        let margin = if context == 0 { 0 } else { context as usize + 1 };
        (context <= MAX_CONTEXT).then_some(Self { matcher, searcher, margin })
    }
}

impl<'a> Prefilter<'a> {
    pub(super) fn new(
        content: &'a dyn Content,
        matcher: &'a RegexMatcher,
        options: &SearchOptions,
        sizes: PrefilterSizes,
    ) -> Self {
        let finder = MatchFinder::new(matcher, options);
        Self { content, sizes, finder, block: Vec::new(), gaps: Vec::new() }
    }

    // Reads the `length` bytes of `chunk`. Reads fewer if reading fails or `stop` returns true.
    pub(super) fn fill(&mut self, chunk: &mut Chunk, length: usize, stop: &dyn Fn() -> bool) {
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

/// Receives the matches in some lines, and records the gaps between them. `end` is the offset after
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
    // Records the gap between the last match and `start`.
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

/// Consecutive bytes of a content. Lines that are left out are represented only by their place and
/// number.
#[derive(Default)]
pub(super) struct Chunk {
    start: u64,
    regions: Vec<Region>,
    pub(super) kept: Vec<u8>,
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
    pub(super) fn new(start: u64, mut kept: Vec<u8>) -> Self {
        kept.clear();
        Self { start, kept, ..Self::default() }
    }

    pub(super) fn end(&self) -> u64 {
        self.regions.last().map_or(self.start, Region::end)
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.kept
    }

    // If most of the memory is unused, replaces it by as much as is needed and returns the old
    // memory.
    pub(super) fn spare(&mut self) -> Option<Vec<u8>> {
        let wasted = self.kept.len() < self.kept.capacity() / 2;
        wasted.then(|| {
            let needed = self.kept.as_slice().to_vec();
            std::mem::replace(&mut self.kept, needed)
        })
    }

    // Appends `bytes`, which must follow the previous bytes directly.
    pub(super) fn keep(&mut self, bytes: &[u8]) {
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
    pub(super) fn leave_out(&mut self, gap: Gap) {
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
    pub(super) fn gap(&self, offset: u64) -> Option<Gap> {
        let region = self.region(offset).filter(|region| region.start == offset)?;
        let RegionContent::LeftOut(lines) = region.verdict else { return None };
        Some(Gap { length: region.length, lines })
    }

    /// Copies kept bytes from `offset` up to the next gap. Returns the number of bytes copied,
    /// which is 0 if the byte at `offset` is not kept.
    pub(super) fn copy(&self, offset: u64, buffer: &mut [u8]) -> usize {
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
