//! opencode, Gemini CLI, Copilot, VS Code, Cursor and pi.

use std::fs;

use serde_json::json;

use super::{Machine, SESSION, long};

#[test]
fn gemini_cli() {
    let machine = Machine::new();
    let output = long();
    let content = format!(
        "<untrusted_context>\nOutput: {output}\nExit Code: 3\nProcess Group PGID: 77\n</untrusted_context>"
    );
    let mut event = json!({
        "session_id": SESSION, "hook_event_name": "AfterTool", "cwd": "/p",
        "timestamp": "2026-11-22T10:00:00.123Z", "tool_name": "run_shell_command",
        "tool_input": { "command": "make" },
        "tool_response": { "llmContent": content, "returnDisplay": output },
    });
    let answer = machine.answer("gemini-cli", &event).unwrap();
    assert_eq!(answer["decision"], "deny");
    assert!(answer["reason"].as_str().unwrap().contains("exit code 3"), "{answer}");
    assert_eq!(machine.outputs(), ["run_shell_command-20261122100000123.txt"]);
    assert_eq!(machine.output(&machine.outputs()[0]), output.as_bytes());

    event["tool_name"] = "mcp_probe_big".into();
    let framed = format!("<untrusted_context>\n{output}\n</untrusted_context>");
    event["tool_response"]["llmContent"] = json!([{ "text": framed }]);
    machine.answer("gemini-cli", &event).unwrap();
    assert_eq!(machine.output("mcp_probe_big-20261122100000123.txt"), output.as_bytes());
    let image = json!({ "inlineData": { "mimeType": "image/png", "data": "aGk=" } });
    event["tool_response"]["llmContent"] =
        json!([{ "text": framed }, image, { "text": "1 image" }]);
    event["timestamp"] = "2026-11-22T10:00:01.000Z".into();
    // The host does not cut a result of several parts.
    machine.leaves("gemini-cli", &event, "stored");
    let answer = machine.answer_with("gemini-cli", &event, &[("CTXFS_HOOKS_REPLACE", "long")]);
    let answer = answer.unwrap();
    assert_eq!(answer.get("decision"), None, "{answer}");
    let added = &answer["hookSpecificOutput"]["additionalContext"];
    assert!(added.as_str().unwrap().starts_with("[ctxfs] "), "{answer}");
    let kept = machine.output("mcp_probe_big-20261122100001000.txt");
    assert_eq!(kept, format!("{output}\n1 image").as_bytes());
    event["tool_response"]["llmContent"] = "done".into();
    machine.leaves("gemini-cli", &event, "short");
}

#[test]
fn copilot() {
    let machine = Machine::new();
    let file = machine.home.join("copilot-tool-output.txt");
    fs::write(&file, long()).unwrap();
    let ending = "<shellId: 0 completed with exit code 3>";
    let text = format!(
        "Output too large to read at once (488.9 KB). Saved to: {}\nline 1\n{ending}",
        file.display()
    );
    let result = json!({ "resultType": "success", "textResultForLlm": text, "toolTelemetry": {} });
    let mut event = json!({
        "sessionId": SESSION, "timestamp": 1_763_755_200_123_u64, "cwd": "/p",
        "toolName": "bash", "toolArgs": "{\"command\": \"make\"}", "toolResult": result,
    });
    let answer = machine.answer("copilot", &event).unwrap();
    let result = &answer["modifiedResult"];
    assert_eq!(result["resultType"], "success");
    assert_eq!(result["toolTelemetry"], json!({}));
    let text = result["textResultForLlm"].as_str().unwrap();
    assert!(text.contains("exit code 3") && text.ends_with(ending), "{text}");
    assert_eq!(machine.outputs(), ["bash-1763755200123.txt"]);
    assert_eq!(machine.output("bash-1763755200123.txt"), long().as_bytes());

    event["toolResult"]["textResultForLlm"] = format!("done\n{ending}").into();
    event["timestamp"] = 1.into();
    machine.leaves("copilot", &event, "stored");
    assert_eq!(machine.output("bash-1.txt"), b"done\n");
    // The end of the line is no part of the output.
    event["toolResult"]["textResultForLlm"] = format!("{}{ending}", long()).into();
    event["timestamp"] = 2.into();
    machine.answer("copilot", &event).unwrap();
    assert_eq!(machine.output("bash-2.txt"), long().as_bytes());
}

#[test]
fn plug_ins() {
    for host in ["opencode", "pi"] {
        let machine = Machine::new();
        let mut event = json!({
            "conv": SESSION, "tool": "bash", "call": "call_0", "exit": 3,
            "input": { "command": "make" }, "text": long(),
        });
        let answer = machine.answer(host, &event).unwrap();
        assert!(answer["text"].as_str().unwrap().contains("exit code 3"), "{answer}");
        assert_eq!(machine.output("call_0.txt"), long().as_bytes());

        // The next turn has a call of the same id.
        event["text"] = "x\n".repeat(9000).into();
        machine.answer(host, &event).unwrap();
        assert_eq!(machine.outputs(), ["call_0-2.txt", "call_0.txt"]);

        let file = machine.home.join("spill");
        fs::write(&file, "y".repeat(196_608)).unwrap();
        event["path"] = file.to_str().into();
        let answer = machine.answer(host, &event).unwrap();
        let is_incomplete = answer["text"].as_str().unwrap().contains("INCOMPLETE");
        assert_eq!(is_incomplete, host == "opencode", "{answer}");
        assert_eq!(machine.output("call_0-3.txt").len(), 196_608);

        let short = json!({ "conv": SESSION, "tool": "bash", "call": "call_1", "text": "done" });
        machine.leaves(host, &short, "short");
    }
}

/// VS Code runs the hooks of Copilot and of Claude Code, and accepts no other result. Earlier
/// versions name the common fields differently.
#[test]
fn vs_code() {
    for (name, session) in [("hook_event_name", "session_id"), ("hookEventName", "sessionId")] {
        let machine = Machine::new();
        let mut event = json!({
            "timestamp": "2026-11-29T10:00:00.000Z", (name): "PostToolUse", (session): SESSION,
            "transcript_path": "/t", "cwd": "/p", "tool_name": "run_in_terminal",
            "tool_input": { "command": "make" }, "tool_use_id": "call_7", "tool_response": long(),
        });
        machine.leaves("claude-code", &event, "passed");
        assert_eq!(machine.outputs(), [""; 0]);
        machine.leaves("copilot", &event, "stored");
        assert_eq!(machine.output("call_7.txt"), long().as_bytes());
        assert_eq!(machine.meta("call_7.txt")["tool"], "run_in_terminal");
        machine.leaves("copilot", &event, "stored");
        assert_eq!(machine.outputs(), ["call_7.txt"]);

        event["tool_use_id"] = "call_8".into();
        event["tool_response"] = "done".into();
        machine.leaves("copilot", &event, "short");
        // The beginning is lost.
        let cut = format!("\n\n[... PREVIOUS OUTPUT TRUNCATED ...]\n\n{}", long());
        event["tool_response"] = cut.into();
        machine.leaves("copilot", &event, "passed");
        event[name] = "SessionStart".into();
        event["source"] = "new".into();
        for host in ["claude-code", "copilot"] {
            machine.leaves(host, &event, "passed");
        }
        assert_eq!(machine.outputs(), ["call_7.txt"]);
    }
}

#[test]
fn cursor() {
    let machine = Machine::new();
    let event = |name: &str, tool: &str, call: &str| {
        json!({
            "conversation_id": SESSION, "generation_id": "g", "session_id": SESSION,
            "hook_event_name": name, "cursor_version": "2026.09.18", "workspace_roots": ["/p"],
            "tool_name": tool, "tool_use_id": call, "tool_input": { "command": "make" },
        })
    };
    let shell = |output: &str| json!({ "output": output, "exitCode": 0 }).to_string();
    let mut ended = event("postToolUse", "Shell", "call_9\nctc_1");
    ended["tool_output"] = shell(&long()).into();
    machine.leaves("cursor", &ended, "stored");
    let name = machine.outputs().remove(0);
    assert_eq!(machine.output(&name), long().as_bytes());
    assert_eq!(machine.meta(&name)["exit_code"], 0);
    ended["tool_output"] = shell("done").into();
    machine.leaves("cursor", &ended, "short");

    let mut failed = event("postToolUseFailure", "Shell", "call_10");
    failed["error_message"] = long().into();
    machine.leaves("cursor", &failed, "stored");
    assert_eq!(machine.output("call_10.txt"), long().as_bytes());

    // The host is not known to cut results of servers, so one is replaced only for economy.
    let text = json!({ "type": "text", "text": long() });
    let mut called = event("postToolUse", "MCP:big", "call_11");
    called["tool_output"] = json!({ "content": [text] }).to_string().into();
    machine.leaves("cursor", &called, "stored");
    let economy = [("CTXFS_HOOKS_REPLACE", "long")];
    let answer = machine.answer_with("cursor", &called, &economy).unwrap();
    let stand_in = &answer["updated_mcp_tool_output"]["content"][0];
    assert_eq!(stand_in["type"], "text");
    assert!(stand_in["text"].as_str().unwrap().starts_with("[ctxfs] "), "{answer}");
    assert_eq!(machine.output("call_11.txt"), long().as_bytes());
    let image = json!({ "type": "image", "data": "aGk=", "mimeType": "image/png" });
    called["tool_use_id"] = "call_12".into();
    called["tool_output"] = json!({ "content": [text, image] }).to_string().into();
    assert_eq!(machine.answer_with("cursor", &called, &economy), None);
    assert_eq!(machine.last(), "cursor stored");
    assert_eq!(machine.output("call_12.txt"), long().as_bytes());

    machine.leaves("cursor", &event("afterFileEdit", "", ""), "passed");
    // Cursor runs the hooks of Claude Code too, which leave it alone.
    machine.leaves("claude-code", &ended, "passed");
}
