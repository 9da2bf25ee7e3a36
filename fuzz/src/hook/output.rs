//! Output in an event, read without the adapters of ctxfs.

use std::fs;

use serde_json::Value;

use crate::hook::SPILLED;
use ctxfs_cli::hooks::Host;

/// Returns true if `stored` equals the output in `event`.
pub(super) fn is_of(host: Host, event: &Value, stored: &[u8]) -> bool {
    match host {
        Host::ClaudeCode if event["hook_event_name"] == "PostToolUseFailure" => {
            stored == SPILLED.as_bytes()
        }
        Host::ClaudeCode if event["hook_event_name"] == "SubagentStop" => {
            let report = event["last_assistant_message"].as_str().unwrap_or_default();
            report.trim().as_bytes() == stored
        }
        Host::ClaudeCode => {
            let response = &event["tool_response"];
            of_claude_code(response) == stored || of_own_tool(response, stored)
        }
        Host::Codex => texts(&event["tool_response"]["content"]) == stored,
        Host::GeminiCli => {
            let texts = texts(&event["tool_response"]["llmContent"]);
            is_framed(&texts, stored, &["<untrusted_context>\n", "Output: "])
        }
        Host::Copilot if event["tool_response"].is_string() => {
            event["tool_response"].as_str().unwrap_or_default().as_bytes() == stored
        }
        Host::Cursor => of_cursor(event) == stored,
        Host::Copilot => {
            let text = &event["toolResult"]["textResultForLlm"];
            let text = text.as_str().unwrap_or_default();
            match text.lines().next().and_then(|line| line.split_once("Saved to: ")) {
                Some((said, path)) if said.starts_with("Output too large to read at once") => {
                    file(path.trim_end()) == stored
                }
                _ => is_framed(text.as_bytes(), stored, &[]),
            }
        }
        Host::Opencode | Host::Pi => match event["path"].as_str() {
            Some(path) => file(path) == stored,
            None => event["text"].as_str().unwrap_or_default().as_bytes() == stored,
        },
    }
}

fn file(path: &str) -> Vec<u8> {
    fs::read(path).unwrap_or_default()
}

/// Returns true if `stored` is a text in the result of one of Claude Code's own tools.
fn of_own_tool(response: &Value, stored: &[u8]) -> bool {
    let names = |list: &Value| {
        let names = list.as_array().into_iter().flatten().filter_map(Value::as_str);
        names.collect::<Vec<_>>().join("\n").into_bytes()
    };
    let fields = ["content", "result", "filenames", "results"].map(|name| &response[name]);
    let is_report = |field: &&Value| texts(field).trim_ascii() == stored.trim_ascii();
    // Comments and links of a search of the web are joined in a form of their own.
    let is_joined = response["results"].is_array() && stored.starts_with(b"Links: ");
    is_joined || fields.iter().any(|field| is_report(field) || names(field) == stored)
}

fn of_cursor(event: &Value) -> Vec<u8> {
    let Some(output) = event["tool_output"].as_str() else {
        return event["error_message"].as_str().unwrap_or_default().into();
    };
    let output: Value = serde_json::from_str(output).unwrap_or_default();
    match output["output"].as_str() {
        Some(text) => text.into(),
        None => texts(&output["content"]),
    }
}

fn of_claude_code(response: &Value) -> Vec<u8> {
    let text = |name: &str| response[name].as_str().unwrap_or_default();
    match (response["persistedOutputPath"].as_str(), text("stderr")) {
        (Some(path), _) => file(path),
        _ if !response.is_object() => texts(response),
        (None, "") => text("stdout").into(),
        (None, stderr) => format!("{}\n{stderr}", text("stdout")).into(),
    }
}

/// Returns the texts of a list of blocks, or of one.
fn texts(blocks: &Value) -> Vec<u8> {
    let text = |block: &Value| {
        let is_text = block.get("type").is_none_or(|kind| kind == "text");
        block["text"].as_str().filter(|_| is_text).map(str::to_owned)
    };
    match blocks {
        Value::String(text) => text.clone().into(),
        Value::Array(blocks) => {
            blocks.iter().filter_map(text).collect::<Vec<_>>().join("\n").into()
        }
        block => text(block).unwrap_or_default().into(),
    }
}

/// Returns true if `text` is `stored`, possibly preceded by `openings` and followed by lines that
/// the host adds.
fn is_framed(text: &[u8], stored: &[u8], openings: &[&str]) -> bool {
    let mut rest = text;
    loop {
        if rest.strip_prefix(stored).is_some_and(is_added) {
            return true;
        }
        let mut shorter =
            openings.iter().filter_map(|opening| rest.strip_prefix(opening.as_bytes()));
        match shorter.next() {
            Some(shorter) => rest = shorter,
            None => return false,
        }
    }
}

/// Returns true if `rest` has only lines that the host adds.
fn is_added(rest: &[u8]) -> bool {
    let beginnings: [&[u8]; 7] = [
        b"</untrusted_context>",
        b"<shellId: ",
        b"Error: ",
        b"Exit Code: ",
        b"Signal: ",
        b"Background PIDs: ",
        b"Process Group PGID: ",
    ];
    let lines = rest.trim_ascii().split(|byte| *byte == b'\n');
    let is_of_host = |line: &[u8]| beginnings.iter().any(|beginning| line.starts_with(beginning));
    lines.filter(|line| !line.is_empty()).all(is_of_host)
}
