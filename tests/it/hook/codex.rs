//! Codex.

use std::fs;

use serde_json::Value;
use serde_json::json;

use super::Machine;
use super::SESSION;
use super::long;
use crate::support::Command;

fn shell(command: &str) -> Value {
    json!({
        "session_id": SESSION, "turn_id": "t1", "cwd": "/p", "model": "gpt-5",
        "permission_mode": "default", "hook_event_name": "PreToolUse", "tool_name": "Bash",
        "tool_input": { "command": command }, "tool_use_id": "call_1",
    })
}

fn rewritten(answer: Option<Value>) -> String {
    let answer = answer.unwrap();
    let specific = &answer["hookSpecificOutput"];
    assert_eq!(specific["hookEventName"], "PreToolUse");
    assert_eq!(specific["permissionDecision"], "allow");
    specific["updatedInput"]["command"].as_str().unwrap().to_owned()
}

#[test]
fn a_command_is_replaced_by_one_that_stores_its_output() {
    let machine = Machine::new();
    let script = "printf '%s\\n' \"it's $((1 + 1))\"; seq 1 40000; exit 3";
    let command = rewritten(machine.answer("codex", &shell(script)));
    // The store of the hook is the one of the command, too.
    let run = Command::new("sh").with(|inner| {
        inner.args(["-c", &command]).env("SHELL", "/bin/sh").env_remove("CTXFS_STORE");
    });
    let output = run.run();
    assert_eq!(output.code, 3, "{output}");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.starts_with("[ctxfs] "), "{text}");
    let log = machine.store.path().join(format!("context/{SESSION}/artifacts/terminal/call_1.log"));
    let kept = fs::read_to_string(log).unwrap();
    assert!(kept.starts_with("it's 2\n1\n") && kept.ends_with("\n40000\n"));
}

/// The ids are no options of `ctxfs run`, whatever a host calls its sessions.
#[test]
fn ids_that_look_like_options() {
    let machine = Machine::new();
    let mut event = shell("seq 1 40000");
    event["session_id"] = "--tool".into();
    event["tool_use_id"] = "-x".into();
    let command = rewritten(machine.answer("codex", &event));
    let store = machine.store.path();
    let run = Command::new("sh").with(|inner| {
        inner.args(["-c", &command]).env("CTXFS_STORE", &store).env("SHELL", "/bin/sh");
    });
    let output = run.run();
    assert!(output.stdout.starts_with(b"[ctxfs] "), "{output}");
    assert!(store.join("context/--tool/artifacts/terminal").is_dir());
}

#[test]
fn a_short_output_is_left_alone() {
    let machine = Machine::new();
    let command = rewritten(machine.answer("codex", &shell("echo short; exit 3")));
    let store = machine.store.path();
    let run = Command::new("sh").with(|inner| {
        inner.args(["-c", &command]).env("CTXFS_STORE", store).env("SHELL", "/bin/sh");
    });
    let output = run.run();
    assert_eq!((output.code, &*output.stdout), (3, &b"short\n"[..]), "{output}");
    let logs = machine.store.path().join(format!("context/{SESSION}/artifacts/terminal"));
    assert_eq!(fs::read_dir(logs).unwrap().count(), 0);
}

#[test]
fn commands_that_a_rule_may_mean_are_left_alone() {
    let machine = Machine::new();
    let rules = machine.home.join(".codex/rules");
    fs::create_dir_all(&rules).unwrap();
    let rule = "# don't push\nprefix_rule(pattern = [\"git\", 'push'], decision = \"prompt\")\n";
    fs::write(rules.join("default.rules"), rule).unwrap();
    for command in [
        "git push",
        "cd /x && git  status",
        "echo 'push'",
        "/usr/bin/git log",
        "gi\"\"t log",
        "g\\it log",
        "${G}it log",
        "$(printf gi)t log",
        "/usr/bin/g?t log",
        "X=1;git log",
    ] {
        machine.leaves("codex", &shell(command), "passed");
    }
    rewritten(machine.answer("codex", &shell("ls -l")));
    fs::write(rules.join("binary"), b"\xff").unwrap();
    machine.leaves("codex", &shell("ls -l"), "passed");
}

#[test]
fn commands_with_a_life_of_their_own_are_left_alone() {
    let machine = Machine::new();
    for command in ["sleep 100 &", "ctxfs ls", "/usr/bin/ctxfs view x", "  ctxfs ls"] {
        machine.leaves("codex", &shell(command), "passed");
    }
    let mut tty = shell("vim");
    tty["tool_input"]["tty"] = true.into();
    machine.leaves("codex", &tty, "passed");
}

#[test]
fn results_of_servers_are_replaced() {
    let machine = Machine::new();
    let mut event = shell("");
    event["hook_event_name"] = "PostToolUse".into();
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
