//! Adapter for Codex. The formats belong to version 0.171.0.
//!
//! The host passes only 10 KB of a command's output to its hook. Commands therefore run under
//! `ctxfs shell`, which `ctxfs install codex` sets up. A hook that replaces commands would be no
//! alternative: it would also have to allow the new command, and the host would then no longer
//! check the command of the model.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use crate::hooks::event::{ContentBlocks, EventText, HookError, ToolOutput, ToolResult, of_mcp};
use crate::{hooks::host::ResultKind, hooks::keeper::OutputKeeper};

#[derive(Deserialize)]
pub(crate) struct CodexEvent<'a> {
    #[serde(borrow)]
    hook_event_name: Cow<'a, str>,
    #[serde(borrow)]
    session_id: Cow<'a, str>,
    #[serde(borrow)]
    transcript_path: Option<EventText<'a>>,
    #[serde(borrow)]
    source: Option<EventText<'a>>,
    #[serde(borrow, default)]
    tool_name: Cow<'a, str>,
    #[serde(borrow, default)]
    tool_use_id: Cow<'a, str>,
    #[serde(borrow)]
    tool_input: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_response: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ServerResult<'a> {
    #[serde(borrow)]
    content: &'a RawValue,
    // The model receives this JSON instead of the content.
    #[serde(borrow)]
    structured_content: Option<&'a RawValue>,
}

pub(crate) fn answer(
    event: &CodexEvent<'_>,
    keeper: &OutputKeeper<'_>,
) -> Result<Option<Value>, HookError> {
    match (&*event.hook_event_name, &*event.tool_name) {
        ("SessionStart", _) => {
            // The host runs no command if a directory that its sandbox may write does not exist.
            keeper.make_store(&event.session_id)?;
            let text = keeper.pointers(&event.session_id, event.source.as_ref())?;
            Ok(text.map(|text| specific(event, json!({ "additionalContext": text }))))
        }
        ("PreCompact", _) => {
            let path = event.transcript_path.as_ref().map(|path| &*path.0);
            let copied = path.map(|path| keeper.copy_messages(&event.session_id, path));
            copied.transpose().map(|_| None)
        }
        ("PostToolUse", name) => match (of_mcp(name), event.tool_response) {
            (Some(named), Some(response)) => of_server(event, named, response, keeper),
            _ => Ok(None),
        },
        _ => Ok(None),
    }
}

// The host accepts only text as a replacement. If the result has images, the stand-in is added to
// it.
fn of_server(
    event: &CodexEvent<'_>,
    (server, tool): (&str, &str),
    response: &RawValue,
    keeper: &OutputKeeper<'_>,
) -> Result<Option<Value>, HookError> {
    let ServerResult { content, structured_content } = serde_json::from_str(response.get())?;
    let blocks = ContentBlocks::of(content)?;
    let structure = structured_content.map(|content| Cow::Borrowed(content.get()));
    let is_text = structure.is_some() || blocks.are_text();
    let kind = if is_text { ResultKind::Text } else { ResultKind::Mixed };
    let output = ToolOutput::Text(structure.unwrap_or_else(|| blocks.text()));
    let call = Cow::Borrowed(&*event.tool_use_id);
    let result = ToolResult::new(&event.session_id, call, (tool, event.tool_input), output);
    let text = keeper.stand_in(ToolResult { server: Some(server), kind, ..result })?;
    Ok(text.map(|text| {
        if is_text {
            json!({ "decision": "block", "reason": text })
        } else {
            specific(event, json!({ "additionalContext": text }))
        }
    }))
}

fn specific(event: &CodexEvent<'_>, mut fields: Value) -> Value {
    fields["hookEventName"] = Value::from(&*event.hook_event_name);
    json!({ "hookSpecificOutput": fields })
}
