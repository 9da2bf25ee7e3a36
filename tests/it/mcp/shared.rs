//! Servers that the sessions of a gateway share.

use super::http_client::*;
use super::*;
use crate::support::eventually;

/// Starts a gateway whose sessions share the server `one`, and have each a `two` of their own.
fn served() -> Served {
    let store = Arc::new(TestStore::new());
    let file = store.scratch("servers").join("mcp.json");
    let more = "text,sleep,die,seen,change,ask,silent,child,notify,progress,raw";
    let [program, script] = server();
    let entry = |shared: bool| {
        let env = json!({"SERVER_MORE": more});
        json!({"command": program, "args": [script], "env": env, "shared": shared})
    };
    let servers = json!({"mcpServers": {"one": entry(true), "two": entry(false)}});
    std::fs::write(&file, servers.to_string()).unwrap();
    let options = ["--servers", file.to_str().unwrap()];
    Served::start(&store, "127.0.0.1:0", &options, &[], &[])
}

fn pids(client: &mut Client, tool: &str) -> Vec<u32> {
    let told = client.call(tool, &json!({}));
    text(&told, 0).split(' ').map(|pid| pid.parse().unwrap()).collect()
}

fn call(id: &Value, tool: &str, arguments: &Value) -> Value {
    let params = json!({"name": tool, "arguments": arguments, "_meta": {"progressToken": "t"}});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
}

fn cancel(id: &Value) -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}})
}

/// Waits until the server has got so many calls of tools without an answer.
fn until_silent(client: &mut Client, calls: usize) {
    let mut asked = 0;
    eventually("the calls have come", || {
        asked += 1;
        let seen = client.call("one__seen", &json!({}));
        text(&seen, 0).matches("tools/call").count() >= calls + asked
    });
}

#[test]
fn one_process_serves_all_sessions_and_ends_with_the_gateway() {
    let mut served = served();
    let (mut a, mut b) = (served.session(), served.session());
    let shared = pids(&mut a, "one__child");
    assert_eq!(pids(&mut b, "one__child")[0], shared[0]);
    let own = pids(&mut a, "two__child");
    assert_ne!(pids(&mut b, "two__child")[0], own[0]);
    assert_eq!(a.send("DELETE", "/mcp", &[], None).status, 204);
    eventually("its own server is gone", || !is_there(own[0]));
    assert_eq!(pids(&mut b, "one__child")[0], shared[0], "the other session goes on");
    let seen = b.call("one__seen", &json!({}));
    assert_eq!(text(&seen, 0).matches("\"initialize\"").count(), 1, "{seen}");
    assert_eq!(text(&seen, 0).matches("notifications/initialized").count(), 1, "{seen}");
    assert_eq!(served.end(Signal::TERM), 0);
    eventually("it is gone", || !shared.iter().any(|pid| is_there(*pid)));
}

#[test]
fn ids_and_progress_of_sessions_are_apart() {
    let served = served();
    let work = |client: Client, steps: u64| {
        thread::spawn(move || {
            let arguments = json!({"steps": steps, "pause": 0.05});
            let mut answer = client.post(&call(&json!("same"), "one__progress", &arguments));
            let mut seen = 0;
            loop {
                let event = answer.event().expect("an answer");
                if event.get("method").is_none() {
                    assert_eq!((&event["id"], text(&event["result"], 0)), (&json!("same"), "done"));
                    return seen;
                }
                assert_eq!(event["params"]["progressToken"], "t");
                assert_eq!(event["params"]["total"], steps);
                seen += 1;
            }
        })
    };
    let (a, b) = (work(served.session(), 7), work(served.session(), 4));
    assert_eq!((a.join().unwrap(), b.join().unwrap()), (7, 4));
}

#[test]
fn a_session_cancels_its_own_call_alone() {
    let served = served();
    let (a, b, mut looking) = (served.session(), served.session(), served.session());
    let id = json!(9);
    let wait = |client: &Client| {
        let (client, id) = (client.clone(), id.clone());
        thread::spawn(move || client.post(&call(&id, "one__silent", &json!({}))).event())
    };
    let (of_a, of_b) = (wait(&a), wait(&b));
    until_silent(&mut looking, 2);
    assert_eq!(a.post(&cancel(&id)).status, 202);
    assert_eq!(of_a.join().unwrap(), None);
    let cancelled = |client: &mut Client| {
        let seen = client.call("one__seen", &json!({}));
        text(&seen, 0).matches("notifications/cancelled").count()
    };
    eventually("the server is told", || cancelled(&mut looking) == 1);
    assert!(!of_b.is_finished());
    // The end of a session cancels what it asked.
    assert_eq!(b.send("DELETE", "/mcp", &[], None).status, 204);
    eventually("the server is told", || cancelled(&mut looking) == 2);
    of_b.join().unwrap();
}

#[test]
fn a_batch_of_a_shared_server_is_taken_apart() {
    let served = served();
    let mut client = served.session();
    let line =
        r#" [{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"text","text":"ok"}]}}]"#;
    let told = client.call("one__raw", &json!({"line": line}));
    assert_eq!(text(&told, 0), "ok");
}

#[test]
fn changes_of_lists_are_told_to_all_sessions() {
    let served = served();
    let (mut a, b) = (served.session(), served.session());
    let mut listening = [a.listen(), b.listen()];
    a.call("one__change", &json!({}));
    for stream in &mut listening {
        assert_eq!(stream.event().unwrap()["method"], "notifications/tools/list_changed");
    }
    for mut client in [a, b] {
        let listed = client.ask("tools/list", &json!({})).json();
        assert_eq!(listed["result"]["tools"][0]["name"], "one__new");
    }
}

#[test]
fn a_question_goes_to_the_session_whose_call_runs() {
    let served = served();
    let (mut a, b, mut looking) = (served.session(), served.session(), served.session());
    let ask = json!({"method": "elicitation/create", "params": {"message": "?"}});
    let params = json!({"name": "one__ask", "arguments": ask});
    let mut answer = a.ask("tools/call", &params);
    let question = answer.event().unwrap();
    assert_eq!(question["method"], "elicitation/create");
    let reply = json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept"}});
    assert_eq!(a.post(&reply).status, 202);
    assert!(text(&answer.result(), 0).contains("accept"));
    // While calls of two run, nobody can tell.
    let body = call(&json!(1), "one__silent", &json!({})).to_string();
    let mut waiting = b.connect();
    let request = b.head("POST", "/mcp", &[], Some(body.len())) + &body;
    waiting.write_all(request.as_bytes()).unwrap();
    until_silent(&mut looking, 1);
    let told = a.call("one__ask", &ask);
    assert!(text(&told, 0).contains("several sessions share the server"), "{told}");
    assert_eq!(b.send("DELETE", "/mcp", &[], None).status, 204);
    drop(waiting);
}

#[test]
fn results_are_stored_in_the_conversation_of_their_session() {
    let served = served();
    let mut stored = [served.session(), served.session()].map(|mut client| {
        let result = client.call("one__text", &json!({"line": "row\n", "counts": [3000]}));
        let uri = result["content"][1]["uri"].as_str().unwrap().to_owned();
        let read = client.call("context_read", &json!({"ref": uri}));
        assert!(text(&read, 0).starts_with("row\n"), "{read}");
        uri.split('/').nth(2).unwrap().to_owned()
    });
    stored.sort();
    assert_ne!(stored[0], stored[1]);
}

#[test]
fn a_session_that_does_not_read_holds_up_no_other() {
    let served = served();
    let (a, mut b) = (served.session(), served.session());
    // Some 60 MB of messages that go to the stream of a call, which is not read.
    let flood = json!({"count": 30_000, "size": 2000});
    let body = call(&json!(1), "one__notify", &flood).to_string();
    let mut unread = a.connect();
    unread.write_all(a.head("POST", "/mcp", &[], Some(body.len())).as_bytes()).unwrap();
    unread.write_all(body.as_bytes()).unwrap();
    let began = std::time::Instant::now();
    for _ in 0..5 {
        let told = b.call("one__echo", &json!({}));
        assert_eq!(text(&told, 0), r#"{"arguments": {}, "name": "echo"}"#);
    }
    println!("answered in {:?}, peak {} KiB", began.elapsed(), served.peak());
    assert!(served.peak() < 128 << 10, "{} KiB", served.peak());
}

#[test]
fn a_server_that_dies_ends_the_calls_of_all_and_is_started_again() {
    let served = served();
    let (mut a, b, mut looking) = (served.session(), served.session(), served.session());
    let waiting = b.clone();
    let waiting =
        thread::spawn(move || waiting.post(&call(&json!(1), "one__silent", &json!({}))).result());
    until_silent(&mut looking, 1);
    let told = a.call("one__die", &json!({}));
    assert!(text(&told, 0).contains("the server `one` ended"), "{told}");
    let told = waiting.join().unwrap();
    assert!(text(&told, 0).contains("the server `one` ended"), "{told}");
    for mut client in [a, b, looking] {
        let told = client.call("one__echo", &json!({}));
        assert_eq!(text(&told, 0), r#"{"arguments": {}, "name": "echo"}"#);
    }
}

#[test]
fn a_flood_of_requests_of_a_session_holds_up_no_other() {
    let served = served();
    let (a, mut b) = (served.session(), served.session());
    let batch: Vec<Value> = (0..400).map(|n| call(&json!(n), "one__silent", &json!({}))).collect();
    let _flood = a.post(&Value::Array(batch));
    until_silent(&mut b, 400);
    let told = b.call("one__echo", &json!({}));
    assert_eq!(text(&told, 0), r#"{"arguments": {}, "name": "echo"}"#);
}

#[test]
fn thousands_of_requests_of_a_session_are_slowed_and_not_refused() {
    const BATCHES: u64 = 17;
    let served = served();
    let (a, mut b) = (served.session(), served.session());
    // The server reads nothing meanwhile.
    let slow = call(&json!("slow"), "one__sleep", &json!({"seconds": 4}));
    let batches = (0..BATCHES).map(|batch| {
        let echo = |id| call(&json!(id), "one__echo", &json!({}));
        let calls = (batch * 1000..(batch + 1) * 1000).map(echo);
        Value::Array([slow.clone()].into_iter().filter(|_| batch == 0).chain(calls).collect())
    });
    let answered = |batch: Value| {
        let client = a.clone();
        thread::spawn(move || {
            let mut answers = client.post(&batch);
            for _ in batch.as_array().unwrap() {
                let answer = answers.event().unwrap();
                assert!(answer["result"].get("isError").is_none(), "{answer:.500}");
                assert!(answer["result"]["content"].is_array(), "{answer:.500}");
            }
        })
    };
    let threads: Vec<_> = batches.map(answered).collect();
    for thread in threads {
        thread.join().unwrap();
    }
    let told = b.call("one__echo", &json!({}));
    assert_eq!(text(&told, 0), r#"{"arguments": {}, "name": "echo"}"#);
}

#[test]
fn a_call_takes_the_turn_of_one_that_was_cancelled() {
    const SILENT: usize = 600;
    let served = served();
    let (mut a, mut b) = (served.session(), served.session());
    let silent = |id| call(&json!(id), "one__silent", &json!({}));
    let _silent = a.post(&Value::Array((0..SILENT).map(silent).collect()));
    until_silent(&mut b, 512);
    let cancels: Vec<Value> = (0..SILENT).map(|id| cancel(&json!(id))).collect();
    a.post(&Value::Array(cancels));
    let told = a.call("one__echo", &json!({}));
    assert_eq!(text(&told, 0), r#"{"arguments": {}, "name": "echo"}"#);
}

#[test]
fn a_server_over_http_is_shared_too() {
    let store = Arc::new(TestStore::new());
    let more = [("SERVER_MORE", "child")];
    let inner = Served::start(&store, "127.0.0.1:0", &[], &server(), &more);
    let file = store.scratch("servers").join("mcp.json");
    let servers = json!({"mcpServers": {"one": {"url": inner.url(), "shared": true}}});
    std::fs::write(&file, servers.to_string()).unwrap();
    let options = ["--servers", file.to_str().unwrap()];
    let served = Served::start(&store, "127.0.0.1:0", &options, &[], &[]);
    let (mut a, mut b) = (served.session(), served.session());
    let process = pids(&mut a, "one__child")[0];
    assert_eq!(pids(&mut b, "one__child")[0], process, "it has one session");
    assert_eq!(a.send("DELETE", "/mcp", &[], None).status, 204);
    let told = b.call("one__echo", &json!({"n": 1}));
    assert_eq!(text(&told, 0), r#"{"arguments": {"n": 1}, "name": "echo"}"#);
    assert!(is_there(process));
}

#[test]
fn a_session_that_ends_leaves_no_question_open() {
    let served = served();
    let (mut a, mut b) = (served.session(), served.session());
    let ask = json!({"method": "elicitation/create", "params": {"message": "?"}});
    let mut answer = a.ask("tools/call", &json!({"name": "one__ask", "arguments": ask}));
    assert_eq!(answer.event().unwrap()["method"], "elicitation/create");
    assert_eq!(a.send("DELETE", "/mcp", &[], None).status, 204);
    // The server waits for the answer before it reads on.
    let told = b.call("one__echo", &json!({}));
    assert_eq!(text(&told, 0), r#"{"arguments": {}, "name": "echo"}"#);
}

#[test]
fn a_subscription_ends_with_the_last_session_that_has_it() {
    let store = Arc::new(TestStore::new());
    let file = store.scratch("servers").join("mcp.json");
    let [program, script] = server();
    let lists = json!({"resources/list": {"resources": [{"uri": "mem://a", "name": "a"}]}});
    let env = json!({
        "SERVER_LISTS": lists.to_string(),
        "SERVER_CAPABILITIES": json!({"resources": {"subscribe": true}}).to_string(),
    });
    let one = json!({"command": program, "args": [script], "env": env, "shared": true});
    std::fs::write(&file, json!({"mcpServers": {"one": one}}).to_string()).unwrap();
    let options = ["--servers", file.to_str().unwrap()];
    let served = Served::start(&store, "127.0.0.1:0", &options, &[], &[]);
    let (mut a, mut b) = (served.session(), served.session());
    let resource = json!({"uri": "mem://a"});
    let method = |client: &mut Client, what: &str| {
        client.ask(&format!("resources/{what}"), &resource).json()["result"]["method"].clone()
    };
    for client in [&mut a, &mut b] {
        assert_eq!(method(client, "subscribe"), "resources/subscribe");
    }
    assert_eq!(method(&mut a, "unsubscribe"), Value::Null, "the other one goes on");
    assert_eq!(method(&mut b, "unsubscribe"), "resources/unsubscribe");
}
