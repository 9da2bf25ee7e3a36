//! Tests requests and replies in both formats.

use std::time::Duration;

use serde_json::{Value, json};

use super::endpoint::{
    ModelEndpoint, Step, answer, delta, end, ends, event, head, part, says, stream,
};
use super::{anthropic, ask, openai, question, tool};
use crate::extract::{
    CallResult, LanguageModel as _, ModelReply, ModelRequest, ReplyEnd, TokenUsage, ToolCall, Turn,
};

const COST: TokenUsage = TokenUsage { input: 95, output: 30 };

fn call(id: &str, name: &str, arguments: &str) -> ToolCall {
    ToolCall { id: id.to_owned(), name: name.to_owned(), arguments: arguments.to_owned() }
}

/// A question after two tool calls, one of them with arguments that are not JSON.
fn after_calls() -> ModelRequest {
    let mut request = question();
    request.turns.push(Turn::Model {
        text: "I look.".to_owned(),
        calls: vec![call("a", "Read", r#"{"from":1}"#), call("b", "Read", "{from")],
    });
    let result = |id: &str| CallResult { id: id.to_owned(), text: format!("result {id}") };
    request.turns.push(Turn::Results(vec![result("a"), result("b")]));
    request.tools = vec![tool()];
    request.schema = Some(json!({ "type": "object" }));
    request
}

/// The events of a message in the second format, given its blocks.
pub(super) fn message(blocks: &[Value], stop_reason: &str) -> Vec<String> {
    let usage = json!({ "input_tokens": 5, "cache_read_input_tokens": 90, "output_tokens": 1 });
    let mut events = vec![json!({ "type": "message_start", "message": { "usage": usage } })];
    events.push(json!({ "type": "ping" }));
    events.extend_from_slice(blocks);
    events.push(json!({
        "type": "message_delta",
        "delta": { "stop_reason": stop_reason },
        "usage": { "output_tokens": 30 },
    }));
    events.push(json!({ "type": "message_stop" }));
    let line = |event: &Value| format!("event: {}\ndata: {event}\n\n", event["type"]);
    events.iter().map(line).collect()
}

pub(super) fn block(at: usize, start: &Value, deltas: &[Value]) -> Vec<Value> {
    let mut events =
        vec![json!({ "type": "content_block_start", "index": at, "content_block": start })];
    events.extend(
        deltas
            .iter()
            .map(|delta| json!({ "type": "content_block_delta", "index": at, "delta": delta })),
    );
    events.push(json!({ "type": "content_block_stop", "index": at }));
    events
}

#[test]
fn openai_text_is_put_together_without_thinking() {
    let parts = [
        delta(&json!({ "role": "assistant", "content": null })),
        delta(&json!({ "reasoning_content": "hm, " })),
        delta(&json!({ "content": "line " })),
        delta(&json!({ "content": [{ "type": "thinking" }, { "type": "text", "text": "16" }] })),
        ends("stop"),
    ];
    let endpoint = ModelEndpoint::new([stream(parts)]);
    let reply = ask(&openai(&endpoint.base_url)).unwrap();
    let expected = ModelReply { text: "line 16".to_owned(), usage: COST, ..ModelReply::default() };
    assert_eq!(reply, expected);
}

#[test]
fn an_openai_request_has_what_was_asked() {
    let endpoint = ModelEndpoint::new([says("x")]);
    let model = openai(&format!("{}/v1/", endpoint.base_url));
    model.ask(&after_calls(), &|| false).unwrap();
    let received = endpoint.requests().pop().unwrap();
    assert_eq!(received.line, "POST /v1/chat/completions HTTP/1.1");
    assert_eq!(received.header("authorization"), Some(&*format!("Bearer {}", super::KEY)));
    assert_eq!(received.header("content-type"), Some("application/json"));
    let calls = json!([
        { "id": "a", "type": "function",
          "function": { "name": "Read", "arguments": "{\"from\":1}" } },
        { "id": "b", "type": "function", "function": { "name": "Read", "arguments": "{}" } },
    ]);
    let expected = json!({
        "model": "qwen-1.5b",
        "messages": [
            { "role": "system", "content": "You read." },
            { "role": "user", "content": "Which line?" },
            { "role": "assistant", "content": "I look.", "tool_calls": calls },
            { "role": "tool", "tool_call_id": "a", "content": "result a" },
            { "role": "tool", "tool_call_id": "b", "content": "result b" },
        ],
        "stream": true,
        "stream_options": { "include_usage": true },
        "max_tokens": 140,
        "temperature": 0,
        "tools": [{ "type": "function", "function": {
            "name": "Read", "description": "Reads lines.", "parameters": tool().parameters,
        } }],
        "response_format": { "type": "json_schema", "json_schema": {
            "name": "action", "strict": true, "schema": { "type": "object" },
        } },
    });
    assert_eq!(received.body, expected);
}

#[test]
fn an_anthropic_request_has_what_was_asked() {
    let endpoint = ModelEndpoint::new([stream(message(&[], "end_turn"))]);
    anthropic(&endpoint.base_url).ask(&after_calls(), &|| false).unwrap();
    let received = endpoint.requests().pop().unwrap();
    assert_eq!(received.line, "POST /v1/messages HTTP/1.1");
    assert_eq!(received.header("x-api-key"), Some(super::KEY));
    assert_eq!(received.header("anthropic-version"), Some("2023-06-01"));
    let expected = json!({
        "model": "qwen-1.5b",
        "system": "You read.",
        "messages": [
            { "role": "user", "content": "Which line?" },
            { "role": "assistant", "content": [
                { "type": "text", "text": "I look." },
                { "type": "tool_use", "id": "a", "name": "Read", "input": { "from": 1 } },
                { "type": "tool_use", "id": "b", "name": "Read", "input": {} },
            ] },
            { "role": "user", "content": [
                { "type": "tool_result", "tool_use_id": "a", "content": "result a" },
                { "type": "tool_result", "tool_use_id": "b", "content": "result b" },
            ] },
        ],
        "stream": true,
        "max_tokens": 140,
        "tools": [{
            "name": "Read", "description": "Reads lines.", "input_schema": tool().parameters,
        }],
        "output_config": { "format": { "type": "json_schema", "schema": { "type": "object" } } },
    });
    assert_eq!(received.body, expected);
}

#[test]
fn openai_calls_are_put_together() {
    let part_of = |at: usize, arguments: &str| {
        delta(&json!({ "tool_calls": [{ "index": at, "function": { "arguments": arguments } }] }))
    };
    let start = |at: usize, id: &str| {
        let function = json!({ "name": "Read", "arguments": "" });
        delta(&json!({ "tool_calls": [{ "index": at, "id": id, "function": function }] }))
    };
    let parts = [
        start(0, "a"),
        part_of(0, "{\"fr"),
        start(1, "b"),
        part_of(0, "om\":"),
        part_of(1, "{\"from\":2}"),
        part_of(0, "1}"),
        ends("tool_calls"),
    ];
    let endpoint = ModelEndpoint::new([stream(parts)]);
    let reply = ask(&openai(&endpoint.base_url)).unwrap();
    let calls = [call("a", "Read", r#"{"from":1}"#), call("b", "Read", r#"{"from":2}"#)];
    assert_eq!((&*reply.calls, reply.end, reply.usage), (&calls[..], ReplyEnd::Done, COST));
}

#[test]
fn anthropic_text_and_calls_are_put_together_without_thinking() {
    let json_part = |part: &str| json!({ "type": "input_json_delta", "partial_json": part });
    let tool_use = |id: &str| json!({ "type": "tool_use", "id": id, "name": "Read", "input": {} });
    let blocks = [
        block(
            0,
            &json!({ "type": "thinking", "thinking": "" }),
            &[json!({ "type": "thinking_delta", "thinking": "hm" })],
        ),
        block(
            1,
            &json!({ "type": "text", "text": "" }),
            &["I ", "look."].map(|text| json!({ "type": "text_delta", "text": text })),
        ),
        block(2, &tool_use("a"), &["", "{\"fr", "om\":", "1}"].map(json_part)),
        block(3, &tool_use("b"), &[]),
    ];
    let endpoint = ModelEndpoint::new([stream(message(&blocks.concat(), "tool_use"))]);
    let reply = ask(&anthropic(&endpoint.base_url)).unwrap();
    let calls = vec![call("a", "Read", r#"{"from":1}"#), call("b", "Read", "{}")];
    let text = "I look.".to_owned();
    assert_eq!(reply, ModelReply { text, calls, end: ReplyEnd::Done, usage: COST });
}

#[test]
fn a_reply_says_why_it_ends() {
    let table = [
        ("stop", ReplyEnd::Done),
        ("length", ReplyEnd::Length),
        ("MAX_TOKENS", ReplyEnd::Length),
        ("content_filter", ReplyEnd::Refused),
        ("something_new", ReplyEnd::Done),
    ];
    for (reason, end) in table {
        let endpoint = ModelEndpoint::new([stream([ends(reason)])]);
        assert_eq!(ask(&openai(&endpoint.base_url)).unwrap().end, end, "{reason}");
    }
    let refused = [delta(&json!({ "refusal": "I will not." })), ends("stop")];
    let endpoint = ModelEndpoint::new([stream(refused)]);
    let reply = ask(&openai(&endpoint.base_url)).unwrap();
    assert_eq!((&*reply.text, reply.end), ("I will not.", ReplyEnd::Refused));
    let table = [
        ("end_turn", ReplyEnd::Done),
        ("max_tokens", ReplyEnd::Length),
        ("model_context_window_exceeded", ReplyEnd::Length),
        ("refusal", ReplyEnd::Refused),
    ];
    for (reason, end) in table {
        let endpoint = ModelEndpoint::new([stream(message(&[], reason))]);
        assert_eq!(ask(&anthropic(&endpoint.base_url)).unwrap().end, end, "{reason}");
    }
}

#[test]
fn a_reply_that_is_not_streamed_is_read() {
    let body = json!({
        "object": "chat.completion",
        "choices": [{ "index": 0, "finish_reason": "tool_calls", "message": {
            "content": "I look.",
            "reasoning_content": "hm",
            "tool_calls": [
                { "id": "a", "type": "function",
                  "function": { "name": "Read", "arguments": "{\"from\":1}" } },
                { "id": "b", "type": "function",
                  "function": { "name": "Read", "arguments": { "from": 2 } } },
            ],
        } }],
        "usage": { "prompt_tokens": 95, "completion_tokens": 30 },
    });
    let endpoint = ModelEndpoint::new([answer("200 OK", "", &format!("\n {body}"))]);
    let reply = ask(&openai(&endpoint.base_url)).unwrap();
    let calls = vec![call("a", "Read", r#"{"from":1}"#), call("b", "Read", r#"{"from":2}"#)];
    let text = "I look.".to_owned();
    let expected = ModelReply { text, calls, end: ReplyEnd::Done, usage: COST };
    assert_eq!(reply, expected);

    let body = json!({
        "type": "message",
        "content": [
            { "type": "thinking", "thinking": "hm" },
            { "type": "text", "text": "I look." },
            { "type": "tool_use", "id": "a", "name": "Read", "input": { "from": 1 } },
            { "type": "tool_use", "id": "b", "name": "Read", "input": { "from": 2 } },
        ],
        "stop_reason": "tool_use",
        "usage": { "input_tokens": 95, "output_tokens": 30 },
    });
    let endpoint = ModelEndpoint::new([answer("200 OK", "", &body.to_string())]);
    assert_eq!(ask(&anthropic(&endpoint.base_url)).unwrap(), expected);
}

#[test]
fn pieces_and_line_ends_do_not_matter() {
    let text = "caf\u{e9} \u{1f600}";
    let whole = delta(&json!({ "content": text })) + &ends("stop");
    let lines = whole.replace('\n', "\r\n");
    for whole in [
        format!(": a comment\n\n{whole}"),
        lines,
        whole.replace("\"choices\"", "\ndata: \"choices\""),
    ] {
        let mut steps = vec![head()];
        for byte in whole.as_bytes().chunks(1) {
            steps.push(part(byte));
        }
        steps.push(end());
        let endpoint = ModelEndpoint::new([steps]);
        assert_eq!(ask(&openai(&endpoint.base_url)).unwrap().text, text, "{whole}");
    }
}

#[test]
fn connections_are_used_again_from_several_threads() {
    let endpoint = ModelEndpoint::new([says("x")]);
    let model = openai(&endpoint.base_url);
    // A connection becomes free shortly after the reply.
    let is_used_again = |asked| {
        ask(&model).unwrap();
        std::thread::sleep(Duration::from_millis(10));
        endpoint.connections() < asked
    };
    let asked = (1..1000).find(|asked| is_used_again(*asked)).expect("a connection is used again");
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..3)
            .map(|_| scope.spawn(|| (0..10).all(|_| ask(&model).unwrap().text == "x")))
            .collect();
        assert!(threads.into_iter().all(|thread| thread.join().unwrap()));
    });
    assert_eq!(endpoint.requests().len(), asked + 30);
}

#[test]
fn a_reply_is_whole_without_its_last_marks() {
    let reason = event(&json!({
        "choices": [{ "delta": { "content": "x" }, "finish_reason": "stop" }],
    }));
    let without_done = stream([&reason]);
    let broken = vec![head(), part(&reason), Step::Close];
    let without_reason = stream([delta(&json!({ "content": "x" })), "data: [DONE]".to_owned()]);
    let silent = vec![head(), part(&reason), Step::WaitForEnd];
    for answer in [without_done, broken, without_reason, silent] {
        let endpoint = ModelEndpoint::new([answer]);
        assert_eq!(ask(&openai(&endpoint.base_url)).unwrap().text, "x");
        assert_eq!(endpoint.requests().len(), 1);
    }
}

/// Half a pair costs that character and nothing else, alone, between two events, and in a call.
#[test]
fn half_a_surrogate_pair_costs_no_other_word() {
    let events = |parts: [&str; 2]| {
        let event =
            |part: &str| format!("{{\"choices\":[{{\"delta\":{{\"content\":\"{part}\"}}}}]}}");
        parts.map(|part| format!("data: {}\n\n", event(part))).concat() + "data: [DONE]\n\n"
    };
    for (parts, expected) in [
        ([r"full \ud83d", r"\ude00 on 7"], "full \u{fffd}\u{fffd} on 7"),
        ([r"full \ud83d\ude00", r" \\ud83d \n7"], "full \u{1f600} \\ud83d \n7"),
        ([r"\uDC00", r"\uD800\u0041"], "\u{fffd}\u{fffd}A"),
    ] {
        let endpoint = ModelEndpoint::new([vec![head(), part(events(parts)), end()]]);
        assert_eq!(ask(&openai(&endpoint.base_url)).unwrap().text, expected);
    }
}

#[test]
fn a_key_that_comes_back_is_masked() {
    let said = format!("the key is {}, and", super::KEY);
    let endpoint = ModelEndpoint::new([says(&said)]);
    let reply = ask(&openai(&endpoint.base_url)).unwrap();
    assert_eq!(reply.text, "the key is [key], and");
}
