//! `.envelope.json`: an output in the common protocol of tool responses.
//!
//! `status`, `data`, `text`, `stats`, `context` and `error` are at the top level (`formats.md`,
//! section 2). An output that does not fit is shown in part ([`preview`]), a response of the
//! protocol keeps its own members ([`response`]), and `text` tells how to go on.

mod preview;
mod response;
mod words;

use std::io;
use std::io::Write;

use serde::Serialize;
use serde_json::value::RawValue;

use crate::number::counted;
use crate::{RenderError, Rendered, kind};
use ctxfs_core::model::{Direction, Subject};
use ctxfs_core::redact::MaskCounts;
use preview::EnvelopePreview;
use response::{Recognized, Response, ResponseStatus};

const BLOCK: usize = 256 << 10;
pub(super) const PREVIEW_BYTES: u64 = EnvelopePreview::MAX_BYTES;

/// The stand-in for an output: the output itself, if it is a response that fits or that asks to be
/// left as it is, or a new response around a part of it.
///
/// `text` is valid JSON and a newline. `whole` is true if more time would not change it.
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
    // `null` if there was no time to count the lines.
    original_lines: Option<u64>,
    original_bytes: u64,
    kept_lines: u64,
    kept_bytes: u64,
    full_output_path: &'a str,
}

/// Returns true if an output is larger than the limits of the protocol.
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

/// Returns the envelope for a reader who has `tools`. An empty list means that the tools are
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
    let (content, limits, path) = (subject.content, subject.limits, subject.place.file());
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
        text: words::text(subject, response, &kept, tools, over),
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

/// Copies an output as it is. Half of it would not be JSON, so the copy fails with `TimedOut` if
/// time runs out.
fn copy(
    subject: &Subject<'_>,
    expired: &dyn Fn() -> bool,
    out: &mut dyn Write,
) -> Result<Rendered, RenderError> {
    let mut offset = 0;
    loop {
        let block = subject.content.bytes(offset, BLOCK)?;
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

#[cfg(test)]
mod tests;
