//! `tool_output`: the gateway has a model read a stored output.

use super::*;
use crate::extract::endpoint::{Endpoint, Reply};
use crate::support::eventually;

fn asked(endpoint: &Endpoint) -> (Arc<TestStore>, Gateway) {
    let store = Arc::new(TestStore::new());
    store.user_settings(endpoint.settings());
    store.put("c7", "9f3k", b"start\nERROR disk sdb1 is full\nend\n");
    let environment = [("TEST_KEY", "sk-secret")];
    let mut gateway = Gateway::start(&store, &["--stand-in", "handle"], &[], &environment);
    gateway.shake_hands("2025-11-25");
    (store, gateway)
}

#[test]
fn the_gateway_asks_for_its_client() {
    let endpoint = Endpoint::new(|_| Reply::Answer("sdb1"));
    let (store, mut client) = asked(&endpoint);
    store.put("c8", "secret", b"of another conversation");
    let tools = client.request("tools/list", &json!({}))["result"]["tools"].clone();
    let tools = tools.as_array().unwrap();
    let tool = tools.iter().find(|tool| tool["name"] == "tool_output").unwrap();
    let mut other = Gateway::start(&store, &[], &[], &[]);
    other.shake_hands("2025-11-25");
    let listed = other.request("tools/list", &json!({}))["result"]["tools"].clone();
    assert!(listed.as_array().unwrap().contains(tool), "a model is configured");
    assert_eq!(tool["inputSchema"]["additionalProperties"], false);
    assert_eq!(tool["inputSchema"]["required"], json!(["handle", "extract"]));
    let arguments = json!({"handle": "c7/9f3k.txt", "extract": "which disk is full?"});
    let told = client.call("tool_output", &arguments);
    assert_eq!(
        told["content"][0]["text"],
        "ABSTRACT FROM TOOL OUTPUT unknown WITH HANDLE c7/9f3k.txt, STRATEGY:full-chunked:\n\nsdb1\n"
    );
    for (wrong, why) in [
        (json!({"handle": "c7/9f3k.txt"}), "`extract` is missing"),
        (json!({"extract": "x"}), "`handle` is missing"),
        (json!({"handle": "c8/secret.txt", "extract": "x"}), "there is no output"),
        (json!({"handle": "../../../etc/passwd", "extract": "x"}), "there is no output"),
        (json!({"handle": "c7/9f3k.txt", "extract": "x", "mode": "y"}), "there is no mode `y`"),
        (json!({"handle": "c7/9f3k.txt", "extract": "x", "more": 1}), "no argument `more`"),
    ] {
        let refused = client.call("tool_output", &wrong);
        assert_eq!(refused["isError"], true, "{wrong}");
        assert!(refused["content"][0]["text"].as_str().unwrap().contains(why), "{refused}");
    }
    assert_eq!(endpoint.requests().len(), 1);
}

/// A question takes minutes, and nobody else waits for it.
#[test]
fn a_cancelled_question_ends_its_call_and_holds_nobody_up() {
    let endpoint = Endpoint::new(|_| Reply::Silence);
    let (_store, mut client) = asked(&endpoint);
    for number in 0..20 {
        let arguments = json!({"handle": "c7/9f3k.txt", "extract": format!("what {number}?")});
        let params = json!({"name": "tool_output", "arguments": arguments});
        client.send(&json!({"jsonrpc": "2.0", "id": format!("q{number}"), "method": "tools/call", "params": params}).to_string());
    }
    eventually("the model is asked", || !endpoint.requests().is_empty());
    let read = client.call("context_read", &json!({"ref": "c7/9f3k.txt"}));
    assert!(text(&read, 0).contains("sdb1"));
    for number in 0..20 {
        let params = json!({"requestId": format!("q{number}")});
        client.send(
            &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
                .to_string(),
        );
    }
    eventually("every call has ended", || {
        endpoint.given_up() as usize == endpoint.requests().len()
    });
}

#[test]
fn progress_is_told_to_a_client_that_asks_for_it() {
    let endpoint = Endpoint::new(|_| Reply::Answer("sdb1"));
    let (_store, mut client) = asked(&endpoint);
    let arguments = json!({"handle": ["c7/9f3k.txt"], "extract": "which disk?"});
    let params =
        json!({"name": "tool_output", "arguments": arguments, "_meta": {"progressToken": "t"}});
    client.request("tools/call", &params);
    let told = client.other.iter().find(|told| told["method"] == "notifications/progress").unwrap();
    assert_eq!(
        (&told["params"]["progressToken"], &told["params"]["progress"]),
        (&"t".into(), &1.into())
    );
    assert_eq!(told["params"]["message"], "test/a: 1 calls, 110 tokens");
}

/// Starts a gateway in index mode, before a server that is called by name, with more settings.
fn indexed(endpoint: &Endpoint, more: &str) -> (Arc<TestStore>, Gateway) {
    let store = Arc::new(TestStore::new());
    let settings = endpoint.keyless_settings() + more;
    store.user_settings(settings);
    store.put("c7", "9f3k", b"start\nERROR disk sdb1 is full\nend\n");
    let servers = [("one", json!({"trust": true}))];
    let mut gateway = Gateway::of_servers(&store, &["--tools", "index"], &servers);
    gateway.shake_hands("2025-11-25");
    (store, gateway)
}

fn question(handle: &str) -> Value {
    json!({"name": "tool_output", "arguments": {"handle": handle, "extract": "which disk?"}})
}

#[test]
fn a_batch_asks_questions_too() {
    let endpoint = Endpoint::new(|_| Reply::Answer("sdb1"));
    let (store, mut client) = indexed(&endpoint, "");
    let flat = json!({"name": "tool_output", "handle": "c7/9f3k.txt", "extract": "which?"});
    let unfit = json!({"name": "tool_output", "arguments": {"handle": "c7/9f3k.txt", "x": 1}});
    let calls = [question("c7/9f3k.txt"), flat, unfit, question("c7/none.txt")];
    let result = client.call("run_tool_batch", &json!({"calls": calls}));
    let reply: Value = serde_json::from_str(text(&result, 0)).unwrap();
    assert_eq!(reply["summary"], "4 calls: 2 ok, 2 error", "{reply}");
    let results = reply["results"].as_array().unwrap();
    for told in &results[..2] {
        let said = told["text"].as_str().unwrap();
        assert!(said.ends_with("STRATEGY:full-chunked:\n\nsdb1\n"), "{told}");
        let path = told["ref"].as_str().unwrap().strip_prefix("ctx://").unwrap();
        let kept = std::fs::read_to_string(store.path().join("context").join(path)).unwrap();
        assert_eq!(kept, said);
    }
    let why = |place: usize| results[place]["error"].as_str().unwrap();
    assert!(why(2).contains("the call of `tool_output` was not made"), "{}", why(2));
    assert!(why(3).contains("there is no output"), "{}", why(3));
    assert_eq!(endpoint.requests().len(), 2);
}

#[test]
fn a_cancelled_batch_ends_its_questions() {
    let endpoint = Endpoint::new(|_| Reply::Silence);
    let (_store, mut client) = indexed(&endpoint, "");
    let params =
        json!({"name": "run_tool_batch", "arguments": {"calls": [question("c7/9f3k.txt")]}});
    client.send(
        &json!({"jsonrpc": "2.0", "id": "b", "method": "tools/call", "params": params}).to_string(),
    );
    eventually("the model is asked", || !endpoint.requests().is_empty());
    let cancelled = json!({"requestId": "b"});
    client.send(
        &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancelled})
            .to_string(),
    );
    eventually("the call has ended", || endpoint.given_up() == 1);
}

/// What a person denies is not asked for money either.
#[test]
fn questions_of_a_batch_follow_the_rules() {
    let endpoint = Endpoint::new(|_| Reply::Answer("sdb1"));
    let rule = "[permissions]\n\"ctxfs/tool_output\" = \"deny\"\n";
    let (_store, mut client) = indexed(&endpoint, rule);
    let calls = [question("c7/9f3k.txt")];
    let result = client.call("run_tool_batch", &json!({"calls": calls}));
    let reply: Value = serde_json::from_str(text(&result, 0)).unwrap();
    assert_eq!(reply["results"][0]["status"], "permission", "{reply}");
    assert_eq!(endpoint.requests().len(), 0);
}

#[test]
fn a_long_answer_is_stored_like_any_result() {
    const LONG: &str = "one of many findings, and a few words on it\n";
    static ANSWER: std::sync::LazyLock<String> =
        std::sync::LazyLock::new(|| format!("{}sdb1", LONG.repeat(500)));
    let endpoint = Endpoint::new(|_| Reply::Answer(&ANSWER));
    let (store, mut client) = asked(&endpoint);
    let arguments = json!({"handle": "c7/9f3k.txt", "extract": "list them"});
    let told = client.call("tool_output", &arguments);
    let said = text(&told, 0);
    assert!(said.len() < 16 << 10, "{said}");
    let uri = told["content"][1]["uri"].as_str().unwrap_or_else(|| panic!("{told}"));
    let path = uri.strip_prefix("ctx://").unwrap();
    let kept = std::fs::read_to_string(store.path().join("context").join(path)).unwrap();
    assert!(kept.contains("STRATEGY:full-chunked") && kept.ends_with("sdb1\n"), "{kept}");
}
