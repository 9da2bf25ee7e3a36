//! Codex. Contracts: version 0.171.0.
//!
//! The host shows its hook 10 KB of a command's output, so commands are no matter of the hook: they
//! run under `ctxfs run`, which `ctxfs install codex` arranges. To replace a command, a hook would
//! have to allow it, and the host would check another command than the model's.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::hooks::HookError;
use crate::hooks::content_blocks::ContentBlocks;
use crate::hooks::event_text::Text;
use crate::hooks::keeper::Keeper;
use crate::hooks::policy::ResultKind;
use crate::hooks::tool_result::{Output, ToolResult, of_mcp};

/// An event. Which fields it has depends on its name.
#[derive(Deserialize)]
pub(super) struct CodexEvent<'a> {
    #[serde(borrow)]
    hook_event_name: Cow<'a, str>,
    #[serde(borrow)]
    session_id: Cow<'a, str>,
    /// Why a session begins.
    #[serde(borrow)]
    source: Option<Text<'a>>,
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
    /// The JSON that the model gets in the place of the content, if the server sent it.
    #[serde(borrow)]
    structured_content: Option<&'a RawValue>,
}

/// Returns the answer to an event.
pub(super) fn answer(
    event: &CodexEvent<'_>,
    keeper: &Keeper<'_>,
) -> Result<Option<Value>, HookError> {
    match (&*event.hook_event_name, &*event.tool_name) {
        ("SessionStart", _) => {
            // Where its sandbox may write a directory that is gone, the host runs no command.
            keeper.make_store(&event.session_id)?;
            let text = keeper.pointers(&event.session_id, event.source.as_ref())?;
            Ok(text.map(|text| specific(event, json!({ "additionalContext": text }))))
        }
        ("PostToolUse", name) => match (of_mcp(name), event.tool_response) {
            (Some(named), Some(response)) => of_server(event, named, response, keeper),
            _ => Ok(None),
        },
        _ => Ok(None),
    }
}

/// Replaces a server's result. The host takes nothing but a text, so the stand-in of one with images
/// is added to it.
fn of_server(
    event: &CodexEvent<'_>,
    (server, tool): (&str, &str),
    response: &RawValue,
    keeper: &Keeper<'_>,
) -> Result<Option<Value>, HookError> {
    let ServerResult { content, structured_content } = serde_json::from_str(response.get())?;
    let blocks = ContentBlocks::of(content)?;
    let structure = structured_content.map(|content| Cow::Borrowed(content.get()));
    let is_text = structure.is_some() || blocks.are_text();
    let text = keeper.stand_in(ToolResult {
        conversation: &event.session_id,
        call: Cow::Borrowed(&event.tool_use_id),
        agent: None,
        server: Some(server),
        tool,
        args: event.tool_input,
        exit_code: None,
        duration_ms: None,
        kind: if is_text { ResultKind::Text } else { ResultKind::Mixed },
        output: Output::Text(structure.unwrap_or_else(|| blocks.text())),
    })?;
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
