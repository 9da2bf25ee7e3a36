//! The search of one artifact after the other.

use std::io;
use std::io::Write;
use std::mem;
use std::sync::atomic::Ordering::Relaxed;

use grep_regex::RegexMatcher;
use grep_searcher::Searcher;

use crate::materialize::SNIFFED;
use crate::materialize::is_binary;
use crate::model::Content;
use crate::redact::Masked;
use crate::view::grep;
use crate::view::grep::BOM;
use crate::view::grep::Start;
use crate::view::grep::ahead::Seek;
use crate::view::grep::ahead::Sizes;
use crate::view::grep::corpus::Loaded;
use crate::view::grep::corpus::START;
use crate::view::grep::corpus::Search;
use crate::view::grep::corpus::part::End;
use crate::view::grep::corpus::part::Outcome;
use crate::view::grep::corpus::part::Part;
use crate::view::grep::fold;
use crate::view::grep::fold::Trace;
use crate::view::grep::page::Page;
use crate::view::grep::report::Report;
use crate::view::query::Options;

/// Bytes of an artifact that is read whole: as many as a line may have that is searched at once.
const WHOLE: usize = fold::PIECE;
/// Bytes that are kept of what was found in one artifact, where the result has no limit.
const KEPT: usize = 1 << 20;

/// Searches artifacts. Each thread has its own.
pub(super) struct Worker<'a> {
    search: &'a Search<'a>,
    /// A clone, which has memory of its own to search in.
    matcher: RegexMatcher,
    /// Of all artifacts but, maybe, the first.
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

    /// Searches the artifact `number`.
    pub(super) fn search(&mut self, number: usize) -> Outcome {
        if (self.search.expired)() {
            return Outcome::NotBegun;
        }
        let mut buffer = mem::take(&mut self.buffer);
        let outcome = self.load(number, &mut buffer).unwrap_or_else(Outcome::Unreadable);
        self.buffer = buffer;
        outcome
    }

    fn load(&mut self, number: usize, buffer: &mut [u8]) -> io::Result<Outcome> {
        let content: Box<dyn Content> = match self.search.corpus.load(number, buffer)? {
            Loaded::Gone => return Ok(Outcome::Gone),
            Loaded::Whole(length) if is_binary(&buffer[..length]) => return Ok(Outcome::Binary),
            Loaded::Whole(length) if !self.search.first.begins_inside(number) => {
                self.mask(&mut buffer[..length])?;
                return self.search_whole(number, &buffer[..length]);
            }
            Loaded::Whole(length) => Box::new(buffer[..length].to_vec()),
            Loaded::Opened(content) if is_binary(&content.bytes(0, SNIFFED)?) => {
                return Ok(Outcome::Binary);
            }
            Loaded::Opened(content) => content,
        };
        if self.search.streams() {
            return Ok(Outcome::Later(content));
        }
        self.search_content(number, &*content, false, &mut io::sink()).map(Outcome::Searched)
    }

    /// Masks the secrets in a whole artifact.
    fn mask(&self, bytes: &mut [u8]) -> io::Result<()> {
        let Some(rules) = self.search.directory.redacts else { return Ok(()) };
        let content = bytes.to_vec();
        Masked::new(&content, rules).read_at(0, bytes).map(|_| ())
    }

    /// Searches all of `bytes`, in which no line is too long to be searched at once.
    fn search_whole(&mut self, number: usize, bytes: &[u8]) -> io::Result<Outcome> {
        let mut kept = Kept(Vec::new());
        let page = self.page(number, &mut kept);
        let skipped = if bytes.starts_with(BOM) { BOM.len() } else { 0 };
        let trace = Trace::new(skipped as u64, START, skipped as u64);
        let mut report = Report::new(&self.matcher, &self.options, &trace, page);
        let text = &bytes[skipped..];
        let searched = self.searcher.search_slice(&self.matcher, text, &mut report);
        if let Err(error) = searched.and_then(|()| self.flush(&mut report)) {
            let too_much = report.page.failed();
            let later = || Outcome::Later(Box::new(bytes.to_vec()));
            return if too_much { Ok(later()) } else { Err(error) };
        }
        let mut part = self.part(number, report, End::Whole)?;
        if self.search.streams() {
            part.text = kept.0;
        }
        Ok(Outcome::Searched(part))
    }

    /// Searches a content from where the query says. Where the result has no limit, what is found
    /// goes to `out` as it is found, after a `--` where `gap` says so.
    pub(super) fn search_content(
        &self,
        number: usize,
        content: &dyn Content,
        gap: bool,
        out: &mut dyn Write,
    ) -> io::Result<Part> {
        let masked = self.search.directory.redacts.map(|rules| Masked::new(content, rules));
        let content = masked.as_ref().map_or(content, |masked| masked as &dyn Content);
        let options = self.search.options_of(Some(number));
        let expired = self.search.expired;
        let trace = match grep::start(content, options.from, expired)? {
            Start::At(trace) => trace,
            Start::Beyond => return Ok(Part::default()),
            Start::OutOfTime(_) => {
                let end = End::OutOfTime(options.from.unwrap_or(START));
                return Ok(Part { end, ..Part::default() });
            }
        };
        let page = self.page(number, out);
        let mut report = Report::new(&self.matcher, &options, &trace, page);
        report.gap = gap;
        let seek = Seek { matcher: &self.matcher, options: &options, sizes: Sizes::default() };
        let _alone = (content.len() >= seek.sizes.content).then(|| self.search.alone());
        let crowded = grep::report_on(content, seek, expired, &mut report)?;
        let end = match trace.position() {
            at if trace.out_of_time() => End::OutOfTime(at),
            at if crowded => End::Crowded(at.line),
            _ => End::Whole,
        };
        self.flush(&mut report)?;
        self.part(number, report, end)
    }

    fn part(&self, number: usize, report: Report<'_>, end: End) -> io::Result<Part> {
        if self.search.lists_artifacts() {
            let name = self.search.name(number);
            return Part::listed(name, self.search.options(), &report, end);
        }
        Ok(Part::of(report, end))
    }

    /// A page for what is found in the artifact; one that takes nothing, where nothing has room.
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

    /// Without a limit, nothing stays in the page.
    fn flush(&self, report: &mut Report<'_>) -> io::Result<()> {
        if self.search.streams() { report.page.flush() } else { Ok(()) }
    }
}

/// Keeps what is written, as long as it is not too much.
struct Kept(Vec<u8>);

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > KEPT {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
