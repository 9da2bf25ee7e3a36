//! A hook never harms: whatever is wrong, the host keeps its own result.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;
use serde_json::{Value, json};

use super::{Machine, SESSION, long};
use crate::support::{Command, Fault, FaultyDisk};

const HOSTS: [&str; 7] =
    ["claude-code", "codex", "opencode", "gemini-cli", "copilot", "pi", "cursor"];

fn event() -> Value {
    json!({
        "session_id": SESSION, "hook_event_name": "PostToolUse", "tool_name": "Bash",
        "tool_use_id": "toolu_01", "tool_input": { "command": "make" },
        "tool_response": { "stdout": long(), "stderr": "" },
    })
}

/// Asserts that a hook fails for a reason with `why` in it, and nobody notices.
fn fails(machine: &Machine, hook: Command, why: &str) {
    let output = hook.run();
    assert_eq!(output.code, 0, "{output}");
    assert!(output.stdout.is_empty() && output.stderr.is_empty(), "{output}");
    let line = machine.last();
    assert!(line.contains(" failed: ") && line.contains(why), "{line}");
}

#[test]
fn events_that_are_none() {
    let machine = Machine::new();
    for host in HOSTS {
        for event in ["", "{", "[]", "null", "{}", "\"x\"", "{\"session_id\": 1}"] {
            fails(&machine, machine.hook(host).stdin(event), "this is no event of");
        }
    }
    let large = vec![b' '; (64 << 20) + 1];
    fails(&machine, machine.hook("claude-code").stdin(large), "67108865 bytes");
    let output = machine.hook("nobody").stdin("{}").run();
    assert_eq!((output.code, output.stdout.len()), (0, 0), "{output}");
}

#[test]
fn names_that_lead_elsewhere() {
    let machine = Machine::new();
    for id in ["../../x", "a/b", "", "..", "x\u{0}y"] {
        let mut event = event();
        event["session_id"] = id.into();
        fails(&machine, machine.hook("claude-code").stdin(event.to_string()), "");
    }
    for call in ["../../x", "a/b\n", "", "x\u{0}y", &"y".repeat(300)] {
        let mut event = event();
        event["tool_use_id"] = call.into();
        assert!(machine.answer("claude-code", &event).is_some(), "{call:?}");
    }
    let stored = fs::read_dir(machine.store.path().join("context")).unwrap();
    assert_eq!(stored.count(), 1);
}

#[test]
fn stores_and_settings_that_are_none() {
    let machine = Machine::new();
    let hook =
        |store: &str| machine.hook_with("claude-code", Path::new(store)).stdin(event().to_string());
    fails(&machine, hook("/proc/self/no-store"), "/proc");
    let settings = machine.home.join("config.toml");
    fs::write(&settings, "store = [\n").unwrap();
    fails(&machine, hook("/nowhere").arg("--config").arg(&settings), "config.toml");
}

/// A stand-in for a part of the output would take the rest from the model.
#[test]
fn outputs_for_which_there_is_no_room() {
    let disk = FaultyDisk::new();
    let machine = Machine::with(Arc::clone(disk.store()));
    disk.fail(Fault::room(100_000).of("toolu_01.txt"));
    fails(&machine, machine.hook("claude-code").stdin(event().to_string()), "No space left");
    assert!(disk.mend() > 0);
    for (limit, value) in [("MAX_ARTIFACT", "100000"), ("QUOTA", "100000"), ("MIN_FREE", "1EB")] {
        let hook = machine.hook("claude-code").env(&format!("CTXFS_{limit}"), value);
        fails(&machine, hook.stdin(event().to_string()), "");
    }
}

#[test]
fn waiting_has_an_end() {
    let machine = Machine::new();
    machine.store.put(SESSION, "x", b"text\n");
    let manifest = machine.store.path().join(format!("context/{SESSION}/manifest.jsonl"));
    let manifest = fs::File::options().append(true).open(manifest).unwrap();
    rustix::fs::flock(&manifest, FlockOperation::LockExclusive).unwrap();
    fails(&machine, machine.hook("claude-code").stdin(event().to_string()), "more than 10 s");

    // A host that never closes its end.
    let hook = machine.hook("pi").with(|inner| {
        inner.stdin(Stdio::piped()).stdout(Stdio::piped());
    });
    let began = Instant::now();
    let mut hook = hook.spawn();
    let input = hook.stdin.take();
    assert!(hook.wait().unwrap().success());
    assert!(began.elapsed() >= Duration::from_secs(9));
    drop(input);
}

#[test]
fn the_doctor_counts_calls() {
    let machine = Machine::new();
    for _ in 0..3 {
        machine.answer("claude-code", &event()).unwrap();
    }
    fails(&machine, machine.hook("pi").stdin("{"), "no event of pi");
    let doctor = machine.store.ctxfs("doctor", &["--json"]).env("HOME", &machine.home);
    let doctor = doctor.env("XDG_STATE_HOME", machine.home.join("state")).run();
    let report: Value = serde_json::from_slice(&doctor.stdout).unwrap();
    let found = |host: &str| {
        let checks = report["checks"].as_array().unwrap().iter();
        let mut found = checks.filter(|check| check["found"].as_str().unwrap().starts_with(host));
        found.next().unwrap().clone()
    };
    let claude = found("claude-code: 3 calls");
    assert!(claude["found"].as_str().unwrap().ends_with(": 3 kept"), "{claude}");
    let pi = found("pi: 1 call");
    assert_eq!(pi["level"], "warning");
    assert!(pi["mend"].as_str().unwrap().contains("this is no event of pi"), "{pi}");
}
