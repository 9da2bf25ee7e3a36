//! Whose session a conversation is: what hooks and commands note of it, and where it is shown.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use super::{Machine, SESSION, long};
use crate::support::{Command, TestMount};

/// Returns an event about a long output, in a session with a transcript.
fn event(machine: &Machine, call: &str) -> Value {
    json!({ "session_id": SESSION, "transcript_path": machine.home.join("t.jsonl"), "cwd": "/src/p",
        "hook_event_name": "PostToolUse", "tool_name": "mcp__docs__read", "tool_use_id": call,
        "tool_input": { "path": "a.md" }, "tool_response": [{ "type": "text", "text": long() }] })
}

fn transcript(machine: &Machine, prompts: &[&str]) {
    let line = |prompt: &&str| {
        let message = json!({ "role": "user", "content": prompt });
        json!({ "type": "user", "message": message }).to_string() + "\n"
    };
    fs::write(machine.home.join("t.jsonl"), prompts.iter().map(line).collect::<String>()).unwrap();
}

fn about(machine: &Machine) -> Value {
    let path = machine.store.path().join("context").join(SESSION).join("about.json");
    fs::read(path).map_or(Value::Null, |text| serde_json::from_slice(&text).unwrap())
}

#[test]
fn a_hook_notes_directory_host_and_first_words() {
    let machine = Machine::new();
    let start = json!({ "session_id": SESSION, "cwd": "/src/p", "hook_event_name": "SessionStart",
        "source": "startup", "transcript_path": machine.home.join("t.jsonl") });
    machine.leaves("claude-code", &start, "passed");
    assert!(!machine.store.path().join("context").join(SESSION).exists(), "nothing is stored");
    transcript(&machine, &["<command-name>/clear</command-name>"]);
    machine.answer("claude-code", &event(&machine, "toolu_1")).unwrap();
    let known = json!({ "directory": "/src/p", "host": "claude-code" });
    assert_eq!(about(&machine), known, "the user has said nothing yet");
    transcript(&machine, &["fix the\nflaky \u{1b}[31mtest", "and now?"]);
    machine.leaves(
        "claude-code",
        &json!({ "session_id": SESSION, "cwd": "/elsewhere",
        "transcript_path": machine.home.join("t.jsonl"), "hook_event_name": "PostToolUse",
        "tool_name": "Read", "tool_response": {} }),
        "passed",
    );
    let known =
        json!({ "directory": "/src/p", "host": "claude-code", "prompt": "fix the flaky [31mtest" });
    assert_eq!(about(&machine), known);
    transcript(&machine, &["something else"]);
    machine.leaves("claude-code", &start, "passed");
    assert_eq!(about(&machine), known, "what is known stays");
}

#[test]
fn it_changes_no_answer() {
    let (machine, other) = (Machine::new(), Machine::new());
    transcript(&machine, &["fix it"]);
    let conversation = machine.store.path().join("context").join(SESSION);
    fs::create_dir_all(conversation.join("about.json")).unwrap();
    let first = machine.answer("claude-code", &event(&machine, "toolu_1")).unwrap();
    assert_eq!(machine.last(), "claude-code kept");
    let want = other.answer("claude-code", &event(&machine, "toolu_1")).unwrap();
    // Without a mount, an answer names the store.
    let without_store = |answer: Value, machine: &Machine| {
        answer.to_string().replace(&machine.store.path().display().to_string(), "STORE")
    };
    assert_eq!(without_store(first, &machine), without_store(want, &other));
    assert_eq!(about(&other)["prompt"], "fix it");
    // A transcript that cannot be read.
    fs::remove_file(machine.home.join("t.jsonl")).unwrap();
    Command::new("mkfifo").arg(machine.home.join("t.jsonl")).stdout();
    fs::remove_dir(conversation.join("about.json")).unwrap();
    machine.answer("claude-code", &event(&machine, "toolu_2")).unwrap();
    assert_eq!(about(&machine), json!({ "directory": "/src/p", "host": "claude-code" }));
}

/// A prompt may hold a secret.
#[test]
fn secrets_are_masked_where_that_is_asked() {
    let key = concat!("AKI", "AQYLPMN5HHHFPZAM2");
    for (apply, stored) in [("views", key), ("stored", "[redacted:aws-key]**")] {
        let machine = Machine::new();
        transcript(&machine, &[&format!("use {key}")]);
        machine.store.user_settings(format!("redact = \"{apply}\"\n"));
        let settings = machine.store.user_file();
        let settings = settings.to_str().unwrap();
        let event = event(&machine, "toolu_1");
        machine.answer_with("claude-code", &event, &[("CTXFS_CONFIG", settings)]).unwrap();
        assert_eq!(about(&machine)["prompt"], format!("use {stored}"), "{apply}");
        let listed = machine.store.ctxfs("ls", &[]).text();
        assert!(listed.starts_with("use [redacted:aws-key]** "), "{apply}: {listed}");
    }
}

#[test]
fn a_command_notes_its_directory_and_lists_begin_with_what_it_is_of() {
    let machine = Machine::new();
    let project = machine.home.join("project");
    fs::create_dir(&project).unwrap();
    let run = |id: &str, script: &str| {
        let arguments = ["-c", SESSION, "--id", id, "--host", "codex", "--", "sh", "-c", script];
        machine
            .store
            .ctxfs("shell", &arguments)
            .current_dir(&project)
            .env("HOME", &machine.home)
            .run()
    };
    run("short", "echo hi");
    assert_eq!(about(&machine), Value::Null, "nothing is stored of it");
    assert_eq!(run("fails", "seq 9000; echo ERROR: no disk; exit 3").code, 3);
    let directory = project.canonicalize().unwrap();
    assert_eq!(about(&machine), json!({ "directory": directory, "host": "codex" }));
    let list =
        |arguments: &[&str]| machine.store.ctxfs("ls", arguments).env("HOME", &machine.home).text();
    let title = "seq 9000; echo ERROR: no disk; exit 3";
    let all = list(&[]);
    let begin = format!("{title}, exit 3, 1 error  ~/project, codex, 1 output  ");
    assert!(all.starts_with(&begin) && all.ends_with(&format!("  {SESSION}\n")), "{all}");
    let outputs = list(&[SESSION]);
    let begin = format!("{title}  exit 3, 1 error  ");
    let end = "  artifacts/terminal/fails.log\n";
    assert!(outputs.starts_with(&begin) && outputs.ends_with(end), "{outputs}");
    transcript(&machine, &["fill the disk"]);
    machine.answer("claude-code", &event(&machine, "toolu_1")).unwrap();
    let listed: Value = serde_json::from_str(&list(&["--json"])).unwrap();
    let row = &listed[0];
    let host = (&row["directory"], &row["host"], &row["prompt"], &row["last"]);
    let want =
        (&json!(directory), &json!("codex"), &json!("fill the disk"), &json!("path a.md, 1 error"));
    assert_eq!(host, want);
    let all = list(&[]);
    let begin = "fill the disk  ~/project, codex, 2 outputs, last: path a.md, 1 error  ";
    assert!(all.starts_with(begin), "{all}");
    let mount = TestMount::of(&machine.store, crate::support::Mode::Cached, &[]);
    let shown = fs::read_to_string(mount.path().join(SESSION).join("about.json")).unwrap();
    assert!(shown.contains("\"prompt\":\"fill the disk\""), "{shown}");
    let mode = fs::metadata(machine.store.path().join("context").join(SESSION).join("about.json"));
    assert_eq!(mode.unwrap().permissions().mode() & 0o777, 0o600);
}
