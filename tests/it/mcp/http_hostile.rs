//! Clients over HTTP that do their worst.

use std::io::Read as _;
use std::time::Instant;

use super::http_client::*;
use super::*;
use crate::support::{CROWD, crowd, eventually, is_open};

#[test]
fn a_body_over_the_limit_is_refused() {
    let store = Arc::new(TestStore::new());
    std::fs::write(store.path().join("ctxfs.toml"), "[mcp]\nmax_body = \"2 MiB\"\n").unwrap();
    let served = Served::start(&store, "127.0.0.1:0", &[], &server(), &[]);
    let mut client = served.session();
    // Long ones pass.
    let long = "z".repeat(1_900_000);
    let result = client.call("result", &json!({"result": {"content": [], "n": 1}, "x": long}));
    assert_eq!(result["n"], 1);
    let answer =
        client.post_text(&format!("{{\"jsonrpc\":\"2.0\",\"x\":\"{}", "z".repeat(3 << 20)));
    assert_eq!(answer.status, 413);
    // The length is not told.
    let mut stream = client.connect();
    let head = client.head("POST", "/mcp", &[("transfer-encoding", "chunked")], None);
    stream.write_all(head.as_bytes()).unwrap();
    let chunk = format!("{:x}\r\n{}\r\n", 1 << 20, " ".repeat(1 << 20));
    for _ in 0..4 {
        if stream.write_all(chunk.as_bytes()).is_err() {
            break;
        }
    }
    assert_eq!(Answer::read(stream).status, 413);
    // Nor can a session be begun with one.
    let mut begin = initialize();
    begin["params"]["x"] = json!("z".repeat(1_500_000));
    assert_eq!(served.client().post(&begin).status, 413);
    assert!(served.peak() < 64 << 10, "{} KiB", served.peak());
}

#[test]
fn a_head_of_any_length_is_refused() {
    let served = Served::new(&[]);
    let client = served.session();
    let huge = "z".repeat(100_000);
    let answer = client.send("POST", "/mcp", &[("x-huge", &huge)], Some("{}"));
    assert_eq!(answer.status, 431);
    let names: Vec<String> = (0..200).map(|number| format!("x-{number}")).collect();
    let many: Vec<(&str, &str)> = names.iter().map(|name| (&**name, "z")).collect();
    assert_eq!(client.send("POST", "/mcp", &many, Some("{}")).status, 431);
    for garbage in ["\0\0\0\r\n\r\n", "GET\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"] {
        let mut stream = client.connect();
        stream.write_all(garbage.as_bytes()).unwrap();
        assert!([0, 400].contains(&Answer::read(stream).status));
    }
    assert_eq!(client.post(&json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})).status, 200);
}

#[test]
fn slow_clients_do_not_hold_up_others() {
    let served = Served::new(&[]);
    let mut client = served.session();
    let slow: Vec<TcpStream> = (0..100)
        .map(|number| {
            let mut stream = client.connect();
            let head = client.head("POST", "/mcp", &[], Some(1000));
            let sent = if number % 2 == 0 { &head[..20] } else { &head };
            stream.write_all(sent.as_bytes()).unwrap();
            stream
        })
        .collect();
    let started = Instant::now();
    client.call("seen", &json!({}));
    assert!(started.elapsed() < Duration::from_secs(10));
    drop(slow);
}

/// Starts a gateway that demands a token. Returns it with a client that has a session.
fn served_for_a_token() -> (Served, Client) {
    let token = "a-token-of-some-length";
    let store = Arc::new(TestStore::new());
    let file = store.scratch("tokens").join("tokens");
    std::fs::write(&file, token).unwrap();
    let options = ["--token-file", file.to_str().unwrap()];
    let served = Served::start(&store, "127.0.0.1:0", &options, &server(), &[]);
    let mut client = served.client();
    client.set("authorization", &format!("Bearer {token}"));
    client.shake_hands();
    (served, client)
}

#[test]
fn calls_that_have_all_turns_can_be_cancelled() {
    const TURNS: usize = 256;
    let (_served, mut client) = served_for_a_token();
    let open = |id: usize| {
        let params = json!({"name": "silent", "arguments": {}});
        let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
        let body = call.to_string();
        let mut stream = client.connect();
        let head = client.head("POST", "/mcp", &[], Some(body.len()));
        stream.write_all((head + &body).as_bytes()).unwrap();
        stream
    };
    let silent: Vec<TcpStream> = (0..TURNS).map(open).collect();
    // The head of a stream comes once its call has its turn.
    let silent: Vec<Answer> = silent.into_iter().map(Answer::read).collect();
    let mut waiting = open(TURNS);
    waiting.set_read_timeout(Some(Duration::from_secs(7))).unwrap();
    assert!(waiting.read(&mut [0]).is_err(), "there are more turns");
    assert_eq!(client.listen().status, 200);
    let cancel = |id: usize| {
        let params = json!({"requestId": id});
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
    };
    assert_eq!(client.post(&Value::Array((0..TURNS).map(cancel).collect())).status, 202);
    for mut answer in silent {
        assert!(answer.is_stream() && answer.event().is_none());
    }
    assert!(text(&client.call("echo", &json!({})), 0).contains("echo"));
}

#[test]
fn connections_that_show_nothing_give_way() {
    let (served, mut client) = served_for_a_token();
    let head = served.client().head("POST", "/mcp", &[], Some(2)) + "{}";
    for sent in ["", &head[..20], &head] {
        let crowd = crowd(&served.address, sent);
        client.call("seen", &json!({}));
        assert!(is_open(&crowd[CROWD / 2]), "they have not just ended: {sent:?}");
        eventually("the first has given way", || !is_open(&crowd[0]));
    }
}

#[test]
fn a_body_that_stops_is_refused() {
    let served = Served::new(&[]);
    let client = served.session();
    let mut stream = client.connect();
    let head = client.head("POST", "/mcp", &[], Some(1000));
    stream.write_all((head + "{").as_bytes()).unwrap();
    assert_eq!(Answer::read(stream).status, 408);
}

#[test]
fn sessions_are_bounded() {
    let served = Served::start(&Arc::new(TestStore::new()), "127.0.0.1:0", &[], &[], &[]);
    let sessions: Vec<Client> = (0..64).map(|_| served.session()).collect();
    let refused = served.client().post(&initialize());
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("60")));
    // Requests that begin none take no room.
    let mut wrong = initialize();
    wrong["method"] = json!("tools/list");
    assert_eq!(served.client().post(&wrong).status, 400);
    assert_eq!(sessions[5].send("DELETE", "/mcp", &[], None).status, 204);
    served.session();
}

#[test]
fn a_session_whose_server_fails_is_none() {
    let store = Arc::new(TestStore::new());
    // With context tools, the gateway answers in its place.
    let alone = ["--no-context-tools"];
    let served = Served::start(&store, "127.0.0.1:0", &alone, &["/nonexistent/server"], &[]);
    for _ in 0..70 {
        let answer = served.client().post(&initialize());
        assert_eq!((answer.status, answer.header("mcp-session-id")), (200, None));
        assert!(answer.json()["error"]["message"].as_str().unwrap().contains("cannot be started"));
    }
}

#[test]
fn a_client_that_goes_while_a_result_comes_leaves_nothing() {
    let served =
        Served::start(&Arc::new(TestStore::new()), "127.0.0.1:0", &[], &server(), &UNLIMITED);
    let mut client = served.session();
    for _ in 0..3 {
        let params = json!({"name": "stream", "arguments": {"size": 30 << 20}});
        let mut answer = client.ask("tools/call", &params);
        answer.some(&mut [0; 1000]);
    }
    let cache = served.store.path().join("cache");
    eventually("the files are gone", || std::fs::read_dir(&cache).unwrap().count() == 0);
    client.call("seen", &json!({}));
}

#[test]
fn a_client_that_does_not_read_is_slowed_and_loses_nothing() {
    let served = Served::new(&[]);
    let mut client = served.session();
    let arguments = json!({"count": 20_000, "size": 2000});
    let mut answer = client.ask("tools/call", &json!({"name": "notify", "arguments": arguments}));
    // Others are served meanwhile.
    thread::sleep(Duration::from_secs(2));
    served.session().call("seen", &json!({}));
    assert!(served.peak() < 64 << 10, "{} KiB", served.peak());
    let mut expected = 0;
    while let Some(event) = answer.event() {
        if event.get("method").is_some() {
            assert_eq!(event["params"]["n"], expected);
            expected += 1;
        }
    }
    assert_eq!(expected, 20_000);
}

#[test]
fn many_requests_at_once_are_all_answered() {
    let served = Served::new(&[]);
    let client = served.session();
    let calls: Vec<_> = (0..50)
        .map(|number| {
            let client = client.clone();
            thread::spawn(move || {
                for step in 0..20 {
                    let id = number * 100 + step;
                    let params = json!({"name": "echo", "arguments": {"n": id}});
                    let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
                    let answer = client.post(&call).json();
                    assert_eq!(answer["id"], id);
                    assert!(text(&answer["result"], 0).contains(&format!("\"n\": {id}")));
                }
            })
        })
        .collect();
    for call in calls {
        call.join().unwrap();
    }
}
