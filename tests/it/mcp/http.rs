//! Clients over HTTP, before a server that speaks on pipes.

use super::http_client::*;
use super::*;
use crate::support::eventually;

/// The most memory of a gateway, in KiB. A build for tests needs more than a release.
const MOST_MEMORY: u64 = 64 << 10;

fn request(id: u64, method: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method})
}

#[test]
fn a_session_is_begun_used_and_ended() {
    let served = Served::new(&[]);
    let mut client = served.client();
    let told = client.shake_hands();
    assert_eq!(told["serverInfo"]["name"], "scripted");
    let answer = client.ask("tools/list", &json!({"cursor": "two"}));
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(answer.json()["result"]["tools"].as_array().unwrap().len(), 7);
    let pids = client.call("child", &json!({}));
    let pids: Vec<u32> = text(&pids, 0).split(' ').map(|pid| pid.parse().unwrap()).collect();
    assert_eq!(client.send("DELETE", "/mcp", &[], None).status, 204);
    assert_eq!(client.post(&request(5, "tools/list")).status, 404);
    assert_eq!(client.listen().status, 404);
    eventually("its server is gone", || !pids.iter().any(|pid| is_there(*pid)));
}

#[test]
fn long_results_are_stored_in_a_conversation_of_the_session() {
    let served = Served::new(&[]);
    let (mut one, mut two) = (served.session(), served.session());
    let arguments = json!({"line": "row\n", "counts": [3000]});
    let stored: Vec<String> = [&mut one, &mut two]
        .into_iter()
        .map(|client| {
            let result = client.call("text", &arguments);
            assert!(text(&result, 0).starts_with("[ctxfs] The complete output"), "{result}");
            result["content"][1]["uri"].as_str().unwrap().to_owned()
        })
        .collect();
    let conversation = |uri: &str| uri.split('/').nth(2).unwrap().to_owned();
    assert_ne!(conversation(&stored[0]), conversation(&stored[1]));
    // A session reads its own conversation alone.
    let read = one.call("context_read", &json!({"ref": stored[0]}));
    assert!(text(&read, 0).starts_with("row\n"), "{read}");
    assert_eq!(one.call("context_read", &json!({"ref": stored[1]}))["isError"], true);

    let served = Served::new(&["-c", "c7"]);
    for client in [&mut served.session(), &mut served.session()] {
        let result = client.call("text", &arguments);
        assert!(result["content"][1]["uri"].as_str().unwrap().starts_with("ctx://c7/"));
    }
}

#[test]
fn what_comes_before_an_answer_makes_it_a_stream() {
    let served = Served::new(&[]);
    let mut client = served.session();
    let params = json!({
        "name": "progress", "arguments": {"steps": 3}, "_meta": {"progressToken": "t-9"},
    });
    let mut answer = client.ask("tools/call", &params);
    assert!(answer.is_stream(), "{:?}", answer.head);
    for step in 0..3 {
        let event = answer.event().unwrap();
        assert_eq!(event["params"]["progress"], step);
        assert_eq!(event["params"]["progressToken"], "t-9");
    }
    let last = answer.event().unwrap();
    assert_eq!((&last["id"], text(&last["result"], 0)), (&json!(client.next), "done"));
    assert_eq!(answer.event(), None);
}

#[test]
fn servers_ask_the_client_on_the_stream_of_the_call() {
    let served = Served::new(&[]);
    let mut client = served.session();
    let arguments = json!({"method": "elicitation/create", "params": {"message": "?"}});
    let mut answer = client.ask("tools/call", &json!({"name": "ask", "arguments": arguments}));
    let question = answer.event().unwrap();
    assert_eq!(question["method"], "elicitation/create");
    let reply = json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept"}});
    assert_eq!(client.post(&reply).status, 202);
    assert!(text(&answer.result(), 0).contains("accept"));
}

#[test]
fn the_stream_of_the_session_has_what_answers_nothing() {
    let served = Served::new(&[]);
    let mut client = served.session();
    let mut listening = client.listen();
    assert!(listening.status == 200 && listening.is_stream());
    let line = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
    client.call(
        "raw",
        &json!({"line": format!("{line}\n{}", r#"{"jsonrpc":"2.0","id":$ID,"result":{}}"#)}),
    );
    assert_eq!(listening.event().unwrap()["method"], "notifications/tools/list_changed");
    // A newer one takes its place.
    let mut newer = client.listen();
    assert_eq!(listening.event(), None);
    client.call(
        "raw",
        &json!({"line": format!("{line}\n{}", r#"{"jsonrpc":"2.0","id":$ID,"result":{}}"#)}),
    );
    assert_eq!(newer.event().unwrap()["method"], "notifications/tools/list_changed");
}

#[test]
fn a_cancelled_call_ends_its_stream() {
    let served = Served::new(&[]);
    let client = served.session();
    let call = json!({"jsonrpc": "2.0", "id": "long", "method": "tools/call", "params": {"name": "silent"}});
    let other = client.clone();
    let waiting = thread::spawn(move || {
        let mut answer = other.post(&call);
        (answer.is_stream(), answer.event())
    });
    let cancel = json!({
        "jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "long"},
    });
    let mut asking = client.clone();
    eventually("the call has come", || {
        text(&asking.call("seen", &json!({})), 0).matches("tools/call").count() > 1
    });
    assert_eq!(client.post(&cancel).status, 202);
    assert_eq!(waiting.join().unwrap(), (true, None));
    assert!(text(&asking.call("seen", &json!({})), 0).contains("requestId"));
}

#[test]
fn a_batch_is_answered_on_a_stream() {
    let served = Served::new(&[]);
    let client = served.session();
    let batch = json!([
        request(71, "prompts/list"),
        {"jsonrpc": "2.0", "method": "notifications/x"},
        request(72, "ping"),
    ]);
    let mut answer = client.post(&batch);
    let ids: Vec<Value> =
        std::iter::from_fn(|| answer.event()).map(|event| event["id"].clone()).collect();
    assert!(ids.len() == 2 && ids.contains(&json!(71)) && ids.contains(&json!(72)), "{ids:?}");
    let told = json!([{"jsonrpc": "2.0", "method": "notifications/x"}]);
    assert_eq!(client.post(&told).status, 202);
}

/// Method, path, headers, body, and the status that they get.
type Row<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)], Option<&'a str>, u16);

#[test]
fn requests_that_are_none_have_their_status() {
    let served = Served::new(&[]);
    let client = served.session();
    let list = request(1, "tools/list").to_string();
    let status = |method: &str, path: &str, headers: &[(&str, &str)], body: Option<&str>| {
        client.send(method, path, headers, body).status
    };
    let table: &[Row<'_>] = &[
        ("POST", "/mcp", &[], Some(&list), 200),
        ("POST", "/mcp", &[("accept", "*/*")], Some(&list), 200),
        ("POST", "/mcp", &[("content-type", "application/json; charset=utf-8")], Some(&list), 200),
        ("POST", "/mcp", &[("accept", "application/json")], Some(&list), 406),
        ("POST", "/mcp", &[("accept", "text/event-stream")], Some(&list), 406),
        ("POST", "/mcp", &[("content-type", "text/plain")], Some(&list), 415),
        ("POST", "/mcp", &[("content-type", "")], Some(&list), 415),
        ("POST", "/mcp", &[("mcp-protocol-version", "1999-01-01")], Some(&list), 400),
        ("POST", "/mcp", &[("mcp-session-id", "")], Some(&list), 400),
        ("POST", "/mcp", &[("mcp-session-id", "unknown")], Some(&list), 404),
        ("POST", "/mcp", &[], Some("no json"), 400),
        ("POST", "/mcp", &[], Some("{}"), 400),
        ("POST", "/mcp", &[], Some("[]"), 400),
        ("POST", "/mcp", &[], Some(""), 400),
        ("POST", "/", &[], Some(&list), 404),
        ("POST", "/mcp/x", &[], Some(&list), 404),
        ("GET", "/mcp", &[("accept", "application/json")], None, 406),
        ("GET", "/mcp", &[("mcp-session-id", "")], None, 400),
        ("DELETE", "/mcp", &[("mcp-session-id", "")], None, 400),
        ("DELETE", "/mcp", &[("mcp-session-id", "unknown")], None, 404),
        ("PUT", "/mcp", &[], Some(&list), 405),
        ("OPTIONS", "/mcp", &[], None, 405),
        ("POST", "/mcp", &[("host", "evil.example")], Some(&list), 403),
        ("POST", "/mcp", &[("host", "")], Some(&list), 403),
        ("POST", "/mcp", &[("origin", "http://evil.example")], Some(&list), 403),
        ("POST", "/mcp", &[("origin", "http://localhost:3000")], Some(&list), 200),
    ];
    for (method, path, headers, body, expected) in table {
        assert_eq!(status(method, path, headers, *body), *expected, "{method} {path} {headers:?}");
    }
    let refused = client.send("PUT", "/mcp", &[], None);
    assert_eq!(refused.header("allow"), Some("GET, POST, DELETE"));
    assert_eq!(client.post_text("{").json()["error"]["code"], -32700);
}

#[test]
fn a_message_may_have_newlines() {
    let served = Served::new(&[]);
    let client = served.session();
    let call = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "echo", "arguments": {"a": [1, "x\ny"]}},
    });
    let answer = client.post_text(&format!("\r\n{call:#}\n")).json();
    assert!(text(&answer["result"], 0).contains(r#""a": [1, "x\ny"]"#), "{answer}");
}

#[test]
fn ids_in_use_are_refused() {
    let served = Served::new(&[]);
    let mut client = served.session();
    let call = json!({
        "jsonrpc": "2.0", "id": "x", "method": "tools/call", "params": {"name": "silent"},
    });
    let call = call.to_string();
    let mut waiting = client.connect();
    let request = client.head("POST", "/mcp", &[], Some(call.len())) + &call;
    waiting.write_all(request.as_bytes()).unwrap();
    eventually("the call has come", || {
        text(&client.call("seen", &json!({})), 0).matches("tools/call").count() > 1
    });
    let again = json!({"jsonrpc": "2.0", "id": "x", "method": "ping"});
    let refused = client.post(&again);
    assert_eq!(refused.status, 400);
    let told = refused.json();
    assert_eq!((&told["id"], &told["error"]["code"]), (&json!("x"), &json!(-32600)));
    // Who closes the stream waits no more.
    drop(waiting);
    eventually("the id is free", || client.post(&again).status == 200);
}

#[test]
fn a_token_is_needed_where_one_is_given() {
    let store = Arc::new(TestStore::new());
    let file = store.path().with_file_name("tokens");
    std::fs::write(&file, "first-token-of-two\n\nsecond-token-of-two\n").unwrap();
    let options = ["--token-file", file.to_str().unwrap()];
    let served = Served::start(&store, "127.0.0.1:0", &options, &server(), &[]);
    let mut client = served.client();
    assert_eq!(client.post(&initialize()).status, 401);
    client.set("authorization", "Bearer nothing-like-that");
    let refused = client.post(&initialize());
    assert_eq!((refused.status, refused.header("www-authenticate")), (401, Some("Bearer")));
    client.set("authorization", "Bearer first-token-of-two");
    client.shake_hands();
    assert_eq!(client.post(&request(1, "tools/list")).status, 200);
    // The session is its own.
    client.set("authorization", "Bearer second-token-of-two");
    assert_eq!(client.post(&request(1, "tools/list")).status, 404);
}

#[test]
fn other_addresses_need_a_token() {
    let store = Arc::new(TestStore::new());
    let served = Served::start(&store, "0.0.0.0:0", &[], &server(), &[]);
    let (_, port) = served.address.rsplit_once(':').unwrap();
    let mut client = served.client();
    client.address = format!("127.0.0.1:{port}");
    assert_eq!(client.post(&initialize()).status, 401);
    let said = served.said.iter().find_map(|line| line.split_once("the token "));
    let token = said.expect("no token was printed").1;
    assert_eq!(token.len(), 64);
    client.set("authorization", &format!("Bearer {token}"));
    client.shake_hands();
}

#[test]
fn wrong_addresses_and_files_of_tokens_are_usage() {
    let store = TestStore::new();
    let file = store.path().with_file_name("tokens");
    std::fs::write(&file, "short\n").unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    for options in [
        vec!["--http", "nothing"],
        vec!["--http", &taken],
        vec!["--http", "0", "--token-file", "/nonexistent"],
        vec!["--http", "0", "--token-file", file.to_str().unwrap()],
        vec!["--token-file", file.to_str().unwrap()],
    ] {
        assert_eq!(store.ctxfs("mcp", &options).run().code, 2, "{options:?}");
    }
}

/// Returns a client of the revision without sessions.
fn modern(served: &Served) -> Client {
    let mut client = served.client();
    client.set("mcp-protocol-version", "2026-07-28");
    client
}

fn modern_request(id: u64, method: &str, params: &Value) -> Value {
    let mut request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
    request["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
    request["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
    request
}

fn modern_call(client: &Client, id: u64, tool: &str, params: &Value) -> Answer {
    let mut params = params.clone();
    params["name"] = json!(tool);
    let body = modern_request(id, "tools/call", &params).to_string();
    client.send("POST", "/mcp", &[("mcp-method", "tools/call"), ("mcp-name", tool)], Some(&body))
}

#[test]
fn without_sessions_a_process_has_one_conversation() {
    let served = Served::new(&[]);
    let client = modern(&served);
    let discover = modern_request(1, "server/discover", &json!({})).to_string();
    let told = client.send("POST", "/mcp", &[("mcp-method", "server/discover")], Some(&discover));
    assert_eq!((told.status, told.header("mcp-session-id")), (200, None));
    assert_eq!(told.json()["result"]["supportedVersions"], json!(["2026-07-28"]));
    let uris: Vec<String> = (0..2)
        .map(|_| {
            let arguments = json!({"arguments": {"line": "row\n", "counts": [3000]}});
            let result = modern_call(&client, 1, "text", &arguments).json()["result"].clone();
            result["content"][1]["uri"]
                .as_str()
                .unwrap()
                .split("/artifacts")
                .next()
                .unwrap()
                .to_owned()
        })
        .collect();
    assert_eq!(uris[0], uris[1]);
    for method in ["GET", "DELETE"] {
        assert_eq!(client.send(method, "/mcp", &[], None).status, 405);
    }
    let unknown = modern_request(1, "x", &json!({})).to_string();
    let answer = client.send("POST", "/mcp", &[("mcp-method", "x")], Some(&unknown));
    assert_eq!(answer.status, 200, "the scripted server answers any method");
    let missing = modern_call(&client, 2, "nothing", &json!({}));
    assert_eq!(missing.json()["error"]["code"], -32602);
}

#[test]
fn without_sessions_each_token_has_a_conversation() {
    let store = Arc::new(TestStore::new());
    let file = store.path().with_file_name("tokens");
    std::fs::write(&file, "first-token-of-two\nsecond-token-of-two\n").unwrap();
    let options = ["--token-file", file.to_str().unwrap()];
    let mut seen = Vec::new();
    // It is the same the next time.
    for _ in 0..2 {
        let served = Served::start(&store, "127.0.0.1:0", &options, &server(), &[]);
        for token in ["first", "second"] {
            let mut client = modern(&served);
            client.set("authorization", &format!("Bearer {token}-token-of-two"));
            let arguments = json!({"arguments": {"line": "row\n", "counts": [3000]}});
            let result = modern_call(&client, 1, "text", &arguments).json()["result"].clone();
            let uri = result["content"][1]["uri"].as_str().unwrap().to_owned();
            seen.push(uri.split('/').nth(2).unwrap().to_owned());
        }
    }
    assert_eq!((&seen[0], &seen[1]), (&seen[2], &seen[3]));
    assert!(seen[0] != seen[1] && seen[0].starts_with("token-"), "{seen:?}");
}

#[test]
fn headers_say_what_the_body_says() {
    let served = Served::new(&[]);
    let client = modern(&served);
    let body = modern_request(1, "tools/call", &json!({"name": "echo"})).to_string();
    for headers in [
        vec![("mcp-method", "tools/call")],
        vec![("mcp-name", "echo")],
        vec![("mcp-method", "tools/list"), ("mcp-name", "echo")],
        vec![("mcp-method", "tools/call"), ("mcp-name", "other")],
    ] {
        let answer = client.send("POST", "/mcp", &headers, Some(&body));
        assert_eq!(answer.status, 400, "{headers:?}");
        assert_eq!(answer.json()["error"]["code"], -32020);
    }
    let headers = [("mcp-method", "tools/call"), ("mcp-name", "=?base64?ZWNobw==?=")];
    assert_eq!(client.send("POST", "/mcp", &headers, Some(&body)).status, 200);
    let mut old = client.without("mcp-protocol-version");
    assert_eq!(old.post_text(&body).json()["error"]["code"], -32020);
    old.set("mcp-protocol-version", "2031-01-01");
    let answer = old.post_text(&body).json();
    assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(-32022), &json!(1)));
    let data = json!({"supported": ["2026-07-28"], "requested": "2031-01-01"});
    assert_eq!(answer["error"]["data"], data);
}

#[test]
fn no_request_of_a_client_decides_what_a_server_speaks() {
    const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mcp/revisions.py");
    let store = Arc::new(TestStore::new());
    let file = store.scratch("servers").join("mcp.json");
    for kind in ["both", "old", "new"] {
        let member = json!({"command": "python3", "args": [SCRIPT, kind], "prefix": ""});
        let shared =
            json!({"command": "python3", "args": [SCRIPT, kind], "prefix": "", "shared": true});
        for (options, server) in [(None, Value::Null), (Some(&file), member), (Some(&file), shared)]
        {
            let served = if let Some(file) = options {
                std::fs::write(file, json!({"mcpServers": {"s": server}}).to_string()).unwrap();
                let options = ["--servers", file.to_str().unwrap()];
                Served::start(&store, "127.0.0.1:0", &options, &[], &[])
            } else {
                Served::start(&store, "127.0.0.1:0", &[], &["python3", SCRIPT, kind], &[])
            };
            is_whole_for_each_client(&served, kind);
        }
    }
}

fn is_whole_for_each_client(served: &Served, kind: &str) {
    let client = modern(served);
    let meta = |members: Value| json!({"_meta": members});
    let version = "io.modelcontextprotocol/protocolVersion";
    let capabilities = "io.modelcontextprotocol/clientCapabilities";
    let old = initialize()["params"].clone();
    for (method, params, status, code) in [
        ("tools/list", json!({}), 400, -32602),
        ("tools/list", meta(json!({capabilities: {}})), 400, -32602),
        ("tools/list", meta(json!({version: "2026-07-28"})), 400, -32602),
        ("tools/list", meta(json!({version: "2026-07-28", capabilities: []})), 400, -32602),
        ("tools/list", meta(json!({version: "2025-11-25", capabilities: {}})), 400, -32020),
        ("server/discover", json!({}), 400, -32602),
        ("initialize", old.clone(), 400, -32602),
    ] {
        let body = json!({"jsonrpc": "2.0", "id": "q", "method": method, "params": params});
        let answer =
            client.send("POST", "/mcp", &[("mcp-method", method)], Some(&body.to_string()));
        let (given, json) = (answer.status, answer.json());
        assert_eq!(
            (given, &json["error"]["code"], &json["id"]),
            (status, &json!(code), &json!("q")),
            "{kind} {body}: {json}"
        );
    }
    for method in ["initialize", "ping", "logging/setLevel", "resources/subscribe"] {
        let body = modern_request(7, method, &old).to_string();
        let answer = client.send("POST", "/mcp", &[("mcp-method", method)], Some(&body));
        let status = answer.status;
        assert_eq!((status, &answer.json()["error"]["code"]), (404, &json!(-32601)), "{kind}");
    }
    for _ in 0..2 {
        for method in ["server/discover", "tools/list", "resources/list"] {
            let body = modern_request(3, method, &json!({})).to_string();
            let answer = client.send("POST", "/mcp", &[("mcp-method", method)], Some(&body));
            let result = answer.json()["result"].clone();
            for member in ["resultType", "ttlMs", "cacheScope"] {
                assert!(result.get(member).is_some(), "{kind} {method}: {result:.500}");
            }
        }
        let called = modern_call(&client, 9, "echo", &json!({"arguments": {}})).result();
        assert_eq!(called["resultType"], "complete", "{kind}: {called}");
        // Sessions of older clients come between.
        let mut session = served.session();
        for method in ["tools/list", "resources/list"] {
            let result = session.ask(method, &json!({})).json()["result"].clone();
            for member in ["resultType", "ttlMs", "cacheScope"] {
                assert_eq!(result.get(member), None, "{kind} {method}: {result:.500}");
            }
        }
        let called = session.call("echo", &json!({}));
        assert_eq!(called.get("resultType"), None, "{kind}: {called}");
    }
}

#[test]
fn clients_without_sessions_may_use_the_same_ids() {
    let served = Served::new(&[]);
    let calls: Vec<_> = (0..4)
        .map(|number| {
            let client = modern(&served);
            thread::spawn(move || {
                let params = json!({
                    "arguments": {"steps": 3, "pause": 0.1}, "_meta": {"progressToken": "same"},
                });
                let mut answer = modern_call(&client, 1, "progress", &params);
                let events: Vec<Value> = std::iter::from_fn(|| answer.event()).collect();
                (number, events)
            })
        })
        .collect();
    for call in calls {
        let (number, events) = call.join().unwrap();
        let steps: Vec<&Value> =
            events.iter().filter_map(|event| event["params"].get("progress")).collect();
        assert_eq!(steps, [0, 1, 2], "{number}");
        assert!(events[..3].iter().all(|event| event["params"]["progressToken"] == "same"));
        assert_eq!(events[3]["id"], 1);
    }
}

#[test]
fn without_sessions_closing_a_stream_cancels() {
    let served = Served::new(&[]);
    let client = modern(&served);
    let body = modern_request(1, "tools/call", &json!({"name": "silent"})).to_string();
    let headers = [("mcp-method", "tools/call"), ("mcp-name", "silent")];
    let mut stream = client.connect();
    let head = client.head("POST", "/mcp", &headers, Some(body.len()));
    stream.write_all((head + &body).as_bytes()).unwrap();
    let seen = || {
        let result = modern_call(&client, 2, "seen", &json!({})).json()["result"].clone();
        text(&result, 0).to_owned()
    };
    eventually("the call has come", || seen().matches("tools/call").count() > 1);
    assert!(!seen().contains("requestId"));
    drop(stream);
    eventually("it is cancelled", || seen().contains("requestId"));
}

#[test]
fn signals_end_everything() {
    for signal in [Signal::TERM, Signal::INT] {
        let mut served = Served::new(&[]);
        let (mut one, mut two) = (served.session(), served.session());
        let mut pids: Vec<u32> = Vec::new();
        for client in [&mut one, &mut two] {
            let told = client.call("child", &json!({}));
            pids.extend(text(&told, 0).split(' ').map(|pid| pid.parse::<u32>().unwrap()));
        }
        let _listening = one.listen();
        assert_eq!(pids.len(), 4);
        assert_eq!(served.end(signal), 0);
        eventually("the processes are gone", || !pids.iter().any(|pid| is_there(*pid)));
    }
}

#[test]
fn a_session_that_nobody_uses_ends() {
    let store = Arc::new(TestStore::new());
    std::fs::write(store.path().join("ctxfs.toml"), "[mcp]\nsession_idle = \"5s\"\n").unwrap();
    let served = Served::start(&store, "127.0.0.1:0", &[], &server(), &[]);
    let mut listening = served.session();
    let _stream = listening.listen();
    let mut idle = served.session();
    let told = idle.call("child", &json!({}));
    let pids: Vec<u32> = text(&told, 0).split(' ').map(|pid| pid.parse().unwrap()).collect();
    eventually("its server is gone", || !pids.iter().any(|pid| is_there(*pid)));
    assert_eq!(idle.post(&request(9, "tools/list")).status, 404);
    // Who listens uses it.
    listening.call("seen", &json!({}));
}

#[test]
fn a_result_of_any_length_passes_in_bounded_memory() {
    let served =
        Served::start(&Arc::new(TestStore::new()), "127.0.0.1:0", &[], &server(), &UNLIMITED);
    let mut client = served.session();
    let before = served.peak();
    let size = 200_u64 << 20;
    let params = json!({"name": "stream", "arguments": {"size": size}});
    let mut answer = client.ask("tools/call", &params);
    assert_eq!(answer.status, 200);
    let (mut block, mut length) = (vec![0; 1 << 16], 0);
    loop {
        let count = answer.some(&mut block);
        if count == 0 {
            break;
        }
        length += count as u64;
    }
    assert!(length > size, "{length}");
    println!("peak {} KiB, before {before} KiB", served.peak());
    assert!(served.peak() < MOST_MEMORY, "{} KiB", served.peak());
    let cache = served.store.path().join("cache");
    assert_eq!(std::fs::read_dir(cache).unwrap().count(), 0);
}
