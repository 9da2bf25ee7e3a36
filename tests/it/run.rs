//! `ctxfs run`: a command, its log, and the stand-in that is printed.

mod append;
mod background;
mod bare;
mod beginning;
mod cap;
mod escapes;
mod live;
mod no_room;
mod pipes;
mod pty;
mod short;
mod signals;
mod since;
mod status;

use std::path::PathBuf;
use std::process::{Child, Stdio};

use serde_json::Value;

use crate::support::{Command, TestStore, eventually};

/// `ctxfs run -c c7 --id ID MORE -- COMMAND`.
fn run(store: &TestStore, id: &str, more: &[&str], command: &[&str]) -> Command {
    let arguments = ["-c", "c7", "--id", id];
    store.ctxfs("run", &[&arguments, more, &["--"], command].concat())
}

/// Runs the same command in the background, without its output.
fn start(store: &TestStore, id: &str, more: &[&str], command: &[&str]) -> Child {
    let quiet = |inner: &mut std::process::Command| {
        inner.stdin(Stdio::null()).stdout(Stdio::null());
    };
    run(store, id, more, command).with(quiet).spawn()
}

/// Returns the path of the plain file of a log.
fn plain(store: &TestStore, name: &str) -> PathBuf {
    store.path().join("context/c7/artifacts/terminal").join(name)
}

/// Waits until a log has exactly this text.
fn says(store: &TestStore, name: &str, text: &[u8]) {
    let path = plain(store, name);
    eventually(&format!("{name} says {:?}", String::from_utf8_lossy(text)), || {
        std::fs::read(&path).is_ok_and(|bytes| bytes == text)
    });
}

/// Returns the last record of a log in the manifest.
fn record(store: &TestStore, name: &str) -> Value {
    let manifest = std::fs::read_to_string(store.path().join("context/c7/manifest.jsonl")).unwrap();
    let path = format!("artifacts/terminal/{name}");
    let lines = manifest.lines().rev().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.into_iter().find(|record| record["path"] == path.as_str()).unwrap()
}
