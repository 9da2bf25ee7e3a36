//! `.jq/<filter>`: the output of jq.
//!
//! The language is jaq's. A filter can run for ever, and one that recurses without end takes its
//! process with it. jaq has no hook between its steps that could prevent either, and evaluating on
//! a thread contains neither. So [`run_filter`] runs in a process of its own, with limits, which
//! [`Filters`](ctxfs_core::model::Filters) starts. This module has both ends of the pipe to it:
//! [`sender`] finds the values and sends them, [`results`] makes a view of the answers, and
//! [`protocol`] defines the form of both.

mod compile_error;
mod notice;
mod path;
mod program;
mod protocol;
mod results;
mod select;
mod sender;

use std::io::Write;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use crate::{Filter, RenderError, Rendered};
use ctxfs_core::model::{FilterOutcome, Limits, Subject};
use notice::FilterNotices;
use path::PathStep;
use protocol::{Frames, Request};
use results::Results;
use sender::ValueSender;

pub use program::run_filter;

/// The bytes of memory that the process of a filter may have, including the program itself.
pub const MEMORY: u64 = 256 << 20;
// Kept free for notices, without the paths in them.
const NOTICE_BYTES: usize = 1600;
// If the usual limit is lifted, the results may have this many times the size of the content:
// indented text grows.
const GROWTH: u64 = 8;
// The least value of that limit.
const LEAST_LIMIT: u64 = 16 << 20;

/// Writes the results of `filter`. The filter gets masked text, but may put together or decode a
/// new secret, so the results are masked again.
pub(super) fn render(
    filter: &Filter,
    subject: &Subject<'_>,
    expired: &dyn Fn() -> bool,
    out: &mut dyn Write,
) -> Result<Rendered, RenderError> {
    let Some(redactor) = subject.redacts else { return filtered(filter, subject, expired, out) };
    let mut masked = redactor.writer(out);
    let rendered = filtered(filter, subject, expired, &mut *masked)?;
    masked.finish()?;
    Ok(rendered)
}

fn filtered(
    filter: &Filter,
    subject: &Subject<'_>,
    expired: &dyn Fn() -> bool,
    out: &mut dyn Write,
) -> Result<Rendered, RenderError> {
    let options = filter.options();
    // A filter on all values together has no path.
    let alone = options.slurp || options.null_input;
    let path = if alone { path::FilterPath::default() } else { path::leading(&filter.program()) };
    let request = request(filter, &path.steps);
    let read = AtomicU64::new(0);
    let feed = |input: &mut dyn Write, stop: &dyn Fn() -> bool| {
        request.write(input)?;
        let sender = ValueSender::new(subject.content, &path.steps, stop, input);
        let (passed, sent) = sender.run(options.from.unwrap_or(1));
        read.store(passed, Relaxed);
        sent
    };
    let limit = LEAST_LIMIT.saturating_add(subject.content.len().saturating_mul(GROWTH));
    let mut results = Results::new(out, options.max, limit);
    let mut frames = Frames::default();
    let ended = subject.filters.run(&feed, expired, &mut |bytes| {
        frames.push(bytes, |tag, text| results.take(tag, text))
    })?;
    if let (Some(redactor), Some((_, why))) = (subject.redacts, &mut results.first_failure) {
        *why = redactor.text(why);
    }
    let notices = FilterNotices { filter, subject, ended: &ended, read: read.into_inner() };
    let notice = finish(&notices, results)?;
    Ok(Rendered { notice, whole: ended != FilterOutcome::OutOfTime })
}

// Returns the notices of the results that fit.
fn finish(
    notices: &FilterNotices<'_>,
    mut results: Results<'_>,
) -> Result<Option<String>, RenderError> {
    let mut notice = notices.text(&results, None);
    if results.overflows(notice.as_ref().map_or(0, String::len)) {
        let paths = 4 * notices.subject.place.file().len() + 2 * notices.filter.to_string().len();
        let cut = results.shorten(Limits::VIEW_BYTES.saturating_sub(NOTICE_BYTES + paths));
        notice = notices.text(&results, Some(cut));
    }
    results.finish()?;
    Ok(notice)
}

fn request(filter: &Filter, steps: &[PathStep]) -> Request {
    let options = filter.options();
    let rests = steps.iter().map(|step| step.rest.clone());
    Request {
        programs: std::iter::once(filter.program()).chain(rests).collect(),
        raw: options.raw,
        compact: options.compact,
        slurp: options.slurp,
        null_input: options.null_input,
        sorted: options.sorted,
    }
}

#[cfg(test)]
mod tests;
