//! Storing long outputs of messages as artifacts, with their beginning left in the log.

mod calls;
mod comparing;
mod output;
mod texts;

use std::io;

use crate::message::layout::{MessageLayout, MessageMember};
use crate::message::offload::output::MessageOutput;
use crate::message::span::Span;
use crate::message::{AppendContext, MessageError, Preview};
use ctxfs_core::model::Content;

/// A part of a text, and what replaces it.
pub(super) type Replacement = (Span, String);

/// Returns true if a message may have outputs to store.
pub(super) fn may_be_needed(
    line: &dyn Content,
    layout: &MessageLayout,
) -> Result<bool, MessageError> {
    let role = layout.short(line, MessageMember::Role)?;
    Ok(role.is_some_and(|role| ["tool", "assistant"].contains(&&*role)))
}

/// Stores the outputs of a message that are too long for the log: that of a tool's message, or
/// those of calls in the text of an assistant's. Returns the changes to make in the line.
pub(super) fn edits(
    line: &dyn Content,
    layout: &MessageLayout,
    context: &AppendContext<'_>,
) -> Result<Vec<Replacement>, MessageError> {
    match layout.short(line, MessageMember::Role)?.as_deref() {
        Some("tool") => {
            let offload = Offload::of(line, layout, None, context)?;
            Ok(offload.map(Offload::edits).unwrap_or_default())
        }
        Some("assistant") => calls::edits(line, layout, context),
        _ => Ok(Vec::new()),
    }
}

/// The change to an object whose output is stored as an artifact.
struct Offload {
    /// The span of the output.
    content: Span,
    /// True if the output is a list, which stays one.
    is_list: bool,
    /// The span of `fullOutputPath`, if the object has one.
    path: Option<Span>,
    preview: Preview,
}

impl Offload {
    /// Stores the output among the members of an object if it is too long for the log. Returns
    /// `None` if the object stays as it is. An output without an id of its own is named after `id`.
    fn of(
        line: &dyn Content,
        layout: &MessageLayout,
        id: Option<&str>,
        context: &AppendContext<'_>,
    ) -> Result<Option<Self>, MessageError> {
        let Some(output) =
            layout.span(MessageMember::Content).map(|span| MessageOutput::of(line, span))
        else {
            return Ok(None);
        };
        let output = output?;
        let tool = layout.short(line, MessageMember::ToolName)?;
        let limits = context.host.limits(tool.as_deref());
        let length = output.length_over(limits.message_threshold)?;
        let refers = layout.short(line, MessageMember::FullOutputPath)?;
        let (Some(length), false) =
            (length, refers.is_some_and(|path| context.host.is_stored(&path)))
        else {
            return Ok(None);
        };
        if output.is_stand_in(length, &limits, context)? {
            return Ok(None);
        }
        let own_id = match layout.short(line, MessageMember::ToolCallId)? {
            None => layout.short(line, MessageMember::Id)?,
            id => id,
        };
        let call = match own_id.or_else(|| id.map(str::to_owned)) {
            Some(call) => call,
            None => output.digest()?,
        };
        context.host.allow_storing()?;
        let path = output.keep(&call, tool, length, context)?;
        let preview = context.host.preview(&path)?;
        let path = layout.span(MessageMember::FullOutputPath);
        let path = path.map(|span| whole(line, span)).transpose()?;
        Ok(Some(Self { is_list: output.first == b'[', content: output.span, path, preview }))
    }

    /// Returns the replacements to make in the line.
    fn edits(self) -> Vec<Replacement> {
        let text = serde_json::Value::from(self.preview.text);
        let mut content = if self.is_list {
            serde_json::json!([{ "type": "text", "text": text }]).to_string()
        } else {
            text.to_string()
        };
        let path = serde_json::Value::from(self.preview.full_output_path).to_string();
        let mut edits = Vec::with_capacity(2);
        match self.path {
            Some(span) => edits.push((span, path)),
            None => content = format!("{content},\"fullOutputPath\":{path}"),
        }
        edits.push((self.content, content));
        edits
    }
}

/// Returns the span of a value without the byte after it that is in the span of a number.
fn whole(line: &dyn Content, span: &Span) -> io::Result<Span> {
    let first = MessageOutput::of(line, span)?.first;
    let last = line.bytes(span.end - 1, 1)?;
    let is_more = (first == b'-' || first.is_ascii_digit()) && !last[0].is_ascii_digit();
    Ok(span.start..span.end - u64::from(is_more))
}
