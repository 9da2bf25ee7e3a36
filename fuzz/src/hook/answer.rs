//! Answers that hosts expect.

use serde_json::{Map, Value};

use ctxfs_cli::hooks::Host;

/// Returns the text in `answer` for the model. Asserts that the answer has exactly the fields that
/// `host` expects.
pub(super) fn handed(host: Host, answer: &str, event: Option<&Value>) -> String {
    let answer: Map<String, Value> = serde_json::from_str(answer).expect("an object");
    match host {
        Host::ClaudeCode => match specific(&answer, event) {
            ("additionalContext", text) => text_of(text),
            ("updatedToolOutput", output) => of_claude_code(output, event),
            (other, _) => panic!("{other}"),
        },
        Host::Codex if answer.contains_key("decision") => of_decision(&answer, "block"),
        Host::GeminiCli if answer.contains_key("decision") => of_decision(&answer, "deny"),
        Host::Codex | Host::GeminiCli => match specific(&answer, event) {
            ("additionalContext", text) => text_of(text),
            (other, _) => panic!("{other}"),
        },
        Host::Copilot => of_copilot(&answer, event),
        Host::Cursor => of_cursor(&answer),
        Host::Opencode | Host::Pi => text_of(only(&answer, "text")),
    }
}

fn text_of(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}

fn keys(object: &Map<String, Value>) -> Vec<&str> {
    object.keys().map(String::as_str).collect()
}

fn only<'a>(object: &'a Map<String, Value>, key: &str) -> &'a Value {
    assert_eq!(keys(object), [key]);
    &object[key]
}

/// Returns the only field other than the name of the event.
fn specific<'a>(answer: &'a Map<String, Value>, event: Option<&Value>) -> (&'a str, &'a Value) {
    let fields = only(answer, "hookSpecificOutput").as_object().expect("an object");
    if let Some(event) = event {
        assert_eq!(fields["hookEventName"], event["hook_event_name"]);
    }
    let mut others = fields.iter().filter(|(key, _)| *key != "hookEventName");
    let (Some((key, value)), None) = (others.next(), others.next()) else { panic!("{fields:?}") };
    (key, value)
}

/// Returns the text in the result of a tool of Claude Code itself. Asserts that the result keeps its
/// other fields.
fn of_own_tool(fields: &Map<String, Value>, given: Option<&Value>) -> String {
    let is_kept =
        |(key, value): &(&String, &Value)| given.is_none_or(|given| given[*key] == **value);
    let mut changed = fields.iter().filter(|field| !is_kept(field));
    let text = match changed.next() {
        Some((key, Value::Array(list))) if key == "content" => {
            let texts = list.iter().map(|block| text_of(&block["text"]));
            texts.into_iter().find(|text| text.contains("[ctxfs] ")).expect("a stand-in")
        }
        Some((_, Value::Array(list))) => text_of(&list[0]),
        Some((_, text)) => text_of(text),
        None => panic!("{fields:?}"),
    };
    assert_eq!(changed.next(), None);
    text
}

/// Returns the text of an output for Claude Code. Asserts that the result of a shell keeps its
/// other fields, and the result of an MCP server keeps its other blocks.
fn of_claude_code(output: &Value, event: Option<&Value>) -> String {
    let given = event.map(|event| &event["tool_response"]);
    match output {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let is_other = |block: &&Value| block["type"] != "text" || !block["text"].is_string();
            let others = |given: &Value| {
                let blocks = given.as_array().expect("blocks");
                blocks.iter().filter(is_other).cloned().collect::<Vec<_>>()
            };
            assert!(given.is_none_or(|given| others(given) == blocks[1..]));
            assert_eq!(blocks[0]["type"], "text");
            text_of(&blocks[0]["text"])
        }
        Value::Object(fields) if !fields.contains_key("stdout") => of_own_tool(fields, given),
        Value::Object(fields) => {
            let others = |fields: &Map<String, Value>| {
                let is_ours = |key: &str| key.starts_with("std") || key.starts_with("persisted");
                let others = fields.iter().filter(|(key, _)| !is_ours(key));
                others.map(|(key, value)| (key.clone(), value.clone())).collect::<Map<_, _>>()
            };
            let given = given.and_then(Value::as_object);
            assert!(given.is_none_or(|given| others(given) == others(fields)));
            assert_eq!((&fields["stderr"], fields.len()), (&"".into(), others(fields).len() + 2));
            text_of(&fields["stdout"])
        }
        _ => panic!("{output}"),
    }
}

fn of_cursor(answer: &Map<String, Value>) -> String {
    let blocks = &only(answer, "updated_mcp_tool_output")["content"];
    text_of(&blocks[0]["text"])
}

fn of_decision(answer: &Map<String, Value>, decision: &str) -> String {
    assert_eq!((keys(answer), &answer["decision"]), (vec!["decision", "reason"], &decision.into()));
    text_of(&answer["reason"])
}

/// Returns the text of an answer for Copilot. Asserts that the result keeps its other fields.
/// Removes the last line of the text if it has a shell id.
fn of_copilot(answer: &Map<String, Value>, event: Option<&Value>) -> String {
    let result = only(answer, "modifiedResult");
    let text = text_of(&result["textResultForLlm"]);
    if let Some(event) = event {
        let mut given = event["toolResult"].clone();
        given["textResultForLlm"] = text.as_str().into();
        assert_eq!(given, *result);
    }
    match text.rsplit_once("\n<shellId: ") {
        Some((before, ending)) if ending.ends_with('>') => before.to_owned(),
        _ => text,
    }
}
