//! Replies with the same content in both formats.

use serde_json::{Value, json};

use super::endpoint::{Step, delta, ends, error, head, part, stream};
use super::replies::{block, message};
use crate::extract::ProviderKind;

/// The reason why a reply ends.
#[derive(Clone, Copy)]
enum End {
    Said,
    Calls,
    Refused,
}

impl End {
    fn name(self, kind: ProviderKind) -> &'static str {
        match (kind, self) {
            (ProviderKind::OpenAi, Self::Said) => "stop",
            (ProviderKind::OpenAi, Self::Calls) => "tool_calls",
            (ProviderKind::OpenAi, Self::Refused) => "content_filter",
            (ProviderKind::Anthropic, Self::Said) => "end_turn",
            (ProviderKind::Anthropic, Self::Calls) => "tool_use",
            (ProviderKind::Anthropic, Self::Refused) => "refusal",
        }
    }
}

/// A reply with the text `text`.
pub(super) fn says(kind: ProviderKind, text: &str) -> Vec<Step> {
    stream(events(kind, text, &[], End::Said))
}

/// A reply that calls tools, given by name and arguments.
pub(super) fn calls(kind: ProviderKind, calls: &[(&str, &str)]) -> Vec<Step> {
    stream(events(kind, "", calls, End::Calls))
}

/// A reply in which the endpoint refuses to answer.
pub(super) fn refuses(kind: ProviderKind) -> Vec<Step> {
    stream(events(kind, "", &[], End::Refused))
}

/// The beginning of a reply. The connection ends in the middle of the first event.
pub(super) fn breaks(kind: ProviderKind) -> Vec<Step> {
    let first = events(kind, "The disk", &[], End::Said).swap_remove(0);
    vec![head(), part(&first[..first.len() / 2]), Step::Close]
}

/// An error with this status, type and text.
pub(super) fn fails(status: &str, kind: &str, text: &str) -> Vec<Step> {
    let body = json!({ "type": "error", "error": { "type": kind, "message": text } });
    error(status, "retry-after: 0\r\n", &body)
}

fn events(kind: ProviderKind, text: &str, calls: &[(&str, &str)], end: End) -> Vec<String> {
    let calls = calls.iter().enumerate();
    match kind {
        ProviderKind::OpenAi => {
            let mut events = vec![delta(&json!({ "content": text }))];
            events.extend(calls.map(|(at, call)| openai_call(at, call)));
            events.push(ends(end.name(kind)));
            events
        }
        ProviderKind::Anthropic => {
            let words = json!({ "type": "text_delta", "text": text });
            let mut blocks = block(0, &json!({ "type": "text", "text": "" }), &[words]);
            blocks.extend(calls.flat_map(|(at, call)| anthropic_call(at + 1, call)));
            message(&blocks, end.name(kind))
        }
    }
}

fn openai_call(at: usize, (name, arguments): &(&str, &str)) -> String {
    let function = json!({ "name": name, "arguments": arguments });
    let call = json!({ "index": at, "id": format!("call_{at}"), "function": function });
    delta(&json!({ "tool_calls": [call] }))
}

fn anthropic_call(at: usize, (name, arguments): &(&str, &str)) -> Vec<Value> {
    let id = format!("call_{at}");
    let start = json!({ "type": "tool_use", "id": id, "name": name, "input": {} });
    block(at, &start, &[json!({ "type": "input_json_delta", "partial_json": arguments })])
}
