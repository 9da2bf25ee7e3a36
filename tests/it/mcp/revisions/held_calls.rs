//! Calls of an old server that are held while a new client answers.

use super::*;

#[test]
fn a_held_call_ends_with_its_time_and_the_server_is_told() {
    for way in [Way::Process, Way::Http] {
        let mut pair = Pair::with("old", way, &["--timeout", "3"]);
        let echo = pair.new_call("echo", &json!({}), &all());
        eventually("the server has started", || {
            pair.gateway.request("tools/call", &echo)["result"]["isError"].is_null()
        });
        let params = pair.new_call("ask", &json!({"groups": [[roots()]]}), &all());
        let asked = pair.gateway.request("tools/call", &params)["result"].clone();
        assert_eq!(asked["resultType"], "input_required", "{asked}");
        eventually("the server hears that nobody answers", || {
            let seen = pair.seen_by_new();
            seen.contains("notifications/cancelled") && seen.contains("did not answer in time")
        });
        let answer = pair.again(params, &asked, &json!({"q1": {}}));
        assert!(answer["error"]["message"].as_str().unwrap().contains("too late"), "{answer}");
    }
}

#[test]
fn over_http_a_question_ends_the_call_on_whose_stream_it_came() {
    let mut pair = Pair::new("old", Way::Http);
    pair.call_new("echo", &json!({}));
    let params = pair.new_call("late", &json!({"seconds": 0.5}), &all());
    let asking = pair.gateway.ask("tools/call", &params);
    let other = pair.new_call("sleep", &json!({"seconds": 2}), &all());
    let other = pair.gateway.ask("tools/call", &other);
    let asked = pair.gateway.answer(asking)["result"].clone();
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let done = pair.again(params, &asked, &json!({"q1": {"x": 1}}))["result"].clone();
    assert_eq!(told(&done), json!([{"result": {"x": 1}}]));
    assert_eq!(text(&pair.gateway.answer(other)["result"], 0), "slept");
}

#[test]
fn a_call_that_was_held_can_be_cancelled() {
    let mut pair = Pair::new("old", Way::Process);
    let groups = json!([[roots()], [roots()]]);
    let mut params = pair.new_call("ask", &json!({"groups": groups}), &all());
    let asked = pair.gateway.request("tools/call", &params)["result"].clone();
    let sleep = pair.new_call("sleep", &json!({"seconds": 0}), &all());
    params["requestState"] = asked["requestState"].clone();
    params["inputResponses"] = json!({"q1": {}});
    let id = pair.gateway.ask("tools/call", &params);
    let cancel =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
    pair.gateway.send(&cancel.to_string());
    pair.gateway.request("tools/call", &sleep);
    eventually("the server hears it", || pair.seen_by_new().contains("notifications/cancelled"));
    let late = pair.gateway.other.iter().any(|message| message["id"] == json!(id));
    assert!(!late, "{:?}", pair.gateway.other);
}

#[test]
fn what_happens_while_a_call_is_held_is_kept() {
    // The server answers the call although it was not answered itself.
    let mut pair = Pair::new("old", Way::Process);
    let params = pair.new_call("quick", &json!({}), &all());
    let mut done = pair.gateway.request("tools/call", &params)["result"].clone();
    if done["resultType"] == "input_required" {
        done = pair.again(params, &done, &json!({}))["result"].clone();
    }
    assert_eq!(text(&done, 0), "quick");

    // The server ends.
    let params = pair.new_call("ask", &json!({"groups": [[roots()]]}), &all());
    let asked = pair.gateway.request("tools/call", &params)["result"].clone();
    let died = pair.call_new("die", &json!({}));
    assert_eq!((&died["isError"], &died["resultType"]), (&json!(true), &json!("complete")));
    let failed = pair.again(params, &asked, &json!({"q1": {}}))["result"].clone();
    assert_eq!(failed["isError"], true, "{failed}");
    // Another is there, which knows nothing of the answer.
    let seen = pair.seen_by_new();
    assert!(seen.contains("notifications/initialized") && !seen.contains("reply"), "{seen}");
}

#[test]
fn an_old_server_does_not_ask_for_ever_nor_for_what_the_client_cannot_do() {
    let mut pair = Pair::new("old", Way::Process);
    let params = pair.new_call("forever", &json!({}), &all());
    let mut asked = pair.gateway.request("tools/call", &params)["result"].clone();
    let mut rounds = 1;
    while asked["resultType"] == "input_required" {
        let key = asked["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
        asked = pair.again(params.clone(), &asked, &json!({key: {"roots": []}}))["result"].clone();
        rounds += 1;
        assert!(rounds < 100);
    }
    assert!(asked["isError"] == true && text(&asked, 0).contains("more than 32 times"), "{asked}");

    let params =
        pair.new_call("ask", &json!({"groups": [[roots(), sampling()]]}), &json!({"sampling": {}}));
    let asked = pair.gateway.request("tools/call", &params)["result"].clone();
    assert_eq!(asked["inputRequests"].as_object().unwrap().len(), 1, "{asked}");
    let key = asked["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    // The roots wait for a call of a client that has some.
    let done = pair.gateway.ask("tools/call", &{
        let mut again = params.clone();
        again["requestState"] = asked["requestState"].clone();
        again["inputResponses"] = json!({key: {"x": 1}});
        again
    });
    let other = pair.new_call("sleep", &json!({"seconds": 0.3}), &all());
    let asked = pair.gateway.request("tools/call", &other)["result"].clone();
    assert_eq!(asked["inputRequests"]["q1"]["method"], "roots/list", "{asked}");
    pair.again(other, &asked, &json!({"q1": {"y": 2}}));
    let done = pair.gateway.answer(done)["result"].clone();
    assert_eq!(told(&done), json!([{"result": {"y": 2}}, {"result": {"x": 1}}]));
}

#[test]
fn what_a_server_asks_is_bounded_by_bytes() {
    let mut pair = Pair::new("old", Way::Process);
    let big = json!({"method": "roots/list", "params": {"x": "y".repeat(6 << 20)}});
    let params = pair.new_call("ask", &json!({"groups": [[big, big, big]]}), &all());
    let mut done = pair.gateway.request("tools/call", &params)["result"].clone();
    let mut asked = 0;
    while done["resultType"] == "input_required" {
        let requests = done["inputRequests"].as_object().unwrap();
        asked += requests.len();
        let answers = requests.keys().map(|key| (key.clone(), json!({"n": 1}))).collect();
        done = pair.again(params.clone(), &done, &answers)["result"].clone();
    }
    assert_eq!(asked, 2);
    let told = told(&done).to_string();
    assert_eq!(told.matches("too much is asked").count(), 1, "{told}");
}
