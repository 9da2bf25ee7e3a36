//! What a model is told when its conversation goes on.

use serde_json::{Value, json};

use super::{Machine, SESSION};

fn begun(source: &str) -> Value {
    json!({ "session_id": SESSION, "cwd": "/p", "hook_event_name": "SessionStart", "source": source })
}

#[test]
fn the_outputs_are_named_when_a_conversation_goes_on() {
    let machine = Machine::new();
    for host in ["claude-code", "codex", "gemini-cli"] {
        machine.leaves(host, &begun("resume"), "passed");
    }
    assert!(!machine.outputs().iter().any(|_| true));
    for number in 0..100 {
        machine.store.put(SESSION, &format!("call_{number}"), format!("{number}\n").as_bytes());
    }
    let sources = [
        ("claude-code", &["resume", "compact", "fork"][..]),
        ("codex", &["resume", "compact"]),
        ("gemini-cli", &["resume"]),
    ];
    for (host, sources) in sources {
        for source in sources {
            let answer = machine.answer(host, &begun(source)).unwrap();
            check(answer["hookSpecificOutput"]["additionalContext"].as_str().unwrap());
            assert_eq!(machine.last(), format!("{host} told"));
        }
        for source in ["startup", "clear"] {
            machine.leaves(host, &begun(source), "passed");
        }
    }
    let begun = |source: &str| json!({ "sessionId": SESSION, "timestamp": 1, "source": source });
    let told = machine.answer("copilot", &begun("resume")).unwrap();
    check(told["additionalContext"].as_str().unwrap());
    machine.leaves("copilot", &begun("new"), "passed");
    for host in ["opencode", "pi"] {
        let event = json!({ "conv": SESSION, "event": "compact" });
        check(machine.answer(host, &event).unwrap()["text"].as_str().unwrap());
    }
}

/// A model knows its calls by what it asked for, not by their ids.
#[test]
fn outputs_are_told_by_their_commands() {
    let machine = Machine::new();
    let put = |call: &str, more: &[&str]| {
        let arguments = ["-c", SESSION, "--call", call, "--server", "claude-code"];
        machine.store.ctxfs("put", &[&arguments, more].concat()).stdin("text\n").stdout();
    };
    let command = json!({ "command": "bash -lc 'cargo test --lib\n'" }).to_string();
    put("toolu_1", &["--tool", "Bash", "--exit-code", "101", "--args", &command]);
    put("toolu_2", &["--tool", "Grep", "--args", &json!({ "pattern": "fn main" }).to_string()]);
    put("toolu_3", &["--tool", "Task", "--args", &json!({ "n": 1 }).to_string()]);
    let answer = machine.answer("claude-code", &begun("compact")).unwrap();
    let text = answer["hookSpecificOutput"]["additionalContext"].as_str().unwrap();
    let lines = [
        "cargo test --lib  exit 101  5 bytes  ",
        "pattern fn main  5 bytes  ",
        "claude-code/Task  5 bytes  ",
    ];
    for (number, begins) in lines.into_iter().enumerate() {
        let path = format!("{SESSION}/artifacts/tool/toolu_{}.txt", number + 1);
        let is_there = |line: &str| line.starts_with(begins) && line.ends_with(&path);
        assert!(text.lines().any(is_there), "{begins}: {text}");
    }
}

fn check(text: &str) {
    assert!(text.len() <= 1536, "{} bytes", text.len());
    let lines: Vec<_> = text.lines().collect();
    assert!(lines[0].starts_with("[ctxfs] "), "{text}");
    let newest = format!("{SESSION}/artifacts/tool/call_99.txt");
    assert!(lines[1].starts_with("3 bytes  ") && lines[1].ends_with(&newest), "{text}");
    let told = lines.len() - 2;
    assert_eq!(lines[lines.len() - 1], format!("and {} more beside them", 100 - told));
    assert!(told >= 10, "{text}");
}
