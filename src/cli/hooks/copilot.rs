//! GitHub Copilot CLI. Contracts: version 1.0.102.
//!
//! The host hands over 500 characters of a long output and the name of a file with all of it, which
//! it removes when the session ends. A command that failed is a success whose text says so at its
//! end. Of the error of a server, its hook sees no more than a part.

use std::borrow::Cow;
use std::path::Path;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::hooks::HookError;
use crate::hooks::event_text::Text;
use crate::hooks::keeper::Keeper;
use crate::hooks::policy::ResultKind;
use crate::hooks::tool_result::{Output, Spill, ToolResult, call_at, other_fields};

/// An event, which has no name: after a call it has a result, and where a session begins a source.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CopilotEvent<'a> {
    #[serde(borrow)]
    session_id: Cow<'a, str>,
    /// Milliseconds since the epoch, or a text.
    #[serde(borrow)]
    timestamp: Option<&'a RawValue>,
    /// Why a session begins.
    #[serde(borrow)]
    source: Option<Text<'a>>,
    #[serde(borrow, default)]
    tool_name: Cow<'a, str>,
    #[serde(borrow)]
    tool_args: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_result: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResultText<'a> {
    #[serde(borrow)]
    text_result_for_llm: Text<'a>,
}

/// Returns the answer to an event.
pub(super) fn answer(
    event: &CopilotEvent<'_>,
    keeper: &Keeper<'_>,
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
    keeper: &Keeper<'_>,
) -> Result<Option<Value>, HookError> {
    let ResultText { text_result_for_llm: Text(text) } = serde_json::from_str(result.get())?;
    let (body, ending) = split_ending(&text);
    let output = match spill_path(&text) {
        Some(path) => Output::Spill(Spill::open(Path::new(path))?),
        None => Output::Text(Cow::Borrowed(body)),
    };
    let code = ending.and_then(exit_code);
    let stand_in = keeper.stand_in(ToolResult {
        conversation: &event.session_id,
        call: Cow::Owned(call_at(&event.tool_name, event.timestamp.map(RawValue::get))),
        agent: None,
        server: None,
        tool: &event.tool_name,
        args: event.tool_args,
        exit_code: code,
        duration_ms: None,
        kind: ResultKind::of_command(code),
        output,
    })?;
    let Some(stand_in) = stand_in else { return Ok(None) };
    let text = ending.map_or(stand_in.clone(), |ending| format!("{stand_in}\n{ending}"));
    let is_ours = |name: &str| name == "textResultForLlm";
    let mut fields = other_fields(result, is_ours)?;
    fields.insert("textResultForLlm".to_owned(), Value::from(text));
    Ok(Some(json!({ "modifiedResult": fields })))
}

/// Splits off the line by which the host tells that a command has ended.
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

/// Returns the code in `<shellId: 0 completed with exit code 3>`.
fn exit_code(ending: &str) -> Option<i32> {
    ending.strip_suffix('>')?.rsplit_once("exit code ")?.1.parse().ok()
}

/// Returns the file that a text names in place of a long output.
fn spill_path(text: &str) -> Option<&str> {
    let rest = text.strip_prefix("Output too large to read at once")?;
    let (_, path) = rest.lines().next()?.split_once("Saved to: ")?;
    Some(path.trim_end())
}
