//! `.jq/<filter>`: the output of jq.
//!
//! The language is implemented by jaq; [`update`] and the prelude adapt its results to jq. A filter can run for ever, and a filter that recurses
//! without end crashes its process. jaq has no hook between its steps that could prevent either,
//! and a separate thread would not contain them. [`run_filter`] therefore runs in a separate
//! process with limits, which [`Filters`](ctxfs_core::model::Filters) starts. This module
//! implements both ends of the pipe to that process. [`sender`] finds the values and sends them,
//! [`results`] turns the answers into the text of the view, and [`protocol`] defines the messages.

mod loose;
mod matching;
mod path;
mod program;
mod protocol;
mod results;
mod sender;
mod update;

use std::io::Write;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use crate::jq::path::PathStep;
use crate::jq::protocol::{FilterRequest, FrameReader};
use crate::jq::results::{Results, ResultsCut};
use crate::jq::sender::{MAX_VALUE_BYTES, ValueSender};
use crate::number::{counted, grouped, portion};
use crate::rendered::notice;
use crate::{Filter, RenderError, Rendered, values};
use ctxfs_core::model::{FilterOutcome, Limits, Subject};

pub use program::run_filter;

/// Memory limit in bytes of the process of a filter, including the program itself.
pub const FILTER_MEMORY: u64 = 256 << 20;
// Bytes that are reserved for notices, not counting the paths in them.
const NOTICE_BYTES: usize = 1600;
// If the usual limit is lifted, the results may have this many times the size of the content,
// because indented text is longer.
const LIMIT_GROWTH: u64 = 8;
// Minimum of the limit on results if the usual limit is lifted.
const MIN_LIMIT: u64 = 16 << 20;

/// Writes the results of `filter`. The filter receives masked text. The results are masked again,
/// because a filter may assemble or decode a secret.
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
    // A filter on all values together has no path that can be followed.
    let alone = options.slurp || options.null_input;
    let path = if alone { path::FilterPath::default() } else { path::leading(&filter.program()) };
    let request = request(filter, &path.steps);
    let (read, passes_text) = (AtomicU64::new(0), values::has_values(subject)?);
    let feed = |input: &mut dyn Write, stop: &dyn Fn() -> bool| {
        request.write(input)?;
        let sender = ValueSender::new(subject.content, &path.steps, stop, input);
        let sender = sender.passing_text(passes_text);
        let (passed, sent) = sender.run(options.from.unwrap_or(1));
        read.store(passed, Relaxed);
        sent
    };
    let limit = MIN_LIMIT.saturating_add(subject.content.len().saturating_mul(LIMIT_GROWTH));
    let mut results = Results::new(out, options.max, limit);
    let mut frames = FrameReader::default();
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
    results.flush()?;
    Ok(notice)
}

fn request(filter: &Filter, steps: &[PathStep]) -> FilterRequest {
    let options = filter.options();
    let rests = steps.iter().map(|step| step.rest.clone());
    FilterRequest {
        programs: std::iter::once(filter.program()).chain(rests).collect(),
        raw: options.raw,
        compact: options.compact,
        slurp: options.slurp,
        null_input: options.null_input,
        sorted: options.sorted,
    }
}

// The notices of one run. `read` is the offset up to which the content was read.
struct FilterNotices<'a> {
    filter: &'a Filter,
    subject: &'a Subject<'a>,
    ended: &'a FilterOutcome,
    read: u64,
}

impl FilterNotices<'_> {
    fn text(&self, results: &Results<'_>, cut: Option<ResultsCut>) -> Option<String> {
        if let Some(why) = &results.no_filter {
            return Some(format!("# not a filter: {why}\n"));
        }
        let any = results.count > 0 || cut.is_some();
        let lines = [
            cut.map(|cut| self.cut(results, cut)),
            self.ended(results, any),
            values::left_out(results.bad, results.first_bad),
            self.broken(results, any),
            self.large(results),
            failures(results),
        ];
        notice(lines.into_iter().flatten())
    }

    fn cut(&self, results: &Results<'_>, cut: ResultsCut) -> String {
        let all = format!("All at once: {}", self.path(&self.filter.at_most(0)));
        match cut {
            ResultsCut::Bytes(bytes) => format!(
                "the first {} of one result follow; all of it would pass 48 KiB. {all}",
                counted(bytes, "byte")
            ),
            ResultsCut::Results(count) => {
                let follow = if count == 1 { "follows" } else { "follow" };
                let on = self.go_on(results).map(|on| format!("{on}    ")).unwrap_or_default();
                format!(
                    "the first {} {follow}; more would pass 48 KiB. {on}{all}",
                    counted(count, "result"),
                )
            }
        }
    }

    // Describes why a run ended early.
    fn ended(&self, results: &Results<'_>, any: bool) -> Option<String> {
        let follows = if any { "; what was found before follows" } else { "" };
        Some(match self.ended {
            FilterOutcome::Enough if results.full && results.is_endless() => {
                let bytes = counted(results.limit, "byte");
                format!(
                    "stopped: the results pass {bytes}, far more than they are made from{follows}"
                )
            }
            FilterOutcome::Done | FilterOutcome::Enough => return None,
            FilterOutcome::OutOfTime => {
                let read = portion(self.read, self.subject.content.len());
                let on = self.go_on(results).map(|on| format!(". {on}")).unwrap_or_default();
                format!("out of time, {read} read{follows}{on}")
            }
            FilterOutcome::OutOfMemory => format!(
                "the filter needs more than the {} MiB of memory that it may have{follows}",
                FILTER_MEMORY >> 20
            ),
            FilterOutcome::TooDeep => format!("the filter recurses too deeply{follows}"),
            FilterOutcome::Failed(why) => format!("the filter failed ({why}){follows}"),
            FilterOutcome::Unavailable => "filters cannot run here".to_owned(),
        })
    }

    fn broken(&self, results: &Results<'_>, any: bool) -> Option<String> {
        let (offset, line) = results.broken?;
        let follows = if any {
            "what was found before follows".to_owned()
        } else {
            let summary = self.subject.place.of_view(".summary").file();
            format!("nothing was found before. What it is: {summary}")
        };
        Some(format!(
            "not JSON from line {} on (byte {}): {follows}",
            grouped(line),
            grouped(offset)
        ))
    }

    fn large(&self, results: &Results<'_>) -> Option<String> {
        let line = grouped(results.first_large);
        let what = match results.large {
            0 => return None,
            1 => format!("the value on line {line} is left out: it has"),
            more => {
                format!(
                    "{} values, the first on line {line}, are left out: they have",
                    grouped(more)
                )
            }
        };
        let [filter, shape] =
            [".jq/.items[] | ...", ".shape"].map(|view| self.subject.place.of_view(view).file());
        Some(format!(
            "{what} more than {} MiB, the most that a filter is given at once. Begin with a path to \
             smaller ones and a pipe, as {filter}; {shape} has the paths",
            MAX_VALUE_BYTES >> 20
        ))
    }

    // Returns the filter that continues with the remaining values. Returns `None` if that filter
    // would begin where this run did.
    fn go_on(&self, results: &Results<'_>) -> Option<String> {
        let options = self.filter.options();
        let first = options.from.unwrap_or(1);
        let alone = options.slurp || options.null_input;
        let on = self.filter.from(results.line);
        let left = options.max.filter(|max| *max > 0).map(|max| max.saturating_sub(results.count));
        let on = left.map_or(on.clone(), |left| on.at_most(left.max(1)));
        let further = results.line > first && !alone;
        further.then(|| format!("Go on with line {}: {}", grouped(results.line), self.path(&on)))
    }

    fn path(&self, filter: &Filter) -> String {
        self.subject.place.of_view(&format!(".jq/{filter}")).file()
    }
}

fn failures(results: &Results<'_>) -> Option<String> {
    let (line, why) = results.first_failure.as_ref()?;
    let place = if *line > 0 { format!(" on line {}", grouped(*line)) } else { String::new() };
    Some(match results.failures {
        1 => format!("error{place}: {why}"),
        more => format!("{} errors, the first{place}: {why}", grouped(more)),
    })
}

#[cfg(test)]
mod tests;
