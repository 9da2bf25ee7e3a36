//! Claude Code.

use std::fs;

use serde_json::{Value, json};

use super::{Machine, SESSION, long};

fn bash(response: &Value) -> Value {
    json!({
        "session_id": SESSION, "transcript_path": format!("/home/ann/.claude/projects/-p/{SESSION}.jsonl"),
        "cwd": "/p", "permission_mode": "default", "hook_event_name": "PostToolUse",
        "tool_name": "Bash", "tool_input": { "command": "make" , "n": 1.50 },
        "tool_response": response, "tool_use_id": "toolu_01", "duration_ms": 1250,
    })
}

fn shown(stdout: &str) -> Value {
    json!({
        "stdout": stdout, "stderr": "", "interrupted": false, "isImage": false,
        "noOutputExpected": false,
    })
}

fn replaced(answer: Option<Value>) -> Value {
    let mut answer = answer.unwrap();
    assert_eq!(answer["hookSpecificOutput"]["hookEventName"], "PostToolUse");
    answer["hookSpecificOutput"]["updatedToolOutput"].take()
}

#[test]
fn a_long_output_is_kept_whole_and_replaced() {
    let machine = Machine::new();
    let output = &long()[..40_000];
    let event = bash(&shown(output));
    let mut result = replaced(machine.answer("claude-code", &event));
    let text = result["stdout"].take();
    let text = text.as_str().unwrap();
    assert!(
        text.starts_with("[ctxfs] The complete output is stored; the call ended with exit code 0"),
        "{text}"
    );
    assert!(text.contains("\ncommand: make\ntool: claude-code/Bash    call: toolu_01"), "{text}");
    let mut rest = shown("");
    rest["stdout"].take();
    assert_eq!(result, rest);
    assert_eq!(machine.outputs(), ["toolu_01.txt"]);
    assert_eq!(machine.output("toolu_01.txt"), output.as_bytes());
    let meta = machine.meta("toolu_01.txt");
    assert_eq!(meta["args"], r#"{"command":"make","n":1.5}"#);
    assert_eq!(meta["duration_ms"], 1250);
    assert_eq!(machine.last(), "claude-code kept");

    // Another hook of the host that is the same.
    let again = replaced(machine.answer("claude-code", &event));
    assert_eq!(again["stdout"], text);
    assert_eq!(machine.outputs(), ["toolu_01.txt"]);
}

#[test]
fn a_repeated_command_is_compared() {
    let machine = Machine::new();
    let output = &long()[..40_000];
    let stand_in = |call: &str, directory: &str, output: &str| {
        let mut event = bash(&shown(output));
        event["tool_use_id"] = call.into();
        event["cwd"] = directory.into();
        event["tool_input"]["description"] = call.into();
        replaced(machine.answer("claude-code", &event))["stdout"].as_str().unwrap().to_owned()
    };
    assert!(!stand_in("toolu_01", "/p", output).contains("\nsince run"));
    let text = stand_in("toolu_02", "/p", output);
    assert!(text.contains("\nsince run 1 (0 s ago): the same output as toolu_01.txt\n"), "{text}");
    let text = stand_in("toolu_03", "/p", &format!("{output}\nerror: no room\n"));
    assert!(text.contains("\nsince run 2 (0 s ago): fixed 0, new 1, same 0    .since\n"), "{text}");
    assert!(!stand_in("toolu_04", "/q", output).contains("\nsince run"));
    assert_eq!(machine.meta("toolu_04.txt")["directory"], "/q");
}

#[test]
fn two_hooks_at_once_store_one_output() {
    let machine = Machine::new();
    let event = bash(&shown(&long()[..40_000]));
    let call = || machine.answer("claude-code", &event);
    std::thread::scope(|scope| {
        let calls: Vec<_> = (0..6).map(|_| scope.spawn(call)).collect();
        let answers: Vec<_> = calls.into_iter().map(|call| call.join().unwrap()).collect();
        assert!(answers[0].is_some() && answers.iter().all(|answer| *answer == answers[0]));
    });
    assert_eq!(machine.outputs().len(), 1);
}

#[test]
fn a_sub_agent_is_named_in_the_record() {
    let machine = Machine::new();
    let mut event = bash(&shown(&long()[..40_000]));
    event["agent_id"] = "a1b2c3".into();
    event["agent_type"] = "Explore".into();
    replaced(machine.answer("claude-code", &event));
    let meta = machine.meta("toolu_01.txt");
    assert_eq!((&meta["agent"], &meta["agent_type"]), (&"a1b2c3".into(), &"Explore".into()));
    let file = machine.store.plain(SESSION, "toolu_01.txt");
    let mut value = [0; 64];
    let length = rustix::fs::getxattr(&file, "user.ctx.agent", &mut value).unwrap();
    assert_eq!(&value[..length], b"a1b2c3");

    event["agent_id"] = "token=abc123def456".into();
    event["tool_use_id"] = "toolu_02".into();
    let hook = machine.hook("claude-code").env("CTXFS_REDACT", "stored");
    assert!(!hook.stdin(event.to_string()).stdout().is_empty());
    assert_eq!(machine.meta("toolu_02.txt")["agent"], "token=[redacted]**");
}

#[test]
fn a_short_output_is_left_alone() {
    let machine = Machine::new();
    machine.leaves("claude-code", &bash(&shown("done\n")), "short");
    assert!(!machine.store.path().join("context").exists());
}

#[test]
fn the_file_of_the_host_is_what_counts() {
    let machine = Machine::new();
    let (file, output) = (machine.home.join("spill.txt"), long());
    fs::write(&file, &output).unwrap();
    let mut response = shown(&output[..30_000]);
    response["persistedOutputPath"] = file.to_str().into();
    response["persistedOutputSize"] = output.len().into();
    let result = replaced(machine.answer("claude-code", &bash(&response)));
    let fields: Vec<_> = result.as_object().unwrap().keys().collect();
    assert_eq!(fields, ["interrupted", "isImage", "noOutputExpected", "stderr", "stdout"]);
    assert_eq!(machine.output("toolu_01.txt"), output.as_bytes());
    assert!(result["stdout"].as_str().unwrap().contains("ERROR: the real reason"));

    response["persistedOutputSize"] = 100_999_999.into();
    let result = replaced(machine.answer("claude-code", &bash(&response)));
    let text = result["stdout"].as_str().unwrap();
    let why = format!("the host kept {} of 100999999 bytes", output.len());
    assert!(text.lines().next().unwrap().contains("INCOMPLETE"), "{text}");
    assert!(text.contains(&why), "{text}");
    let again = replaced(machine.answer("claude-code", &bash(&response)));
    assert_eq!(again["stdout"], text);
    assert_eq!(machine.outputs(), ["toolu_01-2.txt", "toolu_01.txt"]);

    response["persistedOutputPath"] = "/nowhere/spill.txt".into();
    let why = "failed: cannot read the output of the host in `/nowhere/spill.txt`: \
               No such file or directory (os error 2)";
    machine.leaves("claude-code", &bash(&response), why);
}

#[test]
fn the_lost_end_of_a_failure_is_added() {
    let machine = Machine::new();
    let tasks = machine
        .home
        .join(format!("tmp/claude-{}/-p/{SESSION}/tasks", rustix::process::getuid().as_raw()));
    fs::create_dir_all(&tasks).unwrap();
    fs::write(tasks.join("a.output"), long()).unwrap();
    fs::write(tasks.join("b.output"), "something else\n".repeat(9000)).unwrap();
    let mut event = bash(&Value::Null);
    event["hook_event_name"] = "PostToolUseFailure".into();
    event["error"] = format!("Exit code 3\n{}", &long()[..10_000]).into();
    let answer = machine.answer("claude-code", &event).unwrap();
    let added = answer["hookSpecificOutput"]["additionalContext"].as_str().unwrap();
    assert!(added.contains("exit code 3"), "{added}");
    assert!(added.contains("ERROR: the real reason"), "{added}");
    assert_eq!(machine.output("toolu_01.txt"), long().as_bytes());

    // The model has seen all of it.
    fs::write(tasks.join("a.output"), "line 1\n").unwrap();
    event["error"] = "Exit code 1\nline 1\n".into();
    machine.leaves("claude-code", &event, "passed");
}

#[test]
fn results_of_servers_keep_what_is_no_text() {
    let machine = Machine::new();
    let image = json!({ "type": "image", "data": "aGk=", "mimeType": "image/png" });
    let text = long();
    let mut event = bash(&json!([
        { "type": "text", "text": "one" }, image.clone(), { "type": "text", "text": text },
    ]));
    event["tool_name"] = "mcp__probe__big".into();
    let result = replaced(machine.answer("claude-code", &event));
    assert_eq!(result.as_array().unwrap().len(), 2);
    assert!(result[0]["text"].as_str().unwrap().contains("tool: probe/big"));
    assert_eq!(result[1], image);
    assert_eq!(machine.output("toolu_01.txt"), format!("one\n{text}").as_bytes());

    let structured = json!({ "rows": (0..20_000).collect::<Vec<_>>() }).to_string();
    event["tool_response"] = structured.as_str().into();
    event["tool_use_id"] = "toolu_02".into();
    let result = replaced(machine.answer("claude-code", &event));
    assert!(result.as_str().unwrap().contains("JSON"));
    assert_eq!(machine.output("toolu_02.json"), structured.as_bytes());
}

#[test]
fn what_cannot_be_replaced_is_left_alone() {
    let machine = Machine::new();
    let output = long();
    let mut image = shown(&output);
    image["isImage"] = true.into();
    machine.leaves("claude-code", &bash(&image), "passed");
    let mut background = shown(&output);
    background["backgroundTaskId"] = "b1".into();
    machine.leaves("claude-code", &bash(&background), "passed");
    let mut read = bash(&shown(&output));
    read["tool_name"] = "Read".into();
    machine.leaves("claude-code", &read, "passed");
    let mut cursor = bash(&shown(&output));
    cursor["cursor_version"] = "2.1".into();
    machine.leaves("claude-code", &cursor, "passed");
    assert_eq!(machine.outputs(), [""; 0]);
}

#[test]
fn half_a_character_at_a_cut_does_not_matter() {
    let machine = Machine::new();
    let event = bash(&shown(&"x".repeat(40_000))).to_string();
    let event = event.replacen("xxx", r"xxx\ud83d", 1);
    let output = machine.hook("claude-code").stdin(event).run();
    assert_eq!(machine.last(), "claude-code kept", "{output}");
    assert!(machine.output("toolu_01.txt").starts_with("xxx\u{fffd}".as_bytes()));
}

#[test]
fn what_was_read_from_the_store_is_not_stored_again() {
    let machine = Machine::new();
    let result = replaced(machine.answer("claude-code", &bash(&shown(&long()))));
    let mut again = bash(&result);
    again["tool_use_id"] = "toolu_02".into();
    // A stand-in is known by its reference.
    let limits = [("CTXFS_MAX_INLINE_CHARS", "100"), ("CTXFS_HOOKS_REPLACE", "long")];
    let hook = limits
        .iter()
        .fold(machine.hook("claude-code"), |hook, (name, value)| hook.env(name, value));
    assert!(hook.stdin(again.to_string()).stdout().is_empty());
    assert_eq!(machine.last(), "claude-code own");

    let part = "line\n".repeat(8000);
    let mut view = bash(&shown(&part));
    view["tool_use_id"] = "toolu_03".into();
    let path = format!("/ctx/{SESSION}/artifacts/tool/toolu_01.txt");
    view["tool_input"] = json!({ "command": format!("cat {path}.lines/1-8000") });
    machine.leaves("claude-code", &view, "own");

    // A command that reads an output, and prints much else.
    view["tool_input"] = json!({ "command": format!("seq 1 50000; tail {path}") });
    view["tool_response"] = shown(&long());
    replaced(machine.answer("claude-code", &view));
    assert_eq!(machine.outputs(), ["toolu_01.txt", "toolu_03.txt"]);
}
