//! Adapter for Claude Code, the Claude Agent SDK, and hosts that run the hooks of Claude Code. The
//! formats belong to version 2.1.332.
//!
//! The host shows the first 30,000 characters of a command's output, and keeps the whole output in
//! a file. For a failed command, the host shows only the beginning and accepts no replacement, so
//! the stand-in is added to the host's own result. The host ignores an answer that has
//! another structure than the result, so the stand-in replaces the text inside the result.

use std::io::{self, Read as _, Seek as _};
use std::path::{Path, PathBuf};
use std::{borrow::Cow, fs, os::unix::fs::MetadataExt as _};

use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Value, json, value::RawValue};

use crate::hooks::event::{
    ContentBlocks, EventText, HookError, MOST_BLOCKS, Spill, SubAgent, ToolOutput, ToolResult,
    of_mcp, other_fields,
};
use crate::hooks::host::{Machine, ResultKind};
use crate::hooks::{keeper::OutputKeeper, sub_agent};
use ctxfs_core::model::ShortList;

// The event determines which fields are present.
#[derive(Deserialize)]
pub(crate) struct ClaudeCodeEvent<'a> {
    #[serde(borrow)]
    hook_event_name: Cow<'a, str>,
    #[serde(borrow)]
    session_id: Cow<'a, str>,
    #[serde(borrow)]
    transcript_path: Option<EventText<'a>>,
    // Set for a sub-agent. It shares the session of the main agent.
    #[serde(borrow)]
    agent_id: Option<EventText<'a>>,
    #[serde(borrow)]
    agent_type: Option<EventText<'a>>,
    // Set if Cursor runs this hook.
    cursor_version: Option<IgnoredAny>,
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
    duration_ms: Option<u64>,
    #[serde(borrow)]
    error: Option<EventText<'a>>,
    // The prompt of the user, or a message of the host.
    #[serde(borrow)]
    prompt: Option<EventText<'a>>,
    // The transcript and the report of a sub-agent.
    #[serde(borrow)]
    agent_transcript_path: Option<EventText<'a>>,
    #[serde(borrow)]
    last_assistant_message: Option<EventText<'a>>,
}

// The texts in the results of the host's own tools. Each tool has some of them.
#[derive(Deserialize)]
struct OwnResult<'a> {
    // `Grep`: the lines, or their numbers.
    #[serde(borrow)]
    content: Option<EventText<'a>>,
    // `Grep` and `Glob`.
    #[serde(borrow)]
    filenames: Option<ShortList<EventText<'a>, MOST_BLOCKS>>,
    // `WebFetch`, `LSP`, and a skill that ran as an agent.
    #[serde(borrow)]
    result: Option<EventText<'a>>,
    // `WebSearch`.
    #[serde(borrow)]
    results: Option<ShortList<&'a RawValue, MOST_BLOCKS>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AgentResult<'a> {
    #[serde(borrow)]
    status: EventText<'a>,
    #[serde(borrow)]
    agent_id: Option<EventText<'a>>,
    // A list of blocks.
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(default)]
    harness_note_count: usize,
    #[serde(default)]
    harness_tail_count: usize,
}

#[derive(Deserialize)]
struct FoundPages<'a> {
    #[serde(borrow)]
    content: &'a RawValue,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BashResult<'a> {
    #[serde(borrow)]
    stdout: EventText<'a>,
    #[serde(borrow, default)]
    stderr: EventText<'a>,
    #[serde(default)]
    interrupted: bool,
    #[serde(default)]
    is_image: bool,
    background_task_id: Option<IgnoredAny>,
    // The file with the whole output, up to 64 MiB.
    #[serde(borrow)]
    persisted_output_path: Option<Cow<'a, str>>,
    persisted_output_size: Option<u64>,
}

pub(crate) fn answer(
    event: &ClaudeCodeEvent<'_>,
    machine: &Machine,
    keeper: &OutputKeeper<'_>,
) -> Result<Option<Value>, HookError> {
    if machine.is_cursor || event.cursor_version.is_some() {
        return Ok(None);
    }
    let transcript = event.transcript_path.as_ref().map(|path| &*path.0);
    match (&*event.hook_event_name, event.tool_response, &*event.tool_name) {
        ("SessionStart", ..) => {
            if event.source.as_ref().is_some_and(|source| source.0 == "resume")
                && let Some(transcript) = transcript
            {
                sub_agent::store_unfinished(&event.session_id, Path::new(transcript), keeper)?;
            }
            let text = keeper.pointers(&event.session_id, event.source.as_ref())?;
            Ok(text.map(|text| added(event, &text)))
        }
        ("PreCompact", ..) => {
            let copied = transcript.map(|path| keeper.copy_messages(&event.session_id, path));
            copied.transpose().map(|_| None)
        }
        ("SubagentStop", ..) => of_sub_agent(event, keeper).map(|()| None),
        ("UserPromptSubmit", ..) => of_prompt(event, keeper),
        ("PostToolUse", Some(response), "Bash") => of_bash(event, response, keeper),
        ("PostToolUse", Some(response), "Agent" | "Task") => of_report(event, response, keeper),
        ("PostToolUse", Some(response), name) if of_mcp(name).is_some() => {
            of_server(event, response, keeper)
        }
        ("PostToolUse", Some(response), _) => of_own_tool(event, response, keeper),
        ("PostToolUseFailure", _, "Bash") => of_failure(event, machine, keeper),
        _ => Ok(None),
    }
}

fn of_bash(
    event: &ClaudeCodeEvent<'_>,
    response: &RawValue,
    keeper: &OutputKeeper<'_>,
) -> Result<Option<Value>, HookError> {
    let result: BashResult<'_> = serde_json::from_str(response.get())?;
    if result.is_image || result.background_task_id.is_some() {
        return Ok(None);
    }
    let output = match &result.persisted_output_path {
        Some(path) => {
            let spill = Spill::open(Path::new(&**path))?;
            ToolOutput::Spill(spill.of_total(result.persisted_output_size))
        }
        None if result.stderr.0.is_empty() => ToolOutput::Text(result.stdout.0),
        None => ToolOutput::Text(format!("{}\n{}", result.stdout.0, result.stderr.0).into()),
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
    Ok(Some(specific(event, "updatedToolOutput", &Value::Object(fields))))
}

// Structured content of the server arrives as a single string of JSON.
fn of_server(
    event: &ClaudeCodeEvent<'_>,
    response: &RawValue,
    keeper: &OutputKeeper<'_>,
) -> Result<Option<Value>, HookError> {
    if let Ok(EventText(text)) = serde_json::from_str(response.get()) {
        let text = keeper.stand_in(event.result(ResultKind::Text, ToolOutput::Text(text)))?;
        return Ok(text.map(|text| specific(event, "updatedToolOutput", &Value::from(text))));
    }
    let blocks = ContentBlocks::of(response)?;
    let kind = if blocks.are_text() { ResultKind::Text } else { ResultKind::Mixed };
    let text = keeper.stand_in(event.result(kind, ToolOutput::Text(blocks.text())))?;
    let blocks = text.map(|text| blocks.with_text(&text)).transpose()?;
    Ok(blocks.map(|blocks| specific(event, "updatedToolOutput", &blocks)))
}

// Results of other tools are left alone, above all those of `Read`: agents read stand-ins and their
// views with it.
fn of_own_tool(
    event: &ClaudeCodeEvent<'_>,
    response: &RawValue,
    keeper: &OutputKeeper<'_>,
) -> Result<Option<Value>, HookError> {
    if !["Glob", "Grep", "LSP", "Skill", "WebFetch", "WebSearch"].contains(&&*event.tool_name) {
        return Ok(None);
    }
    let OwnResult { content, filenames, result, results } = serde_json::from_str(response.get())?;
    let (field, text) = match (&*event.tool_name, content, result) {
        ("WebFetch" | "LSP" | "Skill", _, Some(EventText(text))) => ("result", text),
        ("Grep", Some(EventText(text)), _) => ("content", text),
        ("Grep" | "Glob", ..) => {
            let names = filenames.into_iter().flat_map(|names| names.0);
            let names: Vec<Cow<'_, str>> = names.map(|name| name.0).collect();
            ("filenames", names.join("\n").into())
        }
        ("WebSearch", ..) => ("results", found_pages(results)?.into()),
        _ => return Ok(None),
    };
    let kind = if event.tool_name == "Grep" { ResultKind::Search } else { ResultKind::Text };
    let Some(text) = keeper.stand_in(event.result(kind, ToolOutput::Text(text)))? else {
        return Ok(None);
    };
    let is_list = ["filenames", "results"].contains(&field);
    let value = if is_list { json!([text]) } else { Value::from(text) };
    let mut fields = other_fields(response, |name| name == field)?;
    fields.insert(field.to_owned(), value);
    Ok(Some(specific(event, "updatedToolOutput", &Value::Object(fields))))
}

// Returns the results of a search as the host shows them: comments of the model, and links.
fn found_pages(
    results: Option<ShortList<&RawValue, MOST_BLOCKS>>,
) -> Result<String, serde_json::Error> {
    let part = |raw: &RawValue| {
        if let Ok(EventText(text)) = serde_json::from_str(raw.get()) {
            return Ok(text.into_owned());
        }
        let FoundPages { content } = serde_json::from_str(raw.get())?;
        Ok(format!("Links: {}", content.get()))
    };
    let parts: Result<Vec<String>, _> =
        results.into_iter().flat_map(|results| results.0).map(part).collect();
    Ok(parts?.join("\n\n"))
}

// An agent that runs on has no report yet. The first and the last blocks may be notes of the host.
// The host knows them by a digest of all blocks, which goes, so that it shows them as a part of the
// report.
fn of_report(
    event: &ClaudeCodeEvent<'_>,
    response: &RawValue,
    keeper: &OutputKeeper<'_>,
) -> Result<Option<Value>, HookError> {
    let result: AgentResult<'_> = serde_json::from_str(response.get())?;
    let (Some(content), Some(agent), "completed") =
        (result.content, &result.agent_id, &*result.status.0)
    else {
        return Ok(None);
    };
    let ShortList::<EventBlock<'_>, MOST_BLOCKS>(blocks) = serde_json::from_str(content.get())?;
    let end = blocks.len().saturating_sub(result.harness_tail_count);
    let is_report = |at: usize| (result.harness_note_count.min(end)..end).contains(&at);
    let texts = blocks.iter().enumerate().filter(|(at, _)| is_report(*at));
    let report = texts.map(|(_, block)| &*block.text.0).collect::<Vec<_>>().join("\n");
    let called = event.result(ResultKind::Text, ToolOutput::Text(report.trim().into()));
    let called = ToolResult { call: sub_agent::call(&agent.0), ..called };
    let Some(text) = keeper.stand_in(called)? else { return Ok(None) };
    let block = |text: &str| json!({ "type": "text", "text": text });
    let others = |is_before: bool| {
        let others = blocks.iter().enumerate();
        let others = others.filter(move |(at, _)| !is_report(*at) && (*at < end) == is_before);
        others.map(|(_, note)| block(&note.text.0))
    };
    let blocks: Vec<Value> = others(true).chain([block(&text)]).chain(others(false)).collect();
    let is_ours = |name: &str| name == "content" || name.starts_with("harness");
    let mut fields = other_fields(response, is_ours)?;
    fields.insert("content".to_owned(), Value::from(blocks));
    Ok(Some(specific(event, "updatedToolOutput", &Value::Object(fields))))
}

// The host itself starts agents without a type, which report to nobody.
fn of_sub_agent(event: &ClaudeCodeEvent<'_>, keeper: &OutputKeeper<'_>) -> Result<(), HookError> {
    let is_typed = event.agent_type.as_ref().is_some_and(|kind| !kind.0.is_empty());
    let (Some(agent), Some(path)) = (&event.agent_id, &event.agent_transcript_path) else {
        return Ok(());
    };
    if is_typed {
        let report = event.last_assistant_message.as_ref().map(|report| report.0.trim());
        let path = Path::new(&*path.0);
        sub_agent::store(&event.session_id, &agent.0, path, report, keeper)?;
    }
    Ok(())
}

fn of_prompt(
    event: &ClaudeCodeEvent<'_>,
    keeper: &OutputKeeper<'_>,
) -> Result<Option<Value>, HookError> {
    let (Some(prompt), Some(main)) = (&event.prompt, &event.transcript_path) else {
        return Ok(None);
    };
    let Some(agent) = sub_agent::unreported(&prompt.0) else { return Ok(None) };
    let path = sub_agent::transcript_of(Path::new(&*main.0), agent);
    let stored = sub_agent::store(&event.session_id, agent, &path, None, keeper)?;
    Ok(stored.map(|file| {
        let text = format!("[ctxfs] All that this agent wrote before it ended is stored: {file}");
        added(event, &text)
    }))
}

fn of_failure(
    event: &ClaudeCodeEvent<'_>,
    machine: &Machine,
    keeper: &OutputKeeper<'_>,
) -> Result<Option<Value>, HookError> {
    let (Some(error), Some(transcript)) = (&event.error, &event.transcript_path) else {
        return Ok(None);
    };
    let transcript = Path::new(&*transcript.0);
    let Some((code, spill)) = find_failed_output(&error.0, transcript, &event.session_id, machine)
    else {
        return Ok(None);
    };
    let result = event.result(ResultKind::FailedCommand, ToolOutput::Spill(spill));
    let result = ToolResult { exit_code: Some(code), ..result };
    Ok(keeper.stand_in(result)?.map(|text| added(event, &text)))
}

impl<'a> ClaudeCodeEvent<'a> {
    fn sub_agent(&'a self) -> Option<SubAgent<'a>> {
        let kind = self.agent_type.as_ref().map(|kind| &*kind.0);
        self.agent_id.as_ref().map(|id| SubAgent { id: &id.0, kind })
    }

    fn result(&'a self, kind: ResultKind, output: ToolOutput<'a>) -> ToolResult<'a> {
        let (server, tool) = match of_mcp(&self.tool_name) {
            Some((server, tool)) => (Some(server), tool),
            None => (None, &*self.tool_name),
        };
        let (call, agent) = (Cow::Borrowed(&*self.tool_use_id), self.sub_agent());
        let result = ToolResult::new(&self.session_id, call, (tool, self.tool_input), output);
        ToolResult { agent, server, duration_ms: self.duration_ms, kind, ..result }
    }
}

fn added(event: &ClaudeCodeEvent<'_>, text: &str) -> Value {
    specific(event, "additionalContext", &Value::from(text))
}

fn specific(event: &ClaudeCodeEvent<'_>, field: &str, value: &Value) -> Value {
    json!({ "hookSpecificOutput": { "hookEventName": event.hook_event_name, field: value } })
}

#[derive(Deserialize)]
struct EventBlock<'a> {
    #[serde(borrow, default)]
    text: EventText<'a>,
}

const BEGINNING: usize = 1000;
const FILES: usize = 8;

/// Returns the exit code of a failed command, and the file with its whole output. `error` is the
/// host's text about the failure, with the exit code and a part of the output. The host keeps the
/// file while the hook runs, but no event names the file. Returns `None` if `error` shows the whole
/// output, or if no such file is found.
fn find_failed_output(
    error: &str,
    transcript: &Path,
    session: &str,
    machine: &Machine,
) -> Option<(i32, Spill)> {
    let (code, shown) = error.strip_prefix("Exit code ")?.split_once('\n')?;
    let code = code.parse().ok()?;
    let project = transcript.parent()?.file_name()?;
    let user = machine.claude_code_tmp.join(format!("claude-{}", machine.uid));
    let dir = user.join(project).join(session).join("tasks");
    let beginning = &shown.as_bytes()[..shown.len().min(BEGINNING)];
    let spills = newest(&dir).into_iter().filter_map(|path| of_user(&path, machine.uid));
    let mut longer = spills.filter(|spill| spill.length > shown.len() as u64);
    let spill = longer.find_map(|spill| begins_with(spill, beginning.trim_ascii()))?;
    Some((code, spill))
}

fn newest(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(dir) else { return Vec::new() };
    let mut found: Vec<(std::time::SystemTime, PathBuf)> = entries
        .flatten()
        .filter(|entry| entry.path().extension().is_some_and(|end| end == "output"))
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
        .collect();
    found.sort_unstable_by(|a, b| b.cmp(a));
    found.into_iter().take(FILES).map(|(_, path)| path).collect()
}

// Returns `None` unless the file belongs to the user `uid`. Other users can create directories in
// `/tmp`.
fn of_user(path: &Path, uid: u32) -> Option<Spill> {
    let spill = Spill::open(path).ok()?;
    (spill.file.metadata().ok()?.uid() == uid).then_some(spill)
}

// Returns `spill` if the file starts with `beginning`. Ignores leading whitespace of the file.
fn begins_with(mut spill: Spill, beginning: &[u8]) -> Option<Spill> {
    let mut start = vec![0; 2 * BEGINNING];
    let read = read_up_to(&mut spill, &mut start).ok()?;
    start[..read].trim_ascii_start().starts_with(beginning).then_some(spill)
}

fn read_up_to(spill: &mut Spill, buffer: &mut [u8]) -> io::Result<usize> {
    let mut taken = Vec::with_capacity(buffer.len());
    spill.file.by_ref().take(buffer.len() as u64).read_to_end(&mut taken)?;
    buffer[..taken.len()].copy_from_slice(&taken);
    spill.file.rewind()?;
    Ok(taken.len())
}
