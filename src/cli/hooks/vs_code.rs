//! Adapter for the `Local` agent of VS Code, which runs the hooks of Copilot CLI and of Claude Code.
//! The formats follow its documents of 2026 and its source. Earlier versions write the common fields
//! in camel case.
//!
//! The hook receives the text that the model receives, and the host accepts no other. So the text
//! is only stored.

use std::borrow::Cow;

use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Value, value::RawValue};

use crate::hooks::event::{EventText, HookError, ToolOutput, ToolResult};
use crate::hooks::{host::ResultKind, keeper::OutputKeeper};

// The tool that runs commands.
const SHELL: &str = "run_in_terminal";
// The mark in a text whose beginning the host has removed.
const CUT: &str = "[... PREVIOUS OUTPUT TRUNCATED ...]";

#[derive(Deserialize)]
pub(crate) struct VsCodeEvent<'a> {
    #[serde(borrow, alias = "hookEventName")]
    hook_event_name: EventText<'a>,
    #[serde(borrow, alias = "sessionId")]
    session_id: Cow<'a, str>,
    #[serde(borrow, default)]
    tool_name: Cow<'a, str>,
    #[serde(borrow, default)]
    tool_use_id: Cow<'a, str>,
    #[serde(borrow)]
    tool_input: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_response: Option<EventText<'a>>,
}

#[derive(Deserialize)]
struct EventMark {
    #[serde(rename = "hook_event_name", alias = "hookEventName")]
    _name: IgnoredAny,
    #[serde(rename = "session_id", alias = "sessionId")]
    _session: IgnoredAny,
}

/// Returns true if this event of the hooks of Copilot is one of VS Code. Those of Copilot have no
/// names.
pub(crate) fn is_event(event: &[u8]) -> bool {
    serde_json::from_slice::<EventMark>(event).is_ok()
}

pub(crate) fn answer(
    event: &VsCodeEvent<'_>,
    keeper: &OutputKeeper<'_>,
) -> Result<Option<Value>, HookError> {
    let Some(text) =
        event.tool_response.as_ref().filter(|_| event.hook_event_name.0 == "PostToolUse")
    else {
        return Ok(None);
    };
    if text.0.contains(CUT) {
        return Ok(None);
    }
    let kind = if event.tool_name == SHELL { ResultKind::Command } else { ResultKind::Text };
    let (call, tool) = (Cow::Borrowed(&*event.tool_use_id), (&*event.tool_name, event.tool_input));
    let output = ToolOutput::Text(Cow::Borrowed(&text.0));
    let result = ToolResult::new(&event.session_id, call, tool, output);
    keeper.stand_in(ToolResult { kind, is_replaceable: false, ..result })?;
    Ok(None)
}
