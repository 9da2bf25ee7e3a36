//! Adapter for Gemini CLI. The formats belong to version 0.61.0.
//!
//! The host passes on the whole output. A replacement reaches the model as an error, so the
//! stand-in states whether the call succeeded.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};

use crate::hooks::event::{EventText, HookError, MOST_BLOCKS, ToolOutput, ToolResult, call_at};
use crate::{hooks::host::ResultKind, hooks::keeper::OutputKeeper};

const OPENING: &str = "<untrusted_context>\n";
const CLOSING: &str = "\n</untrusted_context>";
// Prefixes of the lines that follow the output of a command.
const FACTS: [&str; 5] =
    ["Error: ", "Exit Code: ", "Signal: ", "Background PIDs: ", "Process Group PGID: "];

#[derive(Deserialize)]
pub(crate) struct GeminiEvent<'a> {
    #[serde(borrow)]
    hook_event_name: Cow<'a, str>,
    #[serde(borrow)]
    session_id: Cow<'a, str>,
    #[serde(borrow)]
    timestamp: Option<EventText<'a>>,
    #[serde(borrow)]
    source: Option<EventText<'a>>,
    #[serde(borrow, default)]
    tool_name: Cow<'a, str>,
    #[serde(borrow)]
    tool_input: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_response: Option<ToolResponse<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToolResponse<'a> {
    // A text, a part, or a list of parts.
    #[serde(borrow)]
    llm_content: &'a RawValue,
}

struct GeminiText {
    text: String,
    // True if the result is only this text. A result with images is not replaced, because the
    // images would be lost.
    is_all: bool,
    // True if the result has exactly one part.
    is_one: bool,
}

#[derive(Deserialize)]
struct GeminiPart<'a> {
    #[serde(borrow)]
    text: Option<EventText<'a>>,
}

pub(crate) fn answer(
    event: &GeminiEvent<'_>,
    keeper: &OutputKeeper<'_>,
) -> Result<Option<Value>, HookError> {
    match (&*event.hook_event_name, &event.tool_response) {
        ("SessionStart", _) => {
            let text = keeper.pointers(&event.session_id, event.source.as_ref())?;
            Ok(text.map(|text| added(event, &text)))
        }
        ("AfterTool", Some(response)) => of_tool(event, response, keeper),
        _ => Ok(None),
    }
}

fn of_tool(
    event: &GeminiEvent<'_>,
    response: &ToolResponse<'_>,
    keeper: &OutputKeeper<'_>,
) -> Result<Option<Value>, HookError> {
    let GeminiText { text, is_all, is_one } = text_of(response.llm_content)?;
    let is_shell = event.tool_name == "run_shell_command";
    let (output, exit_code) = if is_shell { output_and_code(&text) } else { (&*text, None) };
    let kind = match is_one {
        _ if is_shell => ResultKind::of_command(exit_code),
        true => ResultKind::Text,
        false => ResultKind::Mixed,
    };
    let call = call_at(&event.tool_name, event.timestamp.as_ref().map(|at| &*at.0));
    let (tool, output) =
        ((&*event.tool_name, event.tool_input), ToolOutput::Text(Cow::Borrowed(output)));
    let result = ToolResult::new(&event.session_id, Cow::Owned(call), tool, output);
    let text = keeper.stand_in(ToolResult { exit_code, kind, ..result })?;
    Ok(text.map(|text| {
        if is_all { json!({ "decision": "deny", "reason": text }) } else { added(event, &text) }
    }))
}

fn added(event: &GeminiEvent<'_>, text: &str) -> Value {
    let name = &event.hook_event_name;
    json!({ "hookSpecificOutput": { "hookEventName": name, "additionalContext": text } })
}

fn text_of(content: &RawValue) -> Result<GeminiText, HookError> {
    let json = content.get();
    let parts: Vec<GeminiPart<'_>> = match json.as_bytes().first() {
        Some(b'"') => vec![GeminiPart { text: Some(serde_json::from_str(json)?) }],
        Some(b'[') => serde_json::from_str::<ctxfs_core::model::ShortList<_, MOST_BLOCKS>>(json)?.0,
        _ => vec![serde_json::from_str(json)?],
    };
    let texts = parts.iter().filter_map(|part| part.text.as_ref());
    let texts: Vec<&str> = texts.map(|text| without_frame(&text.0)).collect();
    let (is_all, is_one) = (texts.len() == parts.len(), parts.len() == 1);
    Ok(GeminiText { text: texts.join("\n"), is_all, is_one })
}

fn without_frame(text: &str) -> &str {
    let inner = text.strip_prefix(OPENING).and_then(|inner| inner.strip_suffix(CLOSING));
    inner.unwrap_or(text)
}

// If no exit code is reported, the command succeeded, unless a signal or an error is reported.
fn output_and_code(text: &str) -> (&str, Option<i32>) {
    let Some(mut output) = text.strip_prefix("Output: ") else { return (text, None) };
    let mut code = Some(0);
    while let Some((before, line)) = output.rsplit_once('\n') {
        if !FACTS.iter().any(|fact| line.starts_with(fact)) {
            break;
        }
        if let Some(said) = line.strip_prefix("Exit Code: ") {
            code = said.trim().parse().ok();
        } else if line.starts_with("Signal: ") || line.starts_with("Error: ") {
            code = code.filter(|code| *code != 0);
        }
        output = before;
    }
    (output, code)
}
