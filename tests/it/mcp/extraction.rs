//! `tool_output`: the gateway has a model read a stored output.

use super::*;
use crate::extract::endpoint::Endpoint;
use crate::extract::endpoint::Reply;
use crate::support::eventually;

fn asked(endpoint: &Endpoint) -> (Arc<TestStore>, Gateway) {
    let store = Arc::new(TestStore::new());
    std::fs::write(store.path().join("ctxfs.toml"), endpoint.settings()).unwrap();
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
