//! Every way in and out is asked the same, and has to give the same bytes, records and errors.

mod limits;
mod shown;
mod taken_in;

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::XattrFlags;
use serde_json::{Value, json};

use crate::support::{Command, Mode, TestMount, TestStore, eventually};

/// The prefix of all paths in texts, so that they are the same wherever a store is mounted.
const PREFIX: &str = "/ctx";

/// An output of many lines, one of which tells of an error: over every limit of every stand-in.
fn long_text() -> Vec<u8> {
    let line = |number: usize| match number {
        4000 => "2026-01-13 12:00:00 ERROR connection refused: db-3:5432\n".to_owned(),
        _ => format!("2026-01-13 12:00:00 INFO request {number} took {} ms\n", number % 97),
    };
    (0..8000).map(line).collect::<String>().into_bytes()
}

/// A JSON document on one line, over every limit.
fn long_json() -> Vec<u8> {
    let item = |number: usize| json!({ "id": number, "title": format!("title {number}") });
    json!({ "items": (0..4000).map(item).collect::<Vec<_>>(), "next": null }).to_string().into()
}

/// A way to take an output in as that of the call `call_1` of the tool `exec`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Intake {
    /// A program writes a file of the mount, and says of it what it knows.
    Mount(Mode),
    /// `ctxfs put`.
    Put,
    /// A message in the log of a mount.
    MountedLog,
    /// A message by `ctxfs log append`.
    LogAppend,
}

impl Intake {
    const ALL: [Self; 5] = [
        Self::Mount(Mode::Passthrough),
        Self::Mount(Mode::Cached),
        Self::Put,
        Self::MountedLog,
        Self::LogAppend,
    ];
}

/// A tool's message with an output.
fn message(output: &[u8]) -> Vec<u8> {
    let content = str::from_utf8(output).unwrap();
    let message = json!({
        "role": "tool", "tool_call_id": "call_1", "toolName": "exec", "content": content,
    });
    format!("{message}\n").into_bytes()
}

/// Says what a writer knows of an output.
fn set_tool(file: &File) {
    for (name, value) in [("user.ctx.tool", "exec"), ("user.ctx.call", "call_1")] {
        rustix::fs::fsetxattr(file, name, value.as_bytes(), XattrFlags::empty()).ok();
    }
}

/// `ctxfs COMMAND` on `store`, with settings by environment.
fn ctxfs(
    store: &TestStore,
    command: &str,
    arguments: &[&str],
    settings: &[(&str, &str)],
) -> Command {
    let command = store.ctxfs(command, arguments).env("CTXFS_ADVERTISE", PREFIX);
    settings.iter().fold(command, |command, (name, value)| command.env(name, value))
}

/// A mount of `store` with the same settings.
fn mounted(store: &Arc<TestStore>, mode: Mode, settings: &[(&str, &str)]) -> TestMount {
    let flag = |name: &str| name.strip_prefix("CTXFS_").unwrap().to_lowercase().replace('_', "-");
    let flags: Vec<_> = settings.iter().map(|(name, _)| format!("--{}", flag(name))).collect();
    let pairs = flags.iter().zip(settings).flat_map(|(flag, (_, value))| [flag, *value]);
    let options: Vec<_> = ["--advertise", PREFIX].into_iter().chain(pairs).collect();
    TestMount::of(store, mode, &options)
}

/// What `ctxfs view` shows without a mount.
fn view(store: &TestStore, path: &str) -> Vec<u8> {
    ctxfs(store, "view", &[path], &[]).stdout()
}

/// The record of an artifact as `.meta.json` has it, without its times.
fn record(store: &TestStore, path: &str) -> Value {
    let mut meta: Value =
        serde_json::from_slice(&view(store, &format!("{path}.meta.json"))).unwrap();
    meta.as_object_mut().unwrap().remove("created");
    meta
}

/// The last record in the manifest of the artifact at `path` of `c7`.
fn recorded(store: &TestStore, path: &str) -> Option<Value> {
    let manifest = std::fs::read_to_string(store.path().join("context/c7/manifest.jsonl")).ok()?;
    let records = manifest.lines().rev().map(|line| serde_json::from_str::<Value>(line).unwrap());
    records.into_iter().find(|record| record["path"] == path)
}

/// Waits until the artifact at `path` of `c7` is sealed and analysed.
fn sealed(store: &TestStore, path: &str) {
    eventually("the artifact is sealed", || {
        recorded(store, path).is_some_and(|record| record["analysis"].is_object())
    });
}

/// The message log of `c7` below `root`.
fn log_below(root: &Path) -> std::path::PathBuf {
    root.join("c7/history/messages.jsonl")
}
