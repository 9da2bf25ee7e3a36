//! Which outputs are replaced: those that the host would cut.

use serde_json::{Value, json};

use super::{Machine, SESSION};

const LONG: &[(&str, &str)] = &[("CTXFS_HOOKS_REPLACE", "long")];

/// Returns `chars` characters of prose, of which a stand-in shows a part.
fn prose(chars: usize) -> String {
    let line = |n: usize| format!("{n} {}\n", "lorem ipsum dolor sit amet ".repeat(n % 5 + 1));
    (1..).map(line).flat_map(|line| line.chars().collect::<Vec<_>>()).take(chars).collect()
}

/// Returns `chars` characters of the log of a build, whose lines are alike.
fn log(chars: usize) -> String {
    (1..)
        .flat_map(|n| format!("compiled file {n}\n").chars().collect::<Vec<_>>())
        .take(chars)
        .collect()
}

/// Returns the event of a host after a call that succeeded: of its shell, or else of a server.
fn event(host: &str, call: &str, is_shell: bool, output: &str) -> Value {
    let (tool, command) = (if is_shell { "Bash" } else { "mcp__probe__big" }, "make");
    let blocks = json!([{ "type": "text", "text": output }]);
    match host {
        "claude-code" | "codex" => {
            let stdout = json!({ "stdout": output, "stderr": "" });
            let response = match host {
                "codex" => json!({ "content": blocks }),
                _ if is_shell => stdout,
                _ => blocks,
            };
            json!({
                "session_id": SESSION, "hook_event_name": "PostToolUse", "tool_name": tool,
                "tool_use_id": call, "tool_input": { "command": command }, "tool_response": response,
            })
        }
        "gemini-cli" => json!({
            "session_id": SESSION, "hook_event_name": "AfterTool", "timestamp": call,
            "tool_name": if is_shell { "run_shell_command" } else { "mcp_probe_big" },
            "tool_input": { "command": command }, "tool_response": { "llmContent": output },
        }),
        "copilot" => json!({
            "sessionId": SESSION, "timestamp": call, "toolName": "bash",
            "toolArgs": { "command": command },
            "toolResult": { "resultType": "success", "textResultForLlm": output },
        }),
        _ => json!({
            "conv": SESSION, "tool": if is_shell { "bash" } else { "probe_big" }, "call": call,
            "input": { "command": command }, "text": output,
        }),
    }
}

#[test]
fn what_a_host_shows_whole_passes_whole() {
    let hosts = [
        ("claude-code", true, 30_000),
        ("claude-code", false, 50_000),
        ("codex", false, 10_000),
        ("opencode", true, 51_200),
        ("opencode", false, 51_200),
        ("gemini-cli", true, 40_000),
        ("gemini-cli", false, 40_000),
        ("copilot", true, 20_480),
        ("pi", true, 51_200),
    ];
    for (host, is_shell, most) in hosts {
        let machine = Machine::new();
        // Lines of some length, as two hosts count them too.
        let output = prose(most + 1);
        machine.leaves(host, &event(host, "1", is_shell, &output[..most]), "stored");
        let [stored] = &machine.outputs()[..] else { panic!("{host}: {:?}", machine.outputs()) };
        assert_eq!(machine.output(stored), &output.as_bytes()[..most], "{host}");
        assert!(machine.answer(host, &event(host, "2", is_shell, &output)).is_some(), "{host}");
        assert_eq!(machine.outputs().len(), 2, "{host}");
    }
    // A host that does not cut.
    let machine = Machine::new();
    machine.leaves("pi", &event("pi", "1", false, &prose(200_000)), "stored");
}

#[test]
fn what_is_not_replaced_is_stored_by_its_length() {
    for (chars, outcome) in [(999, "short"), (1000, "stored")] {
        let machine = Machine::new();
        for (is_shell, host) in [(true, "opencode"), (false, "claude-code")] {
            machine.leaves(host, &event(host, host, is_shell, &prose(chars)), outcome);
        }
        assert_eq!(machine.outputs().len(), if outcome == "stored" { 2 } else { 0 });
    }
    // Only what may be replaced.
    let machine = Machine::new();
    let event = |call, chars| event("claude-code", call, true, &prose(chars));
    let long = [("CTXFS_HOOKS_STORE", "long")];
    assert_eq!(machine.answer_with("claude-code", &event("1", 20_000), &long), None);
    assert_eq!((machine.outputs().len(), &*machine.last()), (0, "claude-code short"));
    assert!(machine.answer_with("claude-code", &event("2", 40_000), &long).is_some());
    // `ctxfs shell` has stored it.
    let shell = [("CLAUDE_CODE_SHELL_PREFIX", "/home/u/.claude/ctxfs-shell")];
    assert_eq!(machine.answer_with("claude-code", &event("3", 20_000), &shell), None);
    assert_eq!((machine.outputs().len(), &*machine.last()), (1, "claude-code short"));
}

#[test]
fn seven_calls_cost_no_more_than_without() {
    let hosts =
        [("claude-code", true), ("opencode", true), ("gemini-cli", true), ("copilot", true)];
    for (host, is_shell) in hosts {
        let machine = Machine::new();
        let (mut bare, mut with) = (0, 0);
        for (number, chars) in
            [4100, 6000, 8500, 12_000, 16_000, 20_000, 30_000].into_iter().enumerate()
        {
            let output = if number % 2 == 0 { prose(chars) } else { log(chars) };
            // No more than the host shows of it.
            let shown = if host == "copilot" { chars.min(20_480) } else { chars };
            bare += shown;
            let answer =
                machine.answer(host, &event(host, &format!("{number}"), is_shell, &output));
            with += answer.map_or(shown, |answer| answer.to_string().chars().count());
        }
        assert!(with <= bare, "{host}: {with} characters with ctxfs, {bare} without");
    }
}

#[test]
fn claude_code_shows_as_much_of_a_command_as_its_variable_says() {
    let machine = Machine::new();
    let event = event("claude-code", "1", true, &prose(50_000));
    let raised = [("BASH_MAX_OUTPUT_LENGTH", "60000")];
    assert_eq!(machine.answer_with("claude-code", &event, &raised), None);
    let lowered = [("BASH_MAX_OUTPUT_LENGTH", "12000")];
    assert!(machine.answer_with("claude-code", &event, &lowered).is_some());
    assert!(
        machine.answer_with("claude-code", &event, &[("BASH_MAX_OUTPUT_LENGTH", "x")]).is_some()
    );
}

#[test]
fn for_economy_a_third_of_the_tokens_is_enough() {
    let machine = Machine::new();
    let within = event("claude-code", "1", true, &log(8000));
    assert_eq!(machine.answer_with("claude-code", &within, LONG), None);
    let answer =
        machine.answer_with("claude-code", &event("claude-code", "2", true, &log(9000)), LONG);
    assert!(answer.unwrap().to_string().len() < 3000);
    // Of prose a stand-in is half as long.
    let little = event("claude-code", "3", true, &prose(9000));
    assert_eq!(machine.answer_with("claude-code", &little, LONG), None);
    assert_eq!(machine.last(), "claude-code short");
    let much = event("claude-code", "4", true, &prose(28_000));
    assert!(machine.answer_with("claude-code", &much, LONG).is_some());
}

#[test]
fn the_limits_of_a_tool_count_too() {
    let output = prose(60_000);
    for (limit, outcome) in
        [("never", "short"), ("100000", "stored"), ("mirror", "short"), ("9000", "kept")]
    {
        let machine = Machine::new();
        let settings = machine.home.join("ctxfs.toml");
        let bytes = if limit == "9000" { "16384" } else { "\"never\"" };
        let text = format!(
            "max_inline_bytes = {bytes}\n[tool.\"claude-code/Bash\"]\nmax_inline_chars = {}\n",
            limit.parse::<u64>().map_or_else(|_| format!("{limit:?}"), |number| number.to_string())
        );
        std::fs::write(&settings, text).unwrap();
        let settings = settings.to_str().unwrap();
        let answer = machine.answer_with(
            "claude-code",
            &event("claude-code", "1", true, &output),
            &[("CTXFS_CONFIG", settings)],
        );
        assert_eq!(answer.is_some(), outcome == "kept", "{limit}");
        assert_eq!(machine.last(), format!("claude-code {outcome}"), "{limit}");
        assert_eq!(machine.outputs().len(), usize::from(limit != "never"), "{limit}");
    }
}
