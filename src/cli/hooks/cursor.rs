//! Adapter for Cursor. The formats follow its documents of September 2026.
//!
//! The host lets a hook replace only the results of MCP servers. The output of a command is stored,
//! and the model receives the host's own result.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use crate::hooks::event::{ContentBlocks, EventText, HookError, ToolOutput, ToolResult};
use crate::hooks::{host::ResultKind, keeper::OutputKeeper};

const SHELL: &str = "Shell";
const SERVER: &str = "MCP:";

#[derive(Deserialize)]
pub(crate) struct CursorEvent<'a> {
    #[serde(borrow)]
    hook_event_name: Cow<'a, str>,
    #[serde(borrow)]
    conversation_id: Cow<'a, str>,
    #[serde(borrow, default)]
    tool_name: Cow<'a, str>,
    #[serde(borrow, default)]
    tool_use_id: Cow<'a, str>,
    #[serde(borrow)]
    tool_input: Option<&'a RawValue>,
    // The result as a text of JSON.
    #[serde(borrow)]
    tool_output: Option<EventText<'a>>,
    // What a failed command has printed.
    #[serde(borrow)]
    error_message: Option<EventText<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ShellResult<'a> {
    #[serde(borrow)]
    output: EventText<'a>,
    exit_code: Option<i32>,
}

#[derive(Deserialize)]
struct ServerResult<'a> {
    #[serde(borrow)]
    content: &'a RawValue,
}

pub(crate) fn answer(
    event: &CursorEvent<'_>,
    keeper: &OutputKeeper<'_>,
) -> Result<Option<Value>, HookError> {
    let (name, tool) = (&*event.hook_event_name, &*event.tool_name);
    let (kind, exit_code, text) = match (name, &event.tool_output, &event.error_message) {
        ("postToolUse", Some(output), _) if tool == SHELL => {
            let ShellResult { output, exit_code } = serde_json::from_str(&output.0)?;
            (ResultKind::of_command(exit_code), exit_code, output.0)
        }
        ("postToolUseFailure", _, Some(error)) if tool == SHELL => {
            (ResultKind::FailedCommand, None, Cow::Borrowed(&*error.0))
        }
        ("postToolUse", Some(output), _) if tool.starts_with(SERVER) => {
            return of_server(event, &tool[SERVER.len()..], &output.0, keeper);
        }
        _ => return Ok(None),
    };
    let result = event.result(tool, ToolOutput::Text(text));
    keeper.stand_in(ToolResult { exit_code, kind, is_replaceable: false, ..result })?;
    Ok(None)
}

// The host is known to accept texts as a replacement, and no images.
fn of_server(
    event: &CursorEvent<'_>,
    tool: &str,
    output: &str,
    keeper: &OutputKeeper<'_>,
) -> Result<Option<Value>, HookError> {
    let ServerResult { content } = serde_json::from_str(output)?;
    let blocks = ContentBlocks::of(content)?;
    let is_replaceable = blocks.are_text();
    let kind = if is_replaceable { ResultKind::Text } else { ResultKind::Mixed };
    let result = event.result(tool, ToolOutput::Text(blocks.text()));
    let text = keeper.stand_in(ToolResult { kind, is_replaceable, ..result })?;
    let blocks = text.map(|text| blocks.with_text(&text)).transpose()?;
    Ok(blocks.map(|blocks| json!({ "updated_mcp_tool_output": { "content": blocks } })))
}

impl CursorEvent<'_> {
    fn result<'b>(&'b self, tool: &'b str, output: ToolOutput<'b>) -> ToolResult<'b> {
        let call = Cow::Borrowed(&*self.tool_use_id);
        ToolResult::new(&self.conversation_id, call, (tool, self.tool_input), output)
    }
}
