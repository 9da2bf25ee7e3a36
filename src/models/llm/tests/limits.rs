//! Tests endpoints that send too much, or too slowly.

use std::time::{Duration, Instant};

use serde_json::json;

use super::endpoint::{ModelEndpoint, Step, delta, ends, event, head, part, stream};
use super::{LONG, anthropic, ask, model_of, openai};
use crate::extract::{ModelFailureKind, ProviderKind};

/// Sends `text` repeatedly in an event stream.
fn repeats(text: &str, times: usize) -> Step {
    match part(text) {
        Step::Send(bytes) => Step::Repeat(bytes, times),
        _ => unreachable!("a part is sent"),
    }
}

/// Asserts that the request is given up after one attempt, with these words.
fn is_left(answer: Vec<Step>, words: &str) {
    let endpoint = ModelEndpoint::new([answer]);
    let failure = ask(&openai(&endpoint.base_url)).unwrap_err();
    assert_eq!(failure.kind, ModelFailureKind::Unavailable);
    assert!(failure.message.contains(words), "{}", failure.message);
    assert_eq!(endpoint.requests().len(), 1);
}

#[test]
fn endless_events_end_at_the_bound() {
    let text = delta(&json!({ "content": "x".repeat(1000) })).repeat(50);
    let words = "sent a text of more than 4194304 bytes";
    is_left(vec![head(), repeats(&text, 1_000_000)], words);
    let words = "sent a reply of more than 67108864 bytes";
    let comment = format!(": {}\n", "x".repeat(1000));
    is_left(vec![head(), repeats(&comment.repeat(50), 1_000_000)], words);
    let words = "sent a reply of more than 25165824 bytes";
    let document = vec![head(), part("{\"x\": \""), repeats(&"x".repeat(60_000), 1_000_000)];
    is_left(document, words);
}

#[test]
fn an_endless_line_ends_at_the_bound() {
    let line = vec![head(), part("data: "), repeats(&"x".repeat(60_000), 1_000_000)];
    is_left(line, "sent an event of more than 4194304 bytes");
}

#[test]
fn calls_and_arguments_are_bounded() {
    let calls =
        (0..65).map(|at| delta(&json!({ "tool_calls": [{ "index": at, "id": at.to_string() }] })));
    is_left(stream(calls), "sent more than 64 tool calls in a reply");
    let part = json!({ "tool_calls": [{ "index": 0, "function": {
        "arguments": "x".repeat(1000),
    } }] });
    is_left(stream([delta(&part).repeat(300)]), "sent a tool call with more than 262144 bytes");
    let start = json!({ "type": "content_block_start", "index": 0, "content_block": {
        "type": "tool_use", "id": "a", "name": "Read",
    } });
    let part = json!({ "type": "content_block_delta", "index": 0, "delta": {
        "type": "input_json_delta", "partial_json": "x".repeat(1000),
    } });
    let endpoint = ModelEndpoint::new([stream([event(&start), event(&part).repeat(300)])]);
    let failure = ask(&anthropic(&endpoint.base_url)).unwrap_err();
    assert!(failure.message.contains("more than 262144 bytes"), "{}", failure.message);
}

#[test]
fn endless_lists_are_no_reply() {
    let choices = format!("data: {{\"choices\": [{}{{}}]}}\n\n", "{},".repeat(1_000_000));
    let endpoint = ModelEndpoint::new([stream([choices])]);
    let failure = ask(&openai(&endpoint.base_url)).unwrap_err();
    assert_eq!(failure.kind, ModelFailureKind::Unavailable);
}

#[test]
fn endless_headers_end_at_the_bound() {
    let line = Step::Repeat(b"x-header: value\r\n".to_vec(), 1_000_000);
    let long = Step::Repeat(vec![b'x'; 60_000], 10_000);
    for headers in [line, long] {
        let answer = vec![Step::Send(b"HTTP/1.1 200 OK\r\nx: ".to_vec()), headers];
        let endpoint = ModelEndpoint::new([answer]);
        let failure = ask(&openai(&endpoint.base_url)).unwrap_err();
        assert_eq!(failure.kind, ModelFailureKind::Unavailable);
        assert!(failure.message.contains("did not answer"), "{}", failure.message);
    }
}

#[test]
fn an_error_without_end_is_cut() {
    let head = Step::Send(b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec());
    let endpoint = ModelEndpoint::new([vec![head, Step::Repeat(vec![b'x'; 60_000], 1_000_000)]]);
    let failure = ask(&openai(&endpoint.base_url)).unwrap_err();
    assert_eq!(failure.kind, ModelFailureKind::Rejected);
    assert!(failure.message.len() < 450, "{}", failure.message);
}

#[test]
fn a_slow_reply_ends_at_the_timeout() {
    let drip: Vec<Step> = (0..1000)
        .flat_map(|_| {
            [part(delta(&json!({ "content": "x" }))), Step::Pause(Duration::from_millis(50))]
        })
        .collect();
    let silent = vec![head(), part(delta(&json!({ "content": "x" }))), Step::WaitForEnd];
    let no_head = vec![Step::WaitForEnd];
    for answer in [[vec![head()], drip].concat(), silent, no_head] {
        let endpoint = ModelEndpoint::new([answer]);
        let time = Duration::from_millis(300);
        let model = model_of(ProviderKind::OpenAi, &endpoint.base_url, time);
        let began = Instant::now();
        let failure = ask(&model).unwrap_err();
        let took = began.elapsed();
        assert_eq!(failure.kind, ModelFailureKind::Unavailable);
        assert!(failure.message.contains("did not reply in time (4 attempts)"));
        assert!(
            failure.message.contains("Raise `timeout` in `[extract]`, 0.3 s now"),
            "{}",
            failure.message
        );
        assert!(took >= 4 * time && took < LONG, "{took:?}");
    }
}

#[test]
fn a_slow_reply_in_time_is_read() {
    let slow = [
        vec![
            head(),
            part(delta(&json!({ "content": "x" }))),
            Step::Pause(Duration::from_millis(300)),
        ],
        vec![part(ends("stop")), super::endpoint::end()],
    ];
    let endpoint = ModelEndpoint::new([slow.concat()]);
    assert_eq!(ask(&openai(&endpoint.base_url)).unwrap().text, "x");
}
