//! Claude Code, the Claude Agent SDK, and hosts that run Claude Code's hooks. Contracts: version
//! 2.1.330.
//!
//! The host shows the first 30,000 characters of a command's output, and keeps the rest in a file.
//! Of a command that failed it shows the beginning and nothing of the end, and takes no other
//! result: the stand-in is added to it.

use std::borrow::Cow;
use std::path::Path;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::hooks::HookError;
use crate::hooks::content_blocks::ContentBlocks;
use crate::hooks::event_text::Text;
use crate::hooks::keeper::Keeper;
use crate::hooks::machine::Machine;
use crate::hooks::policy::ResultKind;
use crate::hooks::tool_result::{Output, Spill, SubAgent, ToolResult, of_mcp, other_fields};

mod failed_command;

/// An event. Which fields it has depends on its name.
#[derive(Deserialize)]
pub(super) struct ClaudeCodeEvent<'a> {
    #[serde(borrow)]
    hook_event_name: Cow<'a, str>,
    #[serde(borrow)]
    session_id: Cow<'a, str>,
    #[serde(borrow)]
    transcript_path: Option<Text<'a>>,
    /// The sub-agent that called: it shares the session.
    #[serde(borrow)]
    agent_id: Option<Text<'a>>,
    #[serde(borrow)]
    agent_type: Option<Text<'a>>,
    /// Cursor's own version, where it runs this hook.
    cursor_version: Option<IgnoredAny>,
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
    duration_ms: Option<u64>,
    /// The part of a failure that the model is shown.
    #[serde(borrow)]
    error: Option<Text<'a>>,
}

/// The result of the shell.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BashResult<'a> {
    #[serde(borrow)]
    stdout: Text<'a>,
    #[serde(borrow, default)]
    stderr: Text<'a>,
    #[serde(default)]
    interrupted: bool,
    #[serde(default)]
    is_image: bool,
    background_task_id: Option<IgnoredAny>,
    /// The file with all of the output, up to 64 MiB.
    #[serde(borrow)]
    persisted_output_path: Option<Cow<'a, str>>,
    /// The bytes of all of the output.
    persisted_output_size: Option<u64>,
}

/// Returns the answer to an event.
pub(super) fn answer(
    event: &ClaudeCodeEvent<'_>,
    machine: &Machine,
    keeper: &Keeper<'_>,
) -> Result<Option<Value>, HookError> {
    if machine.is_cursor || event.cursor_version.is_some() {
        return Ok(None);
    }
    match (&*event.hook_event_name, event.tool_response, &*event.tool_name) {
        ("SessionStart", ..) => {
            let text = keeper.pointers(&event.session_id, event.source.as_ref())?;
            Ok(text.map(|text| added(event, &text)))
        }
        ("PostToolUse", Some(response), "Bash") => of_bash(event, response, keeper),
        ("PostToolUse", Some(response), name) if of_mcp(name).is_some() => {
            of_server(event, response, keeper)
        }
        ("PostToolUseFailure", _, "Bash") => of_failure(event, machine, keeper),
        _ => Ok(None),
    }
}

/// Replaces the output of a command that succeeded. The answer has the shape of the result, as
/// another shape is ignored.
fn of_bash(
    event: &ClaudeCodeEvent<'_>,
    response: &RawValue,
    keeper: &Keeper<'_>,
) -> Result<Option<Value>, HookError> {
    let result: BashResult<'_> = serde_json::from_str(response.get())?;
    if result.is_image || result.background_task_id.is_some() {
        return Ok(None);
    }
    let output = match &result.persisted_output_path {
        Some(path) => {
            let spill = Spill::open(Path::new(&**path))?;
            Output::Spill(spill.of_total(result.persisted_output_size))
        }
        None if result.stderr.0.is_empty() => Output::Text(result.stdout.0),
        None => Output::Text(format!("{}\n{}", result.stdout.0, result.stderr.0).into()),
    };
    let (kind, exit_code) = (ResultKind::Command, (!result.interrupted).then_some(0));
    let Some(text) = keeper.stand_in(ToolResult { exit_code, ..event.result(kind, output) })?
    else {
        return Ok(None);
    };
    let is_ours = |name: &str| name.starts_with("persisted") || name.starts_with("std");
    let mut fields = other_fields(response, is_ours)?;
    fields.insert("stdout".to_owned(), Value::from(text));
    fields.insert("stderr".to_owned(), Value::from(""));
    Ok(Some(replaced(event, &Value::Object(fields))))
}

/// Replaces the texts of a server's result. Where the server sent structured content, that is the
/// result, as one string of JSON.
fn of_server(
    event: &ClaudeCodeEvent<'_>,
    response: &RawValue,
    keeper: &Keeper<'_>,
) -> Result<Option<Value>, HookError> {
    if let Ok(Text(text)) = serde_json::from_str(response.get()) {
        let text = keeper.stand_in(event.result(ResultKind::Text, Output::Text(text)))?;
        return Ok(text.map(|text| replaced(event, &Value::from(text))));
    }
    let blocks = ContentBlocks::of(response)?;
    let kind = if blocks.are_text() { ResultKind::Text } else { ResultKind::Mixed };
    let text = keeper.stand_in(event.result(kind, Output::Text(blocks.text())))?;
    let blocks = text.map(|text| blocks.with_text(&text)).transpose()?;
    Ok(blocks.map(|blocks| replaced(event, &blocks)))
}

/// Adds the stand-in to a command that failed, if the host shows only a part of its output.
fn of_failure(
    event: &ClaudeCodeEvent<'_>,
    machine: &Machine,
    keeper: &Keeper<'_>,
) -> Result<Option<Value>, HookError> {
    let (Some(error), Some(transcript)) = (&event.error, &event.transcript_path) else {
        return Ok(None);
    };
    let transcript = Path::new(&*transcript.0);
    let Some((code, spill)) =
        failed_command::find(&error.0, transcript, &event.session_id, machine)
    else {
        return Ok(None);
    };
    let result = event.result(ResultKind::FailedCommand, Output::Spill(spill));
    let result = ToolResult { exit_code: Some(code), ..result };
    Ok(keeper.stand_in(result)?.map(|text| added(event, &text)))
}

impl<'a> ClaudeCodeEvent<'a> {
    fn sub_agent(&'a self) -> Option<SubAgent<'a>> {
        let kind = self.agent_type.as_ref().map(|kind| &*kind.0);
        self.agent_id.as_ref().map(|id| SubAgent { id: &id.0, kind })
    }

    fn result(&'a self, kind: ResultKind, output: Output<'a>) -> ToolResult<'a> {
        let (server, tool) = match of_mcp(&self.tool_name) {
            Some((server, tool)) => (Some(server), tool),
            None => (None, &*self.tool_name),
        };
        ToolResult {
            conversation: &self.session_id,
            call: Cow::Borrowed(&self.tool_use_id),
            agent: self.sub_agent(),
            server,
            tool,
            args: self.tool_input,
            exit_code: None,
            duration_ms: self.duration_ms,
            kind,
            output,
        }
    }
}

fn replaced(event: &ClaudeCodeEvent<'_>, output: &Value) -> Value {
    specific(event, "updatedToolOutput", output)
}

fn added(event: &ClaudeCodeEvent<'_>, text: &str) -> Value {
    specific(event, "additionalContext", &Value::from(text))
}

fn specific(event: &ClaudeCodeEvent<'_>, field: &str, value: &Value) -> Value {
    json!({ "hookSpecificOutput": { "hookEventName": event.hook_event_name, field: value } })
}
