//! The files that each host gets, as a table, and the rest, which is for a person to do.

use std::path::PathBuf;

use crate::hooks::Host;
use crate::install::change::EditedFile;
use crate::install::content::{ARGUMENTS, SettingsContent};
use crate::install::door::Door;
use crate::install::entry::{
    HookDialect, HookEntry, JsonEntry, MemberEntry, TextEntry, ValueEntry,
};
use crate::install::named_paths::NamedPaths;
use crate::install::place::{Scope, SettingsDir};
use crate::install::{command_line, door};

const CLAUDE_DIALECT: HookDialect =
    HookDialect { command: "command", timeout: "timeout", minute: 60, grouped: true };
const GEMINI_DIALECT: HookDialect = HookDialect { minute: 60_000, ..CLAUDE_DIALECT };
const COPILOT_DIALECT: HookDialect =
    HookDialect { command: "bash", timeout: "timeoutSec", minute: 60, grouped: false };

/// `(event, tools)`.
type HookEvents = &'static [(&'static str, Option<&'static str>)];

const CLAUDE_CODE: HookEvents = &[
    ("PostToolUse", Some("Bash|mcp__.*")),
    ("PostToolUseFailure", Some("Bash")),
    ("SessionStart", None),
];
const CODEX: HookEvents = &[("PostToolUse", Some("mcp__.*")), ("SessionStart", None)];
const GEMINI_CLI: HookEvents =
    &[("AfterTool", Some("run_shell_command|mcp_.*")), ("SessionStart", None)];
const COPILOT: HookEvents = &[("postToolUse", None), ("sessionStart", None)];

const OPENCODE_PLUGIN: &str = include_str!("opencode.js");
const PI_PLUGIN: &str = include_str!("pi.ts");
/// The place of the program in a plug-in.
const PROGRAM: &str = "\"/usr/bin/ctxfs\"";

/// Returns the files of `host`. The last one has the hook.
pub(super) fn targets(
    host: Host,
    scope: Scope,
    place: &SettingsDir,
    paths: &NamedPaths,
    door: Option<&Door>,
) -> Vec<EditedFile> {
    let program = door.map(|door| door.program(paths));
    program.into_iter().chain(settings(host, scope, place, paths, door)).collect()
}

fn settings(
    host: Host,
    scope: Scope,
    place: &SettingsDir,
    paths: &NamedPaths,
    door: Option<&Door>,
) -> Vec<EditedFile> {
    let target = |path: PathBuf, content| EditedFile {
        path,
        base: place.base.clone(),
        content,
        is_shared: false,
    };
    let file = |name: &str| place.dir.join(name);
    let hooks = |events, dialect| hooks(host, events, dialect, paths);
    match host {
        Host::ClaudeCode => {
            let read = format!("Read(/{}/**)", paths.mount);
            let mut entries = hooks(CLAUDE_CODE, &CLAUDE_DIALECT);
            entries.push(text(&["permissions", "allow"], read));
            let variable = door.map(|door| JsonEntry::Variable(door.variable()));
            let local = match scope {
                Scope::User => {
                    entries.extend(variable);
                    None
                }
                Scope::Project => {
                    let variable = SettingsContent::Json(variable.into_iter().collect());
                    Some(target(file(door::settings(host, scope)), variable))
                }
            };
            let settings = target(file("settings.json"), SettingsContent::Json(entries));
            local.into_iter().chain([settings]).collect()
        }
        Host::Codex => {
            let path = &["sandbox_workspace_write", "writable_roots"];
            let entry = |text: String| TextEntry { path, text };
            // Earlier installations let commands write all of the store.
            let former = [Some(&paths.store), paths.former_store.as_ref()].into_iter().flatten();
            let outputs = |store: &String| entry(outputs(store));
            let former_outputs = paths.former_store.iter().map(outputs);
            let former = former.cloned().map(entry).chain(former_outputs).collect();
            // In the sandbox, bash takes itself for one at a network connection, and at the first
            // level such a one reads no `BASH_ENV`.
            let shell_level = ValueEntry {
                name: "SHLVL",
                value: "1".to_owned(),
                former: None,
                replaces: false,
                is_ours: |value| value == "1",
            };
            let variables = door.map(Door::variable).into_iter().chain([shell_level]).collect();
            let text = outputs(&paths.store);
            let config = SettingsContent::Toml { text, former, variables };
            let hooks = SettingsContent::Json(hooks(CODEX, &CLAUDE_DIALECT));
            vec![target(file("config.toml"), config), target(file("hooks.json"), hooks)]
        }
        Host::Opencode => {
            let path = place.first_of(&["opencode.jsonc", "opencode.json"]);
            let plugin = SettingsContent::Whole(plugin(OPENCODE_PLUGIN, host, paths));
            vec![target(path, may_read(paths)), target(file("plugins/ctxfs.js"), plugin)]
        }
        Host::GeminiCli => {
            let entries = hooks(GEMINI_CLI, &GEMINI_DIALECT);
            vec![target(file("settings.json"), SettingsContent::Json(entries))]
        }
        Host::Copilot => {
            let mut entries = hooks(COPILOT, &COPILOT_DIALECT);
            entries.push(JsonEntry::Demanded("version", 1));
            vec![target(file("hooks/ctxfs.json"), SettingsContent::Json(entries))]
        }
        Host::Pi => {
            let plugin = SettingsContent::Whole(plugin(PI_PLUGIN, host, paths));
            vec![target(file("extensions/ctxfs.ts"), plugin)]
        }
    }
}

/// Returns what a person has to do after the hook of `host` is installed.
pub(super) fn left_to_do(host: Host, paths: &NamedPaths) -> String {
    match host {
        Host::ClaudeCode | Host::Opencode | Host::Pi => {
            format!("start {host} again: it reads its settings when it starts")
        }
        Host::Codex => format!(
            "open codex, enter `/hooks`, and trust the {} hooks of ctxfs: until then, codex skips \
             them without a word",
            CODEX.len()
        ),
        // Not in its settings: it does not start where a directory of these is missing.
        Host::GeminiCli => format!(
            "start gemini with `--include-directories {}` while the store is mounted, so that it \
             may read the mount",
            paths.mount
        ),
        Host::Copilot => {
            format!("start copilot with `--add-dir {}`, so that it may read the mount", paths.mount)
        }
    }
}

/// Returns the programs by which a host is found on the PATH.
pub(super) fn program_of(host: Host) -> &'static str {
    match host {
        Host::ClaudeCode => "claude",
        Host::GeminiCli => "gemini",
        Host::Codex | Host::Opencode | Host::Copilot | Host::Pi => host.name(),
    }
}

fn hooks(
    host: Host,
    events: HookEvents,
    dialect: &'static HookDialect,
    paths: &NamedPaths,
) -> Vec<JsonEntry> {
    let command = command_line::hook(&paths.program, host, paths.store_to_name());
    let hook = |&(event, matcher): &(_, _)| {
        JsonEntry::Hook(HookEntry { host, event, matcher, command: command.clone(), dialect })
    };
    events.iter().map(hook).collect()
}

/// Returns the directory of the outputs in a store. Nothing else there is for commands to write.
fn outputs(store: &str) -> String {
    format!("{store}/context")
}

fn text(path: &'static [&'static str], text: String) -> JsonEntry {
    JsonEntry::Text(TextEntry { path, text })
}

fn may_read(paths: &NamedPaths) -> SettingsContent {
    let path = &["permission", "external_directory"];
    let name = format!("{}/**", paths.mount);
    SettingsContent::Json(vec![JsonEntry::Member(MemberEntry { path, name, value: "allow" })])
}

fn plugin(text: &str, host: Host, paths: &NamedPaths) -> String {
    let program = serde_json::Value::from(&*paths.program).to_string();
    let arguments = |store| {
        let words = command_line::hook_arguments(host, store);
        let words = words.into_iter().map(|word| serde_json::Value::from(word).to_string());
        format!("{ARGUMENTS}[{}]", words.collect::<Vec<_>>().join(", "))
    };
    let text = text.replacen(PROGRAM, &program, 1);
    text.replacen(&arguments(None), &arguments(paths.store_to_name()), 1)
}
