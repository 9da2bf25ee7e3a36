//! The search itself, and a report of its matches in ripgrep's output format.

use std::borrow::Cow;
use std::ops::Range;
use std::{fmt, io, mem};

use grep_matcher::Matcher as _;
use grep_searcher::{
    BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkContextKind, SinkMatch,
};

use crate::grep::fold::{FoldedReader, LineMap, LinePiece};
use crate::grep::matcher::LineMatcher;
use crate::grep::page;
use crate::grep::page::Page;
use crate::grep::read_ahead::{ReadAhead, SearchSpec};
use crate::query::SearchOptions;
use crate::range::TextPosition;
use ctxfs_core::model::Content;

// Maximum size in bytes of the lines that are held as possible context of a match.
const CONTEXT_BYTES: usize = 64 << 20;

/// Prints the matches of a search to a page, and counts them.
///
/// `lines` counts matching lines. `matches` counts matches if the options require it. `windowed` is
/// the first line that is shown only as windows. `line` is the last line that matched, and `after`
/// is the number of lines of context that may still follow. If `gap` is true, `--` is printed
/// before the next line.
pub(super) struct MatchReport<'a> {
    matcher: &'a LineMatcher,
    options: &'a SearchOptions,
    line_map: &'a LineMap,
    pub(super) page: Page<'a>,
    pub(super) lines: u64,
    matches: u64,
    pub(super) windowed: Option<TextPosition>,
    line: u64,
    after: u64,
    pub(super) gap: bool,
    inverted: Inverted,
}

/// A line that is searched in pieces under `-v`. It is shown if none of its pieces matches.
/// `pieces` is the number of pieces so far without a match. `at` and `start` are the position and
/// the text to show.
#[derive(Default)]
struct Inverted {
    line: u64,
    pieces: u64,
    at: TextPosition,
    start: Vec<u8>,
}

/// A line as received from the searcher. `bytes` includes the newline, which ripgrep includes in
/// its search.
#[derive(Clone, Copy)]
struct SearchedLine<'b> {
    piece: LinePiece,
    bytes: &'b [u8],
    text: &'b [u8],
}

impl<'a> MatchReport<'a> {
    pub(super) fn new(
        matcher: &'a LineMatcher,
        options: &'a SearchOptions,
        line_map: &'a LineMap,
        page: Page<'a>,
    ) -> Self {
        Self {
            matcher,
            options,
            line_map,
            page,
            lines: 0,
            matches: 0,
            windowed: None,
            line: 0,
            after: options.context().1,
            gap: false,
            inverted: Inverted::default(),
        }
    }

    pub(super) fn count(&self) -> u64 {
        if self.options.only_matching && !self.options.invert { self.matches } else { self.lines }
    }

    fn is_done(&self) -> bool {
        self.options.max.is_some_and(|max| max > 0 && self.lines >= max)
    }

    fn wants_more(&self) -> bool {
        !self.is_done() || self.after > 0
    }

    // Counts `line` once. Returns true if the line has to be shown.
    fn admit(&mut self, line: u64) -> bool {
        if self.line == line {
            return true;
        }
        if self.is_done() {
            // After the last match that is counted, a match in its context is still shown as a
            // match.
            return self.take_context();
        }
        self.line = line;
        self.lines += 1;
        true
    }

    fn take_context(&mut self) -> bool {
        let left = self.after > 0;
        self.after = self.after.saturating_sub(1);
        left
    }

    fn line<'b>(&self, number: Option<u64>, bytes: &'b [u8]) -> SearchedLine<'b> {
        let piece = self.line_map.piece(number.unwrap_or(1));
        SearchedLine { piece, bytes, text: bytes.strip_suffix(b"\n").unwrap_or(bytes) }
    }

    fn show(&mut self, line: SearchedLine<'_>) -> io::Result<()> {
        let whole = line.piece.is_line();
        if !whole && !self.holds_match(line)? {
            return Ok(());
        }
        let shown = self.lines;
        if !self.admit(line.piece.line) {
            return Ok(());
        }
        if !self.options.shows_lines() {
            return self.count_matches(line);
        }
        if self.page.full {
            return Ok(());
        }
        if self.options.only_matching && !self.options.invert {
            self.show_matches(line, shown)
        } else if whole && (self.options.invert || !page::is_long(line.text)) {
            self.page.cut(line.piece.position(0), shown, false);
            let text = self.replaced(line)?;
            match self.column_of(line)? {
                Some(column) => {
                    self.write(format_args!("{}:{column}", line.piece.line), b':', &text)
                }
                None => self.write_line(SearchedLine { text: &text, ..line }, b':'),
            }
        } else {
            self.show_windows(line, shown)
        }
    }

    // Returns the text of a line, with all matches replaced if the options ask for it.
    fn replaced<'b>(&self, line: SearchedLine<'b>) -> io::Result<Cow<'b, [u8]>> {
        let Some(template) = self.options.replace.as_deref().filter(|_| !self.options.invert)
        else {
            return Ok(Cow::Borrowed(line.text));
        };
        let (mut text, mut end) = (Vec::new(), 0);
        each_match(self.matcher, line, |found| {
            text.extend_from_slice(&line.text[end..found.start.min(line.text.len())]);
            self.matcher.replace(line.bytes, found.start, template.as_bytes(), &mut text);
            end = found.end.min(line.text.len());
            Ok(true)
        })?;
        text.extend_from_slice(&line.text[end..]);
        Ok(Cow::Owned(text))
    }

    // Returns the column of the first match in the line if the options ask for it.
    fn column_of(&self, line: SearchedLine<'_>) -> io::Result<Option<usize>> {
        let mut column = None;
        if self.options.column {
            each_match(self.matcher, line, |found| {
                column = Some(found.start + 1);
                Ok(false)
            })?;
        }
        Ok(column)
    }

    // Returns true if the line has a match that belongs to this piece.
    fn holds_match(&self, line: SearchedLine<'_>) -> io::Result<bool> {
        let mut holds = false;
        each_match(self.matcher, line, |_| {
            holds = true;
            Ok(false)
        })?;
        Ok(holds)
    }

    fn count_matches(&mut self, line: SearchedLine<'_>) -> io::Result<()> {
        if !self.options.only_matching || self.options.invert {
            return Ok(());
        }
        each_match(self.matcher, line, |_| {
            self.matches += 1;
            Ok(true)
        })
    }

    // Shows each match on a line of its own, as for `-o`.
    fn show_matches(&mut self, line: SearchedLine<'_>, shown: u64) -> io::Result<()> {
        let mut before = (line.piece.is_line().then_some(0), shown);
        each_match(self.matcher, line, |found| {
            let (at, shown) = before;
            self.page.cut(line.piece.position(at.unwrap_or(found.start)), shown, false);
            before = (None, self.lines);
            let mut text = Cow::Borrowed(&line.text[found.start..found.end.min(line.text.len())]);
            if let Some(template) = &self.options.replace {
                let mut replaced = Vec::new();
                self.matcher.replace(line.bytes, found.start, template.as_bytes(), &mut replaced);
                text = Cow::Owned(replaced);
            }
            let text = &*text;
            if page::is_long(text) {
                let shown = page::excerpt(text, &page::window(text, 0), false, true);
                self.write_window(line.piece.position(found.start), b':', &shown)?;
            } else if self.options.column {
                // As in ripgrep, a byte order mark does not count.
                let is_line = line.piece.is_line();
                let column = line.piece.position(found.start).column;
                let column = if is_line { found.start as u64 + 1 } else { column };
                self.write(format_args!("{}:{column}", line.piece.line), b':', text)?;
            } else {
                self.write(line.piece.line, b':', text)?;
            }
            Ok(!self.page.full)
        })
    }

    // Shows a window around each match that is not in the previous window.
    fn show_windows(&mut self, line: SearchedLine<'_>, shown: u64) -> io::Result<()> {
        let mut before = (line.piece.is_line().then_some(0), shown);
        let mut end = 0;
        each_match(self.matcher, line, |found| {
            if found.start < end {
                return Ok(true);
            }
            let (at, shown) = before;
            self.page.cut(line.piece.position(at.unwrap_or(found.start)), shown, false);
            before = (None, self.lines);
            let range = page::window(line.text, found.start.min(line.text.len()));
            end = range.end.max(found.start + 1);
            let text = line.window(&range);
            self.write_window(line.piece.position(found.start), b':', &text)?;
            Ok(!self.page.full)
        })
    }

    fn write_line(&mut self, line: SearchedLine<'_>, mark: u8) -> io::Result<()> {
        if line.piece.is_line() && !page::is_long(line.text) {
            return self.write(line.piece.line, mark, line.text);
        }
        let text = line.window(&page::window(line.text, 0));
        self.write_window(line.piece.position(0), mark, &text)
    }

    fn write_window(&mut self, at: TextPosition, mark: u8, text: &[u8]) -> io::Result<()> {
        self.windowed.get_or_insert(at);
        self.write(format_args!("{}@{}", at.line, at.column), mark, text)
    }

    fn write(&mut self, number: impl fmt::Display, mark: u8, text: &[u8]) -> io::Result<()> {
        if mem::take(&mut self.gap) {
            self.page.push(b"--\n")?;
        }
        if self.options.unnumbered {
            return self.page.push_text(mark, text);
        }
        self.page.push_line(number, mark, text)
    }

    // Handles a piece without a match, under `-v`.
    fn take_unmatched_piece(
        &mut self,
        piece: SearchedLine<'_>,
        number: Option<u64>,
    ) -> io::Result<()> {
        let line = piece.piece.line;
        if piece.piece.is_first() {
            let start = piece.window(&page::window(piece.text, 0));
            self.inverted = Inverted { line, pieces: 0, at: piece.piece.position(0), start };
        }
        self.inverted.pieces += u64::from(self.inverted.line == line);
        let pieces = self.line_map.pieces(number.unwrap_or(1));
        let all = self.inverted.line == line && self.inverted.pieces == pieces;
        if piece.piece.next.is_some() || !all {
            return Ok(());
        }
        let shown = self.lines;
        if !self.admit(line) || !self.options.shows_lines() {
            return Ok(());
        }
        let Inverted { at, start, .. } = mem::take(&mut self.inverted);
        self.page.cut(at, shown, false);
        self.write_window(at, b':', &start)
    }

    fn show_context(&mut self, line: SearchedLine<'_>, torn: bool) -> io::Result<()> {
        if self.page.full || !line.piece.is_first() {
            return Ok(());
        }
        self.page.cut(line.piece.position(0), self.lines, torn);
        self.write_line(line, b'-')
    }
}

impl SearchedLine<'_> {
    fn window(&self, range: &Range<usize>) -> Vec<u8> {
        page::excerpt(self.text, range, self.piece.is_inside(), self.piece.next.is_none())
    }
}

/// Searches `content` from the start of the line map of `report`. Returns true if the search
/// stopped early because lines and their context did not fit into memory.
pub(super) fn search(
    content: &dyn Content,
    spec: SearchSpec<'_>,
    expired: &dyn Fn() -> bool,
    report: &mut MatchReport<'_>,
) -> io::Result<bool> {
    let line_map = report.line_map;
    let searched = std::thread::scope(|scope| {
        let ahead = ReadAhead::start(scope, content, line_map.offset(), spec, expired);
        let text = FoldedReader::new(content, ahead, line_map, expired);
        searcher(spec.options).search_reader(spec.matcher, text, &mut *report)
    });
    let out_of_memory = match searched {
        Ok(()) => false,
        Err(error) if line_map.failed.get() || report.page.failed => return Err(error),
        // Every other failure means that the memory limit was reached.
        Err(_) => true,
    };
    if line_map.out_of_time.get() || out_of_memory {
        line_map.settle(content)?;
    }
    Ok(out_of_memory)
}

pub(super) fn searcher(options: &SearchOptions) -> Searcher {
    let (before, after) = options.context();
    SearcherBuilder::new()
        .line_number(true)
        .invert_match(options.invert)
        .before_context(before as usize)
        .after_context(after as usize)
        .binary_detection(BinaryDetection::none())
        .bom_sniffing(false)
        .heap_limit(Some(CONTEXT_BYTES))
        .build()
}

/// Calls `each` with the matches that belong to this piece, until `each` returns false. Counts
/// matches as ripgrep does.
fn each_match(
    matcher: &LineMatcher,
    line: SearchedLine<'_>,
    mut each: impl FnMut(Range<usize>) -> io::Result<bool>,
) -> io::Result<()> {
    let end = line.bytes.len();
    let found = matcher.try_find_iter(line.bytes, |found| {
        if found.start() >= end {
            Ok(false)
        } else if line.piece.owns(found.start()) {
            each(found.start()..found.end())
        } else {
            Ok(true)
        }
    });
    found.map_err(io::Error::other)?
}

impl Sink for MatchReport<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        let line = self.line(found.line_number(), found.bytes());
        if self.options.invert && !line.piece.is_line() {
            self.take_unmatched_piece(line, found.line_number())?;
        } else {
            self.show(line)?;
        }
        Ok(self.wants_more())
    }

    fn context(&mut self, _: &Searcher, found: &SinkContext<'_>) -> io::Result<bool> {
        let follows = *found.kind() == SinkContextKind::After;
        if self.is_done() && !(follows && self.take_context()) {
            return Ok(false);
        }
        self.show_context(self.line(found.line_number(), found.bytes()), follows)?;
        Ok(self.wants_more())
    }

    fn context_break(&mut self, _: &Searcher) -> io::Result<bool> {
        self.gap = true;
        Ok(true)
    }
}
