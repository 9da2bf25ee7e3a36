//! The text that replaces an output for the model. It is based on one analysis and has four forms
//! (`formats.md`). An output that is itself a stand-in is left unchanged.

use std::io;

use serde::Deserialize;

use crate::envelope::{Envelope, PREVIEW_BYTES};
use crate::{RenderError, View, envelope, render, short_stand_ins, summary};
use ctxfs_core::model::{Limits, Subject};

// Size in bytes of an envelope without its preview.
const ENVELOPE_REST: u64 = 128 << 10;
// Maximum number of bytes that one byte of a preview takes in JSON.
const ESCAPED_BYTES: u64 = 6;

/// The form of a stand-in. Each kind of host uses its own form. `Summary` has facts, head and tail,
/// errors, and hints for further reading. `Envelope` is a response of the tool-output protocol.
/// `Handle` is for a host with the `tool_output` tool. `Preview` is for the message log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the contract above tells it")]
pub enum Form {
    Summary,
    Envelope,
    Handle,
    Preview,
}

/// The model and host that receive a stand-in.
#[derive(Clone, Copy)]
pub struct Audience<'a> {
    /// The tools that the model has. An empty list means that they are unknown.
    pub tools: &'a [String],
    /// A function that returns true if a reference, a handle or a path refers to a stored output.
    pub is_stored: &'a dyn Fn(&str) -> bool,
    /// The beginning of the output that the model has already received. A summary does not repeat
    /// it; the other forms ignore it.
    pub above: &'a [u8],
}

impl std::fmt::Debug for Audience<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Audience").field("tools", &self.tools).finish_non_exhaustive()
    }
}

/// The text that the model receives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StandIn {
    /// The output itself is passed on, byte for byte.
    Unchanged,
    /// The output is replaced by this text.
    Replaced(String),
}

/// Returns the text that replaces `subject` for the model.
///
/// The result is the output itself if the output is within the limits of the form, asks to be left
/// unchanged, or is already a stand-in. If the form can mark an output as incomplete, an incomplete
/// output is never passed on as complete. The text depends only on the subject and
/// `audience.tools`.
pub fn stand_in(
    form: Form,
    subject: &Subject<'_>,
    audience: &Audience<'_>,
) -> Result<StandIn, RenderError> {
    if passes(form, subject) || is_stand_in(subject, audience)? {
        return Ok(StandIn::Unchanged);
    }
    stand_in_always(form, subject, audience)
}

/// Returns the text of the form's view, even if the output is within the limits.
pub fn stand_in_always(
    form: Form,
    subject: &Subject<'_>,
    audience: &Audience<'_>,
) -> Result<StandIn, RenderError> {
    let mut body = Vec::new();
    let rendered = match form {
        Form::Summary => summary::render(subject, audience.above, &mut body)?,
        Form::Handle => render(&View::Handle, subject, &|| false, &mut body)?,
        Form::Preview => render(&View::Preview, subject, &|| false, &mut body)?,
        Form::Envelope => {
            return Ok(match envelope::of(subject, audience.tools, &|| false)? {
                Envelope::Untouched => StandIn::Unchanged,
                Envelope::Wrapped { text, .. } => StandIn::Replaced(text),
            });
        }
    };
    let text = [rendered.notice.unwrap_or_default().into_bytes(), body].concat();
    let text = String::from_utf8(text).map_err(io::Error::other)?;
    Ok(StandIn::Replaced(text))
}

/// Returns true if `subject` is a stand-in for a stored output. The decision depends on the
/// reference in it, not on its wording.
pub fn is_stand_in(subject: &Subject<'_>, audience: &Audience<'_>) -> io::Result<bool> {
    let references = references(subject)?;
    Ok(references.iter().any(|reference| (audience.is_stored)(reference)))
}

fn passes(form: Form, subject: &Subject<'_>) -> bool {
    let incomplete = subject.record.incomplete().is_some();
    match form {
        Form::Summary => !incomplete && !summary::is_over(subject),
        Form::Envelope => !incomplete && !envelope::is_over(subject),
        Form::Handle => !short_stand_ins::is_handle_over(subject),
        Form::Preview => !short_stand_ins::is_preview_over(subject),
    }
}

// A summary names its output in the second line. A notice and a line with the command may come
// before it.
const IDENTITY_LINES: [usize; 3] = [1, 2, 3];

// The members of an envelope that contain the path of the whole output.
#[derive(Deserialize)]
struct ReturnedEnvelope {
    data: ReturnedData,
}

#[derive(Deserialize)]
struct ReturnedData {
    truncation: ReturnedTruncation,
}

#[derive(Deserialize)]
struct ReturnedTruncation {
    full_output_path: String,
}

/// Returns the outputs that `subject` would refer to if it were a stand-in. Each form has its
/// reference, handle or path in a fixed place. `subject` is a stand-in only if one of these refers
/// to a stored output, which the caller checks. Content that is larger than any stand-in is not
/// read.
pub(super) fn references(subject: &Subject<'_>) -> io::Result<Vec<String>> {
    let length = subject.content.len();
    if length > max_stand_in_bytes(subject.limits) {
        return Ok(Vec::new());
    }
    let bytes = subject.content.bytes(0, length as usize)?;
    let Ok(text) = std::str::from_utf8(&bytes) else { return Ok(Vec::new()) };
    if text.starts_with('{') {
        return Ok(of_envelope(text).into_iter().collect());
    }
    if text.len() > Limits::STAND_IN_BYTES {
        return Ok(Vec::new());
    }
    Ok(of_summary(text).chain(of_handle(text)).chain(of_preview(text)).collect())
}

fn max_stand_in_bytes(limits: &Limits) -> u64 {
    limits.max_bytes.min(PREVIEW_BYTES) * ESCAPED_BYTES + ENVELOPE_REST
}

fn of_envelope(text: &str) -> Option<String> {
    let envelope: ReturnedEnvelope = serde_json::from_str(text).ok()?;
    Some(envelope.data.truncation.full_output_path)
}

// Parses `tool: ...    call: ...    ref: ctx://c7/artifacts/tool/9f3k.txt`.
pub(crate) fn of_summary(text: &str) -> impl Iterator<Item = String> {
    let reference =
        |line: &str| Some(line[line.rfind("ref: ctx://")?..]["ref: ".len()..].to_owned());
    IDENTITY_LINES.into_iter().filter_map(move |line| reference(text.lines().nth(line)?))
}

// Parses `Call tool_output(handle = "c7/9f3k.txt", extract = "what to extract").`
fn of_handle(text: &str) -> Option<String> {
    let (_, rest) = text.lines().nth(1)?.split_once("(handle = ")?;
    serde_json::Deserializer::from_str(rest).into_iter().next()?.ok()
}

// Parses `[Full output: /ctx/c7/artifacts/tool/9f3k.txt]`. The path may be the last word of a
// command.
fn of_preview(text: &str) -> Vec<String> {
    let last = text.lines().next_back().and_then(|line| line.strip_prefix("[Full output: "));
    let Some(file) = last.and_then(|last| last.strip_suffix(']')) else { return Vec::new() };
    let word = shlex::split(file).and_then(|mut words| words.pop());
    [file.to_owned()].into_iter().chain(word).collect()
}

#[cfg(test)]
mod tests;
