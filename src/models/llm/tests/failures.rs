//! Tests requests that fail, and the consequences.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::endpoint::{
    ModelEndpoint, Nowhere, Step, answer, delta, ends, error, event, head, part, says, stream,
};
use super::{KEY, LONG, anthropic, ask, model_of, openai, question, target};
use crate::extract::{
    LanguageModel as _, ModelFailure, ModelFailureKind, ProviderKind, TokenUsage,
};
use crate::llm::HttpModel;

fn fails(answers: impl IntoIterator<Item = Vec<Step>>) -> (ModelFailure, usize, String) {
    fails_by(openai, answers)
}

/// Returns the failure, the number of requests, and the host.
fn fails_by(
    of: fn(&str) -> HttpModel,
    answers: impl IntoIterator<Item = Vec<Step>>,
) -> (ModelFailure, usize, String) {
    let endpoint = ModelEndpoint::new(answers);
    let failure = ask(&of(&endpoint.base_url)).unwrap_err();
    let requests = endpoint.requests().len();
    (failure, requests, endpoint.base_url.replace("http://", ""))
}

fn message(text: &str) -> Value {
    json!({ "error": { "message": text, "type": "some_error" } })
}

#[test]
fn a_passing_failure_is_tried_again() {
    let broken = || vec![head(), part(delta(&json!({ "content": "x" }))), Step::Close];
    let table = [
        error("429 Too Many Requests", "retry-after: 0\r\n", &message("slow down")),
        error("500 Internal Server Error", "", &message("oops")),
        error("503 Service Unavailable", "", &message("loading")),
        error("529 Overloaded", "", &message("overloaded")),
        answer("408 Request Timeout", "", ""),
        vec![Step::Close],
        broken(),
        stream([delta(&json!({ "content": "x" }))]),
        stream([""]),
        stream(["data: [DONE]\n\n"]),
        stream(["data: {\"choices\": [\n\n"]),
        stream([event(&json!({ "error": { "message": "gone", "code": 500 } }))]),
        stream([ends("error")]),
    ];
    for first in table {
        let endpoint = ModelEndpoint::new([first, broken(), says("at last")]);
        let reply = ask(&openai(&endpoint.base_url)).unwrap();
        assert_eq!((&*reply.text, endpoint.requests().len()), ("at last", 3));
    }
}

#[test]
fn attempts_end_after_the_fourth() {
    let (failure, requests, host) = fails([error("500 Oops", "", &message("no luck"))]);
    assert_eq!((failure.kind, requests), (ModelFailureKind::Unavailable, 4));
    assert_eq!(
        failure.message,
        format!(
            "`local/qwen` at `{host}` answered 500 Internal Server Error (4 attempts): no luck. \
             Ask again later, or add a second target."
        )
    );
    let (failure, requests, _) = fails([stream([delta(&json!({ "content": "x" }))])]);
    assert_eq!((failure.kind, requests), (ModelFailureKind::Unavailable, 4));
    assert!(failure.message.contains("ended its reply before the end"), "{}", failure.message);
}

#[test]
fn an_error_in_a_stream_is_one() {
    let overloaded = json!({
        "type": "error", "error": { "type": "overloaded_error", "message": "Overloaded" },
    });
    let begun = json!({
        "type": "message_start", "message": { "usage": { "input_tokens": 95 } },
    });
    let (failure, requests, _) = fails_by(anthropic, [stream([event(&begun), event(&overloaded)])]);
    assert_eq!((failure.kind, requests), (ModelFailureKind::Unavailable, 4));
    assert!(failure.message.contains("(529)"), "{}", failure.message);
    assert_eq!(failure.usage, TokenUsage { input: 4 * 95, output: 0 });
    let too_long = json!({ "error": { "type": "exceed_context_size_error", "message": "long" } });
    let (failure, requests, _) = fails([stream([event(&too_long)])]);
    assert_eq!((failure.kind, requests), (ModelFailureKind::Overflow, 1));
}

#[test]
fn what_failed_attempts_cost_is_added() {
    let usage = event(&json!({ "choices": [], "usage": { "prompt_tokens": 5 } }));
    let endpoint = ModelEndpoint::new([stream([usage]), says("x")]);
    let reply = ask(&openai(&endpoint.base_url)).unwrap();
    // The estimate of the request, 16 tokens, is more than what the endpoint counted.
    assert_eq!(reply.usage, TokenUsage { input: 111, output: 30 });
}

#[test]
fn the_endpoint_says_when_to_come_back() {
    let soon = error("429 Too Many Requests", "retry-after: 1\r\n", &message("slow down"));
    let endpoint = ModelEndpoint::new([soon, says("x")]);
    let began = Instant::now();
    ask(&openai(&endpoint.base_url)).unwrap();
    assert!(began.elapsed() >= Duration::from_secs(1), "{:?}", began.elapsed());
    let late = error("429 Too Many Requests", "retry-after: 3600\r\n", &message("slow down"));
    let (failure, requests, _) = fails([late]);
    assert_eq!((failure.kind, requests), (ModelFailureKind::Unavailable, 1));
    let text = failure.message;
    assert!(text.contains("left alone for 3600 s, until 20") && text.contains(" UTC"), "{text}");
}

#[test]
fn pauses_grow() {
    let endpoint = ModelEndpoint::new([vec![Step::Close]]);
    let target = target(ProviderKind::OpenAi, &endpoint.base_url);
    let model = HttpModel::new(&target, LONG, None).unwrap();
    let began = Instant::now();
    assert_eq!(ask(&model).unwrap_err().kind, ModelFailureKind::Unavailable);
    let took = began.elapsed();
    assert!(took >= Duration::from_millis(3500), "{took:?}");
}

#[test]
fn a_server_that_is_not_there_is_named() {
    let Nowhere { host, .. } = &Nowhere::new();
    let failure = ask(&openai(&format!("http://{host}/v1"))).unwrap_err();
    assert_eq!(failure.kind, ModelFailureKind::Unavailable);
    let expected = format!("`local/qwen` at `{host}` cannot be reached (4 attempts): ");
    assert!(failure.message.starts_with(&expected), "{}", failure.message);
    assert!(failure.message.contains("refused"), "{}", failure.message);
    assert!(failure.message.contains("is `base_url` right?"), "{}", failure.message);
}

#[test]
fn a_server_without_encryption_is_no_secure_one() {
    let endpoint = ModelEndpoint::new([says("x")]);
    let failure = ask(&openai(&endpoint.base_url.replace("http", "https"))).unwrap_err();
    assert_eq!(failure.kind, ModelFailureKind::Unavailable);
    assert!(failure.message.contains("cannot be reached (4 attempts)"), "{}", failure.message);
}

#[test]
fn a_request_that_does_not_fit_is_an_overflow() {
    let table = [
        (
            "400 Bad Request",
            json!({ "error": {
            "code": 400, "type": "exceed_context_size_error", "n_ctx": 8192,
            "message": "request (9030 tokens) exceeds the available context size (8192 tokens)",
        } }),
        ),
        (
            "400 Bad Request",
            json!({ "error": {
            "message": "too long", "type": "invalid_request_error",
            "param": "messages", "code": "context_length_exceeded",
        } }),
        ),
        (
            "400 Bad Request",
            json!({ "type": "error", "error": {
            "type": "invalid_request_error",
            "message": "prompt is too long: 210000 tokens > 200000 maximum",
        } }),
        ),
        ("413 Payload Too Large", json!({ "error": { "type": "request_too_large" } })),
    ];
    for (status, body) in table {
        for of in [openai, anthropic] {
            let (failure, requests, _) = fails_by(of, [error(status, "", &body)]);
            assert_eq!((failure.kind, requests), (ModelFailureKind::Overflow, 1), "{body}");
            assert!(failure.message.contains("`context_tokens`"), "{}", failure.message);
        }
    }
}

#[test]
fn a_rejected_request_is_tried_once() {
    let table = [
        ("400 Bad Request", "messages: wrong"),
        ("401 Unauthorized", "Check the key in the variable `LOCAL_KEY`."),
        ("403 Forbidden", "Check the key in the variable `LOCAL_KEY`."),
        ("404 Not Found", "Check `base_url`, and the name of the model, `qwen-1.5b`."),
    ];
    for (status, next) in table {
        let (failure, requests, _) = fails([error(status, "", &message("messages: wrong"))]);
        assert_eq!((failure.kind, requests), (ModelFailureKind::Rejected, 1), "{status}");
        assert!(failure.message.contains(next), "{}", failure.message);
    }
    let unpaid = json!({ "error": { "message": "no money", "code": "insufficient_quota" } });
    let (failure, requests, _) = fails([error("429 Too Many Requests", "", &unpaid)]);
    assert_eq!((failure.kind, requests), (ModelFailureKind::Unavailable, 1));
}

#[test]
fn an_echoed_key_is_not_shown() {
    let texts = [
        format!("Incorrect API key provided: {KEY}. You can find"),
        format!("{}{KEY}", "x".repeat(295)),
        format!("Bearer {KEY} Bearer {KEY}"),
        format!("a part, {}****cdef, is shown", &KEY[..10]),
        format!("in\u{0} two\u{1b}[31m {}\u{7}{}", &KEY[..9], &KEY[9..]),
    ];
    for text in texts {
        let plain = answer("401 Unauthorized", "", &text);
        let json = error("401 Unauthorized", "", &message(&text));
        let in_stream = event(&json!({ "error": { "code": 401, "message": text } }));
        for first in [plain, json, stream([in_stream])] {
            let (failure, _, _) = fails([first]);
            assert_eq!(failure.kind, ModelFailureKind::Rejected);
            let shown = failure.message;
            assert!(!shown.contains(&KEY[..8]) && !shown.contains("0123"), "{shown}");
            assert!(shown.contains("[key]") || shown.contains("[k..."), "{shown}");
            assert!(!shown.contains(char::is_control), "{shown:?}");
        }
    }
}

#[test]
fn what_an_endpoint_says_is_cut() {
    let long = "\u{e9}\n\u{202e}".repeat(200_000);
    let (failure, _, _) = fails([answer("400 Bad Request", "", &long)]);
    assert!(failure.message.chars().count() < 450, "{}", failure.message);
    assert!(!failure.message.contains('\u{202e}') && !failure.message.contains('\n'));
}

#[test]
fn a_redirection_is_not_followed() {
    let elsewhere = ModelEndpoint::new([says("x")]);
    for status in ["301 Moved Permanently", "302 Found", "307 Temporary Redirect", "308 P"] {
        let to = format!("location: {}/v1?key={KEY}\r\n", elsewhere.base_url);
        let (failure, requests, _) = fails([answer(status, &to, "")]);
        assert_eq!((failure.kind, requests), (ModelFailureKind::Rejected, 1));
        assert!(failure.message.contains(&elsewhere.base_url), "{}", failure.message);
        assert!(!failure.message.contains(&KEY[..8]), "{}", failure.message);
    }
    assert_eq!(elsewhere.connections(), 0);
}

#[test]
fn another_service_is_told_from_an_endpoint() {
    for body in ["<!DOCTYPE html>", r#"{"status":"ok"}"#, "[1, 2]", "{broken"] {
        for of in [openai, anthropic] {
            let (failure, requests, _) = fails_by(of, [answer("200 OK", "", body)]);
            assert_eq!((failure.kind, requests), (ModelFailureKind::Rejected, 1), "{body}");
            assert!(failure.message.contains("`base_url`"), "{}", failure.message);
        }
    }
}

#[test]
fn what_an_endpoint_does_not_take_is_left_out_from_then_on() {
    let rejects = |text: &str| error("400 Bad Request", "", &message(text));
    let answers = [
        rejects("'max_tokens' is not supported. Use 'max_completion_tokens' instead."),
        rejects("'temperature' does not support 0 with this model."),
        rejects("Unrecognized request argument: stream_options"),
        rejects("Invalid schema for response_format 'action': oneOf is not permitted"),
        says("x"),
    ];
    let endpoint = ModelEndpoint::new(answers);
    let model = model_of(ProviderKind::OpenAi, &endpoint.base_url, LONG);
    let request =
        crate::extract::ModelRequest { schema: Some(json!({ "oneOf": [] })), ..question() };
    for _ in 0..2 {
        assert_eq!(model.ask(&request, &|| false).unwrap().text, "x");
    }
    let requests = endpoint.requests();
    assert_eq!(requests.len(), 6);
    for request in &requests[4..] {
        let body = &request.body;
        assert_eq!(body["max_completion_tokens"], 140);
        assert_eq!(body["response_format"]["json_schema"]["strict"], false);
        for name in ["max_tokens", "temperature", "stream_options"] {
            assert!(body.get(name).is_none(), "{body}");
        }
    }
}

#[test]
fn an_endpoint_that_rejects_everything_is_left() {
    let text = "max_completion_tokens, temperature, stream_options, response_format: no";
    let (failure, requests, _) = fails([error("400 Bad Request", "", &message(text))]);
    assert_eq!(failure.kind, ModelFailureKind::Rejected);
    assert!(requests <= 6, "{requests}");
}
