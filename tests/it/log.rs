//! The message log: through a mount, with `ctxfs log`, and with several writers.

mod command;
mod dying;
mod many;
mod mount;
mod writers;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::TestStore;

/// Returns a tool's message with an output.
fn result(call: &str, output: &str) -> Value {
    json!({ "role": "tool", "tool_call_id": call, "toolName": "sh", "content": output })
}

/// Returns the log of `c7` below the root of a mount or of a store's plain files.
fn log_in(root: &Path) -> PathBuf {
    root.join("c7/history/messages.jsonl")
}

/// Returns the plain file of the log of `c7`.
fn plain_log(store: &TestStore) -> PathBuf {
    log_in(&store.path().join("context"))
}

/// Returns the messages of a log, one from each line.
fn messages(log: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(log).unwrap();
    assert!(text.is_empty() || text.ends_with('\n'), "a line without an end");
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}
