//! Codex. Contracts: version 0.169.0.
//!
//! The host shows its hook 10 KB of a command's output, so the command is replaced by `ctxfs run`,
//! which stores all of a long one. That answer must say `allow`; the host's own rules still decide, but on
//! the new command. So a command that any rule might mean is left alone.

use std::borrow::Cow;
use std::fs;
use std::io;
use std::path::Path;
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::Value;
use serde_json::json;
use serde_json::value::RawValue;

use crate::hook::HookError;
use crate::hook::content_blocks::ContentBlocks;
use crate::hook::event_text::Text;
use crate::hook::keeper::Action;
use crate::hook::keeper::Keeper;
use crate::hook::machine::Machine;
use crate::hook::policy::ResultKind;
use crate::hook::tool_result::Output;
use crate::hook::tool_result::ToolResult;
use crate::hook::tool_result::of_mcp;

/// Characters by which a shell makes words that do not stand in the command.
const HIDING: &[char] = &['\\', '\'', '"', '$', '`', '*', '?', '[', '{', '~'];

/// An event. Which fields it has depends on its name.
#[derive(Deserialize)]
pub(super) struct CodexEvent<'a> {
    #[serde(borrow)]
    hook_event_name: Cow<'a, str>,
    #[serde(borrow)]
    session_id: Cow<'a, str>,
    #[serde(borrow)]
    cwd: Option<Text<'a>>,
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
struct ShellInput<'a> {
    #[serde(borrow)]
    command: Cow<'a, str>,
    /// True for a command that talks to a terminal.
    #[serde(default)]
    tty: bool,
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
    machine: &Machine,
    keeper: &Keeper<'_>,
) -> Result<Option<Value>, HookError> {
    match (&*event.hook_event_name, &*event.tool_name) {
        ("SessionStart", _) => {
            let text = keeper.pointers(&event.session_id, event.source.as_ref())?;
            Ok(text.map(|text| specific(event, json!({ "additionalContext": text }))))
        }
        ("PreToolUse", "Bash") => rewritten(event, machine, keeper),
        ("PostToolUse", name) => match (of_mcp(name), event.tool_response) {
            (Some(named), Some(response)) => of_server(event, named, response, keeper),
            _ => Ok(None),
        },
        _ => Ok(None),
    }
}

/// Replaces a command by one that stores its output.
fn rewritten(
    event: &CodexEvent<'_>,
    machine: &Machine,
    keeper: &Keeper<'_>,
) -> Result<Option<Value>, HookError> {
    let Some(input) = event.tool_input else { return Ok(None) };
    let ShellInput { command, tty } = serde_json::from_str(input.get())?;
    let program = machine.program.to_string_lossy();
    let is_left_alone = tty || command.trim_end().ends_with('&') || is_own(&command, &program);
    if is_left_alone || may_have_rule(event, &command, machine) {
        return Ok(None);
    }
    let (id, call) = (quoted(&event.session_id), quoted(&event.tool_use_id));
    let (program, quoted_command) = (quoted(&program), quoted(&command));
    let store = machine.store.as_ref().map(|store| quoted(&store.to_string_lossy()));
    let store = store.map(|store| format!(" --store={store}")).unwrap_or_default();
    // The shell in which the host runs commands, whatever the user's own is.
    let command = format!(
        "{program} run{store} --host=codex --conversation={id} --id={call} --server codex \
         --tool Bash -- \"${{BASH:-${{SHELL:-/bin/sh}}}}\" -c {quoted_command}"
    );
    keeper.note(Action::Rewritten);
    let input = json!({ "command": command });
    Ok(Some(specific(event, json!({ "permissionDecision": "allow", "updatedInput": input }))))
}

/// Returns true for a command of ctxfs itself.
fn is_own(command: &str, program: &str) -> bool {
    let first = command.split_whitespace().next().unwrap_or_default();
    first == program || Path::new(first).file_name().is_some_and(|name| name == "ctxfs")
}

/// Returns true if a rule of the person may mean the command: it has a word of the rules or words
/// that only a shell knows, or the rules cannot be read.
fn may_have_rule(event: &CodexEvent<'_>, command: &str, machine: &Machine) -> bool {
    let project = event.cwd.as_ref().map(|cwd| PathBuf::from(&*cwd.0));
    let project = project.iter().flat_map(|cwd| cwd.ancestors()).map(|dir| dir.join(".codex"));
    let homes = machine.codex_home.iter().cloned().chain([PathBuf::from("/etc/codex")]);
    homes.chain(project).any(|home| may_name(&home.join("rules"), command).unwrap_or(true))
}

fn may_name(rules: &Path, command: &str) -> io::Result<bool> {
    let entries = match fs::read_dir(rules) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        entries => entries?,
    };
    for entry in entries {
        let rules = fs::read_to_string(entry?.path())?;
        let is_ruled = || words(&rules).any(|rule| words(command).any(|word| word == rule));
        if words(&rules).next().is_some() && (command.contains(HIDING) || is_ruled()) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
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

/// Returns a word of the shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

fn specific(event: &CodexEvent<'_>, mut fields: Value) -> Value {
    fields["hookEventName"] = Value::from(&*event.hook_event_name);
    json!({ "hookSpecificOutput": fields })
}
