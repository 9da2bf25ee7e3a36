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
        ("cargo test --lib: exit 101, 5 bytes, ", "toolu_1"),
        ("claude-code/Task: 5 bytes, ", "toolu_3"),
        ("pattern fn main: 5 bytes, ", "toolu_2"),
    ];
    for (line, (begin, name)) in text.lines().skip(1).zip(lines) {
        let end = format!(" ago: tool/{name}.txt");
        assert!(line.starts_with(begin) && line.ends_with(&end), "{begin}: {text}");
    }
}

/// What failed and what is new must not be lost among many others, nor a long command fill the map.
#[test]
fn failures_and_new_outputs_take_turns() {
    let machine = Machine::new();
    let put = |call: &str, command: &str, code: &str, output: &str| {
        let args = json!({ "command": command }).to_string();
        let arguments = ["-c", SESSION, "--call", call, "--exit-code", code, "--args", &args];
        machine.store.ctxfs("put", &arguments).stdin(output).stdout();
    };
    put("a", "make old", "2", "ERROR: no rule\n");
    put("b", "make test", "1", "ERROR: no test\n");
    put("c", "make test", "0", "fine\n");
    for number in 0..20 {
        put(&format!("call_{number}"), &format!("echo {number} {}", "x".repeat(90)), "0", "x\n");
    }
    put("d", "make new", "2", "one\nERROR: no rule\nERROR: no file\n");
    machine.store.ctxfs("log", &["append", SESSION]).stdin("{\"role\":\"user\"}\n").stdout();
    let variables = [("CTXFS_ADVERTISE", "/ctx")];
    let answer = machine.answer_with("claude-code", &begun("compact"), &variables).unwrap();
    let text = answer["hookSpecificOutput"]["additionalContext"].as_str().unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert!(text.len() <= 1000, "{} bytes", text.len());
    for (line, begin) in lines[1..5].iter().zip([
        "make new: exit 2, 2 errors, ",
        "echo 19 xxx",
        "make old: exit 2, 1 error, ",
        "echo 18 xxx",
    ]) {
        assert!(line.starts_with(begin), "{text}");
    }
    assert!(lines[2].contains("xxx...: exit 0, 2 bytes, ") && lines[2].len() < 110, "{text}");
    assert!(
        !text.contains("no test") && !text.contains("tool/b.txt"),
        "a later run counts: {text}"
    );
    let [.., messages, search] = &lines[..] else { panic!("{text}") };
    assert!(messages.starts_with("messages: /") && search.starts_with("search: /"), "{text}");
    let path = messages.trim_start_matches("messages: ").replace("PATTERN", "user");
    assert!(machine.store.view(&path).starts_with(b"1:{"), "{path}");
    let path = search.trim_start_matches("search: ").replace("PATTERN", "no file");
    let found = String::from_utf8(machine.store.view(&path)).unwrap();
    assert!(found.contains("tool/d.txt:3:ERROR: no file"), "{path}: {found}");
}

#[test]
fn a_map_is_short_whatever_the_names() {
    let machine = Machine::new();
    for (prefix, id, lines) in [(4, 100, 4), (4, 255, 4), (300, 100, 3), (1000, 100, 2)] {
        let (prefix, id) = ("/p".repeat(prefix / 2), "c".repeat(id));
        machine.store.put(&id, &"\u{e9}".repeat(60), b"1\n");
        let event =
            json!({ "session_id": id, "hook_event_name": "SessionStart", "source": "resume" });
        let variables = [("CTXFS_ADVERTISE", &*prefix)];
        let answer = machine.answer_with("claude-code", &event, &variables).unwrap();
        let text = answer["hookSpecificOutput"]["additionalContext"].as_str().unwrap();
        assert!(text.len() <= 1000, "{} bytes", text.len());
        assert_eq!(text.lines().count(), lines, "{text}");
        let search = format!("search: {prefix}/{id}/.grep/PATTERN");
        assert!(lines == 2 || text.lines().last() == Some(&search), "{text}");
    }
}

fn check(text: &str) {
    assert!((900..=1000).contains(&text.len()), "{} bytes", text.len());
    let lines: Vec<_> = text.lines().collect();
    assert!(lines[0].starts_with("[ctxfs] "), "{text}");
    assert!(
        lines[1].starts_with("3 bytes, ") && lines[1].ends_with(" ago: tool/call_99.txt"),
        "{text}"
    );
    let [.., more, read, search] = &lines[..] else { panic!("{text}") };
    let told = lines.len() - 4;
    assert_eq!(*more, format!("and {} more", 100 - told));
    assert!(told >= 10, "{text}");
    let ends = [("read: /", "/artifacts/PATH or PATH.summary"), ("search: /", "/.grep/PATTERN")];
    for (line, (begin, end)) in [read, search].into_iter().zip(ends) {
        assert!(line.starts_with(begin) && line.ends_with(&format!("{SESSION}{end}")), "{text}");
    }
}
