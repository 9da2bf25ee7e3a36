//! A first pass that finds lines which the searcher need not see.
//!
//! Most lines of a large content do not match. Here a second searcher with the same settings finds
//! those that do, block by block while the bytes are in the processor's cache. Long runs of other
//! lines are left out, and their number is noted. The matches found here are only a hint of what to
//! keep, so that all rules on what is shown stay in one place.

use std::io;

use grep_regex::RegexMatcher;
use grep_searcher::BinaryDetection;
use grep_searcher::Searcher;
use grep_searcher::SearcherBuilder;
use grep_searcher::Sink;
use grep_searcher::SinkMatch;

use crate::model::Content;
use crate::view::grep::chunk::Chunk;
use crate::view::grep::chunk::Gap;
use crate::view::query::Options;

/// Bytes that are searched at once.
const BLOCK: usize = 64 << 10;
/// Shorter runs of lines are not worth leaving out.
const SMALLEST_GAP: usize = 4 << 10;
/// With more lines of context than this, nothing is left out. This many lines fit into the
/// searcher's memory at any length, so leaving out lines cannot change how a search ends.
const MOST_CONTEXT: u64 = 30;

/// Reads chunks of a content and leaves out lines.
pub(super) struct Prefilter<'a> {
    content: &'a dyn Content,
    sizes: PrefilterSizes,
    finder: Option<MatchFinder<'a>>,
    gaps: Vec<(usize, Gap)>,
}

/// Sizes in bytes. Tests make them small.
#[derive(Debug, Clone, Copy)]
pub(super) struct PrefilterSizes {
    pub(super) block: usize,
    pub(super) smallest_gap: usize,
}

impl Default for PrefilterSizes {
    fn default() -> Self {
        Self { block: BLOCK, smallest_gap: SMALLEST_GAP }
    }
}

/// The searcher that finds matching lines.
struct MatchFinder<'a> {
    matcher: &'a RegexMatcher,
    searcher: Searcher,
    /// Lines to keep on both sides of a gap: the possible context, and one more to show that the
    /// lines around the gap are not adjacent.
    margin: usize,
}

impl<'a> MatchFinder<'a> {
    fn new(matcher: &'a RegexMatcher, options: &Options) -> Option<Self> {
        let context = if options.count { 0 } else { options.before.max(options.after) };
        let searcher = SearcherBuilder::new()
            .line_number(false)
            .invert_match(options.invert)
            .binary_detection(BinaryDetection::none())
            .bom_sniffing(false)
            .build();
        let margin = if context == 0 { 0 } else { context as usize + 1 };
        (context <= MOST_CONTEXT).then_some(Self { matcher, searcher, margin })
    }

    fn find(&mut self, lines: &[u8], gap_finder: &mut GapFinder<'_>) -> io::Result<()> {
        self.searcher.search_slice(self.matcher, lines, gap_finder)
    }
}

impl<'a> Prefilter<'a> {
    pub(super) fn new(
        content: &'a dyn Content,
        matcher: &'a RegexMatcher,
        options: &Options,
        sizes: PrefilterSizes,
    ) -> Self {
        Self { content, sizes, finder: MatchFinder::new(matcher, options), gaps: Vec::new() }
    }

    /// Returns true if lines may be left out.
    pub(super) fn has_gaps(&self) -> bool {
        self.finder.is_some()
    }

    /// Reads the `length` bytes of `chunk`, or fewer if reading fails or `stop` returns true.
    pub(super) fn fill(&mut self, chunk: &mut Chunk, length: usize, stop: &dyn Fn() -> bool) {
        let mut sparse = true;
        while !stop()
            && let Ok(count @ 1..) = chunk.read(self.content, length, self.sizes.block)
        {
            sparse = sparse && self.judge(chunk, count);
        }
        chunk.keep(chunk.pending().len());
    }

    /// Judges the whole lines that are pending, the last of which ends in the last `count` bytes.
    /// Returns true if that was worth it.
    fn judge(&mut self, chunk: &mut Chunk, count: usize) -> bool {
        let pending = chunk.pending();
        let old = pending.len() - count;
        let Some(last) = memchr::memrchr(b'\n', &pending[old..]) else { return true };
        let mut length = old + last + 1;
        if chunk.is_new() {
            // The chunk may begin inside a line.
            let first = memchr::memchr(b'\n', pending).map_or(length, |at| at + 1);
            chunk.keep(first);
            length -= first;
        }
        self.leave_out_gaps(chunk, length)
    }

    /// Judges the next `length` bytes, which are whole lines. Returns true if few of them match.
    fn leave_out_gaps(&mut self, chunk: &mut Chunk, length: usize) -> bool {
        let Some(finder) = &mut self.finder else { return false };
        let lines = &chunk.pending()[..length];
        self.gaps.clear();
        let mut gap_finder = GapFinder {
            lines,
            margin: finder.margin,
            smallest: self.sizes.smallest_gap,
            gaps: &mut self.gaps,
            end: 0,
            left: length / self.sizes.smallest_gap + 1,
        };
        let sparse = finder.find(lines, &mut gap_finder).is_ok() && gap_finder.left > 0;
        if sparse {
            gap_finder.note(length);
        }
        let mut at = 0;
        for (start, gap) in &self.gaps {
            chunk.keep(start - at);
            chunk.leave_out(*gap);
            at = start + gap.length;
        }
        chunk.keep(length - at);
        sparse
    }
}

/// Takes the matches in some lines, and notes the gaps between them.
struct GapFinder<'a> {
    lines: &'a [u8],
    margin: usize,
    smallest: usize,
    /// The gaps, with their offsets.
    gaps: &'a mut Vec<(usize, Gap)>,
    /// The end of the last match.
    end: usize,
    /// Matches that may still come before leaving out lines is not worth it.
    left: usize,
}

impl GapFinder<'_> {
    /// Notes the gap between the last match and `start`.
    fn note(&mut self, start: usize) {
        let between = &self.lines[self.end..start];
        if between.len() < self.smallest {
            return;
        }
        let from = match self.margin.checked_sub(1) {
            None => Some(0),
            Some(last) => memchr::memchr_iter(b'\n', between).nth(last).map(|at| at + 1),
        };
        let to = memchr::memrchr_iter(b'\n', between).nth(self.margin).map(|at| at + 1);
        let (Some(from), Some(to)) = (from, to) else { return };
        if from + self.smallest <= to {
            let lines = memchr::memchr_iter(b'\n', &between[from..to]).count() as u64;
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
        Ok(self.left > 0)
    }
}
