//! Clients of 2026-07-28 before a server up to 2025-11-25.

use super::*;

#[test]
fn a_new_client_is_introduced_to_an_old_server() {
    for way in WAYS {
        let mut pair = Pair::new("old", way);
        pair.meet();
        let said = pair.gateway.request("server/discover", &json!({"_meta": meta(&all())}));
        let said = &said["result"];
        assert_eq!(said["resultType"], "complete", "{way:?}: {said}");
        assert!(said["supportedVersions"].as_array().unwrap().contains(&json!("2026-07-28")));
        assert!(said["instructions"].as_str().unwrap().starts_with("Be old.\n\n"), "{said}");
        assert_eq!((&said["ttlMs"], &said["cacheScope"]), (&json!(0), &json!("private")));
        if way != Way::File {
            let info = &said["_meta"]["io.modelcontextprotocol/serverInfo"];
            assert_eq!(info, &json!({"name": "old", "version": "1"}));
        }
        let echoed = pair.call_new("echo", &json!({"n": 1}));
        assert_eq!(echoed["resultType"], "complete");
        assert_eq!(told(&echoed)["arguments"], json!({"n": 1}));
        assert!(!text(&echoed, 0).contains(VERSION), "{echoed}");
        let listed = pair.gateway.request("tools/list", &json!({"_meta": meta(&all())}));
        assert_eq!(listed["result"]["resultType"], "complete");
        assert_eq!(listed["result"]["ttlMs"], 0);
        assert_eq!(pair.seen_by_new().matches("\"initialize\"").count(), 1);
    }
}

#[test]
fn a_new_client_may_begin_with_any_request() {
    for way in [Way::Process, Way::Http] {
        let mut pair = Pair::new("old", way);
        let requests: Vec<u64> = (0..3)
            .map(|n| {
                let params = pair.new_call("echo", &json!({"n": n}), &all());
                pair.gateway.ask("tools/call", &params)
            })
            .collect();
        for id in requests {
            assert_eq!(pair.gateway.answer(id)["result"]["resultType"], "complete", "{way:?}");
        }
        assert_eq!(pair.seen_by_new().matches("\"initialize\"").count(), 1);
    }
}

#[test]
fn a_new_client_that_asks_for_no_introduction_gets_the_outputs() {
    let capabilities = json!({"tools": {}}).to_string();
    let store = Arc::new(TestStore::new());
    store.put("c7", "one", b"stored\n");
    let environment = [("SERVER_CAPABILITIES", &*capabilities)];
    let mut gateway = Gateway::start(&store, &[], &server(), &environment);
    gateway.request("tools/list", &json!({"_meta": meta(&all())}));
    let answer = gateway.request("resources/list", &json!({"_meta": meta(&all())}));
    assert_eq!(
        answer["result"]["resources"][0]["uri"], "ctx://c7/artifacts/tool/one.txt",
        "{answer}"
    );
}

#[test]
fn what_an_old_server_asks_ends_the_call_of_a_new_client_and_its_answers_go_on() {
    for way in WAYS {
        let mut pair = Pair::new("old", way);
        pair.meet();
        let groups = json!([[elicitation(), sampling(), roots()], [roots()]]);
        let params = pair.new_call("ask", &json!({"groups": groups}), &all());
        let asked = pair.gateway.request("tools/call", &params)["result"].clone();
        assert_eq!(asked["resultType"], "input_required", "{way:?}: {asked}");
        let requests = asked["inputRequests"].as_object().unwrap();
        let methods: Vec<&str> =
            requests.values().map(|request| request["method"].as_str().unwrap()).collect();
        assert_eq!(methods, ["elicitation/create", "sampling/createMessage", "roots/list"]);
        assert_eq!(requests["q1"]["params"], elicitation()["params"]);
        let responses: Value =
            requests.keys().map(|key| (key.clone(), json!({"k": key}))).collect();
        let asked = pair.again(params.clone(), &asked, &responses)["result"].clone();
        assert_eq!(asked["resultType"], "input_required", "{asked}");
        let (key, request) = asked["inputRequests"].as_object().unwrap().iter().next().unwrap();
        assert_eq!(request["method"], "roots/list");
        let responses = json!({key: {"roots": [{"uri": "file:///"}]}});
        let done = pair.again(params, &asked, &responses)["result"].clone();
        assert_eq!(done["resultType"], "complete", "{done}");
        assert_eq!(
            told(&done),
            json!([
                {"result": {"k": "q1"}}, {"result": {"k": "q2"}}, {"result": {"k": "q3"}},
                {"result": {"roots": [{"uri": "file:///"}]}}
            ])
        );
        assert!(pair.gateway.other.is_empty(), "{:?}", pair.gateway.other);
    }
}

#[test]
fn answers_that_are_missing_are_asked_for_again() {
    let mut pair = Pair::new("old", Way::Process);
    let params = pair.new_call("ask", &json!({"groups": [[roots(), elicitation()]]}), &all());
    let asked = pair.gateway.request("tools/call", &params)["result"].clone();
    let rest =
        pair.again(params.clone(), &asked, &json!({"q1": {"a": 1}, "other": {}}))["result"].clone();
    assert_eq!(rest["inputRequests"].as_object().unwrap().len(), 1, "{rest}");
    let key = rest["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    assert_eq!(rest["inputRequests"][&key]["method"], "elicitation/create");
    let done = pair.again(params, &rest, &json!({key: {"b": 2}}))["result"].clone();
    assert_eq!(told(&done), json!([{"result": {"a": 1}}, {"result": {"b": 2}}]));
}

#[test]
fn a_state_is_good_for_its_call_alone_and_once() {
    for way in WAYS {
        let mut pair = Pair::new("old", way);
        pair.meet();
        let params = pair.new_call("ask", &json!({"groups": [[roots()]]}), &all());
        let asked = pair.gateway.request("tools/call", &params)["result"].clone();
        let state = asked["requestState"].as_str().unwrap().to_owned();
        let responses = json!({"q1": {"roots": []}});
        let mut refused = |params: &Value, state: &str| {
            let asked = json!({"requestState": state});
            let answer = pair.again(params.clone(), &asked, &responses);
            assert_eq!(answer["error"]["code"], -32602, "{answer}");
            answer["error"]["message"].as_str().unwrap().to_owned()
        };
        let mut other = params.clone();
        other["arguments"]["groups"][0][0]["method"] = "sampling/createMessage".into();
        assert!(refused(&other, &state).contains("make the call anew"));
        other["name"] = params["name"].as_str().unwrap().replace("ask", "echo").into();
        other["arguments"] = params["arguments"].clone();
        refused(&other, &state);
        for forged in ["", "x", "1.99999999999999.00.31", &state.replace("1.", "2.")] {
            refused(&params, forged);
        }
        let done = pair.again(params.clone(), &asked, &responses)["result"].clone();
        assert_eq!(told(&done), json!([{"result": {"roots": []}}]));
        let answer = pair.again(params.clone(), &asked, &responses);
        let why = answer["error"]["message"].as_str().unwrap();
        assert!(why.contains("answered already"), "{why}");

        // The state of another process is none.
        let mut another = Pair::new("old", way);
        another.meet();
        let answer = another.again(params, &asked, &responses);
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
    }
}

#[test]
fn what_an_old_server_asks_before_any_call_waits_for_one() {
    let store = Arc::new(TestStore::new());
    let command = ["python3", SCRIPT, "old"];
    let gateway = Gateway::start(&store, &[], &command, &[("EARLY", "1")]);
    let mut pair = Pair { gateway, way: Way::Process, server: None };
    pair.gateway.request("server/discover", &json!({"_meta": meta(&all())}));
    let params = pair.new_call("sleep", &json!({"seconds": 0.5}), &all());
    let asked = pair.gateway.request("tools/call", &params)["result"].clone();
    assert_eq!(asked["inputRequests"]["q1"]["method"], "roots/list", "{asked}");
    let done = pair.again(params, &asked, &json!({"q1": {"roots": []}}))["result"].clone();
    assert_eq!(text(&done, 0), "slept");
    assert!(pair.seen_by_new().contains("reply"));
}

#[test]
fn a_new_client_hears_of_changes_if_it_listens() {
    for way in WAYS {
        let mut pair = Pair::new("old", way);
        pair.meet();
        let asked = json!({"toolsListChanged": true, "promptsListChanged": true, "resourceSubscriptions": ["mem://a"]});
        let params = json!({"notifications": asked, "_meta": meta(&all())});
        let id = pair.gateway.ask("subscriptions/listen", &params);
        let acknowledged = pair.gateway.message();
        assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged", "{way:?}");
        assert_eq!(acknowledged["params"]["_meta"][SUBSCRIPTION], id);
        let honored = &acknowledged["params"]["notifications"];
        assert_eq!(honored["resourceSubscriptions"], json!(["mem://a"]), "{honored}");
        assert_eq!(honored["toolsListChanged"], true);
        if way != Way::File {
            assert_eq!(honored.get("promptsListChanged"), None);
        }
        for (tool, method) in [
            ("change", "notifications/tools/list_changed"),
            ("update", "notifications/resources/updated"),
        ] {
            pair.call_new(tool, &json!({"uri": "mem://a"}));
            while pair.gateway.other.is_empty() {
                let message = pair.gateway.message();
                pair.gateway.other.push(message);
            }
            let heard = pair.gateway.other.remove(0);
            assert_eq!(
                (&heard["method"], &heard["params"]["_meta"][SUBSCRIPTION]),
                (&json!(method), &json!(id))
            );
        }
        let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
        pair.gateway.send(&cancel.to_string());
        eventually("the server hears it", || pair.seen_by_new().contains("resources/unsubscribe"));
        pair.call_new("change", &json!({}));
        pair.seen_by_new();
        assert!(pair.gateway.other.is_empty(), "{:?}", pair.gateway.other);
    }
}

#[test]
fn a_new_client_gets_log_messages_if_it_asks_for_them() {
    for way in WAYS {
        let mut pair = Pair::new("old", way);
        pair.meet();
        pair.call_new("log", &json!({}));
        assert!(pair.gateway.other.is_empty(), "{way:?}");
        let mut params = pair.new_call("log", &json!({}), &all());
        params["_meta"]["io.modelcontextprotocol/logLevel"] = "debug".into();
        pair.gateway.request("tools/call", &params);
        assert_eq!(pair.gateway.other[0]["params"]["data"], "debug", "{way:?}");
        pair.gateway.other.clear();
        pair.call_new("log", &json!({}));
        assert!(pair.gateway.other.is_empty());
    }
}

#[test]
fn long_results_errors_and_progress_pass_to_a_new_client() {
    for way in WAYS {
        let mut pair = Pair::new("old", way);
        pair.meet();
        let long = pair.call_new("long", &json!({"size": 3 << 20}));
        assert_eq!(long["resultType"], "complete");
        assert_eq!(long["content"][1]["type"], "resource_link", "{long:.500}");
        let mut params = pair.new_call("progress", &json!({"ask": true}), &all());
        params["_meta"]["progressToken"] = "one".into();
        let asked = pair.gateway.request("tools/call", &params)["result"].clone();
        params["_meta"]["progressToken"] = "two".into();
        let done = pair.again(params, &asked, &json!({"q1": {}}))["result"].clone();
        assert_eq!(text(&done, 0), "done");
        let tokens: Vec<&Value> =
            pair.gateway.other.iter().map(|one| &one["params"]["progressToken"]).collect();
        assert_eq!(tokens, ["one", "two"], "{way:?}");
        pair.gateway.other.clear();
        let missing = json!({"uri": "mem://missing", "_meta": meta(&all())});
        if way != Way::File {
            let missing = pair.gateway.request("resources/read", &missing);
            assert_eq!(missing["error"]["code"], -32602, "{missing}");
        }
    }
}

#[test]
fn a_result_of_any_length_is_complete_for_a_new_client() {
    let store = Arc::new(TestStore::new());
    let gateway = Gateway::start(&store, &[], &["python3", SCRIPT, "old"], &UNLIMITED);
    let mut pair = Pair { gateway, way: Way::Process, server: None };
    let long = pair.call_new("long", &json!({"size": 5 << 20}));
    assert_eq!(long["resultType"], "complete");
    assert!(text(&long, 0).len() > 5_000_000);
    // This one is on disk as a whole.
    let many = pair.call_new("many", &json!({"rows": 60_000}));
    assert_eq!(many["resultType"], "complete");
    assert_eq!(many["content"].as_array().unwrap().len(), 60_000);

    let mut pair = Pair::new("old", Way::Process);
    let many = pair.call_new("many", &json!({"rows": 60_000}));
    assert_eq!(
        (&many["resultType"], &many["content"][1]["type"]),
        (&json!("complete"), &json!("resource_link"))
    );
}

#[test]
fn an_answer_of_any_length_reaches_an_old_server() {
    let store = Arc::new(TestStore::new());
    let gateway = Gateway::start(&store, &[], &["python3", SCRIPT, "old"], &UNLIMITED);
    let mut pair = Pair { gateway, way: Way::Process, server: None };
    let params = pair.new_call("ask", &json!({"groups": [[sampling()]]}), &all());
    let asked = pair.gateway.request("tools/call", &params)["result"].clone();
    let long = json!({"q1": {"long": "z\u{e9}\n".repeat(1 << 20), "n": 1}});
    let done = pair.again(params, &asked, &long)["result"].clone();
    assert!(told(&done) == json!([{"result": long["q1"]}]));
}

#[test]
fn what_an_old_server_asks_the_protocol_itself_is_answered_by_the_gateway() {
    let mut pair = Pair::new("old", Way::Process);
    let groups = json!([[{"method": "ping"}, {"method": "x/unknown"}]]);
    let answers = told(&pair.call_new("ask", &json!({"groups": groups})));
    assert_eq!(answers[0], json!({"result": {}}));
    assert_eq!(answers[1]["error"]["code"], -32601);
}

#[test]
fn a_new_client_hears_of_a_new_server_among_others() {
    let mut pair = Pair::new("new", Way::File);
    pair.meet();
    let asked = json!({"toolsListChanged": true, "resourceSubscriptions": ["mem://a", "no://b"]});
    let params = json!({"notifications": asked, "_meta": meta(&all())});
    let id = pair.gateway.ask("subscriptions/listen", &params);
    let honored = pair.gateway.message()["params"]["notifications"].clone();
    assert_eq!(honored, json!({"toolsListChanged": true, "resourceSubscriptions": ["mem://a"]}));
    for (tool, method) in [("change", "tools/list_changed"), ("update", "resources/updated")] {
        pair.call_new(tool, &json!({"uri": "mem://a"}));
        while pair.gateway.other.is_empty() {
            let message = pair.gateway.message();
            pair.gateway.other.push(message);
        }
        let heard = pair.gateway.other.remove(0);
        assert_eq!(heard["method"], format!("notifications/{method}"));
        assert_eq!(heard["params"]["_meta"][SUBSCRIPTION], id);
    }
}

#[test]
fn a_silent_old_server_is_met_in_the_end() {
    let mut pair = Pair::with("silent", Way::Process, &["--timeout", "5"]);
    let echoed = pair.call_new("echo", &json!({"n": 1}));
    assert_eq!(told(&echoed)["arguments"], json!({"n": 1}));
}

#[test]
fn a_client_that_tries_both_ways_gets_one() {
    let mut pair = Pair::new("old", Way::Process);
    pair.gateway.request("server/discover", &json!({"_meta": meta(&all())}));
    let said = pair.gateway.shake_hands_with("2025-06-18", &all());
    assert_eq!(said["serverInfo"]["name"], "old");
    let params = pair.old_call("ask", &json!({"groups": [[roots()]]}));
    let id = pair.gateway.ask("tools/call", &params);
    answer_all(&mut pair.gateway, 1);
    let done = pair.gateway.answer(id)["result"].clone();
    assert_eq!(done.get("resultType"), None, "{done}");
    assert_eq!(pair.seen_by_old().matches("\"initialize\"").count(), 1);
}

#[test]
fn unknown_revisions_are_refused() {
    let mut pair = Pair::new("old", Way::Process);
    let mut params = pair.new_call("echo", &json!({}), &all());
    params["_meta"][VERSION] = "2099-01-01".into();
    let refused = pair.gateway.request("tools/call", &params);
    assert_eq!(refused["error"]["code"], -32022, "{refused}");
    assert_eq!(refused["error"]["data"]["supported"], json!(["2026-07-28"]));
}

#[test]
fn a_page_to_visit_is_asked_for_and_the_call_is_made_again() {
    let mut pair = Pair::new("old", Way::Process);
    let mut params = pair.new_call("page", &json!({"n": 1}), &all());
    let asked = pair.gateway.request("tools/call", &params)["result"].clone();
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    assert_eq!(asked["inputRequests"]["page0"]["params"]["url"], "https://x/");
    params["inputResponses"] = json!({"page0": {"action": "accept"}});
    let done = pair.gateway.request("tools/call", &params)["result"].clone();
    let sent = told(&done);
    assert_eq!((&sent["arguments"], sent.get("inputResponses")), (&json!({"n": 1}), None));
    // Who cannot visit pages gets the error.
    let mut pair = Pair::new("old", Way::Process);
    let params = pair.new_call("page", &json!({}), &json!({"elicitation": {}}));
    assert_eq!(pair.gateway.request("tools/call", &params)["error"]["code"], -32042);
}
