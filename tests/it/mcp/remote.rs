//! Servers over HTTP: behind another gateway, and scripted ones that break.

use std::io::Read as _;
use std::net::TcpListener;

use super::http_client::Served;
use super::*;
use crate::support::eventually;

/// The most memory of a gateway, in KiB. A build for tests needs more than a release.
const MOST_MEMORY: u64 = 64 << 10;

/// Returns a gateway before one over HTTP, before the scripted server.
fn chain() -> (Served, Gateway) {
    let served = Served::start(
        &Arc::new(TestStore::new()),
        "127.0.0.1:0",
        &["--no-context-tools"],
        &server(),
        &UNLIMITED,
    );
    let mut gateway = before(&served.url(), &[]);
    gateway.shake_hands("2025-11-25");
    (served, gateway)
}

fn before(url: &str, options: &[&str]) -> Gateway {
    Gateway::start(&Arc::new(TestStore::new()), options, &[url], &[])
}

#[test]
fn everything_passes_a_chain_of_gateways() {
    let (_served, mut gateway) = chain();
    let told = gateway.call("echo", &json!({"n": [1, "x\ny\u{e9}"]}));
    assert!(text(&told, 0).contains(r#""n": [1, "x\ny"#), "{told}");
    let params = json!({
        "name": "progress", "arguments": {"steps": 5}, "_meta": {"progressToken": "t-9"},
    });
    assert_eq!(text(&gateway.request("tools/call", &params)["result"], 0), "done");
    let steps: Vec<&Value> = gateway.other.iter().map(|one| &one["params"]["progress"]).collect();
    assert_eq!(steps, [0, 1, 2, 3, 4]);
    gateway.other.clear();

    let arguments = json!({"method": "elicitation/create", "params": {"deep": {"n": 1}}});
    let id = gateway.ask("tools/call", &json!({"name": "ask", "arguments": arguments}));
    let question = gateway.message();
    assert_eq!(question["params"], json!({"deep": {"n": 1}}));
    gateway.send(&format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"a":1}}}}"#, question["id"]));
    assert!(text(&gateway.answer(id)["result"], 0).contains("\"a\": 1"));

    let failed = gateway.request("tools/call", &json!({"name": "nothing"}));
    assert_eq!(failed["error"]["code"], -32602);
    let env = gateway.call("env", &json!({"names": ["HOME"]}));
    assert!(text(&env, 0).starts_with("{\"HOME\""));
}

#[test]
fn changes_come_on_the_stream_of_the_session() {
    let (_served, mut gateway) = chain();
    let line = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
    let answer = r#"{"jsonrpc":"2.0","id":$ID,"result":{"content":[]}}"#;
    gateway.call("raw", &json!({"line": format!("{line}\n{answer}")}));
    if gateway.other.is_empty() {
        let message = gateway.message();
        gateway.other.push(message);
    }
    assert_eq!(gateway.other[0]["method"], "notifications/tools/list_changed");
}

#[test]
fn cancelling_and_ending_reach_the_end_of_a_chain() {
    let (_served, mut gateway) = chain();
    let told = gateway.call("child", &json!({}));
    let pids: Vec<u32> = text(&told, 0).split(' ').map(|pid| pid.parse().unwrap()).collect();
    gateway
        .send(r#"{"jsonrpc":"2.0","id":"long","method":"tools/call","params":{"name":"silent"}}"#);
    thread::sleep(Duration::from_millis(500));
    gateway.send(
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"long"}}"#,
    );
    eventually("it is cancelled", || {
        text(&gateway.call("seen", &json!({})), 0).contains("requestId")
    });
    assert_eq!(gateway.end(), 0);
    // The session was ended, and its server with it.
    eventually("the processes are gone", || !pids.iter().any(|pid| is_there(*pid)));
}

#[test]
fn a_long_result_of_a_remote_server_is_stored_in_bounded_memory() {
    let (served, mut gateway) = chain();
    let before = gateway.peak();
    let size = 200_u64 << 20;
    let result = gateway.call_as("big", "stream", &json!({"size": size}));
    assert!(text(&result, 0).starts_with("[ctxfs] The complete output"), "{result:.300}");
    let bytes = stored(&gateway.store, "big.txt");
    let line = "2026-01-13 12:00:00 INFO request took 97 ms: caf\u{e9} \"quoted\"\n";
    assert_eq!(memchr::memchr_iter(b'\n', &bytes).count() * line.len(), bytes.len());
    assert!(bytes.len() as u64 > size * 8 / 10);
    println!("peak {} KiB, before {before} KiB; server {} KiB", gateway.peak(), served.peak());
    assert!(gateway.peak() < MOST_MEMORY, "{} KiB", gateway.peak());
    assert!(served.peak() < MOST_MEMORY, "{} KiB", served.peak());
    let meta = gateway.store.view("c7/artifacts/tool/big.txt.meta.json");
    let meta: Value = serde_json::from_slice(&meta).unwrap();
    assert_eq!(meta["server"], "127.0.0.1");
}

#[test]
fn the_revision_without_sessions_passes_a_chain() {
    let served = Served::new(&["--no-context-tools"]);
    let mut gateway = before(&served.url(), &[]);
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let told = gateway.request("server/discover", &json!({"_meta": meta}));
    assert_eq!(told["result"]["supportedVersions"], json!(["2026-07-28"]), "{told}");
    let params = json!({"name": "caf\u{e9}", "_meta": meta});
    assert_eq!(gateway.request("tools/call", &params)["error"]["code"], -32602);
    let long = gateway.ask("tools/call", &json!({"name": "silent", "_meta": meta}));
    thread::sleep(Duration::from_millis(500));
    gateway.send(&format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{long}}}}}"#
    ));
    eventually("closing the stream has cancelled", || {
        let params = json!({"name": "seen", "_meta": meta});
        text(&gateway.request("tools/call", &params)["result"], 0).contains("requestId")
    });
}

#[test]
fn servers_of_a_file_may_be_remote() {
    let store = Arc::new(TestStore::new());
    let tokens = store.path().with_file_name("tokens");
    std::fs::write(&tokens, "a-token-of-the-file\n").unwrap();
    let options = ["--no-context-tools", "--token-file", tokens.to_str().unwrap()];
    let served = Served::start(&store, "127.0.0.1:0", &options, &server(), &[]);
    let file = store.path().with_file_name("mcp.json");
    let headers = json!({"Authorization": "Bearer ${REMOTE_TOKEN}"});
    let [program, script] = server();
    let servers = json!({"mcpServers": {
        "far": {"type": "http", "url": served.url(), "headers": headers},
        "near": {"command": program, "args": [script]},
    }});
    std::fs::write(&file, servers.to_string()).unwrap();
    let options = ["--servers", file.to_str().unwrap()];
    let token = [("REMOTE_TOKEN", "a-token-of-the-file")];
    let mut gateway = Gateway::start(&store, &options, &[], &token);
    gateway.shake_hands("2025-11-25");
    for name in ["far__echo", "near__echo"] {
        let told = gateway.call(name, &json!({"n": 7}));
        assert!(text(&told, 0).contains("\"n\": 7"), "{name}: {told}");
    }
    // They are there for clients over HTTP too, with the light index.
    let options = ["--servers", file.to_str().unwrap(), "--tools", "index"];
    let front = Served::start(&store, "127.0.0.1:0", &options, &[], &token);
    let mut client = front.session();
    let told = client.call("get_tool_details", &json!({"names": ["*__echo"]}));
    let told = told.to_string();
    assert!(told.contains("far__echo") && told.contains("near__echo"), "{told:.2000}");
}

/// A request that a scripted server got.
#[derive(Debug, Clone)]
struct Got {
    method: String,
    head: String,
    body: Value,
}

impl Got {
    fn read(stream: &TcpStream) -> Option<Self> {
        let mut reader = BufReader::new(stream);
        let (mut head, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok().filter(|count| *count > 0)?;
            if line.trim().is_empty() {
                break;
            }
            if let Some((name, value)) = line.split_once(": ")
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().unwrap();
            }
            head += &line;
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let method = head.split(' ').next().unwrap().to_owned();
        Some(Self { method, head, body: serde_json::from_slice(&body).unwrap_or_default() })
    }

    fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines
            .into_iter()
            .find(|(other, _)| other.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    }

    fn is(&self, method: &str) -> bool {
        self.body["method"] == method
    }

    fn id(&self) -> &Value {
        &self.body["id"]
    }
}

/// A scripted server over HTTP, one thread a connection.
struct Fake {
    url: String,
    got: Arc<Mutex<Vec<Got>>>,
}

impl Fake {
    /// `answer` writes the answer to a request, unless it returns false: then the usual one is sent.
    fn new(answer: impl Fn(&Got, &mut TcpStream) -> bool + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let got = Arc::new(Mutex::new(Vec::new()));
        let (kept, answer) = (Arc::clone(&got), Arc::new(answer));
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (kept, answer) = (Arc::clone(&kept), Arc::clone(&answer));
                thread::spawn(move || {
                    let mut stream = stream;
                    let Some(got) = Got::read(&stream) else { return };
                    kept.lock().push(got.clone());
                    if !answer(&got, &mut stream) {
                        usual(&got, &mut stream);
                    }
                });
            }
        });
        Self { url, got }
    }

    fn count(&self, is_it: impl Fn(&Got) -> bool) -> usize {
        self.got.lock().iter().filter(|got| is_it(got)).count()
    }
}

fn usual(got: &Got, stream: &mut TcpStream) {
    match &*got.method {
        "GET" => reply(stream, "405 Method Not Allowed", "", ""),
        "DELETE" => reply(stream, "200 OK", "", ""),
        _ if got.is("initialize") => {
            let result = json!({
                "protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                "serverInfo": {"name": "fake", "version": "1"},
            });
            let answer = json!({"jsonrpc": "2.0", "id": got.id(), "result": result});
            let headers = "content-type: application/json\r\nmcp-session-id: s-1\r\n";
            // Not all servers write a line.
            reply(stream, "200 OK", headers, &format!("{answer:#}\n"));
        }
        _ if got.id().is_null() => reply(stream, "202 Accepted", "", ""),
        _ => {
            let answer = done(got);
            reply(stream, "200 OK", "content-type: application/json\r\n", &answer.to_string());
        }
    }
}

fn done(got: &Got) -> Value {
    let content = json!([{"type": "text", "text": "done"}]);
    json!({"jsonrpc": "2.0", "id": got.id(), "result": {"content": content}})
}

fn reply(stream: &mut TcpStream, status: &str, headers: &str, body: &str) {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\nconnection: close\r\n\r\n"
    );
    stream.write_all((head + body).as_bytes()).ok();
}

/// Begins a stream of events, which lasts until the connection ends.
fn events(stream: &mut TcpStream, text: &str) {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
    stream.write_all((head.to_owned() + text).as_bytes()).ok();
}

/// As [`events`], of which the end would be seen, and does not come.
fn broken_events(stream: &mut TcpStream, text: &str) {
    let head =
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    let chunk = format!("{:x}\r\n{text}\r\n", text.len());
    stream.write_all((head.to_owned() + &chunk).as_bytes()).ok();
}

fn is_call(got: &Got) -> bool {
    got.is("tools/call")
}

fn ready(fake: &Fake, options: &[&str]) -> Gateway {
    let mut gateway = before(&fake.url, options);
    gateway.shake_hands("2025-11-25");
    gateway
}

#[test]
fn requests_have_the_headers_of_their_session() {
    let fake = Fake::new(|_, _| false);
    let mut gateway = ready(&fake, &[]);
    assert_eq!(text(&gateway.call("x", &json!({})), 0), "done");
    eventually("the stream was asked for", || fake.count(|got| got.method == "GET") == 1);
    assert_eq!(gateway.end(), 0);
    let got = fake.got.lock().clone();
    let first = &got[0];
    assert!(first.is("initialize") && first.header("mcp-session-id").is_none());
    assert_eq!(first.header("accept"), Some("application/json, text/event-stream"));
    for other in &got[1..] {
        assert_eq!(other.header("mcp-session-id"), Some("s-1"), "{other:?}");
        assert_eq!(other.header("mcp-protocol-version"), Some("2025-06-18"), "{other:?}");
    }
    assert_eq!(got.last().unwrap().method, "DELETE");
}

#[test]
fn a_broken_stream_is_resumed_after_its_last_event() {
    let fake = Fake::new(|got, stream| {
        if is_call(got) {
            let progress = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"n":1}}"#;
            let part = &done(got).to_string()[..20];
            let text =
                format!("retry: 10\nid: {}\ndata: {progress}\n\nid: never\ndata: {part}", got.id());
            broken_events(stream, &text);
        } else if got.method == "GET" && got.header("last-event-id").is_some() {
            let id = got.header("last-event-id").unwrap();
            assert_ne!(id, "never");
            let answer = json!({"jsonrpc": "2.0", "id": id.parse::<u64>().unwrap(), "result": {"resumed": true}});
            events(stream, &format!("data: {answer}\n\n"));
        } else {
            return false;
        }
        true
    });
    let mut gateway = ready(&fake, &[]);
    assert_eq!(gateway.call("x", &json!({})), json!({"resumed": true}));
    assert_eq!(gateway.other[0]["params"]["n"], 1);
}

#[test]
fn a_stream_that_cannot_be_resumed_fails_its_call_alone() {
    let fake = Fake::new(|got, stream| {
        match got.body["params"]["name"].as_str() {
            Some("broken") => broken_events(stream, "data: {\"jsonrpc\":\"2.0\",\"i"),
            Some("nothing") => events(stream, ": nothing\n\n"),
            Some("lost") => {
                broken_events(stream, "retry: 1\nid: 7\ndata:\n\n");
            }
            Some("json") => {
                let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 900\r\n\r\n{\"json";
                stream.write_all(head.as_bytes()).unwrap();
            }
            Some("gone") => {}
            Some("empty") => reply(stream, "200 OK", "", ""),
            Some("refused") => reply(stream, "401 Unauthorized", "", "no such token"),
            Some("busy") => reply(
                stream,
                "503 Service Unavailable",
                "content-type: application/json\r\n",
                r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"try later"}}"#,
            ),
            Some("moved") => {
                reply(
                    stream,
                    "307 Temporary Redirect",
                    "location: http://evil.example/mcp\r\n",
                    "",
                );
            }
            _ => return false,
        }
        true
    });
    let mut gateway = ready(&fake, &[]);
    for (tool, expected) in [
        ("broken", "broke the connection"),
        ("nothing", "ended the answer before its result"),
        ("lost", "405"),
        ("json", "broke the connection"),
        ("gone", "did not answer"),
        ("empty", "with no message"),
        ("refused", "answered 401 Unauthorized: no such token"),
        ("busy", "503 Service Unavailable: try later"),
        ("moved", "redirects to `http://evil.example/mcp`"),
    ] {
        let result = gateway.call(tool, &json!({}));
        assert_eq!(result["isError"], true, "{tool}: {result}");
        let why = text(&result, 0);
        assert!(why.contains("127.0.0.1") && why.contains(expected), "{tool}: {why}");
    }
    assert_eq!(text(&gateway.call("fine", &json!({})), 0), "done");
}

#[test]
fn a_lost_session_is_begun_again() {
    let lost = Arc::new(Mutex::new(false));
    let flag = Arc::clone(&lost);
    let fake = Fake::new(move |got, stream| {
        let mut lost = flag.lock();
        if got.is("initialize") {
            *lost = false;
        }
        if *lost && got.method == "POST" {
            reply(stream, "404 Not Found", "", "");
            return true;
        }
        false
    });
    let mut gateway = ready(&fake, &[]);
    gateway.request("logging/setLevel", &json!({"level": "debug"}));
    for _ in 0..2 {
        *lost.lock() = true;
        assert_eq!(text(&gateway.call("x", &json!({})), 0), "done");
    }
    assert_eq!(fake.count(|got| got.is("initialize")), 3);
    assert_eq!(fake.count(|got| got.is("notifications/initialized")), 3);
    assert_eq!(fake.count(|got| got.is("logging/setLevel")), 3);
    // One that stays lost is an error, and the next call tries again.
    let fake = Fake::new(|got, stream| {
        let calls = got.is("tools/call") || got.is("initialize") && got.id() != 1;
        if calls {
            reply(stream, "404 Not Found", "", "");
        }
        calls
    });
    let mut gateway = ready(&fake, &[]);
    for _ in 0..2 {
        let result = gateway.call("x", &json!({}));
        assert_eq!(result["isError"], true, "{result}");
    }
    assert_eq!(fake.count(|got| got.is("initialize")), 3);
}

#[test]
fn a_server_that_moves_on_its_host_is_followed() {
    let fake = Fake::new(|got, stream| {
        let is_old = got.head.starts_with("POST /mcp ");
        if is_old {
            reply(stream, "307 Temporary Redirect", "location: /mcp/\r\n", "");
        }
        is_old
    });
    let mut gateway = ready(&fake, &[]);
    assert_eq!(text(&gateway.call("x", &json!({})), 0), "done");
    assert_eq!(fake.count(|got| got.head.starts_with("POST /mcp ")), 1);
}

#[test]
fn a_server_that_is_not_there_is_an_error_until_it_is() {
    // With context tools, the gateway answers in its place.
    let alone = ["--no-context-tools"];
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let mut gateway = before(&format!("http://{address}/mcp"), &alone);
    let told = gateway.request("initialize", &json!({"protocolVersion": "2025-11-25"}));
    let why = told["error"]["message"].as_str().unwrap();
    assert!(why.contains("cannot be reached"), "{why}");
    let mut gateway = before("https://127.0.0.1:9/mcp", &alone);
    let told = gateway.request("initialize", &json!({"protocolVersion": "2025-11-25"}));
    assert!(told["error"]["message"].as_str().unwrap().contains("cannot be"), "{told}");
    let mut gateway = before("http://", &alone);
    let told = gateway.request("initialize", &json!({"protocolVersion": "2025-11-25"}));
    assert!(told["error"]["message"].as_str().unwrap().contains("URL"), "{told}");
}

#[test]
fn an_endless_line_of_a_stream_ends_its_call() {
    let fake = Fake::new(|got, stream| {
        let start = match got.body["params"]["name"].as_str() {
            Some("data") => {
                format!("data: {{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":\"", got.id())
            }
            Some("comment") => ": ".to_owned(),
            Some("id") => "id: ".to_owned(),
            _ => return false,
        };
        events(stream, &start);
        let block = vec![b'x'; 65536];
        while stream.write_all(&block).is_ok() {}
        true
    });
    let mut gateway = Gateway::start(
        &Arc::new(TestStore::new()),
        &["--timeout", "2"],
        &[&fake.url],
        &[("CTXFS_MIN_FREE", "1000TiB")],
    );
    gateway.shake_hands("2025-11-25");
    for tool in ["data", "comment", "id"] {
        let result = gateway.call(tool, &json!({}));
        assert_eq!(result["isError"], true, "{tool}");
        assert!(text(&result, 0).contains("did not answer within 2 s"), "{tool}: {result}");
    }
    assert_eq!(text(&gateway.call("fine", &json!({})), 0), "done");
    assert!(gateway.peak() < MOST_MEMORY, "{} KiB", gateway.peak());
}

#[test]
fn events_of_other_kinds_are_no_messages() {
    let fake = Fake::new(|got, stream| {
        if is_call(got) {
            let text = format!(
                ": hello\r\n\r\nevent: ping\r\ndata: {{}}\r\n\r\nevent: message\r\ndata: {}\r\n\r\n",
                done(got).to_string().replace("\"result\"", "\r\ndata: \"result\"")
            );
            events(stream, &text);
        }
        is_call(got)
    });
    let mut gateway = ready(&fake, &[]);
    assert_eq!(text(&gateway.call("x", &json!({})), 0), "done");
    assert!(gateway.other.is_empty());
}

#[test]
fn the_end_does_not_wait_for_a_silent_server() {
    let fake = Fake::new(|got, _stream| {
        if is_call(got) || got.method == "DELETE" {
            thread::sleep(PATIENCE);
        }
        false
    });
    let mut gateway = ready(&fake, &[]);
    gateway.ask("tools/call", &json!({"name": "silent"}));
    eventually("the call has come", || fake.count(is_call) == 1);
    let started = std::time::Instant::now();
    assert_eq!(gateway.end(), 0);
    assert!(started.elapsed() < Duration::from_secs(20));
}
