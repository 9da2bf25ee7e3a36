//! The text that goes to the model in place of an output: one analysis, four forms (`formats.md`).
//! An output may itself be a stand-in that comes back; then it is left as it is.

use std::io;

use crate::envelope::Envelope;
use crate::{RenderError, View, envelope, handle, origin, preview, render, summary};
use ctxfs_core::model::Subject;

/// The form of a stand-in. Each kind of host has its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Facts, head and tail, errors, where to read on.
    Summary,
    /// A response in the common protocol of tools.
    Envelope,
    /// For a host with the `tool_output` tool.
    Handle,
    /// For the message log.
    Preview,
}

/// The reader of a stand-in.
#[derive(Clone, Copy)]
pub struct Audience<'a> {
    /// The tools that the model has. Empty if they are unknown.
    pub tools: &'a [String],
    /// Returns true if a reference, a handle or a path leads to a stored output.
    pub is_stored: &'a dyn Fn(&str) -> bool,
}

impl std::fmt::Debug for Audience<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Audience").field("tools", &self.tools).finish_non_exhaustive()
    }
}

/// The text that the model gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StandIn {
    /// The output itself, byte for byte.
    Unchanged,
    /// This text.
    Replaced(String),
}

/// Returns the text that goes to the model in place of `subject`.
///
/// That is the output itself if it is within the limits of the form, asks to be left as it is, or
/// is a stand-in already. An incomplete output never passes for a complete one, if the form can
/// tell. The text depends on the subject and `audience.tools` alone.
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

/// Returns the text of the form's view, even for an output that is within the limits.
pub fn stand_in_always(
    form: Form,
    subject: &Subject<'_>,
    audience: &Audience<'_>,
) -> Result<StandIn, RenderError> {
    let view = match form {
        Form::Summary => View::Summary,
        Form::Handle => View::Handle,
        Form::Preview => View::Preview,
        Form::Envelope => {
            return Ok(match envelope::of(subject, audience.tools, &|| false)? {
                Envelope::Untouched => StandIn::Unchanged,
                Envelope::Wrapped { text, .. } => StandIn::Replaced(text),
            });
        }
    };
    let mut body = Vec::new();
    let rendered = render(&view, subject, &|| false, &mut body)?;
    let text = [rendered.notice.unwrap_or_default().into_bytes(), body].concat();
    let text = String::from_utf8(text).map_err(io::Error::other)?;
    Ok(StandIn::Replaced(text))
}

/// Returns true if `subject` is a stand-in for a stored output. Its reference decides, not its
/// wording.
pub fn is_stand_in(subject: &Subject<'_>, audience: &Audience<'_>) -> io::Result<bool> {
    let references = origin::references(subject)?;
    Ok(references.iter().any(|reference| (audience.is_stored)(reference)))
}

fn passes(form: Form, subject: &Subject<'_>) -> bool {
    let incomplete = subject.record.incomplete().is_some();
    match form {
        Form::Summary => !incomplete && !summary::is_over(subject),
        Form::Envelope => !incomplete && !envelope::is_over(subject),
        Form::Handle => !handle::is_over(subject),
        Form::Preview => !preview::is_over(subject),
    }
}

#[cfg(test)]
mod tests;
