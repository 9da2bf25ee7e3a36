//! Adapter for GitHub Copilot CLI. The formats belong to version 1.0.102.
//!
//! For a long output, the host passes on 500 characters and the name of a file with the whole
//! output. The file is removed when the session ends. A failed command is reported as a success
//! whose text states the failure at its end. If a server reports an error, the hook receives only a
//! part of the error.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use crate::hooks::event::{EventText, HookError, Spill, ToolOutput, ToolResult, other_fields};
use crate::{hooks::host::ResultKind, hooks::keeper::OutputKeeper};

// Events have no name. An event after a call has a result, and an event at the start of a session
// has a source.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CopilotEvent<'a> {
    #[serde(borrow)]
    session_id: Cow<'a, str>,
    // Milliseconds since the epoch, or a text.
    #[serde(borrow)]
    timestamp: Option<&'a RawValue>,
    #[serde(borrow)]
    source: Option<EventText<'a>>,
    #[serde(borrow, default)]
    tool_name: Cow<'a, str>,
    #[serde(borrow)]
    tool_args: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_result: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CopilotResult<'a> {
    #[serde(borrow)]
    text_result_for_llm: EventText<'a>,
}

pub(crate) fn answer(
    event: &CopilotEvent<'_>,
    keeper: &OutputKeeper<'_>,
) -> Result<Option<Value>, HookError> {
    if let Some(result) = event.tool_result {
        return of_tool(event, result, keeper);
    }
    let text = keeper.pointers(&event.session_id, event.source.as_ref())?;
    Ok(text.map(|text| json!({ "additionalContext": text })))
}

fn of_tool(
    event: &CopilotEvent<'_>,
    result: &RawValue,
    keeper: &OutputKeeper<'_>,
) -> Result<Option<Value>, HookError> {
    let CopilotResult { text_result_for_llm: EventText(text) } =
        serde_json::from_str(result.get())?;
    let (body, ending) = split_ending(&text);
    let output = match spill_path(&text) {
        Some(path) => ToolOutput::Spill(Spill::open(std::path::Path::new(path))?),
        None => ToolOutput::Text(Cow::Borrowed(body)),
    };
    let code = ending.and_then(exit_code);
    let call = Cow::Owned(crate::hooks::event::call_at(
        &event.tool_name,
        event.timestamp.map(RawValue::get),
    ));
    let tool = (&*event.tool_name, event.tool_args);
    let called = ToolResult::new(&event.session_id, call, tool, output);
    let kind = ResultKind::of_command(code);
    let stand_in = keeper.stand_in(ToolResult { exit_code: code, kind, ..called })?;
    let Some(stand_in) = stand_in else { return Ok(None) };
    let text = ending.map_or(stand_in.clone(), |ending| format!("{stand_in}\n{ending}"));
    let is_ours = |name: &str| name == "textResultForLlm";
    let mut fields = other_fields(result, is_ours)?;
    fields.insert("textResultForLlm".to_owned(), Value::from(text));
    Ok(Some(json!({ "modifiedResult": fields })))
}

// Splits off the last line, in which the host reports the end of a command.
fn split_ending(text: &str) -> (&str, Option<&str>) {
    let trimmed = text.trim_end();
    let line = trimmed.rfind('\n').map_or(0, |at| at + 1);
    let ending = &trimmed[line..];
    if ending.starts_with("<shellId: ") && ending.ends_with('>') {
        (&text[..line], Some(ending))
    } else {
        (text, None)
    }
}

// Parses the exit code in `<shellId: 0 completed with exit code 3>`.
fn exit_code(ending: &str) -> Option<i32> {
    ending.strip_suffix('>')?.rsplit_once("exit code ")?.1.parse().ok()
}

// Returns the file that the host names in place of a long output.
fn spill_path(text: &str) -> Option<&str> {
    let rest = text.strip_prefix("Output too large to read at once")?;
    let (_, path) = rest.lines().next()?.split_once("Saved to: ")?;
    Some(path.trim_end())
}
