//! Index mode: the light index, batches, and who may call what.

use super::*;

/// The capabilities of a client that can ask a person.
fn asking() -> Value {
    json!({"elicitation": {}})
}

/// Starts a gateway in index mode before two servers, of which one is trusted.
fn index(capabilities: &Value, settings: &str) -> (Gateway, Value) {
    let store = Arc::new(TestStore::new());
    std::fs::create_dir_all(store.path()).unwrap();
    store.user_settings(settings);
    let servers = [("one", json!({})), ("two", json!({"trust": true}))];
    let mut gateway = Gateway::of_servers(&store, &["--tools", "index"], &servers);
    let told = gateway.shake_hands_with("2025-11-25", capabilities);
    (gateway, told)
}

/// Starts a gateway in which every call is allowed.
fn open() -> Gateway {
    index(&json!({}), "[permissions]\n\"*\" = \"allow\"\n").0
}

fn batch(gateway: &mut Gateway, arguments: &Value) -> Value {
    let result = gateway.call("run_tool_batch", arguments);
    serde_json::from_str(text(&result, 0)).unwrap_or_else(|error| panic!("{error}: {result}"))
}

fn call(name: &str, arguments: &Value) -> Value {
    json!({"name": name, "arguments": arguments})
}

fn statuses(reply: &Value) -> Vec<&str> {
    let results = reply["results"].as_array().unwrap_or_else(|| panic!("{reply}"));
    results.iter().map(|result| result["status"].as_str().unwrap()).collect()
}

/// Answers the next question with one of the answers. Returns what was asked.
fn answer(gateway: &mut Gateway, answer: &str) -> String {
    let asked = loop {
        let message = gateway.message();
        if message["method"] == "elicitation/create" {
            break message;
        }
        gateway.other.push(message);
    };
    let result = json!({"action": "accept", "content": {"answer": answer}});
    gateway.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": result}).to_string());
    asked["params"]["message"].as_str().unwrap().to_owned()
}

#[test]
fn two_tools_stand_for_all() {
    let (mut gateway, told) = index(&json!({}), "");
    let instructions = told["instructions"].as_str().unwrap();
    assert!(instructions.len() <= 2048 && instructions.contains("two__*:\n"), "{instructions}");
    assert!(instructions.contains("- structured (read)"), "{instructions}");
    assert!(instructions.contains("- echo (unknown)"), "{instructions}");
    assert_eq!(told["capabilities"]["tools"], json!({}));
    let listed = gateway.request("tools/list", &json!({}));
    let resources = gateway.request("resources/list", &json!({}))["result"]["resources"].clone();
    let whole = resources.as_array().unwrap().last().unwrap();
    assert_eq!(whole["uri"], "ctx://c7/catalog/index.json");
    let tools = listed["result"]["tools"].as_array().unwrap();
    let names: Vec<&str> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names[..2], ["get_tool_details", "run_tool_batch"]);
    assert_eq!(names.len(), 2 + 5);
    assert!(tools[0]["description"].as_str().unwrap().contains("one__*:\n"));
    gateway.call("context_list", &json!({}));
    let hidden = gateway.request("tools/call", &json!({"name": "one__echo"}));
    let message = hidden["error"]["message"].as_str().unwrap();
    assert!(message.ends_with("call the tools of servers through `run_tool_batch`"), "{message}");
}

#[test]
fn details_are_told_and_written_to_the_catalog() {
    let mut gateway = open();
    let asked = gateway.call("get_tool_details", &json!({"names": ["two__structured", "ecko"]}));
    let details: Value = serde_json::from_str(text(&asked, 0)).unwrap();
    assert_eq!(details["tools"][0]["risk"], "read");
    assert_eq!(details["missing"][0]["did_you_mean"][0], "one__echo");
    let all = gateway.call("get_tool_details", &json!({}));
    assert!(text(&all, 0).contains(r#""name":"two__echo""#), "{all}");
    let catalog = gateway.store.path().join("context/c7/catalog");
    crate::support::eventually("the catalog is written", || catalog.join("index.json").exists());
    let read =
        gateway.call("context_read", &json!({"ref": "ctx://c7/catalog/tools/one__echo.json"}));
    assert!(text(&read, 0).contains("\"server\": \"one\""), "{read}");
}

#[test]
fn calls_have_results_in_their_order_and_all_are_stored() {
    let mut gateway = open();
    let calls = json!({"calls": [
        call("one__echo", &json!({"n": 1})),
        call("text", &json!({"line": "x\n", "counts": [40_000]})),
        {"name": "two__text", "line": "long line\n", "counts": [40_000]},
        call("two__fail", &json!({"line": "a\n", "count": 3})),
        call("nothing", &json!({})),
        {"name": "one__echo", "arguments": "{\"n\": 2}"},
    ]});
    let reply = batch(&mut gateway, &calls);
    assert_eq!(statuses(&reply), ["ok", "error", "ok", "error", "error", "ok"], "{reply}");
    assert_eq!(reply["summary"], "6 calls: 3 ok, 3 error");
    let results = &reply["results"];
    assert_eq!(results[0]["text"], r#"{"arguments": {"n": 1}, "name": "echo"}"#);
    assert!(results[1]["error"].as_str().unwrap().contains("did you mean one of"), "{reply}");
    assert!(results[2]["text"].as_str().unwrap().len() < 4000, "a stand-in");
    assert!(results[3]["error"].as_str().unwrap().ends_with("ERROR: the reason\n"), "{reply}");
    assert_eq!(results[5]["text"], r#"{"arguments": {"n": 2}, "name": "echo"}"#);
    for (result, bytes) in [(0, 37), (2, 400_000), (3, 24)] {
        let reference = results[result]["ref"].as_str().unwrap_or_else(|| panic!("{reply}"));
        let read = gateway.call("context_read", &json!({"ref": reference, "limit": 10}));
        assert!(read["structuredContent"]["total"].as_u64().unwrap() >= bytes, "{read}");
    }
}

#[test]
fn a_reply_keeps_to_its_budget() {
    let mut gateway = open();
    let mut calls =
        vec![call("one__text", &json!({"line": "a long line of text\n", "counts": [9000]})); 20];
    calls.push(call("one__echo", &json!({})));
    let reply = batch(&mut gateway, &json!({"calls": calls}));
    let size = reply.to_string().len();
    assert!(size <= 16 << 10, "{size} bytes");
    let results = reply["results"].as_array().unwrap();
    for result in results {
        assert!(result["ref"].as_str().unwrap().starts_with("ctx://c7/"), "{result}");
        assert!(!result["text"].as_str().unwrap().is_empty(), "{result}");
    }
    assert_eq!(results[20]["text"], r#"{"arguments": {}, "name": "echo"}"#);
}

#[test]
fn a_result_goes_to_the_next_call_by_reference() {
    let mut gateway = open();
    let made = batch(&mut gateway, &json!({"calls": [call("one__echo", &json!({"secret": 17}))]}));
    let reference = made["results"][0]["ref"].clone();
    let passed = json!({"whole": {"$ctx": reference}, "part": {"$ctx": reference, "jq": ".arguments.secret"}});
    let reply = batch(&mut gateway, &json!({"calls": [call("two__echo", &passed)]}));
    let seen: Value = serde_json::from_str(reply["results"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(seen["arguments"]["whole"], r#"{"arguments": {"secret": 17}, "name": "echo"}"#);
    assert_eq!(seen["arguments"]["part"], 17);
    let wrong = json!({"calls": [call("two__echo", &json!({"a": {"$ctx": "nothing"}}))]});
    assert_eq!(statuses(&batch(&mut gateway, &wrong)), ["error"]);
}

#[test]
fn calls_that_only_read_run_side_by_side() {
    let (mut gateway, _) = index(&json!({}), "[risk]\n\"*/sleep\" = \"read\"\n");
    let sleeps = ["one__sleep", "two__sleep"].map(|name| call(name, &json!({"seconds": 2})));
    let began = std::time::Instant::now();
    let reply = batch(&mut gateway, &json!({"calls": sleeps}));
    let both = began.elapsed();
    assert_eq!(statuses(&reply), ["ok", "ok"]);
    let one = |reply: &Value| reply.to_string();
    let began = std::time::Instant::now();
    let alone = json!({"calls": sleeps, "parallelLimit": 1});
    assert!(one(&batch(&mut gateway, &alone)).contains("slept"));
    assert!(both < began.elapsed(), "one after the other takes longer: {both:?}");
}

#[test]
fn without_a_person_to_ask_a_call_that_may_write_is_not_made() {
    let (mut gateway, _) = index(&json!({}), "");
    let calls = json!({"calls": [
        call("two__structured", &json!({})), call("one__echo", &json!({})), call("two__echo", &json!({})),
        call("two__structured", &json!({})),
    ]});
    let reply = batch(&mut gateway, &calls);
    assert_eq!(statuses(&reply)[1..3], ["permission", "permission"], "{reply}");
    let error = reply["results"][1]["error"].as_str().unwrap();
    assert!(error.ends_with("ctxfs mcp allow one/echo"), "{error}");
    let log =
        std::fs::read_to_string(gateway.store.path().join("context/c7/history/permissions.jsonl"));
    let log = log.unwrap();
    assert_eq!(log.lines().count(), 4);
    assert!(log.contains(r#""by":"nobody to ask""#), "{log}");
    // The command that the model is told of does what it says.
    let allow = |pattern| gateway.store.ctxfs("mcp", &["allow", pattern]).run().code;
    assert_eq!((allow("one/echo"), allow("echo")), (0, 2));
    let again = json!({"calls": [call("one__echo", &json!({})), call("two__echo", &json!({}))]});
    assert_eq!(statuses(&batch(&mut gateway, &again)), ["ok", "permission"]);
}

#[test]
fn a_person_is_asked_and_the_answer_holds_as_long_as_it_says() {
    let (mut gateway, _) = index(&asking(), "");
    let echo = |name: &str| json!({"calls": [call(name, &json!({"a": 1}))]});
    let ask = |gateway: &mut Gateway, name: &str| {
        gateway.ask("tools/call", &json!({"name": "run_tool_batch", "arguments": echo(name)}))
    };
    let reply = |gateway: &mut Gateway, id: u64| -> Value {
        let answer = gateway.answer(id);
        serde_json::from_str(text(&answer["result"], 0)).unwrap()
    };
    for (said, made) in
        [("no", "permission"), ("allow once", "ok"), ("allow for this conversation", "ok")]
    {
        let id = ask(&mut gateway, "one__echo");
        let asked = answer(&mut gateway, said);
        assert_eq!(
            asked,
            "Allow this call?\nserver: one\ntool: echo\nrisk: unknown\narguments:\n  a: 1\n"
        );
        assert_eq!(statuses(&reply(&mut gateway, id)), [made], "{said}");
    }
    assert_eq!(statuses(&batch(&mut gateway, &echo("one__echo"))), ["ok"], "nobody is asked again");
    let id = ask(&mut gateway, "two__echo");
    assert!(answer(&mut gateway, "always allow").contains("risk: write\n"));
    assert_eq!(statuses(&reply(&mut gateway, id)), ["ok"]);
    let rules = std::fs::read_to_string(gateway.store.path().join("permissions.toml")).unwrap();
    assert!(rules.contains("\"two/echo\" = \"allow\""), "{rules}");
    assert_eq!(statuses(&batch(&mut gateway, &echo("two__echo"))), ["ok"]);
}

#[test]
fn after_a_refusal_only_reading_goes_on() {
    let (mut gateway, _) = index(&asking(), "");
    let calls = json!({"calls": [
        call("two__structured", &json!({})), call("one__echo", &json!({})),
        call("two__echo", &json!({})), call("two__structured", &json!({})),
    ]});
    let id = gateway.ask("tools/call", &json!({"name": "run_tool_batch", "arguments": calls}));
    assert!(
        answer(&mut gateway, "no").contains("server: one\n"),
        "all are asked at once, in order"
    );
    let result = gateway.answer(id);
    let reply: Value = serde_json::from_str(text(&result["result"], 0)).unwrap();
    assert_eq!(statuses(&reply)[1..3], ["permission", "permission"]);
    assert_eq!(reply["results"][2]["error"], "not made, as call 2 of the batch was refused");
    // The second question is taken back.
    let seen = |gateway: &mut Gateway| {
        gateway.other.iter().any(|m| m["method"] == "notifications/cancelled")
    };
    while !seen(&mut gateway) {
        let message = gateway.message();
        gateway.other.push(message);
    }
}

#[test]
fn what_a_client_does_not_answer_nobody_has_refused() {
    let (mut gateway, _) = index(&asking(), "");
    let calls = json!({"calls": [call("one__echo", &json!({})), call("two__echo", &json!({}))]});
    for said in [
        json!({"result": {"action": "cancel"}}),
        json!({"error": {"code": -32603, "message": "no dialog"}}),
        json!({"result": {}}),
    ] {
        let id = gateway.ask("tools/call", &json!({"name": "run_tool_batch", "arguments": calls}));
        let asked = std::iter::repeat_with(|| gateway.message())
            .find(|message| message["method"] == "elicitation/create");
        let asked = asked.unwrap();
        let mut answer = said.clone();
        answer["jsonrpc"] = "2.0".into();
        answer["id"] = asked["id"].clone();
        gateway.send(&answer.to_string());
        let result = gateway.answer(id);
        let reply: Value = serde_json::from_str(text(&result["result"], 0)).unwrap();
        assert_eq!(statuses(&reply), ["permission", "permission"], "{said}");
        let why = reply["results"][0]["error"].as_str().unwrap();
        assert!(why.contains("no answer. Nobody has refused it"), "{why}");
        gateway.other.clear();
    }
    let history = gateway.store.path().join("context/c7/history/permissions.jsonl");
    let log = std::fs::read_to_string(history).unwrap();
    assert_eq!(log.matches(r#""by":"no answer""#).count(), 3, "{log}");
    assert!(!log.contains("person"), "{log}");
}

#[test]
fn after_a_refusal_the_rest_is_not_asked_about() {
    let (mut gateway, _) = index(&asking(), "[risk]\n\"*/silent\" = \"read\"\n");
    let calls = json!({"calls": [
        call("one__echo", &json!({})), call("two__echo", &json!({})), call("one__silent", &json!({})),
    ]});
    gateway.ask("tools/call", &json!({"name": "run_tool_batch", "arguments": calls}));
    answer(&mut gateway, "no");
    // The batch goes on, as the last call only reads.
    let second = gateway.message();
    assert_eq!(second["method"], "elicitation/create", "{second}");
    let cancelled = gateway.message();
    assert_eq!(cancelled["method"], "notifications/cancelled", "{cancelled}");
    assert_eq!(cancelled["params"]["requestId"], second["id"]);
}

#[test]
fn a_denied_call_is_never_asked_about() {
    let (mut gateway, _) = index(&asking(), "[permissions]\n\"one/*\" = \"deny\"\n");
    let reply = batch(&mut gateway, &json!({"calls": [call("one__echo", &json!({}))]}));
    assert_eq!(statuses(&reply), ["permission"]);
    assert!(reply["results"][0]["error"].as_str().unwrap().contains("denied by the rule `one/*`"));
}

#[test]
fn a_cancelled_batch_cancels_its_calls() {
    let mut gateway = open();
    let calls = json!({"calls": [call("one__silent", &json!({})), call("one__echo", &json!({}))]});
    let id = gateway.ask("tools/call", &json!({"name": "run_tool_batch", "arguments": calls}));
    crate::support::eventually("the call is made", || {
        let seen = batch(&mut gateway, &json!({"calls": [call("one__seen", &json!({}))]}));
        seen.to_string().matches("tools/call").count() >= 2
    });
    let cancel =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
    gateway.send(&cancel.to_string());
    crate::support::eventually("the server is told", || {
        let seen = batch(&mut gateway, &json!({"calls": [call("one__seen", &json!({}))]}));
        seen.to_string().contains("notifications/cancelled")
    });
}

#[test]
fn a_client_without_requests_answers_with_the_call_made_again() {
    let (mut gateway, _) = index(&json!({}), "");
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
    });
    let calls = json!({"calls": [call("two__structured", &json!({})), call("one__echo", &json!({"a": 1}))]});
    let mut params = json!({"name": "run_tool_batch", "arguments": calls, "_meta": meta});
    let asked = gateway.request("tools/call", &params)["result"].clone();
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    assert_eq!(asked["inputRequests"]["1"]["method"], "elicitation/create");
    params["requestState"] = asked["requestState"].clone();
    params["inputResponses"] =
        json!({"1": {"action": "accept", "content": {"answer": "allow once"}}});
    let mut other = params.clone();
    other["arguments"]["calls"][1]["arguments"]["a"] = 2.into();
    let forged = gateway.request("tools/call", &other)["result"].clone();
    assert_eq!(forged["isError"], true, "{forged}");
    let done = gateway.request("tools/call", &params)["result"].clone();
    assert_eq!(done["resultType"], "complete", "{done}");
    let reply: Value = serde_json::from_str(text(&done, 0)).unwrap();
    assert_eq!(reply["results"][1]["text"], r#"{"arguments": {"a": 1}, "name": "echo"}"#);
    let again = gateway.request("tools/call", &params)["result"].clone();
    assert!(text(&again, 0).contains("make the call anew"), "{again}");
}

#[test]
fn an_argument_of_any_length_arrives_whole() {
    let mut gateway = open();
    let long = "z".repeat(3 << 20);
    let calls = json!({"calls": [call("one__echo", &json!({"long": long}))]});
    let reply = batch(&mut gateway, &calls);
    let reference = reply["results"][0]["ref"].as_str().unwrap_or_else(|| panic!("{reply}"));
    let read = gateway.call("context_read", &json!({"ref": reference, "limit": 10}));
    let total = read["structuredContent"]["total"].as_u64().unwrap();
    assert!(total > 3 << 20, "{total}");
}

#[test]
fn the_references_of_a_batch_share_one_bound() {
    let mut gateway = open();
    let made =
        json!({"calls": [call("one__text", &json!({"line": "xyz\n", "counts": [2_500_000]}))]});
    let reference = batch(&mut gateway, &made)["results"][0]["ref"].clone();
    let passed = call("two__echo", &json!({"whole": {"$ctx": reference}}));
    let reply = batch(&mut gateway, &json!({"calls": [passed, passed]}));
    assert_eq!(statuses(&reply), ["ok", "error"], "{reply:.500}");
}

#[test]
fn no_part_of_a_result_is_left_out() {
    let mut gateway = open();
    let link = json!({"type": "resource_link", "uri": "mem://a", "name": "a"});
    let few = json!({"result": {"content": [{"type": "text", "text": "hello"}, link]}});
    let many: Vec<Value> =
        (0..500).map(|n| json!({"type": "text", "text": n.to_string()})).collect();
    let many = json!({"result": {"content": many}});
    let reply = batch(
        &mut gateway,
        &json!({"calls": [call("one__result", &few), call("one__result", &many)]}),
    );
    let shown = reply["results"][0]["text"].as_str().unwrap();
    assert!(shown.starts_with("hello\n{") && shown.contains("mem://a"), "{shown}");
    assert!(reply["results"][1].get("more").is_none(), "one output has all: {reply}");
    let listed = gateway.call("context_list", &json!({}));
    assert_eq!(text(&listed, 0).matches("\"artifact\"").count(), 3, "{listed}");
}

#[test]
fn what_cannot_be_stored_is_shown_within_the_budget() {
    let settings = "quota = \"100KiB\"\n[permissions]\n\"*\" = \"allow\"\n";
    let (mut gateway, _) = index(&json!({}), settings);
    let long = call("one__text", &json!({"line": "a line\n", "counts": [60_000]}));
    let short = call("two__text", &json!({"line": "short\n", "counts": [3]}));
    let reply = batch(&mut gateway, &json!({"calls": [long, short]}));
    assert!(reply.to_string().len() <= 16 << 10, "{} bytes", reply.to_string().len());
    let shown = reply["results"][0]["text"].as_str().unwrap();
    assert!(shown.starts_with("[ctxfs] The result is not stored: "), "{shown:.300}");
    assert!(shown.contains("missing of its 420000 bytes is lost\na line\n"), "{shown:.300}");
}

#[test]
fn arguments_that_cannot_be_read_are_refused() {
    let mut gateway = open();
    let deep = format!("{}{}", "[".repeat(5000), "]".repeat(5000));
    gateway.send(&format!(
        r#"{{"jsonrpc":"2.0","id":77,"method":"tools/call","params":{{"name":"run_tool_batch","arguments":{{"calls":{deep}}}}}}}"#
    ));
    let refused = gateway.answer(77);
    assert_eq!(refused["error"]["code"], -32602);
    assert!(refused["error"]["message"].as_str().unwrap().contains("recursion"), "{refused}");
    assert_eq!(batch(&mut gateway, &json!({"calls": []}))["summary"], "0 calls");
}

/// Returns a server that lists so many tools.
fn listing(tools: usize) -> Value {
    let tool = |n: usize| json!({"name": format!("tool_{n}"), "inputSchema": {"type": "object"}});
    let tools: Vec<Value> = (0..tools).map(tool).collect();
    let lists = json!({"tools/list": {"tools": tools}}).to_string();
    json!({"env": {"SERVER_LISTS": lists}})
}

#[test]
fn the_files_of_the_index_count_for_the_quota() {
    let store = Arc::new(TestStore::new());
    // Room for some 100 files; the index itself comes first.
    std::fs::write(store.path().join("ctxfs.toml"), "quota = \"512 KiB\"\n").unwrap();
    let mut gateway = Gateway::of_servers(&store, &["--tools", "index"], &[("one", listing(600))]);
    gateway.shake_hands("2025-11-25");
    let catalog = store.path().join("context/c7/catalog");
    crate::support::eventually("the index is written", || catalog.join("index.json").exists());
    let index = std::fs::read_to_string(catalog.join("index.json")).unwrap();
    assert_eq!(index.lines().filter(|line| line.contains("one__tool_")).count(), 600);
    let files = std::fs::read_dir(catalog.join("tools")).unwrap().count();
    assert!((20..=128).contains(&files), "{files}");
    crate::support::eventually("that is said", || {
        gateway.said().contains("the index of tools is not written")
    });
    let details = gateway.call("get_tool_details", &json!({"names": ["one__tool_599"]}));
    assert!(text(&details, 0).contains("one__tool_599"), "{details}");
}

#[test]
fn few_requests_are_answered_at_a_time_and_the_others_wait() {
    let mut gateway = open();
    let silent = json!({"calls": [call("one__silent", &json!({}))]});
    let params = json!({"name": "run_tool_batch", "arguments": silent});
    let ids: Vec<u64> = (0..64).map(|_| gateway.ask("tools/call", &params)).collect();
    let (given_up, waiting) =
        (gateway.ask("tools/list", &json!({})), gateway.ask("tools/list", &json!({})));
    let cancel = |id: u64| {
        let params = json!({"requestId": id});
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}).to_string()
    };
    gateway.send(&cancel(given_up));
    for _ in 0..3 {
        gateway.request("ping", &json!({}));
    }
    assert_eq!(gateway.other, Vec::<Value>::new(), "nobody has an answer");
    gateway.send(&cancel(ids[7]));
    assert!(gateway.answer(waiting)["result"]["tools"].is_array());
    gateway.request("ping", &json!({}));
    assert_eq!(gateway.other, Vec::<Value>::new(), "who gave up has none");
}

#[test]
fn a_burst_of_requests_is_answered_whole() {
    let mut gateway = open();
    let ids: Vec<u64> = (0..2000).map(|_| gateway.ask("prompts/list", &json!({}))).collect();
    for id in ids {
        assert!(gateway.answer(id)["result"]["prompts"].is_array());
    }
}
