//! `.envelope.json`: an output in the common protocol of tool responses.
//!
//! `status`, `data`, `text`, `stats`, `context` and `error` stand at the top level (`formats.md`,
//! section 2). What does not fit is shown in part ([`kept`]); a response of the protocol keeps what
//! it says of itself ([`response`]); `text` says how to go on ([`words`]).

mod kept;
mod response;
mod words;

use std::io;
use std::io::Write;

use serde::Serialize;
use serde_json::value::RawValue;

use crate::model::Direction;
use crate::model::Subject;
use crate::redact::MaskCounts;
use crate::view::RenderError;
use crate::view::Rendered;
use crate::view::kind;
use crate::view::number::counted;
use kept::Kept;
use response::Found;
use response::Response;
use response::Status;

/// Bytes copied at once.
const BLOCK: usize = 256 << 10;
/// Most bytes of a preview, whatever the limits say.
pub(super) const PREVIEW_BYTES: u64 = Kept::MOST_BYTES;

/// What stands in the place of an output.
pub(super) enum Envelope {
    /// The output itself: a response that fits, or one that asks to be left as it is.
    Untouched,
    /// Another response.
    Wrapped {
        /// Valid JSON, and a newline.
        text: String,
        /// Whether it would be the same with more time.
        whole: bool,
    },
}

/// The members, in the order they are written.
#[derive(Serialize)]
struct Written<'a> {
    status: Status,
    data: Data<'a>,
    text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    stats: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a RawValue>,
}

#[derive(Serialize)]
struct Data<'a> {
    truncated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    truncation: Option<Truncation<'a>>,
    /// How many secrets are masked in the envelope, by name.
    #[serde(skip_serializing_if = "MaskCounts::is_empty")]
    redacted: MaskCounts,
    preview: String,
}

#[derive(Serialize)]
struct Truncation<'a> {
    direction: Direction,
    max_lines: u64,
    max_bytes: u64,
    /// `null` where there was no time to count them.
    original_lines: Option<u64>,
    original_bytes: u64,
    kept_lines: u64,
    kept_bytes: u64,
    full_output_path: &'a str,
}

/// Whether an output passes the limits of the protocol.
pub(super) fn is_over(subject: &Subject<'_>) -> bool {
    let limits = subject.limits;
    subject.analysis.lines > limits.max_lines || subject.size() > limits.max_bytes
}

/// Writes the envelope, for a reader whose tools are not known.
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

/// The envelope for a reader who has `tools`; where none are declared, they are not known.
pub(super) fn of(
    subject: &Subject<'_>,
    tools: &[String],
    expired: &dyn Fn() -> bool,
) -> io::Result<Envelope> {
    let counted = subject.analysis.bytes == subject.content.len();
    let over = is_over(subject) || !counted || subject.content.len() > Kept::MOST_BYTES;
    let (response, whole) = match response::read(subject, expired)? {
        Found::Response(response) if response.skip || !over => return Ok(Envelope::Untouched),
        Found::Response(response) => (Some(response), true),
        Found::Other => (None, true),
        Found::OutOfTime => (None, false),
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
        _ if subject.analysis.is_binary() => Kept::none(content, lines),
        Some(lines) if !over => Kept::all(content, lines)?,
        _ => Kept::some(content, lines, limits)?,
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
    let mut written = Written {
        status: status(response, over),
        text: words::text(subject, response, &kept, tools, over),
        data: Data { truncated: over, truncation, redacted, preview: preview(subject, kept) },
        stats: response.and_then(|response| response.stats.as_deref()),
        context: response.and_then(|response| response.context.as_deref()),
        error: response.and_then(|response| response.error.as_deref()),
    };
    if !subject.redacts.is_empty() {
        written.data.redacted = MaskCounts::of(&serde_json::to_string(&written)?, subject.redacts);
    }
    Ok(serde_json::to_string(&written)? + "\n")
}

fn status(response: Option<&Response>, over: bool) -> Status {
    match response.map(|response| response.status) {
        Some(Status::Error) => Status::Error,
        _ if over => Status::Partial,
        Some(status) => status,
        None => Status::Success,
    }
}

/// What is shown: of what is not text, what it is.
fn preview(subject: &Subject<'_>, kept: Kept) -> String {
    if !subject.analysis.is_binary() {
        return kept.text();
    }
    let bytes = counted(subject.size(), "byte");
    format!("[not text: {}, {bytes}]", kind::brief(subject.analysis))
}

/// Hands an output on as it is. Half of one would be no JSON, so there is none where time runs out.
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
