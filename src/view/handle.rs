//! `.handle`: the stand-in that a host with the `tool_output` tool gives the model.

use std::io;
use std::io::Write;

use crate::{RenderError, Rendered, cut};
use ctxfs_core::model::{Subject, handle};

/// Returns true if an output is larger than the limits of such a host.
pub(super) fn is_over(subject: &Subject<'_>) -> bool {
    let (limits, tokens) = (subject.limits, subject.analysis.tokens);
    subject.size() > limits.tool_response_max_bytes
        || limits.token_budget.is_some_and(|budget| tokens > budget)
}

/// Writes the text of `formats.md`, section 3. It calls an output too large only if it is.
pub(super) fn render(subject: &Subject<'_>, out: &mut dyn Write) -> Result<Rendered, RenderError> {
    let analysis = subject.analysis;
    let whole = analysis.bytes == subject.content.len();
    let what = if is_over(subject) { "too large" } else { "stored" };
    let least = if whole { "" } else { "at least " };
    let place = subject.place;
    let handle = handle(subject.record, place.conversation(), place.path());
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
        writeln!(out, "{}", cut::line(&line))?;
    }
    Ok(Rendered { notice: None, whole })
}
