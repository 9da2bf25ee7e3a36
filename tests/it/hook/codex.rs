//! Codex.

use std::fs;

use serde_json::{Value, json};

use super::{Machine, SESSION, long};

fn event(name: &str) -> Value {
    json!({
        "session_id": SESSION, "turn_id": "t1", "cwd": "/p", "model": "gpt-5",
        "permission_mode": "default", "hook_event_name": name, "tool_use_id": "call_1",
    })
}

/// Entries for this event are in the settings of earlier installations.
#[test]
fn commands_are_left_alone() {
    let machine = Machine::new();
    let mut event = event("PreToolUse");
    event["tool_name"] = "Bash".into();
    for command in ["ls -l", "rm -rf /p", "seq 1 40000; exit 3"] {
        event["tool_input"] = json!({ "command": command });
        machine.leaves("codex", &event, "passed");
    }
}

/// What is below `.codex` of a project is none of the hook's business.
#[test]
fn no_rules_are_read() {
    let machine = Machine::new();
    let project = machine.home.join("project");
    let rules = project.join(".codex/rules");
    fs::create_dir_all(&rules).unwrap();
    std::os::unix::fs::symlink("/dev/zero", rules.join("x")).unwrap();
    let mut event = event("PreToolUse");
    event["cwd"] = project.to_str().into();
    event["tool_name"] = "Bash".into();
    event["tool_input"] = json!({ "command": "ls" });
    machine.leaves("codex", &event, "passed");
}

/// The host runs no command in its sandbox where a directory that this may write is not there.
#[test]
fn a_new_session_has_a_store() {
    let machine = Machine::new();
    let store = machine.home.join("store");
    let mut event = event("SessionStart");
    event["source"] = "startup".into();
    let output = machine.hook_with("codex", &store).stdin(event.to_string()).run();
    assert_eq!((output.code, output.stdout.len()), (0, 0), "{output}");
    assert_eq!(fs::read_dir(store.join("context")).unwrap().count(), 0);
}

#[test]
fn results_of_servers_are_replaced() {
    let machine = Machine::new();
    let mut event = event("PostToolUse");
    event["tool_name"] = "mcp__probe__big".into();
    let text = json!({ "type": "text", "text": long() });
    event["tool_response"] = json!({ "content": [text], "isError": false });
    let answer = machine.answer("codex", &event).unwrap();
    assert_eq!(answer["decision"], "block");
    assert!(answer["reason"].as_str().unwrap().contains("tool: probe/big"));
    assert_eq!(machine.output("call_1.txt"), long().as_bytes());

    // The model gets the structure and none of the text.
    let structure = json!({ "rows": (0..5000).collect::<Vec<_>>() });
    event["tool_response"] = json!({ "content": [text], "structuredContent": structure });
    event["tool_use_id"] = "call_2".into();
    assert_eq!(machine.answer("codex", &event).unwrap()["decision"], "block");
    assert_eq!(machine.output("call_2.json"), structure.to_string().as_bytes());

    // Replaced, the image would be lost.
    let image = json!({ "type": "image", "data": "aGk=", "mimeType": "image/png" });
    event["tool_response"] = json!({ "content": [text, image], "structuredContent": null });
    event["tool_use_id"] = "call_3".into();
    let answer = machine.answer("codex", &event).unwrap();
    assert_eq!(answer.get("decision"), None, "{answer}");
    let specific = &answer["hookSpecificOutput"];
    assert_eq!(specific["hookEventName"], "PostToolUse");
    assert!(specific["additionalContext"].as_str().unwrap().starts_with("[ctxfs] "), "{answer}");
    assert_eq!(machine.output("call_3.txt"), long().as_bytes());
}
