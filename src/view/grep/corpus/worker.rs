use std::io::Write;
use std::sync::atomic::Ordering::Relaxed;
use std::{io, mem};

use grep_regex::RegexMatcher;
use grep_searcher::Searcher;

use crate::grep;
use crate::grep::corpus::matches::{ArtifactMatches, ArtifactOutcome, SearchEnd};
use crate::grep::corpus::{Loaded, START, Search};
use crate::grep::fold::LineMap;
use crate::grep::page::Page;
use crate::grep::read_ahead::{ReadAheadSizes, SearchSpec};
use crate::grep::report::MatchReport;
use crate::grep::{BOM, SearchStart, fold};
use crate::query::Options;
use ctxfs_core::materialize::{SNIFFED, is_binary};
use ctxfs_core::model::Content;
use ctxfs_core::redact::Masked;

// An artifact below this size is read whole: none of its lines has to be searched in pieces.
const WHOLE: usize = fold::PIECE;
// The most bytes of matches in one artifact that wait for their turn, if the result has no limit.
const MOST_BUFFERED: usize = 1 << 20;

/// Searches artifacts. Each thread has its own worker.
pub(super) struct Worker<'a> {
    search: &'a Search<'a>,
    // A clone: threads that share a matcher wait for its memory.
    matcher: RegexMatcher,
    // For all artifacts except possibly the first.
    options: Options,
    searcher: Searcher,
    buffer: Vec<u8>,
}

impl<'a> Worker<'a> {
    pub(super) fn new(search: &'a Search<'a>) -> Self {
        let matcher = search.pattern.matcher.clone();
        let options = search.options_of(None);
        let searcher = grep::searcher(&options);
        Self { search, matcher, options, searcher, buffer: vec![0; WHOLE] }
    }

    pub(super) fn search(&mut self, number: usize) -> ArtifactOutcome {
        if (self.search.expired)() {
            return ArtifactOutcome::NotBegun;
        }
        let mut buffer = mem::take(&mut self.buffer);
        let outcome = self.load(number, &mut buffer).unwrap_or_else(|error| {
            let late = error.kind() == io::ErrorKind::TimedOut && (self.search.expired)();
            if late { ArtifactOutcome::NotBegun } else { ArtifactOutcome::Unreadable(error) }
        });
        self.buffer = buffer;
        outcome
    }

    fn load(&mut self, number: usize, buffer: &mut [u8]) -> io::Result<ArtifactOutcome> {
        let content: Box<dyn Content> = match self.search.corpus.load(number, buffer)? {
            Loaded::Gone => return Ok(ArtifactOutcome::Gone),
            Loaded::Closed => return Ok(ArtifactOutcome::Closed),
            Loaded::Whole(length) if is_binary(&buffer[..length]) => {
                return Ok(ArtifactOutcome::Binary);
            }
            Loaded::Whole(length) if !self.search.first.begins_inside(number) => {
                self.mask(&mut buffer[..length])?;
                return self.search_whole(number, &buffer[..length]);
            }
            Loaded::Whole(length) => Box::new(buffer[..length].to_vec()),
            Loaded::Opened(content) if is_binary(&content.bytes(0, SNIFFED)?) => {
                return Ok(ArtifactOutcome::Binary);
            }
            Loaded::Opened(content) => content,
        };
        if self.search.streams() {
            return Ok(ArtifactOutcome::Later(content));
        }
        self.search_content(number, &*content, false, &mut io::sink())
            .map(ArtifactOutcome::Searched)
    }

    fn mask(&self, bytes: &mut [u8]) -> io::Result<()> {
        let Some(rules) = self.search.directory.redacts else { return Ok(()) };
        let content = bytes.to_vec();
        Masked::new(&content, rules).read_at(0, bytes).map(|_| ())
    }

    /// Searches all of `bytes`, none of whose lines has to be searched in pieces.
    fn search_whole(&mut self, number: usize, bytes: &[u8]) -> io::Result<ArtifactOutcome> {
        let mut kept = BoundedBuffer(Vec::new());
        let page = self.page(number, &mut kept);
        let skipped = if bytes.starts_with(BOM) { BOM.len() } else { 0 };
        let line_map = LineMap::new(skipped as u64, START, skipped as u64);
        let mut report = MatchReport::new(&self.matcher, &self.options, &line_map, page);
        let text = &bytes[skipped..];
        let searched = self.searcher.search_slice(&self.matcher, text, &mut report);
        if let Err(error) = searched.and_then(|()| self.flush(&mut report)) {
            let too_much = report.page.failed();
            let later = || ArtifactOutcome::Later(Box::new(bytes.to_vec()));
            return if too_much { Ok(later()) } else { Err(error) };
        }
        let mut matches = self.matches(number, report, SearchEnd::Whole)?;
        if self.search.streams() {
            matches.text = kept.0;
        }
        Ok(ArtifactOutcome::Searched(matches))
    }

    /// Searches a content from the place where the query begins. If the result has no limit, writes
    /// matches to `out` as they are found, after a `--` if `gap` is true.
    pub(super) fn search_content(
        &self,
        number: usize,
        content: &dyn Content,
        gap: bool,
        out: &mut dyn Write,
    ) -> io::Result<ArtifactMatches> {
        let masked = self.search.directory.redacts.map(|rules| Masked::new(content, rules));
        let content = masked.as_ref().map_or(content, |masked| masked as &dyn Content);
        let options = self.search.options_of(Some(number));
        let expired = self.search.expired;
        let line_map = match grep::start(content, options.from, expired)? {
            SearchStart::At(line_map) => line_map,
            SearchStart::Beyond => return Ok(ArtifactMatches::default()),
            SearchStart::OutOfTime(_) => {
                let end = SearchEnd::OutOfTime(options.from.unwrap_or(START));
                return Ok(ArtifactMatches { end, ..ArtifactMatches::default() });
            }
        };
        let page = self.page(number, out);
        let mut report = MatchReport::new(&self.matcher, &options, &line_map, page);
        report.gap = gap;
        let spec = SearchSpec {
            matcher: &self.matcher,
            ..self.search.pattern.spec(&options, ReadAheadSizes::default())
        };
        let _alone = (content.len() >= spec.sizes.content).then(|| self.search.alone());
        let out_of_memory = grep::report_on(content, spec, expired, &mut report)?;
        let end = match line_map.position() {
            at if line_map.out_of_time() => SearchEnd::OutOfTime(at),
            at if out_of_memory => SearchEnd::OutOfMemory(at.line),
            _ => SearchEnd::Whole,
        };
        self.flush(&mut report)?;
        self.matches(number, report, end)
    }

    fn matches(
        &self,
        number: usize,
        report: MatchReport<'_>,
        end: SearchEnd,
    ) -> io::Result<ArtifactMatches> {
        if self.search.lists_artifacts() {
            let name = self.search.name(number);
            return ArtifactMatches::listed(name, self.search.options(), &report, end);
        }
        Ok(ArtifactMatches::of(report, end))
    }

    /// Returns a page for the matches in the artifact. The page drops everything if the result is
    /// full.
    fn page<'p>(&self, number: usize, out: &'p mut dyn Write) -> Page<'p>
    where
        'a: 'p,
    {
        let name = self.search.name(number);
        let mut page = Page::new(out, self.search.streams()).of(name);
        page = page.at_most(self.search.view_bytes());
        if self.search.full.load(Relaxed) {
            page.close();
        }
        page
    }

    // Only a result without a limit is written as it comes.
    fn flush(&self, report: &mut MatchReport<'_>) -> io::Result<()> {
        if self.search.streams() { report.page.flush() } else { Ok(()) }
    }
}

// Fails once it would hold too much.
struct BoundedBuffer(Vec<u8>);

impl Write for BoundedBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MOST_BUFFERED {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
