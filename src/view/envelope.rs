//! `.envelope.json`: an output as a JSON response of the tool-output protocol.
//!
//! `status`, `data`, `text`, `stats`, `context` and `error` are at the top level (`formats.md`,
//! section 2). If an output does not fit, the envelope shows a part of it ([`preview`]). If the
//! output is a response of the protocol, the envelope keeps the members of that response
//! ([`response`]). `text` tells the reader how to see the rest.

mod preview;
mod response;

use std::io;
use std::io::Write;

use serde::Serialize;
use serde_json::value::RawValue;

use crate::envelope::preview::EnvelopePreview;
use crate::envelope::response::{Recognized, Response, ResponseStatus};
use crate::number::{counted, portion};
use crate::summary::ended;
use crate::{RenderError, Rendered, kind};
use ctxfs_core::model::{Direction, Subject};
use ctxfs_core::redact::MaskCounts;

const COPY_BYTES: usize = 256 << 10;
pub(super) const PREVIEW_BYTES: u64 = EnvelopePreview::MAX_BYTES;
const SUBAGENT: &str = "Task";

/// The stand-in for an output. `Untouched` means that the output itself is used: it is a response
/// that fits, or that sets `truncation_skip`. `Wrapped` is a new response around a part of the
/// output.
///
/// `text` is valid JSON and a newline. `whole` is true if more time would not change the text.
pub(super) enum Envelope {
    Untouched,
    Wrapped { text: String, whole: bool },
}

#[derive(Serialize)]
struct EnvelopeJson<'a> {
    status: ResponseStatus,
    data: EnvelopeData<'a>,
    text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    stats: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a RawValue>,
}

#[derive(Serialize)]
struct EnvelopeData<'a> {
    truncated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    truncation: Option<Truncation<'a>>,
    #[serde(skip_serializing_if = "MaskCounts::is_empty")]
    redacted: MaskCounts,
    preview: String,
}

#[derive(Serialize)]
struct Truncation<'a> {
    direction: Direction,
    max_lines: u64,
    max_bytes: u64,
    // `None` if there was no time to count the lines.
    original_lines: Option<u64>,
    original_bytes: u64,
    kept_lines: u64,
    kept_bytes: u64,
    full_output_path: &'a str,
}

pub(super) fn is_over(subject: &Subject<'_>) -> bool {
    is_more(subject, subject.size())
}

fn is_more(subject: &Subject<'_>, bytes: u64) -> bool {
    let limits = subject.limits;
    subject.analysis.lines > limits.max_lines || bytes > limits.max_bytes
}

pub(super) fn render(
    subject: &Subject<'_>,
    expired: &dyn Fn() -> bool,
    out: &mut dyn Write,
) -> Result<Rendered, RenderError> {
    match of(subject, &[], expired)? {
        Envelope::Untouched => copy(subject, expired, out),
        Envelope::Wrapped { text, whole } => {
            out.write_all(text.as_bytes())?;
            Ok(Rendered { notice: None, whole })
        }
    }
}

/// Returns the envelope for a model that has `tools`. An empty list means that the tools are
/// unknown.
pub(super) fn of(
    subject: &Subject<'_>,
    tools: &[String],
    expired: &dyn Fn() -> bool,
) -> io::Result<Envelope> {
    let counted = subject.analysis.bytes == subject.content.len();
    let length = subject.content.len();
    let over = is_more(subject, length) || !counted || length > EnvelopePreview::MAX_BYTES;
    let (response, whole) = match response::read(subject, expired)? {
        Recognized::Response(response) if response.skip || !over => return Ok(Envelope::Untouched),
        Recognized::Response(response) => (Some(response), true),
        Recognized::Other => (None, true),
        Recognized::OutOfTime => (None, false),
    };
    let text = written(subject, response.as_ref(), tools, over)?;
    Ok(Envelope::Wrapped { text, whole })
}

fn written(
    subject: &Subject<'_>,
    response: Option<&Response>,
    tools: &[String],
    over: bool,
) -> io::Result<String> {
    let (content, limits, path) = (subject.content, subject.limits, subject.place.address());
    let lines = Some(subject.analysis.lines).filter(|_| subject.analysis.bytes == content.len());
    let kept = match lines {
        _ if subject.analysis.is_binary() => EnvelopePreview::none(content, lines),
        Some(lines) if !over => EnvelopePreview::all(content, lines)?,
        _ => EnvelopePreview::some(content, lines, limits)?,
    };
    let truncation = over.then(|| Truncation {
        direction: limits.direction,
        max_lines: limits.max_lines,
        max_bytes: limits.max_bytes,
        original_lines: lines,
        original_bytes: content.len(),
        kept_lines: kept.lines(),
        kept_bytes: kept.bytes(),
        full_output_path: &path,
    });
    let redacted = MaskCounts::default();
    let mut written = EnvelopeJson {
        status: status(response, over),
        text: text(subject, response, &kept, tools, over),
        data: EnvelopeData {
            truncated: over,
            truncation,
            redacted,
            preview: preview(subject, kept),
        },
        stats: response.and_then(|response| response.stats.as_deref()),
        context: response.and_then(|response| response.context.as_deref()),
        error: response.and_then(|response| response.error.as_deref()),
    };
    if subject.redacts.is_some() {
        written.data.redacted =
            MaskCounts::of(&serde_json::to_string(&written)?, subject.mask_names());
    }
    Ok(serde_json::to_string(&written)? + "\n")
}

fn status(response: Option<&Response>, over: bool) -> ResponseStatus {
    match response.map(|response| response.status) {
        Some(ResponseStatus::Error) => ResponseStatus::Error,
        _ if over => ResponseStatus::Partial,
        Some(status) => status,
        None => ResponseStatus::Success,
    }
}

fn preview(subject: &Subject<'_>, kept: EnvelopePreview) -> String {
    if !subject.analysis.is_binary() {
        return kept.text();
    }
    let bytes = counted(subject.size(), "byte");
    format!("[not text: {}, {bytes}]", kind::brief(subject.analysis))
}

/// Copies an output unchanged. Fails with `TimedOut` if time runs out, because a part of the output
/// would not be valid JSON.
fn copy(
    subject: &Subject<'_>,
    expired: &dyn Fn() -> bool,
    out: &mut dyn Write,
) -> Result<Rendered, RenderError> {
    let mut offset = 0;
    loop {
        let block = subject.content.bytes(offset, COPY_BYTES)?;
        if block.is_empty() {
            return Ok(Rendered::plain());
        }
        if expired() {
            return Err(io::Error::from(io::ErrorKind::TimedOut).into());
        }
        out.write_all(&block)?;
        offset += block.len() as u64;
    }
}

fn text(
    subject: &Subject<'_>,
    response: Option<&Response>,
    kept: &EnvelopePreview,
    tools: &[String],
    over: bool,
) -> String {
    let sentences = [
        Some(ended(subject)),
        response.and_then(reported),
        unread(subject),
        Some(shown(subject, kept, over)),
        response.and_then(left_out),
        Some(format!("All of it: `{}`.", subject.place.file())),
        next_step(subject, tools).filter(|_| over && !subject.analysis.is_binary()),
    ];
    sentences.into_iter().flatten().collect::<Vec<String>>().join(" ")
}

fn reported(response: &Response) -> Option<String> {
    (response.status == ResponseStatus::Error).then(|| "It reports an error.".to_owned())
}

fn unread(subject: &Subject<'_>) -> Option<String> {
    let (read, all) = (subject.analysis.bytes, subject.content.len());
    (read != all).then(|| {
        let portion = portion(read, all);
        format!(
            "There was time to read the first {portion} only: lines are not counted, and what the \
             output says of its own status is not known."
        )
    })
}

fn shown(subject: &Subject<'_>, kept: &EnvelopePreview, over: bool) -> String {
    if subject.analysis.is_binary() {
        return "It is not text, so `preview` shows none of it.".to_owned();
    }
    if over {
        return format!("`preview` has {}.", kept.description());
    }
    "`preview` has all of it.".to_owned()
}

fn left_out(response: &Response) -> Option<String> {
    let named = |(name, size): &(&str, u64)| format!("`{name}` ({})", counted(*size, "byte"));
    let names: Vec<String> = response.left_out.iter().map(named).collect();
    let verb = if names.len() == 1 { "is" } else { "are" };
    (!names.is_empty()).then(|| format!("{} {verb} there only.", names.join(" and ")))
}

fn next_step(subject: &Subject<'_>, tools: &[String]) -> Option<String> {
    let has = |tool: &str| tools.iter().any(|name| name == tool);
    let may_have = |tool: &str| tools.is_empty() || has(tool);
    let words = match (has(SUBAGENT), may_have("Read"), may_have("Grep")) {
        (true, ..) => "have a subagent (Task) process that file, rather than reading it yourself",
        _ if subject.place.is_read_by_command() => {
            "add `.grep/PATTERN` or `.lines/A-B` to its path"
        }
        (_, true, true) => "Read that file in pages (offset and limit), or Grep it",
        (_, true, false) => "Read that file in pages (offset and limit)",
        (_, false, true) => "Grep that file",
        (_, false, false) => return None,
    };
    Some(format!("To go on: {words}."))
}

#[cfg(test)]
mod tests;
