//! The outputs that a stand-in may refer to, if it comes back as an output itself.

use std::io;

use serde::Deserialize;

use crate::envelope::PREVIEW_BYTES;
use ctxfs_core::model::{Limits, Subject};

// Bytes of an envelope besides its preview.
const ENVELOPE_REST: u64 = 128 << 10;
// Bytes that one byte of a preview may take in JSON.
const ESCAPED: u64 = 6;
// A summary names its output in the second line, below a notice and the line with the command if
// there are any.
const IDENTITY_LINES: [usize; 3] = [1, 2, 3];

/// The members of an envelope that lead to the path of the whole output.
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

/// Returns the outputs that `subject` would refer to if it were a stand-in: a reference, a handle
/// or a path, from the place where each form has it. It is a stand-in only if one of these leads to
/// an output, which the caller finds out. Content that is larger than any stand-in is not read.
pub(super) fn references(subject: &Subject<'_>) -> io::Result<Vec<String>> {
    let length = subject.content.len();
    if length > most(subject.limits) {
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
    let found = [of_handle(text), of_preview(text)].into_iter().flatten();
    Ok(of_summary(text).chain(found).collect())
}

fn most(limits: &Limits) -> u64 {
    limits.max_bytes.min(PREVIEW_BYTES) * ESCAPED + ENVELOPE_REST
}

fn of_envelope(text: &str) -> Option<String> {
    let envelope: ReturnedEnvelope = serde_json::from_str(text).ok()?;
    Some(envelope.data.truncation.full_output_path)
}

// `tool: ...    call: ...    ref: ctx://c7/artifacts/tool/9f3k.txt`
fn of_summary(text: &str) -> impl Iterator<Item = String> {
    let reference =
        |line: &str| Some(line[line.rfind("ref: ctx://")?..]["ref: ".len()..].to_owned());
    IDENTITY_LINES.into_iter().filter_map(move |line| reference(text.lines().nth(line)?))
}

// `Call tool_output(handle = "c7/9f3k.txt", extract = "what to extract").`
fn of_handle(text: &str) -> Option<String> {
    let (_, rest) = text.lines().nth(1)?.split_once("(handle = ")?;
    serde_json::Deserializer::from_str(rest).into_iter().next()?.ok()
}

// `[Full output: /ctx/c7/artifacts/tool/9f3k.txt]`
fn of_preview(text: &str) -> Option<String> {
    let last = text.lines().next_back()?.strip_prefix("[Full output: ")?;
    Some(last.strip_suffix(']')?.to_owned())
}
