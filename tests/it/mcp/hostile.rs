//! Servers and clients that do their worst.

use base64::Engine as _;

use super::*;
use crate::support::eventually;

fn raw(gateway: &mut Gateway, line: &str) -> u64 {
    gateway.ask("tools/call", &json!({"name": "raw", "arguments": {"line": line}}))
}

#[test]
fn bad_lines_of_the_client_are_answered() {
    let mut gateway = Gateway::new();
    for (line, code) in [
        ("no json", -32700),
        ("{\"jsonrpc\":\"2.0\",", -32700),
        ("1", -32600),
        ("[]", -32600),
        ("[[]]", -32600),
        ("{}", -32600),
        (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":[],"method":"ping"}"#, -32600),
    ] {
        gateway.send(line);
        assert_eq!(gateway.message()["error"]["code"], code, "{line}");
    }
    gateway.send("");
    gateway.send("\r");
    assert_eq!(gateway.request("ping", &json!({}))["result"], json!({}));
}

#[test]
fn an_id_that_is_waited_for_is_refused() {
    let mut gateway = Gateway::new();
    gateway.send(r#"{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"silent"}}"#);
    gateway.send(r#"{"jsonrpc":"2.0","id":"x","method":"tools/list"}"#);
    let told = gateway.message();
    assert_eq!((&told["id"], &told["error"]["code"]), (&json!("x"), &json!(-32600)));
}

#[test]
fn lines_that_are_no_messages_end_only_their_call() {
    let mut gateway = Gateway::new();
    let id = raw(&mut gateway, "Listening on stdio...\n$$$\nwarning: x\nand so on");
    assert_eq!(gateway.request("ping", &json!({}))["result"], json!({}));
    gateway.send(&format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#
    ));
    let id = raw(&mut gateway, r#"{"jsonrpc":"2.0","id":$ID,"result":{"content":[}]}}"#);
    let told = gateway.answer(id);
    assert_eq!(told["result"]["isError"], true, "{told}");
    let why = text(&told["result"], 0);
    assert!(why.contains("cannot be read") && why.ends_with("; nothing of it is kept"), "{why}");
    for line in [
        r#"{"jsonrpc":"2.0","id":4711,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":"never","result":{}}"#,
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"}}"#,
        r#"{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"text","text":"ok"}]}}"#,
    ] {
        let id = raw(&mut gateway, line);
        if line.contains("$ID") {
            assert_eq!(text(&gateway.answer(id)["result"], 0), "ok");
        }
    }
}

/// Lines that no client takes for messages.
const LOG_LINES: [&str; 14] = [
    "[INFO] starting",
    r#"{"level":30,"msg":"request","id":3,"error":null}"#,
    r#"{"level":50,"error":"boom"}"#,
    r#"{"a":{"jsonrpc":"2.0","id":3,"result":{}}}"#,
    r#"DEBUG sent {"jsonrpc":"2.0","id":3,"result":{}}"#,
    r#"{"msg":"cut off in the mid"#,
    "[1,2]",
    r#"["INFO",{"jsonrpc":1}]"#,
    "[[]]",
    "{}",
    "null",
    "\u{0}\u{1}\u{fffd}",
    "\r",
    "",
];

/// Returns the requests that the server has seen since it was started.
fn seen(gateway: &mut Gateway) -> Vec<String> {
    let seen = gateway.call("seen", &json!({}));
    let seen: Vec<Value> = serde_json::from_str(text(&seen, 0)).unwrap();
    seen.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

#[test]
fn log_lines_are_no_reason_to_end_a_server() {
    for end in ["\n", "\r\n"] {
        let lines = LOG_LINES.join(end) + end;
        // A variable has no NUL.
        let first = lines.replace('\0', "");
        let mut gateway = Gateway::with(&[], &[("SERVER_FIRST", &first)]);
        let last =
            r#"{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"text","text":"ok"}]}}"#;
        for _ in 0..3 {
            let id = raw(&mut gateway, &format!("{lines}{last}"));
            assert_eq!(text(&gateway.answer(id)["result"], 0), "ok");
        }
        assert_eq!(seen(&mut gateway).iter().filter(|method| *method == "initialize").count(), 1);
        eventually("they are in the log", || {
            let said = gateway.said();
            said.contains("server: [INFO] starting\n") && said.contains(r#"{"level":50,"error""#)
        });
        eventually("that is told once", || {
            gateway.said().matches("that are no messages; they are logged").count() == 1
        });
    }
}

#[test]
fn log_lines_of_any_length_pass_by() {
    let mut gateway = Gateway::new();
    let last = r#"{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"text","text":"ok"}]}}"#;
    let long = "x".repeat(3 << 20);
    for line in [
        long.clone(),
        format!("[INFO] {long}"),
        format!(r#"{{"level":30,"msg":"{long}"}}"#),
        format!(r#"["{long}"]"#),
    ] {
        let id = raw(&mut gateway, &format!("{line}\n{last}"));
        assert_eq!(text(&gateway.answer(id)["result"], 0), "ok");
    }
    assert!(gateway.peak() < 64 << 10, "{} KiB", gateway.peak());
    assert_eq!(seen(&mut gateway).iter().filter(|method| *method == "initialize").count(), 1);
}

#[test]
fn a_server_may_begin_with_a_byte_order_mark() {
    let mut gateway = Gateway::with(&[], &[("SERVER_FIRST", "\u{feff}")]);
    assert_eq!(seen(&mut gateway)[0], "initialize");
}

#[test]
fn a_flood_of_log_lines_holds_up_no_other_server() {
    let flood = r#"import itertools
for n in itertools.count(): print('{"level":30,"n":%d}' % n)"#;
    let flood = json!({"command": "python3", "args": ["-c", flood]});
    let store = Arc::new(TestStore::new());
    let servers = [("flood", flood), ("one", json!({}))];
    let mut gateway = Gateway::of_servers(&store, &[], &servers);
    gateway.shake_hands("2025-11-25");
    for _ in 0..20 {
        let told = gateway.call("one__echo", &json!({"n": 1}));
        assert_eq!(text(&told, 0), r#"{"arguments": {"n": 1}, "name": "echo"}"#);
    }
    assert!(gateway.peak() < 64 << 10, "{} KiB", gateway.peak());
}

#[test]
fn three_torn_messages_in_a_row_start_the_server_again() {
    let mut gateway = Gateway::new();
    let torn = r#"{"jsonrpc":"2.0","method":"x","#;
    let id = raw(&mut gateway, &format!("{torn}\n[INFO] x\n{torn}\n{torn}"));
    let told = gateway.answer(id);
    assert!(text(&told["result"], 0).contains("too many messages"), "{told}");
    assert_eq!(seen(&mut gateway), ["initialize", "notifications/initialized", "tools/call"]);
}

#[test]
fn a_torn_answer_ends_no_call_but_its_own() {
    let mut gateway = Gateway::new();
    let id = raw(&mut gateway, r#"{"jsonrpc":"2.0","id":4711,"result":{"content":[}"#);
    assert_eq!(seen(&mut gateway).last().unwrap(), "tools/call");
    assert!(!gateway.other.iter().any(|message| message["id"] == id), "{:?}", gateway.other);
}

#[test]
fn what_is_not_kept_is_no_fault_of_the_server() {
    let long = json!({"line": "line of text\n", "counts": [250_000]});
    let short = json!({"line": "line of text\n", "counts": [20_000]});
    let settings = Arc::new(TestStore::new());
    let lines = "[mcp]\nmax_result = \"2 MiB\"\n";
    std::fs::write(settings.path().join("ctxfs.toml"), lines).unwrap();
    let no_room = Arc::new(TestStore::new());
    let environment = [("CTXFS_MIN_FREE", "1000TiB")];
    let cases = [
        (settings, &[][..], "longer than 2097152 bytes"),
        (no_room, &environment, "cannot be stored"),
    ];
    for (store, environment, why) in cases {
        let mut gateway = Gateway::start(&store, &[], &server(), environment);
        gateway.shake_hands("2025-11-25");
        let slow = gateway.ask("tools/call", &json!({"name": "silent"}));
        for _ in 0..5 {
            let told = gateway.call("text", &long);
            assert!(told["isError"] == true && text(&told, 0).contains(why), "{told}");
        }
        let told = gateway.call("text", &short);
        assert_eq!(told.get("isError"), None, "{told:.500}");
        let seen = seen(&mut gateway);
        assert_eq!(seen.iter().filter(|method| *method == "initialize").count(), 1);
        gateway.send(&format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{slow}}}}}"#
        ));
        assert!(!gateway.other.iter().any(|message| message["id"] == slow), "its call went on");
    }
}

#[test]
fn odd_json_passes_or_ends_its_call() {
    let mut gateway = Gateway::new();
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let line = format!(r#"{{"jsonrpc":"2.0","id":$ID,"result":{{"content":[],"deep":{deep}}}}}"#);
    let encoded = base64::engine::general_purpose::STANDARD.encode(&line);
    let arguments = json!({"base64": encoded});
    let id = gateway.ask("tools/call", &json!({"name": "bytes", "arguments": arguments}));
    assert!(gateway.line().contains(&deep), "{id}");
    let bytes = b"{\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"a\xff\xfez\"}]}}";
    let encoded = base64::engine::general_purpose::STANDARD.encode(bytes);
    let result = gateway.call("bytes", &json!({"base64": encoded}));
    assert_eq!(text(&result, 0), "a\u{fffd}\u{fffd}z");
    let twice = r#"{"jsonrpc":"2.0","id":$ID,"id":9,"result":{}}"#;
    let id = raw(&mut gateway, twice);
    assert_eq!(gateway.answer(id)["result"]["isError"], true);
}

#[test]
fn an_endless_line_ends_its_call_and_its_bytes_are_kept() {
    // The limit is far beyond what a test writes, so the disk is what ends it.
    let mut gateway = Gateway::with(&["--timeout", "2"], &[("CTXFS_MIN_FREE", "1000TiB")]);
    let answer = gateway.call("endless", &json!({}));
    assert_eq!(answer["isError"], true);
    assert_eq!(gateway.request("ping", &json!({}))["result"], json!({}));
}

#[test]
fn a_long_line_that_is_no_json_keeps_its_bytes() {
    let mut gateway = Gateway::new();
    let long = "x".repeat(3 << 20);
    let line = format!(r#"{{"jsonrpc":"2.0","id":$ID,"result":{{"content":"{long}" oops"#);
    let encoded = base64::engine::general_purpose::STANDARD.encode(line);
    let result = gateway.call_as("bad", "bytes", &json!({"base64": encoded}));
    assert_eq!(result["isError"], true);
    let why = text(&result, 0);
    assert!(
        why.contains("not JSON from byte") && why.contains("ctx://c7/artifacts/tool/bad.txt"),
        "{why}"
    );
    assert!(stored(&gateway.store, "bad.txt").ends_with(b"oops"));
}

#[test]
fn floods_are_slowed_and_nothing_is_lost() {
    let mut gateway = Gateway::new();
    let id = gateway.ask(
        "tools/call",
        &json!({"name": "notify", "arguments": {"count": 10_000, "size": 2000}}),
    );
    // The client does not read, for a while.
    thread::sleep(Duration::from_secs(1));
    assert!(gateway.peak() < 64 << 10, "{} KiB", gateway.peak());
    gateway.answer(id);
    let numbers: Vec<u64> =
        gateway.other.iter().map(|one| one["params"]["n"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (0..10_000).collect::<Vec<u64>>());
    let result = gateway.call("stderr", &json!({"count": 20_000}));
    assert_eq!(text(&result, 0), "done");
}

#[test]
fn a_client_that_never_reads_is_stopped_all_the_same() {
    let mut gateway = Gateway::new();
    gateway.ask(
        "tools/call",
        &json!({"name": "notify", "arguments": {"count": 50_000, "size": 2000}}),
    );
    thread::sleep(Duration::from_secs(1));
    rustix::process::kill_process(gateway.pid(), Signal::TERM).unwrap();
    let mut ended = None;
    eventually("it ends", || {
        ended = gateway.child.try_wait().unwrap();
        ended.is_some()
    });
    assert_eq!(ended.unwrap().code(), Some(0));
}

#[test]
fn an_array_is_a_batch_whatever_is_in_it() {
    let mut gateway = Gateway::new();
    gateway.send(r#"["2.0",1,"tools/list",{}]"#);
    for _ in 0..4 {
        assert_eq!(gateway.message()["error"]["code"], -32600);
    }
    let seen = gateway.call("seen", &json!({}));
    assert_eq!(text(&seen, 0).matches("tools/").count(), 1, "{seen}");
}

#[test]
fn a_batch_longer_than_memory_should_hold_loses_nothing() {
    let mut gateway = Gateway::new();
    let long = "long ".repeat(400_000);
    let call = |id: &str, arguments: Value| {
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
               "params": {"name": "echo", "arguments": arguments}})
    };
    let batch = json!([call("a", json!({"long": long})), call("b", json!({"n": 1}))]);
    gateway.send(&format!(" {batch}"));
    assert!(text(&gateway.answer("b")["result"], 0).contains("\"n\": 1"));
    let told = gateway.answer("a")["result"].to_string();
    assert!(told.contains("2,000,0"), "the echo of all of it is stored: {told}");
    // The same from a server.
    let line = format!(
        r#" [{{"jsonrpc":"2.0","id":$ID,"result":{{"content":[{{"type":"text","text":"{long}"}}]}}}}]"#
    );
    let id = raw(&mut gateway, &line);
    let told = gateway.answer(id)["result"].to_string();
    assert!(told.contains("2,000,000 bytes"), "{told}");
}

#[test]
fn thousands_of_calls_at_once_are_slowed_and_not_refused() {
    const CALLS: u64 = 5000;
    let store = Arc::new(TestStore::new());
    let environment = [("SERVER_MORE", MORE_TOOLS)];
    let mut gateway = Gateway::start(&store, &[], &server(), &environment);
    gateway.shake_hands("2025-11-25");
    gateway.call("echo", &json!({}));
    // The server reads nothing meanwhile, and more waits than its queue holds.
    gateway.ask("tools/call", &json!({"name": "sleep", "arguments": {"seconds": 2}}));
    let long = "x".repeat(2000);
    let last = (0..CALLS).fold(0, |_, number| {
        let arguments = json!({"n": number, "long": long});
        gateway.ask("tools/call", &json!({"name": "echo", "arguments": arguments}))
    });
    gateway.ask("tools/call", &json!({"name": "context_list", "arguments": {}}));
    for _ in 0..CALLS + 2 {
        let answer = gateway.message();
        assert!(answer["id"].as_u64().unwrap() <= last + 1, "{answer:.200}");
        assert!(answer["result"]["content"].is_array(), "{answer:.500}");
        assert!(answer["result"].get("isError").is_none(), "{answer:.500}");
    }
}

#[test]
fn a_full_disk_takes_no_list_away() {
    // The list is too long to be read in memory where there is a disk.
    for wide in ["100", "2000000"] {
        let environment = [("SERVER_WIDE", wide), ("CTXFS_MIN_FREE", "1000TiB")];
        let mut gateway = Gateway::with(&[], &environment);
        let listed = gateway.request("tools/list", &json!({}));
        let about = listed["result"]["tools"][0]["description"].as_str().unwrap();
        assert_eq!(about.len().to_string(), wide);
        let long = gateway.call("echo", &json!({"long": "y".repeat(2_000_000)}));
        assert_eq!(long["isError"], true, "{long:.200}");
        assert!(text(&long, 0).contains("cannot be stored"), "{long:.500}");
        let called = gateway.call("echo", &json!({}));
        assert!(text(&called, 0).contains("echo"), "the server goes on: {called}");
    }
}
