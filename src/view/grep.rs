//! `.grep/<query>`: the output of `rg -n <query>`.
//!
//! The searching is ripgrep's own. This module adds three things: lines that are too long for
//! memory or for a reader are searched in overlapping pieces and shown as windows ([`fold`],
//! [`page`]); a result that is too large for a reader is cut where a later search can go on
//! ([`page`]); and the first lines tell the reader so.

mod caseless;
mod chunk;
pub(super) mod corpus;
mod fold;
pub(super) mod notice;
pub(super) mod page;
mod pattern;
mod prefilter;
mod read_ahead;
mod report;
pub(super) mod window;

use std::io;
use std::io::Write;

use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder};

use crate::position::TextPosition;
use crate::query::Options;
use crate::scan::LineStart;
use crate::{Query, RenderError, Rendered, scan};
pub(super) use corpus::render as render_many;
pub use corpus::{Corpus, Directory, Loaded};
use ctxfs_core::model::{Content, Subject};

use fold::{FoldedReader, LineMap};
use notice::SearchOutcome;
use page::Page;
use read_ahead::{ReadAhead, ReadAheadSizes, SearchSpec};
use report::MatchReport;

// For lines that a match may still need as context.
const CONTEXT_BYTES: usize = 64 << 20;

/// Writes the matches of `query` in `subject`.
pub(super) fn render(
    query: &Query,
    subject: &Subject<'_>,
    expired: &dyn Fn() -> bool,
    out: &mut dyn Write,
) -> Result<Rendered, RenderError> {
    search(query, subject, expired, out, ReadAheadSizes::default())
}

fn search(
    query: &Query,
    subject: &Subject<'_>,
    expired: &dyn Fn() -> bool,
    out: &mut dyn Write,
    sizes: ReadAheadSizes,
) -> Result<Rendered, RenderError> {
    let pattern = pattern::build(query)?;
    let line_map = match start(subject.content, query.options().from, expired)? {
        SearchStart::At(line_map) => line_map,
        SearchStart::Beyond => return Ok(Rendered::plain()),
        SearchStart::OutOfTime(offset) => return Ok(notice::no_start(query, subject, offset)),
    };
    let page = Page::new(out, query.options().max == Some(0)).at_most(subject.view_bytes());
    let mut report = MatchReport::new(&pattern.matcher, query.options(), &line_map, page);
    let spec = pattern.spec(query.options(), sizes);
    let out_of_memory = report_on(subject.content, spec, expired, &mut report)?;
    let outcome = SearchOutcome {
        fallback: pattern.fallback,
        out_of_time: line_map.out_of_time(),
        out_of_memory,
    };
    Ok(notice::finish(query, subject, &line_map, report, &outcome, expired)?)
}

/// Searches `content` from the start of the line map of `report`. Returns true if the search
/// stopped early because lines and their context did not fit into memory.
fn report_on(
    content: &dyn Content,
    spec: SearchSpec<'_>,
    expired: &dyn Fn() -> bool,
    report: &mut MatchReport<'_>,
) -> io::Result<bool> {
    let line_map = report.line_map();
    let searched = std::thread::scope(|scope| {
        let ahead = ReadAhead::start(scope, content, line_map.offset(), spec, expired);
        let text = FoldedReader::new(content, ahead, line_map, expired);
        searcher(spec.options).search_reader(spec.matcher, text, &mut *report)
    });
    let out_of_memory = match searched {
        Ok(()) => false,
        Err(error) if line_map.failed() || report.page.failed() => return Err(error),
        // Any other failure is the limit on memory.
        Err(_) => true,
    };
    if line_map.out_of_time() || out_of_memory {
        line_map.settle(content)?;
    }
    Ok(out_of_memory)
}

fn searcher(options: &Options) -> Searcher {
    let context = |lines: u64| {
        if options.count { 0 } else { usize::try_from(lines).unwrap_or(usize::MAX) }
    };
    SearcherBuilder::new()
        .line_number(true)
        .invert_match(options.invert)
        .before_context(context(options.before))
        .after_context(context(options.after))
        .binary_detection(BinaryDetection::none())
        .bom_sniffing(false)
        .heap_limit(Some(CONTEXT_BYTES))
        .build()
}

/// The place where a search begins, or the offset at which time ran out before it was found.
enum SearchStart {
    At(LineMap),
    Beyond,
    OutOfTime(u64),
}

fn start(
    content: &dyn Content,
    from: Option<TextPosition>,
    expired: &dyn Fn() -> bool,
) -> io::Result<SearchStart> {
    let from = from.unwrap_or(TextPosition { line: 1, column: 1 });
    Ok(match scan::line_start(content, from.line, expired)? {
        LineStart::At(0) if from.column == 1 && content.bytes(0, 3)? == BOM => {
            SearchStart::At(LineMap::new(3, from, 3))
        }
        LineStart::At(offset) => {
            let column = from.column - 1;
            SearchStart::At(LineMap::new(offset.saturating_add(column), from, 0))
        }
        LineStart::Beyond => SearchStart::Beyond,
        LineStart::OutOfTime(offset) => SearchStart::OutOfTime(offset),
    })
}

// Of UTF-8. Like ripgrep, searches do not treat it as text.
const BOM: &[u8] = b"\xef\xbb\xbf";

#[cfg(test)]
mod tests;
