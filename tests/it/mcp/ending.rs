//! How gateways and servers end, and what becomes of calls.

use std::time::Instant;

use super::*;
use crate::support::eventually;

/// Returns the ids of the server and of its own child.
fn family(gateway: &mut Gateway) -> Vec<u32> {
    let told = gateway.call("child", &json!({}));
    text(&told, 0).split(' ').map(|pid| pid.parse().unwrap()).collect()
}

fn all_gone(pids: &[u32]) {
    eventually("the processes are gone", || !pids.iter().any(|pid| is_there(*pid)));
}

#[test]
fn the_end_of_input_ends_everything() {
    let mut gateway = Gateway::new();
    let pids = family(&mut gateway);
    gateway.ask("tools/call", &json!({"name": "silent"}));
    assert_eq!(gateway.end(), 0);
    all_gone(&pids);
}

#[test]
fn signals_end_everything() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let mut gateway = Gateway::new();
        let pids = family(&mut gateway);
        rustix::process::kill_process(gateway.pid(), signal).unwrap();
        assert_eq!(gateway.child.wait().unwrap().code(), Some(0));
        all_gone(&pids);
    }
}

#[test]
fn a_stubborn_server_is_killed() {
    let mut gateway = Gateway::new();
    let told = gateway.call("stubborn", &json!({}));
    let pid: u32 = text(&told, 0).parse().unwrap();
    let started = Instant::now();
    assert_eq!(gateway.end(), 0);
    assert!(started.elapsed() > Duration::from_secs(3), "it was not asked first");
    assert!(!is_there(pid));
}

#[test]
fn a_killed_gateway_leaves_no_server() {
    let mut gateway = Gateway::new();
    let pids = family(&mut gateway);
    let mut other = Gateway::new();
    let told = other.call("stubborn", &json!({}));
    let stubborn: u32 = text(&told, 0).parse().unwrap();
    for gateway in [&mut gateway, &mut other] {
        rustix::process::kill_process(gateway.pid(), Signal::KILL).unwrap();
        gateway.child.wait().unwrap();
    }
    all_gone(&pids);
    all_gone(&[stubborn]);
}

#[test]
fn a_server_that_dies_fails_its_calls_and_is_started_again() {
    let mut gateway = Gateway::new();
    gateway.request("logging/setLevel", &json!({"level": "debug"}));
    let waiting = gateway.ask("tools/call", &json!({"name": "silent"}));
    let other = gateway.ask("tools/call", &json!({"name": "die"}));
    for id in [waiting, other] {
        let answer = gateway.answer(id);
        assert_eq!(answer["result"]["isError"], true, "{answer}");
        let why = text(&answer["result"], 0);
        assert!(why.contains("`server` ended (exit status: 3)"), "{why}");
    }
    let seen = gateway.call("seen", &json!({}));
    let seen: Value = serde_json::from_str(text(&seen, 0)).unwrap();
    assert_eq!(
        seen,
        json!(["initialize", "notifications/initialized", "logging/setLevel", "tools/call"])
    );
}

#[test]
fn a_server_that_cannot_start_is_an_error() {
    let store = Arc::new(TestStore::new());
    // With context tools, the gateway answers in its place.
    let alone = ["--no-context-tools"];
    let mut gateway = Gateway::start(&store, &alone, &["/nonexistent/server"], &[]);
    let told = gateway.request("initialize", &json!({"protocolVersion": "2025-11-25"}));
    let why = told["error"]["message"].as_str().unwrap();
    assert!(why.contains("cannot be started: `/nonexistent/server`"), "{why}");
    let mut gateway = Gateway::start(&store, &alone, &["sh", "-c", "echo no >&2; exit 4"], &[]);
    let told = gateway.request("initialize", &json!({"protocolVersion": "2025-11-25"}));
    let why = told["error"]["message"].as_str().unwrap();
    assert!(why.contains("exit status: 4"), "{why}");
    let told = gateway.request("initialize", &json!({"protocolVersion": "2025-11-25"}));
    let why = told["error"]["message"].as_str().unwrap();
    assert!(why.contains("the next try is in"), "{why}");
}

#[test]
fn a_silent_server_is_an_error_at_the_timeout() {
    let mut gateway = Gateway::with(&["--timeout", "1"], &[]);
    // Nobody waits for an answer, for a while.
    thread::sleep(Duration::from_millis(500));
    let answer = gateway.call("silent", &json!({}));
    assert_eq!(answer["isError"], true);
    assert!(text(&answer, 0).contains("did not answer within 1 s"), "{answer}");
    let seen = gateway.call("seen", &json!({}));
    assert!(text(&seen, 0).contains("requestId"), "{seen}");
}

#[test]
fn progress_gives_a_call_more_time() {
    // Long enough for a busy machine.
    let mut gateway = Gateway::with(&["--timeout", "4"], &[]);
    let params = json!({
        "name": "progress", "arguments": {"steps": 4, "pause": 1.5},
        "_meta": {"progressToken": 7},
    });
    assert_eq!(text(&gateway.request("tools/call", &params)["result"], 0), "done");
}

#[test]
fn a_person_may_think_longer_than_the_timeout() {
    let mut gateway = Gateway::with(&["--timeout", "4"], &[]);
    let arguments = json!({"method": "elicitation/create"});
    let id = gateway.ask("tools/call", &json!({"name": "ask", "arguments": arguments}));
    let question = gateway.message();
    thread::sleep(Duration::from_secs(9));
    gateway.send(&format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{}}}}"#, question["id"]));
    assert!(gateway.answer(id)["result"].get("isError").is_none());
}
