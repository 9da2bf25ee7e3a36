//! Several servers behind one gateway.

use std::os::unix::fs::PermissionsExt as _;

use super::*;

/// Returns the environment of a scripted server that lists these.
fn listing(lists: &Value) -> Value {
    let has = |method: &str| lists.get(method).is_some();
    let mut capabilities = json!({"tools": {"listChanged": true}, "logging": {}});
    if has("prompts/list") {
        capabilities["prompts"] = json!({});
    }
    if has("resources/list") || has("resources/templates/list") {
        capabilities["resources"] = json!({"subscribe": true});
    }
    let (lists, capabilities) = (lists.to_string(), capabilities.to_string());
    json!({"env": {
        "SERVER_LISTS": lists, "SERVER_CAPABILITIES": capabilities, "SERVER_MORE": "",
    }})
}

/// Returns the members of a server that lists no more tools than three.
fn three() -> Value {
    json!({"env": {"SERVER_MORE": ","}})
}

fn two() -> Gateway {
    let servers = [("one", json!({})), ("two", json!({"prefix": "zwei"}))];
    let mut gateway = Gateway::of_servers(&Arc::new(TestStore::new()), &[], &servers);
    gateway.shake_hands("2025-11-25");
    gateway
}

fn names(listed: &Value, member: &str) -> Vec<String> {
    let rows = listed["result"][member].as_array().unwrap_or_else(|| panic!("{listed}"));
    rows.iter().map(|row| row["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn all_tools_are_listed_under_the_names_of_their_servers() {
    let mut second = three();
    second["prefix"] = "zwei".into();
    let servers = [("one", three()), ("two", second)];
    let mut gateway = Gateway::of_servers(&Arc::new(TestStore::new()), &[], &servers);
    gateway.shake_hands("2025-11-25");
    let listed = gateway.request("tools/list", &json!({}));
    let names = names(&listed, "tools");
    assert_eq!(
        names[..6],
        [
            "one__echo",
            "one__structured",
            "one__context_tail",
            "zwei__echo",
            "zwei__structured",
            "zwei__context_tail"
        ]
    );
    assert_eq!(names.len(), 6 + 5, "and ours: {names:?}");
    let tools = &listed["result"]["tools"];
    assert_eq!(tools[0]["_meta"]["ctxfs/tool"], "echo");
    assert_eq!(tools[0]["x-unknown"].to_string(), "1.1");
    assert_eq!(tools[1]["outputSchema"], json!({"type": "object"}));
}

#[test]
fn a_call_goes_to_its_server_under_its_own_name() {
    let mut gateway = two();
    for name in ["one__echo", "zwei__echo"] {
        let told = gateway.call(name, &json!({"n": 1}));
        assert_eq!(text(&told, 0), r#"{"arguments": {"n": 1}, "name": "echo"}"#);
    }
    let line = json!({"line": "x\n", "counts": [20_000]});
    let told = gateway.call_as("a1", "zwei__text", &line);
    assert!(told.get("isError").is_none() && stored(&gateway.store, "a1.txt").len() == 40_000);
    let unknown = gateway.request("tools/call", &json!({"name": "echo"}));
    assert_eq!(unknown["error"]["code"], -32602);
    assert_eq!(unknown["error"]["message"], "there is no tool `echo`");
}

#[test]
fn what_the_gateway_says_is_of_all_servers() {
    let servers = [("one", json!({})), ("gone", json!({"command": "/nonexistent/x", "args": []}))];
    let mut gateway = Gateway::of_servers(&Arc::new(TestStore::new()), &[], &servers);
    let told = gateway.shake_hands("2025-06-18");
    assert_eq!(told["protocolVersion"], "2025-06-18");
    assert_eq!(told["serverInfo"]["name"], "ctxfs");
    assert_eq!(told["capabilities"]["tools"], json!({"listChanged": true}));
    assert_eq!(told["capabilities"]["logging"], json!({}));
    let instructions = told["instructions"].as_str().unwrap();
    for said in ["# one\nBe kind.", "The server `gone` is missing: it cannot be started: `/none"] {
        assert!(instructions.contains(said), "{instructions}");
    }
    assert!(instructions.contains("context_read"), "{instructions}");
    let error = gateway.request("tools/call", &json!({"name": "gone__x"}));
    let message = error["error"]["message"].as_str().unwrap();
    assert!(message.starts_with("there is no tool `gone__x`; the server `gone` "), "{message}");
    assert_eq!(
        text(&gateway.call("one__echo", &json!({})), 0),
        r#"{"arguments": {}, "name": "echo"}"#
    );
}

#[test]
fn a_list_ends_with_the_page_that_names_no_other() {
    let row = |key: &str, name: &str| json!({key: name, "name": name, "inputSchema": {}});
    let page = |key: &str, member: &str, names: &str, next: Value| {
        let rows: Vec<Value> = names.split(' ').map(|name| row(key, name)).collect();
        json!({member: rows, "nextCursor": next})
    };
    for (method, member, key) in [
        ("tools/list", "tools", "name"),
        ("prompts/list", "prompts", "name"),
        ("resources/list", "resources", "uri"),
        ("resources/templates/list", "resourceTemplates", "uriTemplate"),
    ] {
        let page = |names: &str, next: Value| page(key, member, names, next);
        // The page is too long for memory.
        let mut wide = page("a b", json!("same"));
        wide["wide"] = json!(2_000_000);
        for (pages, expected) in [
            (json!({"": page("a b", Value::Null)}), "a b"),
            (json!({"": page("a b", json!(""))}), "a b"),
            (json!({"": page("a b", json!("same"))}), "a b"),
            (json!({"": page("a b", json!("fresh"))}), "a b"),
            (json!({"": wide}), "a b"),
            (
                json!({"": page("a", json!("x")), "x": page("b", json!("y")), "y": page("c", json!("x"))}),
                "a b c",
            ),
            (json!({"": page("a b", json!("x")), "x": page("b c", Value::Null)}), "a b c"),
        ] {
            let mut lists = json!({"tools/list": {"tools": []}});
            lists[method] = json!({"pages": pages});
            let servers = [("one", listing(&lists))];
            let options = ["--no-context-tools"];
            let mut gateway = Gateway::of_servers(&Arc::new(TestStore::new()), &options, &servers);
            gateway.shake_hands("2025-11-25");
            let listed = gateway.request(method, &json!({}));
            let found = names(&listed, member);
            let found: Vec<&str> =
                found.iter().map(|name| name.trim_start_matches("one__")).collect();
            assert_eq!(found.join(" "), expected, "{method} {pages}");
            assert_eq!(listed["result"].get("nextCursor"), None);
            let lists = lists.to_string();
            let mut alone = Gateway::with(&["--no-context-tools"], &[("SERVER_LISTS", &lists)]);
            // The list may be read again, and by a client that reads twice at once.
            for _ in 0..2 {
                assert_eq!(pages_of(&mut alone, method, member), expected, "{method} {pages}");
            }
        }
    }
}

/// Follows the pages of a list, as a client does that ends only where no next page is named. Returns
/// the names on all of them.
fn pages_of(gateway: &mut Gateway, method: &str, member: &str) -> String {
    let (mut found, mut params) = (Vec::new(), json!({}));
    for _ in 0..10 {
        let listed = gateway.request(method, &params);
        let again = gateway.request(method, &params);
        assert_eq!(names(&listed, member), names(&again, member));
        found.extend(names(&listed, member));
        match listed["result"].get("nextCursor") {
            Some(next) => params = json!({"cursor": next}),
            None => return found.join(" "),
        }
    }
    panic!("{method} has no end: {found:?}")
}

#[test]
fn the_last_page_of_an_only_server_has_our_tools() {
    for next in [Value::Null, json!("")] {
        let tools = json!([{"name": "a", "inputSchema": {"type": "object"}}]);
        let lists = json!({"tools/list": {"tools": tools, "nextCursor": next}}).to_string();
        let mut gateway = Gateway::with(&[], &[("SERVER_LISTS", &lists)]);
        let listed = gateway.request("tools/list", &json!({}));
        assert!(names(&listed, "tools").contains(&"context_read".to_owned()), "{listed}");
    }
}

#[test]
fn prompts_and_resources_go_to_the_servers_that_have_them() {
    let one = listing(&json!({
        "tools/list": {"tools": []},
        "prompts/list": {"prompts": [{"name": "greet"}]},
        "resources/list": {"resources": [{"uri": "mem://a", "name": "a"}]},
    }));
    let two = listing(&json!({
        "tools/list": {"tools": []},
        "prompts/list": {"prompts": [{"name": "greet"}]},
        "resources/templates/list": {
            "resourceTemplates": [{"uriTemplate": "db://{table}/{+row}", "name": "row"}],
        },
    }));
    let store = Arc::new(TestStore::new());
    let mut gateway = Gateway::of_servers(&store, &[], &[("one", one), ("two", two)]);
    gateway.shake_hands("2025-11-25");
    let listed = gateway.request("prompts/list", &json!({}));
    assert_eq!(names(&listed, "prompts"), ["one__greet", "two__greet"]);
    let got = gateway.request("prompts/get", &json!({"name": "two__greet"}));
    assert_eq!(got["result"], json!({"method": "prompts/get", "params": {"name": "greet"}}));
    let about = json!({"ref": {"type": "ref/prompt", "name": "one__greet"}, "argument": {}});
    let completed = gateway.request("completion/complete", &about);
    assert_eq!(completed["result"]["params"]["ref"]["name"], "greet");
    let listed = gateway.request("resources/list", &json!({}));
    assert_eq!(listed["result"]["resources"][0]["uri"], "mem://a");
    for uri in ["mem://a", "db://users/7/name"] {
        let read = gateway.request("resources/read", &json!({"uri": uri}));
        assert_eq!(read["result"]["contents"][0]["text"], "small", "{read}");
    }
    let missing = gateway.request("resources/read", &json!({"uri": "other://x"}));
    assert_eq!(missing["error"]["code"], -32002);
    let subscribed = gateway.request("resources/subscribe", &json!({"uri": "mem://a"}));
    assert_eq!(subscribed["result"]["method"], "resources/subscribe");
}

#[test]
fn a_change_of_a_list_is_passed_on_and_shows() {
    let mut gateway = two();
    let before = names(&gateway.request("tools/list", &json!({})), "tools");
    assert_eq!((&*before[0], before.len()), ("one__echo", 2 * 13 + 5));
    gateway.call("one__change", &json!({}));
    while gateway.message()["method"] != "notifications/tools/list_changed" {}
    let listed = names(&gateway.request("tools/list", &json!({})), "tools");
    assert_eq!(listed[..2], ["one__new", "zwei__echo"]);
}

#[test]
fn a_server_that_comes_late_is_announced() {
    let servers = [("one", json!({})), ("slow", json!({"env": {"SERVER_DELAY": "7"}}))];
    let mut gateway = Gateway::of_servers(&Arc::new(TestStore::new()), &[], &servers);
    gateway.shake_hands("2025-11-25");
    let early = names(&gateway.request("tools/list", &json!({})), "tools");
    assert!(!early.iter().any(|name| name.starts_with("slow__")), "{early:?}");
    while gateway.message()["method"] != "notifications/tools/list_changed" {}
    let late = names(&gateway.request("tools/list", &json!({})), "tools");
    assert!(late.iter().any(|name| name == "slow__echo"), "{late:?}");
}

#[test]
fn a_server_that_dies_takes_no_other_with_it() {
    let mut gateway = two();
    let told = gateway.call("one__die", &json!({}));
    assert_eq!(told["isError"], true);
    assert!(text(&told, 0).contains("the server `one` ended"), "{told}");
    assert_eq!(
        text(&gateway.call("zwei__echo", &json!({})), 0),
        r#"{"arguments": {}, "name": "echo"}"#
    );
    let again = gateway.call("one__echo", &json!({}));
    assert_eq!(text(&again, 0), r#"{"arguments": {}, "name": "echo"}"#);
    let seen = gateway.call("one__seen", &json!({}));
    assert!(text(&seen, 0).starts_with(r#"["initialize", "notifications/initialized""#), "{seen}");
}

#[test]
fn a_server_asks_the_client_and_gets_its_answer() {
    let mut gateway = two();
    let arguments = json!({"method": "sampling/createMessage", "params": {"n": 1}});
    let id = gateway.ask("tools/call", &json!({"name": "zwei__ask", "arguments": arguments}));
    let asked = gateway.message();
    assert_eq!(asked["params"], json!({"n": 1}));
    gateway.send(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"ok": true}}).to_string());
    let answer = gateway.answer(id);
    assert!(text(&answer["result"], 0).contains(r#""result": {"ok": true}"#), "{answer}");
}

#[test]
fn a_filter_hides_tools_and_a_level_reaches_all_servers() {
    let servers = [
        ("one", json!({"tools": ["e*", "seen"]})),
        ("two", json!({"tools": ["!echo"], "prefix": ""})),
    ];
    let store = Arc::new(TestStore::new());
    let mut gateway = Gateway::of_servers(&store, &["--no-context-tools"], &servers);
    gateway.shake_hands("2025-11-25");
    let listed = names(&gateway.request("tools/list", &json!({})), "tools");
    assert_eq!(listed[..3], ["one__echo", "one__seen", "structured"], "{listed:?}");
    let hidden = gateway.request("tools/call", &json!({"name": "one__structured"}));
    assert_eq!(hidden["error"]["code"], -32602);
    gateway.request("logging/setLevel", &json!({"level": "debug"}));
    for tool in ["one__seen", "seen"] {
        crate::support::eventually("the level arrives", || {
            text(&gateway.call(tool, &json!({})), 0).contains("logging/setLevel")
        });
    }
}

#[test]
fn a_client_may_begin_with_any_request() {
    let servers = [("one", json!({}))];
    let mut gateway = Gateway::of_servers(&Arc::new(TestStore::new()), &[], &servers);
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28"});
    let listed = gateway.request("tools/list", &json!({"_meta": meta}));
    assert_eq!(names(&listed, "tools")[0], "one__echo");
    assert_eq!(listed["result"]["resultType"], "complete");
}

#[test]
fn a_server_that_does_not_answer_keeps_nobody_waiting() {
    let mut gateway = two();
    gateway.call("one__hang", &json!({}));
    for _ in 0..3 {
        let told = gateway.call("zwei__echo", &json!({}));
        assert_eq!(text(&told, 0), r#"{"arguments": {}, "name": "echo"}"#);
    }
    let listed = names(&gateway.request("tools/list", &json!({})), "tools");
    assert_eq!(listed[0], "one__echo", "the old list holds");
    let waiting = gateway.call("one__seen", &json!({}));
    assert!(
        text(&waiting, 0).ends_with(r#""tools/list", "tools/call"]"#),
        "it was asked: {waiting}"
    );
}

#[test]
fn a_server_that_asks_early_waits_for_the_client_and_too_much_is_refused() {
    let servers = [("one", json!({"env": {"SERVER_ASKS": "2000", "SERVER_MORE": "seen"}}))];
    let mut gateway = Gateway::of_servers(&Arc::new(TestStore::new()), &[], &servers);
    let hello = json!({
        "protocolVersion": "2025-11-25", "capabilities": {"roots": {}},
        "clientInfo": {"name": "tests", "version": "1"},
    });
    gateway.request("initialize", &hello);
    assert_eq!(gateway.other, Vec::<Value>::new(), "nothing is asked yet");
    gateway.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string());
    crate::support::eventually("it is asked", || {
        gateway.request("ping", &json!({}));
        gateway.other.iter().filter(|message| message["method"] == "roots/list").count() == 16
    });
    assert!(gateway.peak() < 64 << 10, "{} KiB", gateway.peak());
}

#[test]
fn a_file_without_a_server_that_can_be_used_is_an_error() {
    let store = TestStore::new();
    let file = store.scratch("servers").join("mcp.json");
    for (content, told) in [
        ("", "`mcpServers` is missing"),
        ("{\"mcpServers\": {", "is not JSON"),
        ("{\"mcpServers\": {\n\"a\": {\"command\": 7}}}", "mcp.json:2: `mcpServers.a.command`"),
    ] {
        std::fs::write(&file, content).unwrap();
        let ended = store.ctxfs("mcp", &["-c", "c7", "--servers", file.to_str().unwrap()]).run();
        let said = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.code, 2, "{said}");
        assert!(said.contains(told) && said.contains("no server of `"), "{said}");
    }
    std::fs::write(&file, "{\"mcpServers\": {}}").unwrap();
    let ended = store.ctxfs("mcp", &["-c", "c7", "--servers", file.to_str().unwrap()]).run();
    assert_eq!(ended.code, 0);
}

#[test]
fn the_context_tools_are_there_when_the_only_server_is_not() {
    let store = Arc::new(TestStore::new());
    store.put("c7", "a1", b"stored\n");
    let program = store.scratch("late").join("server");
    let mut gateway = Gateway::start(&store, &[], &[program.to_str().unwrap()], &[]);
    let told = gateway.shake_hands("2025-11-25");
    assert!(told["instructions"].as_str().unwrap().contains("cannot be started"), "{told}");
    assert_eq!(told["capabilities"]["tools"]["listChanged"], true);
    let listed = names(&gateway.request("tools/list", &json!({})), "tools");
    assert_eq!(listed[0], "context_list");
    assert_eq!(text(&gateway.call("context_read", &json!({"ref": "a1"})), 0), "stored\n");
    assert_eq!(gateway.call("echo", &json!({}))["isError"], true);
    let [python, script] = server();
    std::fs::write(&program, format!("#!/bin/sh\nexec {python} {script}\n")).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    while gateway.message()["method"] != "notifications/tools/list_changed" {}
    // The last of two pages has ours, too.
    let listed = names(&gateway.request("tools/list", &json!({"cursor": "two"})), "tools");
    assert!(listed.contains(&"context_list".to_owned()) && listed.len() > 6, "{listed:?}");
    assert_eq!(text(&gateway.call("echo", &json!({})), 0), r#"{"arguments": {}, "name": "echo"}"#);
    // Without tools of the gateway, the error is the client's.
    let options = ["--no-context-tools"];
    let mut gateway = Gateway::start(&store, &options, &["/nowhere/server"], &[]);
    let refused = gateway.request("initialize", &json!({"protocolVersion": "2025-11-25"}));
    assert!(refused["error"].is_object(), "{refused}");
}
