//! Servers of both revisions behind one gateway, in batches, and clients over HTTP.

use super::*;
use crate::mcp::http_client::{Answer, Client, Served};

/// Starts a gateway before an old and a new server, where every call is allowed.
fn both(options: &[&str]) -> Gateway {
    let store = Arc::new(TestStore::new());
    std::fs::create_dir_all(store.path()).unwrap();
    let rules = "[permissions]\n\"*\" = \"allow\"\n[risk]\n\"*\" = \"read\"\n";
    store.user_settings(rules);
    let member = |kind: &str| json!({"command": "python3", "args": [SCRIPT, kind]});
    let servers = [("old", member("old")), ("new", member("new"))];
    Gateway::of_servers(&store, options, &servers)
}

/// Waits until both servers are known to a client in index mode.
fn until_indexed(gateway: &mut Gateway, meta: Option<&Value>) {
    let arguments = json!({"names": ["old__ask", "new__ask"]});
    let mut params = json!({"name": "get_tool_details", "arguments": arguments});
    if let Some(meta) = meta {
        params["_meta"] = meta.clone();
    }
    eventually("the servers are known", || {
        let details = gateway.request("tools/call", &params)["result"].clone();
        !told(&details).to_string().contains("did_you_mean")
    });
    gateway.other.clear();
}

fn batch(calls: &[(&str, Value)], meta: Option<Value>) -> Value {
    let calls: Vec<Value> =
        calls.iter().map(|(name, args)| json!({"name": name, "arguments": args})).collect();
    let mut params = json!({"name": "run_tool_batch", "arguments": {"calls": calls}});
    if let Some(meta) = meta {
        params["_meta"] = meta;
    }
    params
}

/// Makes a call and answers what it asks, each question with its method, until it is done. Returns
/// the result, and the number of questions: on a busy machine, they come a few at a time.
fn answered(gateway: &mut Gateway, params: &mut Value) -> (Value, usize) {
    let mut questions = 0;
    loop {
        let asked = gateway.request("tools/call", params)["result"].clone();
        if asked["resultType"] != "input_required" {
            return (asked, questions);
        }
        let requests = asked["inputRequests"].as_object().unwrap();
        questions += requests.len();
        let answers = requests.iter().map(|(key, one)| (key.clone(), json!({"m": one["method"]})));
        params["inputResponses"] = answers.collect();
        params["requestState"] = asked["requestState"].clone();
    }
}

/// Returns what the calls of a batch told, as JSON.
fn results(result: &Value) -> Vec<Value> {
    let reply = told(result);
    let results = reply["results"].as_array().unwrap_or_else(|| panic!("{reply}"));
    let text = |one: &Value| one["text"].as_str().unwrap_or_else(|| panic!("{reply}")).to_owned();
    results.iter().map(|one| serde_json::from_str(&text(one)).unwrap()).collect()
}

#[test]
fn servers_of_both_revisions_serve_clients_of_both() {
    let mut gateway = both(&[]);
    gateway.shake_hands_with("2025-11-25", &all());
    until_known(&mut gateway, &["old__ask", "new__ask"], None);
    gateway.other.clear();
    for tool in ["old__ask", "new__ask"] {
        let arguments = json!({"groups": [[roots()]], "rounds": [{"r": roots()}]});
        let id = gateway.ask("tools/call", &json!({"name": tool, "arguments": arguments}));
        answer_all(&mut gateway, 1);
        assert!(text(&gateway.answer(id)["result"], 0).contains("roots/list"), "{tool}");
    }

    let mut gateway = both(&[]);
    until_known(&mut gateway, &["old__ask", "new__ask"], Some(meta(&all())));
    for tool in ["old__ask", "new__ask"] {
        let arguments = json!({"groups": [[roots()]], "rounds": [{"q1": roots()}]});
        let mut params = json!({"name": tool, "arguments": arguments, "_meta": meta(&all())});
        let asked = gateway.request("tools/call", &params)["result"].clone();
        assert_eq!(asked["inputRequests"]["q1"]["method"], "roots/list", "{asked}");
        params["requestState"] = asked["requestState"].clone();
        if tool == "new__ask" {
            assert_eq!(params["requestState"], "1/\u{e9}", "the state of a new server is its own");
        }
        params["inputResponses"] = json!({"q1": {"x": 7}});
        let done = gateway.request("tools/call", &params)["result"].clone();
        assert!(
            done["resultType"] == "complete" && done.to_string().contains("\\\"x\\\": 7"),
            "{done}"
        );
    }
}

#[test]
fn a_batch_asks_an_old_client_for_what_servers_need() {
    let mut gateway = both(&["--tools", "index"]);
    gateway.shake_hands_with("2025-11-25", &all());
    until_indexed(&mut gateway, None);
    let calls = [
        ("old__ask", json!({"groups": [[roots(), sampling()]]})),
        ("new__ask", json!({"rounds": [{"a": elicitation()}, {}]})),
        ("new__echo", json!({"n": 1})),
    ];
    let id = gateway.ask("tools/call", &batch(&calls, None));
    answer_all(&mut gateway, 3);
    let results = results(&gateway.answer(id)["result"]);
    assert_eq!(results[0][1]["result"]["for"], "sampling/createMessage");
    assert_eq!(results[1]["requestState"], "2/\u{e9}");
    assert_eq!(results[2]["arguments"], json!({"n": 1}));
}

#[test]
fn a_batch_ends_with_what_servers_need_and_goes_on_with_the_answers() {
    let mut gateway = both(&["--tools", "index"]);
    until_indexed(&mut gateway, Some(&meta(&all())));
    let calls = [
        ("old__ask", json!({"groups": [[roots(), sampling()], [roots()]]})),
        ("new__ask", json!({"rounds": [{"a": elicitation(), "b": roots()}]})),
        ("new__echo", json!({"n": 1})),
    ];
    let mut params = batch(&calls, Some(meta(&all())));
    let (done, asked) = answered(&mut gateway, &mut params);
    assert_eq!(asked, 5);
    let results = results(&done);
    let methods: Vec<&Value> =
        results[0].as_array().unwrap().iter().map(|one| &one["result"]["m"]).collect();
    assert_eq!(methods, ["roots/list", "sampling/createMessage", "roots/list"]);
    assert_eq!(results[1]["inputResponses"]["a"], json!({"m": "elicitation/create"}));
    assert_eq!(results[1]["inputResponses"]["b"], json!({"m": "roots/list"}));
    assert_eq!(results[2]["arguments"], json!({"n": 1}));
    let again = gateway.request("tools/call", &params)["result"].clone();
    assert!(
        again["isError"] == true && again.to_string().contains("make the call anew"),
        "{again}"
    );
}

#[test]
fn what_servers_ask_in_a_batch_is_bounded() {
    let mut gateway = both(&["--tools", "index"]);
    until_indexed(&mut gateway, Some(&meta(&all())));
    let calls = [("old__ask", json!({"groups": [vec![roots(); 1000]]}))];
    let (done, asked) = answered(&mut gateway, &mut batch(&calls, Some(meta(&all()))));
    assert!((1..1000).contains(&asked), "{asked}");
    // Which of them is refused is a matter of time, and the stand-in shows some of them.
    let told: Value = serde_json::from_str(text(&done, 0)).unwrap();
    let whole = gateway.store.view(told["results"][0]["ref"].as_str().unwrap());
    assert!(String::from_utf8_lossy(&whole).contains("too much is asked at once"), "{done}");
}

#[test]
fn a_batch_does_not_ask_without_end() {
    let mut gateway = both(&["--tools", "index"]);
    gateway.shake_hands_with("2025-11-25", &all());
    until_indexed(&mut gateway, None);
    let id = gateway.ask("tools/call", &batch(&[("new__forever", json!({}))], None));
    answer_all(&mut gateway, 1);
    for _ in 0..9 {
        answer_all(&mut gateway, 1);
    }
    let reply = gateway.answer(id)["result"].clone();
    assert!(reply.to_string().contains("more than 10 times"), "{reply}");
    // Who can do nothing is not asked.
    let mut gateway = both(&["--tools", "index"]);
    until_indexed(&mut gateway, Some(&meta(&json!({}))));
    let calls = [("new__ask", json!({"rounds": [{"a": roots()}]}))];
    let reply = gateway.request("tools/call", &batch(&calls, Some(meta(&json!({})))));
    assert!(reply.to_string().contains("which the client cannot do"), "{reply}");
}

/// Returns a client over HTTP without sessions.
fn modern(served: &Served) -> Client {
    let mut client = served.client();
    client.set("mcp-protocol-version", "2026-07-28");
    client
}

fn post(client: &Client, id: u64, method: &str, params: &Value) -> Answer {
    let body = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string();
    let name = params["name"].as_str().unwrap_or_default();
    client.send("POST", "/mcp", &[("mcp-method", method), ("mcp-name", name)], Some(&body))
}

#[test]
fn a_new_client_over_http_gets_on_with_an_old_server() {
    let store = Arc::new(TestStore::new());
    let (mut server, url) = http_server("old");
    for command in [&["python3", SCRIPT, "old"][..], &[&*url][..]] {
        let served = Served::start(&store, "127.0.0.1:0", &[], command, &[]);
        let client = modern(&served);
        let mut listening = post(
            &client,
            5,
            "subscriptions/listen",
            &json!({"notifications": {"toolsListChanged": true}, "_meta": meta(&all())}),
        );
        let acknowledged = listening.event().unwrap();
        assert_eq!(acknowledged["params"]["_meta"][SUBSCRIPTION], 5);
        let arguments = json!({"groups": [[elicitation()], [roots()]]});
        let mut params = json!({"name": "ask", "arguments": arguments, "_meta": meta(&all())});
        for round in 0..2 {
            let asked = post(&client, 1, "tools/call", &params).json()["result"].clone();
            assert_eq!(asked["resultType"], "input_required", "{round} {asked}");
            let key = asked["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
            params["requestState"] = asked["requestState"].clone();
            params["inputResponses"] = json!({key: {"n": round}});
        }
        let done = post(&client, 1, "tools/call", &params).json()["result"].clone();
        assert_eq!(told(&done), json!([{"result": {"n": 0}}, {"result": {"n": 1}}]));
        let change = json!({"name": "change", "_meta": meta(&all())});
        assert_eq!(post(&client, 1, "tools/call", &change).status, 200);
        let changed = listening.event().unwrap();
        assert_eq!(changed["method"], "notifications/tools/list_changed");
        assert_eq!(changed["params"]["_meta"][SUBSCRIPTION], 5);
    }
    server.kill().unwrap();
    server.wait().unwrap();
}

#[test]
fn an_old_client_over_http_gets_on_with_a_new_server() {
    let store = Arc::new(TestStore::new());
    let (mut server, url) = http_server("new");
    for command in [&["python3", SCRIPT, "new"][..], &[&*url][..]] {
        let served = Served::start(&store, "127.0.0.1:0", &[], command, &[]);
        let mut client = served.session();
        let arguments = json!({"rounds": [{"a": elicitation()}, {"b": sampling()}]});
        let mut answer = client.ask("tools/call", &json!({"name": "ask", "arguments": arguments}));
        for _ in 0..2 {
            let question = answer.event().unwrap();
            let reply = json!({"jsonrpc": "2.0", "id": question["id"], "result": {"n": 1.5}});
            assert_eq!(client.post(&reply).status, 202);
        }
        let done = answer.result();
        assert_eq!(told(&done)["inputResponses"], json!({"b": {"n": 1.5}}));
        let mut listening = client.listen();
        eventually("the gateway listens", || {
            text(&client.call("seen", &json!({})), 0).contains("subscriptions/listen")
        });
        client.call("change", &json!({}));
        assert_eq!(listening.event().unwrap()["method"], "notifications/tools/list_changed");
    }
    server.kill().unwrap();
    server.wait().unwrap();
}

/// Asks with `client`, in the newer revision, and answers what is asked until it is done.
fn answered_over_http(client: &Client, tool: &str, arguments: &Value) -> Value {
    let mut params = json!({"name": tool, "arguments": arguments, "_meta": meta(&all())});
    loop {
        let said = post(client, 1, "tools/call", &params).json()["result"].clone();
        if said["resultType"] != "input_required" {
            return said;
        }
        let keys = said["inputRequests"].as_object().unwrap().keys();
        params["inputResponses"] = keys.map(|key| (key.clone(), json!({"n": 7}))).collect();
        params["requestState"] = said["requestState"].clone();
    }
}

#[test]
fn clients_of_both_revisions_share_servers_of_both() {
    let store = Arc::new(TestStore::new());
    let file = store.scratch("servers").join("mcp.json");
    let entry = |kind: &str| json!({"command": "python3", "args": [SCRIPT, kind], "shared": true});
    let servers = json!({"mcpServers": {"old": entry("old"), "new": entry("new")}});
    std::fs::write(&file, servers.to_string()).unwrap();
    let options = ["--servers", file.to_str().unwrap()];
    let served = Served::start(&store, "127.0.0.1:0", &options, &[], &[]);
    let client = modern(&served);
    eventually("the servers are known", || {
        let listed = post(&client, 1, "tools/list", &json!({"_meta": meta(&all())})).json();
        ["old__ask", "new__ask"].iter().all(|name| listed.to_string().contains(name))
    });
    let arguments = json!({"groups": [[elicitation()]], "rounds": [{"a": elicitation()}]});
    for tool in ["old__ask", "new__ask"] {
        let done = answered_over_http(&client, tool, &arguments);
        assert!(told(&done).to_string().contains(r#"{"n":7}"#), "{tool}: {done}");
    }
    let mut session = served.session();
    for tool in ["old__ask", "new__ask"] {
        let params = json!({"name": tool, "arguments": arguments});
        let mut answer = session.ask("tools/call", &params);
        let question = answer.event().unwrap();
        assert_eq!(question["method"], "elicitation/create", "{tool}: {question}");
        let reply = json!({"jsonrpc": "2.0", "id": question["id"], "result": {"n": 8}});
        assert_eq!(session.post(&reply).status, 202);
        let done = answer.result();
        assert!(told(&done).to_string().contains(r#"{"n":8}"#), "{tool}: {done}");
    }
}
