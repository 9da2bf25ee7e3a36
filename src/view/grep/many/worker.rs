//! The part of a search of many artifacts that a single thread performs.

use std::io::Write;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::{io, mem};

use grep_searcher::Searcher;
use parking_lot::Mutex;

use crate::Query;
use crate::grep::CompiledPattern;
use crate::grep::corpus::{Corpus, Directory, Loaded, PathFilter, Visited};
use crate::grep::fold::{BOM, LineMap, SearchStart};
use crate::grep::matcher::LineMatcher;
use crate::grep::page::{CutPoint, Page};
use crate::grep::read_ahead::{ReadAheadSizes, SearchSpec};
use crate::grep::report::MatchReport;
use crate::grep::{self, fold, report};
use crate::query::SearchOptions;
use crate::range::TextPosition;
use ctxfs_core::model::{Content, view_bytes};
use ctxfs_core::redact::Masked;

pub(super) const START: TextPosition = TextPosition { line: 1, column: 1 };
// Artifacts below this size are read whole. None of their lines has to be searched in pieces.
const WHOLE_BYTES: usize = fold::PIECE;
// Maximum size in bytes of the matches in one artifact that wait for their turn, if the result has
// no limit.
const MAX_BUFFERED: usize = 1 << 20;
// The weight of an open file, expressed as bytes of waiting text. It is high so that few files are
// open.
const OPEN_WEIGHT: usize = 1 << 20;

pub(super) struct CorpusSearch<'a> {
    pub(super) query: &'a Query,
    pub(super) directory: Directory<'a>,
    pub(super) corpus: &'a dyn Corpus,
    pub(super) expired: &'a (dyn Fn() -> bool + Sync),
    pub(super) pattern: CompiledPattern,
    pub(super) paths: PathFilter,
    pub(super) first: SearchFrom,
    // True once the result is full. Further matches are then only counted.
    pub(super) full: AtomicBool,
    // Held while a large artifact is searched, because that search uses several threads itself.
    pub(super) alone: Mutex<()>,
}

/// The place where a search begins. `shown` is the number of matching lines of the artifact that
/// were shown before. `missing` is true if the artifact that the query names does not exist.
pub(super) struct SearchFrom {
    pub(super) artifact: usize,
    pub(super) at: Option<TextPosition>,
    pub(super) shown: u64,
    pub(super) missing: bool,
}

impl SearchFrom {
    pub(super) fn of(options: &SearchOptions, corpus: &dyn Corpus) -> Self {
        let Some(mark) = &options.resume else {
            return Self { artifact: 0, at: None, shown: 0, missing: false };
        };
        match (0..corpus.len()).find(|number| *corpus.path(*number) == mark.artifact) {
            None => Self { artifact: 0, at: None, shown: 0, missing: true },
            Some(artifact) => {
                let at = Some(mark.at).filter(|at| *at != START);
                Self { artifact, at, shown: mark.shown, missing: false }
            }
        }
    }

    fn begins_inside(&self, number: usize) -> bool {
        number == self.artifact && (self.at.is_some() || self.shown > 0)
    }
}

impl<'a> CorpusSearch<'a> {
    pub(super) fn new(
        query: &'a Query,
        directory: &Directory<'a>,
        expired: &'a (dyn Fn() -> bool + Sync),
    ) -> io::Result<Self> {
        let (directory, corpus, pattern) = (*directory, directory.corpus, grep::build(query)?);
        let first = SearchFrom::of(query.options(), corpus);
        let paths = PathFilter::new(&query.options().globs);
        let (full, alone) = (AtomicBool::new(false), Mutex::default());
        Ok(Self { query, directory, corpus, expired, pattern, paths, first, full, alone })
    }

    pub(super) fn path(&self, query: &Query) -> String {
        self.directory.place.of_view(&format!("/.grep/{query}")).file()
    }

    // Returns the maximum size in bytes of the result and its notices, without the notice about
    // redaction.
    pub(super) fn view_bytes(&self) -> usize {
        view_bytes(self.directory.redacts.is_some())
    }

    pub(super) fn is_endless(&self) -> bool {
        self.query.options().max == Some(0)
    }

    // Returns true if matches in a large artifact are written as they are found.
    fn streams(&self) -> bool {
        self.is_endless() && !self.lists_artifacts()
    }

    // Returns true if the result has one line for each artifact instead of one line for each match.
    pub(super) fn lists_artifacts(&self) -> bool {
        !self.query.options().shows_lines()
    }

    // Returns true if `--` separates the matches in two artifacts.
    pub(super) fn has_context(&self) -> bool {
        self.query.options().context() != (0, 0)
    }

    pub(super) fn options_of(&self, number: Option<usize>) -> SearchOptions {
        let mut options = SearchOptions { resume: None, ..self.query.options().clone() };
        if number == Some(self.first.artifact) {
            options.from = self.first.at;
            let left = |max: u64| max.saturating_sub(self.first.shown).max(1);
            options.max = options.max.map(|max| if max == 0 { 0 } else { left(max) });
        }
        if options.names && !options.count {
            options.max = Some(1);
            options.only_matching = false;
        }
        // A list of artifacts shows no lines.
        options.count = self.lists_artifacts();
        options
    }

    pub(super) fn name(&self, number: usize) -> &[u8] {
        self.corpus.path(number).as_os_str().as_bytes()
    }

    pub(super) fn text(&self, number: usize) -> String {
        self.corpus.path(number).to_text()
    }
}

pub(super) struct ArtifactSearcher<'a> {
    search: &'a CorpusSearch<'a>,
    // A clone for this thread. Threads that share a matcher would contend for its memory.
    matcher: LineMatcher,
    // The options for all artifacts except possibly the first.
    options: SearchOptions,
    searcher: Searcher,
    buffer: Vec<u8>,
}

impl<'a> ArtifactSearcher<'a> {
    pub(super) fn new(search: &'a CorpusSearch<'a>) -> Self {
        let matcher = search.pattern.matcher.clone();
        let options = search.options_of(None);
        let searcher = report::searcher(&options);
        Self { search, matcher, options, searcher, buffer: vec![0; WHOLE_BYTES] }
    }

    pub(super) fn search(&mut self, number: usize) -> Visited<ArtifactOutcome> {
        let mut buffer = mem::take(&mut self.buffer);
        let visited = if self.search.paths.has(self.search.corpus.path(number)) {
            Visited::by(self.search.expired, || self.load(number, &mut buffer))
        } else {
            Visited::Gone
        };
        self.buffer = buffer;
        visited
    }

    fn load(&mut self, number: usize, buffer: &mut [u8]) -> io::Result<Visited<ArtifactOutcome>> {
        let content: Box<dyn Content> = match self.search.corpus.load(number, buffer)? {
            Loaded::Gone => return Ok(Visited::Gone),
            Loaded::Closed => return Ok(Visited::Closed),
            Loaded::Binary => return Ok(Visited::Binary),
            // Reading checks the time as often as a slow matcher needs it.
            Loaded::Whole(length)
                if !self.search.first.begins_inside(number) && !self.matcher.is_slow() =>
            {
                self.mask(&mut buffer[..length])?;
                return self.search_whole(number, &buffer[..length]).map(Visited::Done);
            }
            Loaded::Whole(length) => Box::new(buffer[..length].to_vec()),
            Loaded::Opened(content) => content,
        };
        Ok(Visited::Done(if self.search.streams() {
            ArtifactOutcome::Later(content)
        } else {
            let matches = self.search_content(number, &*content, false, &mut io::sink())?;
            ArtifactOutcome::Searched(matches)
        }))
    }

    fn mask(&self, bytes: &mut [u8]) -> io::Result<()> {
        let Some(rules) = self.search.directory.redacts else { return Ok(()) };
        let content = bytes.to_vec();
        Masked::new(&content, rules).read_at(0, bytes).map(|_| ())
    }

    // Searches all of `bytes`. No line in it may be long enough to be searched in pieces.
    fn search_whole(&mut self, number: usize, bytes: &[u8]) -> io::Result<ArtifactOutcome> {
        let mut kept = BoundedBuffer(Vec::new());
        let page = self.page(number, &mut kept);
        let skipped = if bytes.starts_with(BOM) { BOM.len() } else { 0 };
        let line_map = LineMap::new(skipped as u64, START, skipped as u64);
        let mut report = MatchReport::new(&self.matcher, &self.options, &line_map, page);
        let text = &bytes[skipped..];
        let searched = self.searcher.search_slice(&self.matcher, text, &mut report);
        if let Err(error) = searched.and_then(|()| self.flush(&mut report)) {
            let too_much = report.page.failed;
            let later = || ArtifactOutcome::Later(Box::new(bytes.to_vec()));
            return if too_much { Ok(later()) } else { Err(error) };
        }
        let mut matches = self.matches(number, report, SearchEnd::Whole)?;
        if self.search.streams() {
            matches.text = kept.0;
        }
        Ok(ArtifactOutcome::Searched(matches))
    }

    /// Searches `content` from the start of the query. If the result has no limit, writes matches
    /// to `out` as they are found, after a `--` if `gap` is true.
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
        let line_map = match fold::start(content, options.from, expired)? {
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
            options: &options,
            sizes: ReadAheadSizes::default(),
        };
        let _alone = (content.len() >= spec.sizes.content).then(|| self.search.alone.lock());
        let out_of_memory = report::search(content, spec, expired, &mut report)?;
        let end = match line_map.position() {
            at if line_map.out_of_time.get() => SearchEnd::OutOfTime(at),
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
            return ArtifactMatches::listed(name, self.search.query.options(), &report, end);
        }
        Ok(ArtifactMatches::of(report, end))
    }

    /// Returns a page for the matches in the artifact. If the result is full, the page drops all
    /// text.
    fn page<'p>(&self, number: usize, out: &'p mut dyn Write) -> Page<'p>
    where
        'a: 'p,
    {
        let shows_name = self.search.query.options().named != Some(false);
        let name = if shows_name { self.search.name(number) } else { b"" };
        let mut page = Page::new(out, self.search.streams()).of(name);
        page = page.at_most(self.search.view_bytes());
        if self.search.full.load(Relaxed) {
            page.full = true;
        }
        page
    }

    // Writes the pending matches, but only if the result has no limit.
    fn flush(&self, report: &mut MatchReport<'_>) -> io::Result<()> {
        if self.search.streams() { report.page.flush() } else { Ok(()) }
    }
}

// A buffer that fails to accept more than its maximum size.
struct BoundedBuffer(Vec<u8>);

impl Write for BoundedBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_BUFFERED {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub(super) enum ArtifactOutcome {
    Searched(ArtifactMatches),
    // The matches may be too large to hold in memory. The artifact is searched when its turn comes.
    Later(Box<dyn Content>),
}

/// The matches in one artifact, as ripgrep prints them, cut once the result is full. `lines` is the
/// number of matching lines. `windowed` is the first line that is shown only as windows.
#[derive(Default)]
pub(super) struct ArtifactMatches {
    pub(super) text: Vec<u8>,
    pub(super) cuts: Vec<CutPoint>,
    pub(super) lines: u64,
    pub(super) windowed: Option<TextPosition>,
    pub(super) end: SearchEnd,
}

#[derive(Default)]
pub(super) enum SearchEnd {
    #[default]
    Whole,
    OutOfTime(TextPosition),
    // Lines and their context did not fit into memory. The search stopped before this line.
    OutOfMemory(u64),
}

impl ArtifactOutcome {
    pub(super) fn weight(visited: &Visited<Self>) -> usize {
        match visited {
            Visited::Done(Self::Searched(matches)) => {
                matches.text.len() + matches.cuts.len() * size_of::<CutPoint>()
            }
            Visited::Done(Self::Later(_)) => OPEN_WEIGHT,
            _ => 0,
        }
    }
}

impl ArtifactMatches {
    pub(super) fn of(report: MatchReport<'_>, end: SearchEnd) -> Self {
        let (lines, windowed) = (report.lines, report.windowed);
        let (text, cuts) = report.page.into_text();
        Self { text, cuts, lines, windowed, end }
    }

    /// Returns the line for an artifact in a list: `x.txt:3` for `-c`, `x.txt` for `-l`, and
    /// nothing if there is no match. `-L` lists the artifacts without a match instead.
    pub(super) fn listed(
        name: &[u8],
        options: &SearchOptions,
        report: &MatchReport<'_>,
        end: SearchEnd,
    ) -> io::Result<Self> {
        let mut text = Vec::new();
        let is_listed = (report.count() > 0) != options.without;
        if is_listed && options.names && !options.count {
            text.extend_from_slice(name);
            text.push(b'\n');
        } else if is_listed {
            if options.named != Some(false) {
                text.extend_from_slice(name);
                text.push(b':');
            }
            writeln!(text, "{}", report.count())?;
        }
        let lines = if options.without { u64::from(is_listed) } else { report.lines };
        Ok(Self { text, lines, end, ..Self::default() })
    }
}
