//! `.errors`: the first error line of each kind, with the lines around it.
//!
//! Lines are printed as `rg -n` prints them. A remark above an error names the test, file or step
//! that it belongs to, and the number of similar lines. If there is no room for the context of an
//! error, the error is printed as one line, as in a summary.

pub(super) mod context;
mod finding;
mod json;
mod message;
mod owner;
mod quoted;
mod report;
mod tolerated;
mod traced;

use std::io::{self, Write};

use crate::errors::report::ErrorReport;
use crate::grep::page::long_lines;
use crate::number::{counted, grouped, portion};
use crate::rendered::notice;
use crate::{Query, RenderError, Rendered};
use ctxfs_core::materialize::strip_escapes;
use ctxfs_core::model::{Json, Subject};

pub(super) use finding::{Finding, Findings, findings};
pub(super) use report::error_line;

// Length in lines of the suggested range if there is no word to search for.
const ON_LINES: u64 = 200;

pub(super) fn render(subject: &Subject<'_>, out: &mut dyn Write) -> Result<Rendered, RenderError> {
    let found = findings(subject)?;
    if matches!(subject.analysis.json, Json::Document { .. }) {
        return of_document(&found, out);
    }
    let report = ErrorReport::of(subject.content, &found)?;
    report.write(out)?;
    let analysed = subject.analysis.bytes;
    let whole = analysed == subject.content.len();
    let so_far = || format!("analysed so far: first {}", portion(analysed, subject.content.len()));
    let notices = [
        counts(subject, &found),
        (!whole).then(so_far),
        report.windowed.map(|at| long_lines("", at)),
    ];
    Ok(Rendered { notice: notice(notices.into_iter().flatten()), whole })
}

/// Returns a line about `dropped` lines of an output that a filter left out, which are `place`.
/// `shown` is what the filter printed. Returns `None` if it has all errors of the output. Only lines
/// count that say what went wrong: a filter often reads a log, a listing, source or data.
pub fn dropped_errors(
    subject: &Subject<'_>,
    shown: &[u8],
    dropped: u64,
    place: &str,
) -> io::Result<Option<String>> {
    if matches!(subject.analysis.json, Json::Document { .. }) {
        return Ok(None);
    }
    let shown = strip_escapes(shown);
    let has = |text: &[u8]| {
        let text = text.trim_ascii();
        !text.is_empty() && memchr::memmem::find(&shown, text).is_some()
    };
    let mut count = 0;
    for Finding { at, message, .. } in findings(subject)?.shown.iter().filter(|it| it.is_telling())
    {
        let line = |offset| subject.content.bytes(offset, at.length as usize);
        let is_shown = has(message.as_bytes())
            || has(&line(at.offset)?)
            || match at.last {
                Some(last) => has(&line(last.offset)?),
                None => false,
            };
        count += u64::from(!is_shown);
    }
    let file = subject.place.file();
    let (lines, errors) = (counted(dropped, "line"), counted(count, "error"));
    Ok((count > 0).then(|| format!("[ctxfs] {lines} {place}: {errors}; {file}.errors\n")))
}

// The neighbours of an error in a JSON document say nothing about the error.
fn of_document(found: &Findings, out: &mut dyn Write) -> Result<Rendered, RenderError> {
    for finding in &found.shown {
        writeln!(out, "{}", error_line(finding))?;
    }
    Ok(Rendered::plain())
}

/// Returns a text with the number of error lines and the path of a view that shows all of them.
/// Returns `None` if every error line is of a kind of its own.
fn counts(subject: &Subject<'_>, found: &Findings) -> Option<String> {
    if found.count <= found.all().count() as u64 {
        return None;
    }
    let (lines, kinds, all) = (grouped(found.count), found.kinds(), path(subject, found));
    Some(format!(
        "{lines} lines look like errors, of {kinds}; the first of each follows. All: {all}"
    ))
}

fn path(subject: &Subject<'_>, found: &Findings) -> String {
    let words = &subject.analysis.errors.words;
    if words.is_empty() {
        let first = found.shown.iter().map(|finding| finding.at.line).min().unwrap_or(1);
        return subject.place.of_view(&format!(".lines/{first}+{ON_LINES}")).file();
    }
    let query = Query::of(&words.join("|"));
    subject.place.of_view(&format!(".grep/{query}")).file()
}

#[cfg(test)]
mod tests;
