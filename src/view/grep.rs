//! `.grep/<query>`: what `rg -n <query>` prints.
//!
//! The searching is ripgrep's own. What is ours: lines too long for memory or for a reader are
//! searched in overlapping pieces and shown as windows (`fold`, `window`), a result too large for a
//! reader is cut where it can be taken up again (`page`), and first lines say so (`notice`).

mod ahead;
mod corpus;
mod fold;
pub(super) mod notice;
pub(super) mod page;
mod pattern;
mod report;
mod stretch;
mod survey;
pub(super) mod window;

use std::io;
use std::io::Write;

use grep_searcher::BinaryDetection;
use grep_searcher::Searcher;
use grep_searcher::SearcherBuilder;

use crate::model::Content;
use crate::model::Subject;
use crate::view::Query;
use crate::view::RenderError;
use crate::view::Rendered;
use crate::view::query::Options;
use crate::view::query::Position;
use crate::view::scan;
use crate::view::scan::Found;
pub use corpus::Corpus;
pub use corpus::Directory;
pub use corpus::Loaded;
pub use corpus::render as render_many;

use ahead::Ahead;
use ahead::Seek;
use ahead::Sizes;
use fold::Folded;
use fold::Trace;
use notice::Ending;
use page::Page;
use report::Report;

/// Memory for lines that a match may still need as context.
const CONTEXT_BYTES: usize = 64 << 20;

/// Writes what the search finds.
pub(super) fn render(
    query: &Query,
    subject: &Subject<'_>,
    expired: &dyn Fn() -> bool,
    out: &mut dyn Write,
) -> Result<Rendered, RenderError> {
    search(query, subject, expired, out, Sizes::default())
}

fn search(
    query: &Query,
    subject: &Subject<'_>,
    expired: &dyn Fn() -> bool,
    out: &mut dyn Write,
    sizes: Sizes,
) -> Result<Rendered, RenderError> {
    let pattern = pattern::build(query)?;
    let trace = match start(subject.content, query.options().from, expired)? {
        Start::At(trace) => trace,
        Start::Beyond => return Ok(Rendered::plain()),
        Start::OutOfTime(offset) => return Ok(notice::no_start(query, subject, offset)),
    };
    let page = Page::new(out, query.options().max == Some(0)).at_most(subject.view_bytes());
    let mut report = Report::new(&pattern.matcher, query.options(), &trace, page);
    let seek = Seek { matcher: &pattern.matcher, options: query.options(), sizes };
    let crowded = report_on(subject.content, seek, expired, &mut report)?;
    let ending = Ending { fallback: pattern.fallback, out_of_time: trace.out_of_time(), crowded };
    Ok(notice::finish(query, subject, &trace, report, &ending, expired)?)
}

/// Searches `content` from where the trace of `report` begins. Whether it had to stop early because
/// lines and context together pass what memory there is.
fn report_on(
    content: &dyn Content,
    seek: Seek<'_>,
    expired: &dyn Fn() -> bool,
    report: &mut Report<'_>,
) -> io::Result<bool> {
    let trace = report.trace();
    let searched = std::thread::scope(|scope| {
        let ahead = Ahead::start(scope, content, trace.offset(), seek, expired);
        let text = Folded::new(content, ahead, trace, expired);
        searcher(seek.options).search_reader(seek.matcher, text, &mut *report)
    });
    let crowded = match searched {
        Ok(()) => false,
        Err(error) if trace.failed() || report.page.failed() => return Err(error),
        // What else fails is the limit on memory.
        Err(_) => true,
    };
    if trace.out_of_time() || crowded {
        trace.settle(content)?;
    }
    Ok(crowded)
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

/// Where a search begins.
enum Start {
    At(Trace),
    Beyond,
    OutOfTime(u64),
}

fn start(
    content: &dyn Content,
    from: Option<Position>,
    expired: &dyn Fn() -> bool,
) -> io::Result<Start> {
    let from = from.unwrap_or(Position { line: 1, column: 1 });
    Ok(match scan::line_start(content, from.line, expired)? {
        Found::At(0) if from.column == 1 && content.bytes(0, 3)? == BOM => {
            Start::At(Trace::new(3, from, 3))
        }
        Found::At(offset) => {
            let column = from.column - 1;
            Start::At(Trace::new(offset.saturating_add(column), from, 0))
        }
        Found::Beyond => Start::Beyond,
        Found::OutOfTime(offset) => Start::OutOfTime(offset),
    })
}

/// The mark of UTF-8 that some programs put first; ripgrep does not take it for text either.
const BOM: &[u8] = b"\xef\xbb\xbf";

#[cfg(test)]
mod tests;
