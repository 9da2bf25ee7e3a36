//! Clients up to 2025-11-25 before a server of 2026-07-28.

use super::*;

#[test]
fn an_old_client_is_introduced_to_a_new_server() {
    for way in WAYS {
        for version in ["2024-11-05", "2025-06-18", "2025-11-25"] {
            let mut pair = Pair::new("new", way);
            let said = pair.shake_hands(version);
            assert_eq!(said["protocolVersion"], version, "{way:?}");
            let instructions = said["instructions"].as_str().unwrap();
            assert!(instructions.starts_with("Be new.\n\n"), "{instructions}");
            assert_eq!(said["capabilities"]["logging"], json!({}));
            assert_eq!(said["capabilities"]["tools"], json!({"listChanged": true}));
            if way != Way::File {
                assert_eq!(said["serverInfo"], json!({"name": "new", "version": "2"}));
            }
            assert_eq!(pair.gateway.request("ping", &json!({}))["result"], json!({}));
            let params = pair.old_call("echo", &json!({"n": 1}));
            let echoed = told(&pair.gateway.request("tools/call", &params)["result"]);
            assert_eq!(echoed["arguments"], json!({"n": 1}));
            assert_eq!(echoed["_meta"][VERSION], "2026-07-28");
            assert_eq!(echoed["_meta"][CAPABILITIES], json!({"sampling": {}, "elicitation": {}}));
            let seen = pair.seen_by_old();
            assert!(!seen.contains("notifications/initialized"), "{seen}");
        }
    }
}

#[test]
fn what_a_new_server_needs_is_put_to_an_old_client_and_the_call_is_made_again() {
    for way in WAYS {
        let mut pair = Pair::new("new", way);
        pair.shake_hands_with("2025-11-25", &all());
        let rounds =
            json!([{"a": elicitation(), "b": sampling(), "c": roots()}, {}, {"d": roots()}]);
        let params = pair.old_call("ask", &json!({"rounds": rounds}));
        let id = pair.gateway.ask("tools/call", &params);
        let asked = answer_all(&mut pair.gateway, 3);
        let expected = [elicitation(), roots(), sampling()].map(|request| {
            (request["method"].as_str().unwrap().to_owned(), request["params"].clone())
        });
        assert_eq!(asked, expected, "{way:?}");
        answer_all(&mut pair.gateway, 1);
        let result = pair.gateway.answer(id)["result"].clone();
        let last = told(&result);
        assert_eq!(last["requestState"], "3/\u{e9}");
        assert_eq!(last["inputResponses"], json!({"d": {"for": "roots/list", "n": 1}}));
        assert_eq!(last["arguments"]["rounds"], rounds);
        assert!(pair.gateway.other.is_empty(), "{:?}", pair.gateway.other);
    }
}

#[test]
fn an_answer_of_any_length_reaches_a_new_server() {
    let store = Arc::new(TestStore::new());
    let gateway = Gateway::start(&store, &[], &["python3", SCRIPT, "new"], &UNLIMITED);
    let mut pair = Pair { gateway, way: Way::Process, server: None };
    pair.shake_hands_with("2025-11-25", &all());
    let arguments = json!({"rounds": [{"a": sampling()}], "long": "y".repeat(2 << 20)});
    let params = pair.old_call("ask", &arguments);
    let id = pair.gateway.ask("tools/call", &params);
    let question = pair.gateway.message();
    let long = json!({"long": "z\u{e9}\n".repeat(1 << 20)});
    let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": long});
    pair.gateway.send(&answer.to_string());
    let last = told(&pair.gateway.answer(id)["result"]);
    assert!(last["inputResponses"]["a"] == long && last["arguments"] == arguments);
}

#[test]
fn prompts_and_resources_may_ask_too() {
    for way in [Way::Process, Way::Http] {
        let mut pair = Pair::new("new", way);
        pair.shake_hands_with("2025-11-25", &all());
        for (method, params) in
            [("prompts/get", json!({"name": "p"})), ("resources/read", json!({"uri": "mem://a"}))]
        {
            let id = pair.gateway.ask(method, &params);
            answer_all(&mut pair.gateway, 1);
            let answer = pair.gateway.answer(id);
            assert!(answer["result"].to_string().contains("roots/list"), "{answer}");
        }
    }
}

#[test]
fn a_new_server_asks_only_for_what_the_client_can_do_and_not_for_ever() {
    let mut pair = Pair::new("new", Way::Process);
    pair.shake_hands_with("2025-11-25", &json!({"roots": {"listChanged": true}}));
    let params = pair.old_call("ask", &json!({"rounds": [{"a": sampling()}]}));
    let failed = pair.gateway.request("tools/call", &params)["result"].clone();
    let text = text(&failed, 0).to_owned();
    assert!(failed["isError"] == true && text.contains("which the client cannot do"), "{failed}");

    let params = pair.old_call("forever", &json!({}));
    let id = pair.gateway.ask("tools/call", &params);
    for _ in 0..10 {
        answer_all(&mut pair.gateway, 1);
    }
    let failed = pair.gateway.answer(id)["result"].clone();
    assert!(failed.to_string().contains("more than 10 times"), "{failed}");

    // The client says no.
    let params = pair.old_call("ask", &json!({"rounds": [{"a": roots()}]}));
    let id = pair.gateway.ask("tools/call", &params);
    let question = pair.gateway.message();
    let refusal = json!({"code": -1, "message": "User rejected"});
    let refusal = json!({"jsonrpc": "2.0", "id": question["id"], "error": refusal});
    pair.gateway.send(&refusal.to_string());
    let failed = pair.gateway.answer(id)["result"].clone();
    assert!(failed.to_string().contains("User rejected"), "{failed}");
}

#[test]
fn a_call_that_is_cancelled_takes_its_questions_back() {
    let mut pair = Pair::new("new", Way::Process);
    pair.shake_hands_with("2025-11-25", &all());
    let params = pair.old_call("ask", &json!({"rounds": [{"a": roots(), "b": elicitation()}]}));
    let id = pair.gateway.ask("tools/call", &params);
    let questions = [pair.gateway.message()["id"].clone(), pair.gateway.message()["id"].clone()];
    let cancel =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
    pair.gateway.send(&cancel.to_string());
    for _ in 0..2 {
        let taken_back = pair.gateway.message();
        assert_eq!(taken_back["method"], "notifications/cancelled");
        assert!(questions.contains(&taken_back["params"]["requestId"]));
    }
    pair.seen_by_old();
}

#[test]
fn an_old_client_loses_what_it_would_not_take() {
    for way in [Way::Process, Way::File] {
        let never = [("CTXFS_MAX_INLINE_CHARS", "never"), ("CTXFS_MAX_INLINE_BYTES", "never")];
        let store = Arc::new(TestStore::new());
        let member = json!({"command": "python3", "args": [SCRIPT, "new"]});
        let mut gateway = match way {
            Way::File => Gateway::of_servers(&store, &[], &[("s", member)]),
            _ => Gateway::start(&store, &[], &["python3", SCRIPT, "new"], &never),
        };
        gateway.shake_hands("2025-11-25");
        if way == Way::File {
            until_known(&mut gateway, &["s__echo"], None);
        }
        let listed = gateway.request("tools/list", &json!({}));
        assert!(!listed.to_string().contains("outputSchema"), "{listed}");
        let tool = if way == Way::File { "s__structured" } else { "structured" };
        let list = gateway.call(tool, &json!({"value": [1, "a"]}));
        assert_eq!((list.get("structuredContent"), text(&list, 0)), (None, "[1, \"a\"]"));
        let object = gateway.call(tool, &json!({"value": {"n": 1}}));
        assert_eq!(object["structuredContent"], json!({"n": 1}));
    }
}

#[test]
fn an_old_client_hears_what_a_new_server_tells_those_who_listen() {
    for way in WAYS {
        let mut pair = Pair::new("new", way);
        pair.shake_hands("2025-11-25");
        eventually("the gateway listens", || pair.seen_by_old().contains("subscriptions/listen"));
        let change = pair.tool("change");
        pair.gateway.call(&change, &json!({}));
        let is_change = |message: &Value| message["method"] == "notifications/tools/list_changed";
        while !pair.gateway.other.iter().any(is_change) {
            let message = pair.gateway.message();
            pair.gateway.other.push(message);
        }
        assert!(!pair.gateway.other.iter().any(|message| message.to_string().contains("_meta")));
        pair.gateway.other.clear();

        let watched = pair.gateway.request("resources/subscribe", &json!({"uri": "mem://a"}));
        assert_eq!(watched["result"], json!({}), "{way:?}");
        let update = pair.tool("update");
        pair.gateway.call(&update, &json!({"uri": "mem://a"}));
        while pair.gateway.other.is_empty() {
            let message = pair.gateway.message();
            pair.gateway.other.push(message);
        }
        assert_eq!(pair.gateway.other[0]["params"], json!({"uri": "mem://a"}));
        pair.gateway.other.clear();

        let left = pair.gateway.request("resources/unsubscribe", &json!({"uri": "mem://a"}));
        assert_eq!(left["result"], json!({}));
        pair.gateway.call(&update, &json!({"uri": "mem://a"}));
        pair.seen_by_old();
        assert!(pair.gateway.other.is_empty(), "{way:?}: {:?}", pair.gateway.other);
    }
}

#[test]
fn the_level_of_an_old_client_goes_with_each_request() {
    for way in WAYS {
        let mut pair = Pair::new("new", way);
        pair.shake_hands("2025-11-25");
        let log = pair.tool("log");
        pair.gateway.call(&log, &json!({}));
        assert!(pair.gateway.other.is_empty());
        let set = pair.gateway.request("logging/setLevel", &json!({"level": "warning"}));
        assert_eq!(set["result"], json!({}), "{way:?}");
        pair.gateway.call(&log, &json!({}));
        assert_eq!(pair.gateway.other[0]["params"]["data"], "warning", "{way:?}");
        assert!(!pair.seen_by_old().contains("logging/setLevel"));
    }
}

#[test]
fn a_new_server_that_dies_is_started_again_without_initialize() {
    for way in [Way::Process, Way::File] {
        let mut pair = Pair::new("new", way);
        pair.shake_hands("2025-11-25");
        let die = pair.tool("die");
        assert_eq!(pair.gateway.call(&die, &json!({}))["isError"], true);
        let seen = pair.seen_by_old();
        assert!(!seen.contains("initialize"), "{way:?}: {seen}");
        eventually("the gateway listens again", || {
            pair.seen_by_old().contains("subscriptions/listen")
        });
    }
}

#[test]
fn long_results_and_progress_pass_to_an_old_client() {
    for way in WAYS {
        let mut pair = Pair::new("new", way);
        pair.shake_hands("2025-11-25");
        let long = pair.tool("long");
        let result = pair.gateway.call_as("a1", &long, &json!({"size": 3 << 20}));
        assert_eq!(result["content"][1]["type"], "resource_link", "{result:.500}");
        assert!(stored(&pair.gateway.store, "a1.txt").len() > 3_000_000);
        let mut params = pair.old_call("progress", &json!({}));
        params["_meta"]["progressToken"] = "t".into();
        assert_eq!(text(&pair.gateway.request("tools/call", &params)["result"], 0), "done");
        let steps = pair.gateway.other.iter().filter(|one| one["params"]["progressToken"] == "t");
        assert_eq!(steps.count(), 2, "{way:?}");
    }
}
