//! The short stand-ins: `.handle` for a host with the `tool_output` tool, and `.preview` for the
//! message log.

use std::io;
use std::io::Write;

use bstr::ByteSlice as _;

use crate::clean::TextBudget;
use crate::number::counted;
use crate::{RenderError, Rendered, clean, kind};
use ctxfs_core::model::{self, Limits, Subject};
use ctxfs_core::redact::MaskCounts;

// Number of bytes that are read. The limit keeps a preview of a long output cheap.
const START_BYTES: usize = 64 << 10;
// Number of lines after the text: a blank line and the path.
const LINES_AFTER: usize = 2;
// Bytes that are reserved for the line that counts redacted secrets.
const REDACTED_BYTES: usize = 256;

pub(super) fn is_preview_over(subject: &Subject<'_>) -> bool {
    subject.size() > subject.limits.message_threshold
}

/// Writes the first characters of the output, a blank line and the path (`formats.md`, section 4).
/// If secrets are masked in these characters, the next line states their number.
pub(super) fn preview(subject: &Subject<'_>, out: &mut dyn Write) -> Result<Rendered, RenderError> {
    let path = clean::cut_line(&format!("[Full output: {}]", subject.place.file()));
    if subject.analysis.is_binary() {
        let bytes = counted(subject.size(), "byte");
        write!(out, "[not text: {}, {bytes}]", kind::brief(subject.analysis))?;
    } else {
        let start = subject.content.bytes(0, START_BYTES)?;
        let bytes = Limits::STAND_IN_BYTES - path.len() - "\n\n\n".len();
        let lines = Limits::STAND_IN_LINES - LINES_AFTER;
        out.write_all(text(subject, &start, TextBudget { bytes, lines }).as_bytes())?;
    }
    write!(out, "\n\n{path}\n")?;
    Ok(Rendered::plain())
}

fn text(subject: &Subject<'_>, start: &[u8], limit: TextBudget) -> String {
    let chars = subject.limits.message_preview;
    let all = first(start, chars, limit);
    if MaskCounts::of(&all, subject.mask_names()).is_empty() {
        return all;
    }
    let less = TextBudget { bytes: limit.bytes - REDACTED_BYTES, lines: limit.lines - 1 };
    let less = first(start, chars, less);
    let newline = if less.ends_with('\n') { "" } else { "\n" };
    let redacted = MaskCounts::of(&less, subject.mask_names());
    if redacted.is_empty() {
        less
    } else {
        format!("{less}{newline}[Redacted: {}]", redacted.text())
    }
}

// Returns the first characters within the limits of a stand-in. Bytes that are not UTF-8 are shown
// as U+FFFD.
fn first(bytes: &[u8], chars: usize, limit: TextBudget) -> String {
    let mut text = String::new();
    let (mut lines, mut column) = (1, 0);
    for (_, _, c) in bytes.char_indices().take(chars) {
        (lines, column) = if c == '\n' { (lines + 1, 0) } else { (lines, column + 1) };
        let full = text.len() + c.len_utf8() > limit.bytes
            || lines > limit.lines
            || column > Limits::LINE_CHARS;
        if full {
            break;
        }
        text.push(c);
    }
    text
}

pub(super) fn is_handle_over(subject: &Subject<'_>) -> bool {
    let (limits, tokens) = (subject.limits, subject.analysis.tokens);
    subject.size() > limits.tool_response_max_bytes
        || limits.token_budget.is_some_and(|budget| tokens > budget)
}

// Writes the handle as defined in `formats.md`, section 3. The text calls the output too large only
// if it exceeds the limits.
pub(super) fn handle(subject: &Subject<'_>, out: &mut dyn Write) -> Result<Rendered, RenderError> {
    let analysis = subject.analysis;
    let whole = analysis.bytes == subject.content.len();
    let what = if is_handle_over(subject) { "too large" } else { "stored" };
    let least = if whole { "" } else { "at least " };
    let place = subject.place;
    let handle = model::handle(subject.record, place.conversation(), place.path());
    let quoted = serde_json::to_string(&handle).map_err(io::Error::from)?;
    let lines = [
        format!(
            "Tool output is {what} ({} bytes, {least}{} lines, {least}{} tokens).",
            subject.size(),
            analysis.lines,
            analysis.tokens,
        ),
        format!("Call tool_output(handle = {quoted}, extract = \"what to extract\")."),
        "Provide precise and detailed instructions in `extract` about what you are looking for."
            .to_owned(),
    ];
    for line in lines {
        writeln!(out, "{}", clean::cut_line(&line))?;
    }
    Ok(Rendered { notice: None, whole })
}
