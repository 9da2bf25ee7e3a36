//! What else arrives from Claude Code: results of its other tools, reports of sub-agents, and the
//! conversation before a compaction, which Codex and pi tell of too.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::{Machine, SESSION, long};

fn result_of(tool: &str, input: &Value, response: &Value) -> Value {
    json!({
        "session_id": SESSION, "transcript_path": format!("/home/ann/.claude/projects/-p/{SESSION}.jsonl"),
        "cwd": "/p", "prompt_id": "96ae5a37-ae66-4d33-a4f7-5b8f4f6ac2a4", "permission_mode": "default",
        "effort": { "level": "medium" }, "hook_event_name": "PostToolUse", "tool_name": tool,
        "tool_input": input, "tool_response": response, "tool_use_id": "toolu_01", "duration_ms": 28,
    })
}

/// Returns the result that replaces a result of a tool. The other fields are as they were.
fn replaced(machine: &Machine, event: &Value, field: &str) -> Value {
    let mut answer = machine.answer("claude-code", event).unwrap();
    let mut result = answer["hookSpecificOutput"]["updatedToolOutput"].take();
    let text = result[field].take();
    let mut before = event["tool_response"].clone();
    before[field].take();
    assert_eq!(result, before);
    text
}

fn is_stand_in(text: &Value) -> bool {
    text.as_str().unwrap().starts_with("[ctxfs] The complete output is stored. ")
}

#[test]
fn searches_are_replaced_where_the_host_cuts_them() {
    let machine = Machine::new();
    let input = json!({ "pattern": "line", "output_mode": "content", "head_limit": 0 });
    let found = |content: &str| json!({ "mode": "content", "numFiles": 0, "filenames": [], "content": content, "numLines": 9 });
    let output = &long()[..20_001];
    let mut within = result_of("Grep", &input, &found(&output[..20_000]));
    within["tool_use_id"] = "toolu_00".into();
    machine.leaves("claude-code", &within, "stored");
    let text = replaced(&machine, &result_of("Grep", &input, &found(output)), "content");
    assert!(is_stand_in(&text), "{text}");
    assert_eq!(machine.output("toolu_01.txt"), output.as_bytes());

    // Names of files: the host puts their number before them.
    let names: Vec<String> = (0..4000).map(|n| format!("src/module/file_{n}.rs")).collect();
    let files = json!({ "mode": "files_with_matches", "filenames": names, "numFiles": 4000 });
    let mut event = result_of("Grep", &json!({ "pattern": "x" }), &files);
    event["tool_use_id"] = "toolu_02".into();
    let text = replaced(&machine, &event, "filenames");
    assert!(is_stand_in(&text[0]) && text.as_array().unwrap().len() == 1, "{text}");
    assert_eq!(machine.output("toolu_02.txt"), names.join("\n").as_bytes());
    let files =
        json!({ "filenames": names, "durationMs": 57, "numFiles": 4000, "truncated": false });
    let mut event = result_of("Glob", &json!({ "pattern": "**/*.rs" }), &files);
    event["tool_use_id"] = "toolu_03".into();
    assert!(is_stand_in(&replaced(&machine, &event, "filenames")[0]));
}

#[test]
fn pages_are_replaced() {
    let machine = Machine::new();
    let page = json!({
        "bytes": 90_000, "code": 200, "codeText": "OK", "result": long(), "durationMs": 12,
        "url": "https://example.org/long",
    });
    let input = json!({ "url": "https://example.org/long", "prompt": "What is it about?" });
    let text = replaced(&machine, &result_of("WebFetch", &input, &page), "result");
    assert!(is_stand_in(&text), "{text}");
    assert!(text.as_str().unwrap().contains("\nurl: https://example.org/long\n"), "{text}");
    assert_eq!(machine.output("toolu_01.txt"), long().as_bytes());

    let hits: Vec<Value> = (0..1200)
        .map(|n| json!({ "title": format!("Page {n}"), "url": format!("https://example.org/{n}") }))
        .collect();
    let results = json!([{ "tool_use_id": "srvtoolu_1", "content": hits }, "comment of the model"]);
    let found =
        json!({ "query": "pages", "results": results, "durationSeconds": 0.37, "searchCount": 1 });
    let mut event = result_of("WebSearch", &json!({ "query": "pages" }), &found);
    event["tool_use_id"] = "toolu_02".into();
    let text = replaced(&machine, &event, "results");
    assert!(is_stand_in(&text[0]), "{text}");
    let stored = String::from_utf8(machine.output("toolu_02.txt")).unwrap();
    assert!(stored.starts_with("Links: [{") && stored.ends_with("]\n\ncomment of the model"));
    assert!(stored.contains("https://example.org/1199"));
}

fn report(text: &str) -> Value {
    json!({
        "status": "completed", "prompt": "Look at it.", "agentId": "a31ea56405cf108a0",
        "agentType": "general-purpose", "toolsUsed": ["Bash"], "harnessNoteCount": 1,
        "harnessTailCount": 0, "harnessSectionHash": "076ab09f08bbbfdb",
        "content": [
            { "type": "text", "text": "<tools-used-before-summary>Bash</tools-used-before-summary>\n" },
            { "type": "text", "text": text },
        ],
        "totalDurationMs": 566, "totalTokens": 120, "totalToolUseCount": 1, "canContinueAgent": true,
    })
}

fn stop(machine: &Machine, report: Option<&str>) -> Value {
    let path = agent_file(machine, "a31ea56405cf108a0");
    json!({
        "session_id": SESSION, "transcript_path": main_file(machine), "cwd": "/p",
        "permission_mode": "default", "agent_id": "a31ea56405cf108a0", "agent_type": "general-purpose",
        "hook_event_name": "SubagentStop", "stop_hook_active": false, "agent_transcript_path": path,
        "last_assistant_message": report, "background_tasks": [], "session_crons": [],
    })
}

fn main_file(machine: &Machine) -> PathBuf {
    machine.home.join(format!("projects/-p/{SESSION}.jsonl"))
}

fn agent_file(machine: &Machine, agent: &str) -> PathBuf {
    machine.home.join(format!("projects/-p/{SESSION}/subagents/agent-{agent}.jsonl"))
}

/// Writes the transcript of an agent that was stopped while its command ran.
fn write_agent(machine: &Machine, agent: &str, facts: &Value) {
    let path = agent_file(machine, agent);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path.with_extension("meta.json"), facts.to_string()).unwrap();
    let said =
        |content: Value| json!({ "type": "message", "role": "assistant", "content": content });
    let lines = [
        line("user", "u1", &json!({ "role": "user", "content": "Look at it." })),
        line(
            "assistant",
            "u2",
            &said(json!([{ "type": "thinking", "thinking": "hm", "signature": "s" }])),
        ),
        line(
            "assistant",
            "u3",
            &said(json!([{ "type": "text", "text": "The cause is in the parser." }])),
        ),
        line(
            "assistant",
            "u4",
            &said(json!([
                { "type": "tool_use", "id": "toolu_9", "name": "Bash", "input": { "command": "sleep 20" } },
            ])),
        ),
    ];
    fs::write(path, lines.concat()).unwrap();
}

fn line(kind: &str, uuid: &str, message: &Value) -> String {
    let line = json!({
        "parentUuid": null, "isSidechain": false, "type": kind, "message": message, "uuid": uuid,
        "timestamp": "2026-11-29T22:38:32.905Z", "sessionId": SESSION, "version": "2.1.332",
    });
    format!("{line}\n")
}

#[test]
fn the_report_of_an_agent_is_an_artifact_of_its_own() {
    let machine = Machine::new();
    let facts = json!({ "agentType": "general-purpose", "description": "Find the cause", "finished": true });
    write_agent(&machine, "a31ea56405cf108a0", &facts);
    let text = &long()[..70_000];
    let text = text.trim_end();
    machine.leaves("claude-code", &stop(&machine, Some(text)), "stored");
    assert_eq!(machine.outputs(), ["agent-a31ea56405cf108a0.txt"]);
    assert_eq!(machine.output("agent-a31ea56405cf108a0.txt"), text.as_bytes());
    let meta = machine.meta("agent-a31ea56405cf108a0.txt");
    assert_eq!((&meta["agent"], &meta["tool"]), (&"a31ea56405cf108a0".into(), &"Agent".into()));
    assert_eq!(meta["agent_type"], "general-purpose");
    assert!(meta["args"].as_str().unwrap().contains("Find the cause"), "{meta}");

    // The same report, where the parent waits for it.
    let input = json!({ "description": "Find the cause", "prompt": "Look at it." });
    let event = result_of("Agent", &input, &report(text));
    let answer = machine.answer("claude-code", &event).unwrap();
    let result = &answer["hookSpecificOutput"]["updatedToolOutput"];
    assert!(result["content"][0]["text"].as_str().unwrap().starts_with("<tools-used"), "{result}");
    assert!(is_stand_in(&result["content"][1]["text"]), "{result}");
    assert_eq!(
        (&result["agentId"], &result["status"]),
        (&"a31ea56405cf108a0".into(), &"completed".into())
    );
    assert_eq!(result.get("harnessSectionHash"), None);
    assert_eq!(machine.outputs(), ["agent-a31ea56405cf108a0.txt"]);

    machine.leaves("claude-code", &result_of("Agent", &input, &report("Done.")), "short");
    let launched =
        json!({ "isAsync": true, "status": "async_launched", "agentId": "a1", "prompt": "x" });
    machine.leaves("claude-code", &result_of("Agent", &input, &launched), "passed");
    let mut own = stop(&machine, Some("A suggestion of the host itself."));
    own["agent_type"] = "".into();
    machine.leaves("claude-code", &own, "passed");
}

#[test]
fn what_a_killed_agent_wrote_is_kept() {
    let machine = Machine::new();
    write_agent(&machine, "ae87678ad196af8fb", &json!({ "description": "Find the cause" }));
    let notification = |status: &str, agent: &str| {
        let prompt = format!(
            "<task-notification>\n<task-id>{agent}</task-id>\n<tool-use-id>toolu_01</tool-use-id>\n\
             <status>{status}</status>\n<summary>Agent \"d\" was stopped by Claude</summary>\n\
             <result>The cause is in the parser. <status>completed</status></result>\n</task-notification>"
        );
        json!({
            "session_id": SESSION, "transcript_path": main_file(&machine), "cwd": "/p",
            "hook_event_name": "UserPromptSubmit", "prompt": prompt,
        })
    };
    machine.leaves("claude-code", &notification("completed", "ae87678ad196af8fb"), "passed");
    let answer =
        machine.answer("claude-code", &notification("killed", "ae87678ad196af8fb")).unwrap();
    let told = answer["hookSpecificOutput"]["additionalContext"].as_str().unwrap();
    assert!(told.contains("/artifacts/tool/agent-ae87678ad196af8fb.txt"), "{told}");
    assert_eq!(machine.last(), "claude-code stored");
    let written = "The cause is in the parser.\n-> claude-code/Bash {\"command\":\"sleep 20\"}";
    assert_eq!(machine.output("agent-ae87678ad196af8fb.txt"), written.as_bytes());
    let summary = format!("{SESSION}/artifacts/tool/agent-ae87678ad196af8fb.txt.summary");
    let summary = String::from_utf8(machine.store.view(&summary)).unwrap();
    assert!(summary.starts_with("[ctxfs] INCOMPLETE"), "{summary}");
    assert!(summary.contains("(the agent ended before it reported)"), "{summary}");
    // No name leads out of the directory.
    machine.leaves("claude-code", &notification("killed", "../../x"), "passed");
    let user =
        json!({ "session_id": SESSION, "hook_event_name": "UserPromptSubmit", "prompt": "Hi." });
    machine.leaves("claude-code", &user, "passed");
}

#[test]
fn agents_that_ended_with_the_session_are_kept_when_it_goes_on() {
    let machine = Machine::new();
    write_agent(&machine, "a1", &json!({ "description": "Find the cause" }));
    write_agent(&machine, "a2", &json!({ "description": "Done", "finished": true }));
    let start = |source: &str| {
        json!({
            "session_id": SESSION, "transcript_path": main_file(&machine), "cwd": "/p",
            "hook_event_name": "SessionStart", "source": source,
        })
    };
    // Agents run on while the conversation is compacted.
    assert_eq!(machine.answer("claude-code", &start("compact")), None);
    assert_eq!(machine.outputs(), [""; 0]);
    for _ in 0..2 {
        let answer = machine.answer("claude-code", &start("resume")).unwrap();
        let told = answer["hookSpecificOutput"]["additionalContext"].as_str().unwrap();
        assert!(told.contains("Find the cause"), "{told}");
        assert_eq!(machine.outputs(), ["agent-a1.txt"]);
    }
}

fn compaction(machine: &Machine) -> Value {
    json!({
        "session_id": SESSION, "transcript_path": main_file(machine), "cwd": "/p",
        "hook_event_name": "PreCompact", "trigger": "auto", "custom_instructions": null,
    })
}

fn messages(machine: &Machine) -> Vec<Value> {
    let log = machine.store.path().join(format!("context/{SESSION}/history/messages.jsonl"));
    let log = fs::read_to_string(log).unwrap_or_default();
    log.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn the_conversation_is_kept_before_a_compaction() {
    let machine = Machine::new();
    let stand_in = {
        let mut event = result_of(
            "Bash",
            &json!({ "command": "make" }),
            &json!({
                "stdout": &long()[..40_000], "stderr": "", "interrupted": false, "isImage": false,
            }),
        );
        event["tool_use_id"] = "toolu_1".into();
        let answer = machine.answer("claude-code", &event).unwrap();
        answer["hookSpecificOutput"]["updatedToolOutput"]["stdout"].as_str().unwrap().to_owned()
    };
    let path = main_file(&machine);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let said = |content: Value| json!({ "id": "msg_1", "type": "message", "role": "assistant", "content": content });
    let called = |id: &str, name: &str| json!([{ "type": "tool_use", "id": id, "name": name, "input": { "command": "make" } }]);
    let told = |id: &str, content: Value| {
        json!({ "role": "user", "content": [
        { "tool_use_id": id, "type": "tool_result", "content": content, "is_error": id == "toolu_2" },
    ] })
    };
    let lines = [
        "{\"type\":\"queue-operation\",\"operation\":\"enqueue\"}\n".to_owned(),
        line("user", "u1", &json!({ "role": "user", "content": "Why does the frobnicator fail?" })),
        line("assistant", "u2", &said(json!([{ "type": "thinking", "thinking": "secret", "signature": "x" }]))),
        line("assistant", "u3", &said(json!([{ "type": "text", "text": "I look at \u{e9} it." }]))),
        line("assistant", "u4", &said(called("toolu_1", "Bash"))),
        line("user", "u5", &told("toolu_1", stand_in.into())),
        line("assistant", "u6", &said(called("toolu_2", "mcp__probe__big"))),
        line("user", "u7", &told("toolu_2", json!([{ "type": "text", "text": "no such row" }, { "type": "image", "source": {} }]))),
        json!({ "type": "attachment", "uuid": "u8", "attachment": { "type": "queued_command", "prompt": "And hurry." } }).to_string() + "\n",
        json!({ "type": "attachment", "uuid": "u9", "attachment": { "type": "date", "date": "2026-11-29" } }).to_string() + "\n",
    ];
    fs::write(&path, lines.concat()).unwrap();
    machine.leaves("claude-code", &compaction(&machine), "stored");
    let stored = messages(&machine);
    let ids: Vec<&str> = stored.iter().map(|message| message["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["u1", "u3", "u4", "u5", "u6", "u7", "u8"]);
    assert_eq!(stored[0]["content"], "Why does the frobnicator fail?");
    assert_eq!(
        (&stored[1]["role"], &stored[1]["content"]),
        (&"assistant".into(), &"I look at \u{e9} it.".into())
    );
    let call = json!([{ "id": "toolu_1", "function": { "name": "claude-code/Bash", "arguments": "{\"command\":\"make\"}" } }]);
    assert_eq!(stored[2]["tool_calls"], call);
    assert_eq!(
        (&stored[3]["role"], &stored[3]["toolName"]),
        (&"tool".into(), &"claude-code/Bash".into())
    );
    assert_eq!(stored[3]["fullOutputPath"], format!("ctx://{SESSION}/artifacts/tool/toolu_1.txt"));
    assert_eq!(
        (&stored[5]["toolName"], &stored[5]["isError"]),
        (&"probe/big".into(), &true.into())
    );
    assert_eq!(stored[5]["content"], "no such row\n[image]");
    assert_eq!((&stored[6]["role"], &stored[6]["content"]), (&"user".into(), &"And hurry.".into()));
    assert_eq!(stored[0]["createdAt"], "2026-11-29T22:38:32.905Z");

    // The searches of the conversation reach what was said.
    let found = machine.store.view(&format!("{SESSION}/.grep/frobnicator"));
    let found = String::from_utf8(found).unwrap();
    assert!(found.starts_with("history/messages.jsonl:1:"), "{found}");
    let found = machine.store.view(&format!("{SESSION}/.find/frobnicator fail"));
    assert!(String::from_utf8(found).unwrap().contains("history/messages.jsonl"));

    // Nothing comes twice. A line that is still being written comes when it is whole.
    machine.leaves("claude-code", &compaction(&machine), "passed");
    let next = line("assistant", "u10", &said(json!([{ "type": "text", "text": "Found it." }])));
    let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
    file.write_all(&next.as_bytes()[..40]).unwrap();
    machine.leaves("claude-code", &compaction(&machine), "passed");
    file.write_all(&next.as_bytes()[40..]).unwrap();
    let compact = || machine.answer("claude-code", &compaction(&machine));
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..4).map(|_| scope.spawn(compact)).collect();
        for one in all {
            assert_eq!(one.join().unwrap(), None);
        }
    });
    compact();
    let stored = messages(&machine);
    assert_eq!((stored.len(), &stored[7]["content"]), (8, &"Found it.".into()));
}

#[test]
fn a_long_result_in_a_transcript_is_an_artifact() {
    let machine = Machine::new();
    let path = main_file(&machine);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let text = long();
    let block = json!({ "tool_use_id": "toolu_5", "type": "tool_result", "content": text });
    fs::write(&path, line("user", "u1", &json!({ "role": "user", "content": [block] }))).unwrap();
    machine.leaves("claude-code", &compaction(&machine), "stored");
    assert_eq!(machine.output("toolu_5.txt"), text.as_bytes());
    let path = messages(&machine)[0]["fullOutputPath"].clone();
    assert!(path.as_str().unwrap().ends_with("artifacts/tool/toolu_5.txt"), "{path}");
}

#[test]
fn codex_and_pi_name_their_transcripts() {
    let machine = Machine::new();
    let rollout = machine.home.join("rollout-2026-11-29T22-47-28-01a2297d.jsonl");
    let item = |ordinal: u32, payload: Value| {
        let line = json!({ "timestamp": "2026-11-29T22:47:28.265Z", "ordinal": ordinal, "type": "response_item", "payload": payload });
        format!("{line}\n")
    };
    let lines = [
        "{\"timestamp\":\"t\",\"ordinal\":0,\"type\":\"event_msg\",\"payload\":{\"type\":\"user_message\",\"message\":\"x\"}}\n".to_owned(),
        item(1, json!({ "type": "message", "id": "msg_0", "role": "developer", "content": [{ "type": "input_text", "text": "Rules." }] })),
        item(2, json!({ "type": "message", "id": "msg_1", "role": "user", "content": [{ "type": "input_text", "text": "Count." }] })),
        item(3, json!({ "type": "reasoning", "summary": [], "encrypted_content": "x" })),
        item(4, json!({ "type": "function_call", "id": "fc_1", "name": "exec_command", "arguments": "{\"cmd\": \"seq 1 5\"}", "call_id": "call_1" })),
        item(5, json!({ "type": "function_call_output", "id": "fco_1", "call_id": "call_1", "output": "Output:\n1\n2\n" })),
        item(6, json!({ "type": "message", "role": "assistant", "content": [{ "type": "output_text", "text": "Done." }] })),
    ];
    fs::write(&rollout, lines.concat()).unwrap();
    let event = json!({
        "session_id": SESSION, "turn_id": "t", "transcript_path": rollout, "cwd": "/p",
        "hook_event_name": "PreCompact", "model": "gpt-5-codex", "trigger": "auto",
    });
    machine.leaves("codex", &event, "stored");
    machine.leaves("codex", &event, "passed");
    let stored = messages(&machine);
    let roles: Vec<&str> = stored.iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "assistant"]);
    let function = json!({ "name": "codex/exec_command", "arguments": "{\"cmd\": \"seq 1 5\"}" });
    assert_eq!(stored[1]["tool_calls"][0], json!({ "id": "call_1", "function": function }));
    assert_eq!(
        (&stored[2]["content"], &stored[2]["toolName"]),
        (&"Output:\n1\n2\n".into(), &"codex/exec_command".into())
    );

    let machine = Machine::new();
    let session = machine.home.join("session.jsonl");
    let entry = |id: &str, message: Value| {
        format!(
            "{}\n",
            json!({ "type": "message", "id": id, "parentId": null, "timestamp": "2026-11-29T22:47:28.265Z", "message": message })
        )
    };
    let lines = [
        "{\"type\":\"session\",\"version\":3,\"id\":\"s\",\"cwd\":\"/p\"}\n".to_owned(),
        entry("e1", json!({ "role": "user", "content": "Count.", "timestamp": 1 })),
        entry(
            "e2",
            json!({ "role": "assistant", "content": [
            { "type": "thinking", "thinking": "hm" }, { "type": "text", "text": "I count." },
            { "type": "toolCall", "id": "call_1", "name": "bash", "arguments": { "command": "seq 1 5" } },
        ] }),
        ),
        entry(
            "e3",
            json!({ "role": "toolResult", "toolCallId": "call_1", "toolName": "bash", "isError": true,
            "content": [{ "type": "text", "text": "1\n2\n" }] }),
        ),
    ];
    fs::write(&session, lines.concat()).unwrap();
    machine.leaves(
        "pi",
        &json!({ "conv": SESSION, "event": "messages", "path": session }),
        "stored",
    );
    let stored = messages(&machine);
    assert_eq!(stored[1]["content"], "I count.");
    assert_eq!(stored[1]["tool_calls"][0]["function"]["name"], "pi/bash");
    assert_eq!((&stored[2]["role"], &stored[2]["content"]), (&"tool".into(), &"1\n2\n".into()));
    assert_eq!(
        (&stored[2]["tool_call_id"], &stored[2]["isError"]),
        (&"call_1".into(), &true.into())
    );
}
