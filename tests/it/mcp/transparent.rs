//! What passes unchanged, in both directions.

use super::*;

#[test]
fn the_handshake_passes_with_our_additions() {
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let mut gateway = Gateway::start(&Arc::new(TestStore::new()), &[], &server(), &[]);
        let told = gateway.shake_hands(version);
        assert_eq!(told["protocolVersion"], version);
        assert_eq!(told["serverInfo"]["name"], "scripted");
        assert_eq!(told["capabilities"]["tools"], json!({"listChanged": true}));
        assert_eq!(told["capabilities"]["resources"], json!({}));
        assert_eq!(told["x-unknown"].to_string(), "1.2345678901234568e+22");
        let instructions = told["instructions"].as_str().unwrap();
        assert!(instructions.starts_with("Be kind.\n\n") && instructions.contains("context_read"));
    }
}

#[test]
fn without_context_tools_nothing_is_added() {
    let mut gateway =
        Gateway::start(&Arc::new(TestStore::new()), &["--no-context-tools"], &server(), &[]);
    let told = gateway.shake_hands("2025-11-25");
    assert_eq!(told["capabilities"], json!({"tools": {"listChanged": true}, "logging": {}}));
    assert_eq!(told["instructions"], "Be kind.");
    let listed = gateway.request("tools/list", &json!({"cursor": "two"}));
    let tools = &listed["result"]["tools"];
    assert_eq!((tools.as_array().unwrap().len(), &tools[1]["name"]), (2, &json!("context_tail")));
}

#[test]
fn requests_without_an_initialize_pass() {
    let mut gateway = Gateway::start(&Arc::new(TestStore::new()), &[], &server(), &[]);
    let told = gateway.request(
        "server/discover",
        &json!({"_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        }}),
    );
    assert_eq!(told["result"]["supportedVersions"], json!(["2026-07-28"]));
    assert_eq!(told["result"]["capabilities"], json!({"tools": {}, "resources": {}}));
    assert_eq!(
        text(
            &gateway.call(
                "result",
                &json!({"result": {
                    "content": [{"type": "text", "text": "hi"}], "resultType": "complete",
                }})
            ),
            0
        ),
        "hi"
    );
}

#[test]
fn listings_have_all_tools_and_no_output_schema() {
    let mut gateway = Gateway::new();
    let first = gateway.request("tools/list", &json!({}));
    assert_eq!(first["result"]["nextCursor"], "two");
    assert_eq!(first["result"]["tools"].as_array().unwrap().len(), 1);
    gateway.ask("tools/list", &json!({"cursor": "two"}));
    let line = gateway.line();
    let second: Value = serde_json::from_str(&line).unwrap();
    let tools = second["result"]["tools"].as_array().unwrap();
    let names: Vec<&str> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names[0], "structured");
    assert_eq!(names.len(), 7);
    assert_eq!(tools[0]["outputSchema"], json!({"type": "object"}));
    assert_eq!(tools[0]["annotations"], json!({"readOnlyHint": true}));
    for tool in &tools[2..] {
        assert_eq!(tool["annotations"]["readOnlyHint"], true, "{tool}");
    }
}

#[test]
fn a_tool_with_a_name_of_ours_has_another() {
    let mut gateway = Gateway::new();
    let listed = gateway.request("tools/list", &json!({"cursor": "two"}));
    let other = &listed["result"]["tools"][1];
    assert_eq!(other["name"], "server__context_tail");
    assert_eq!(other["title"], "another");
    let told = gateway.call("server__context_tail", &json!({"n": 1}));
    assert_eq!(text(&told, 0), r#"{"arguments": {"n": 1}, "name": "context_tail"}"#);
    assert_eq!(gateway.call("context_tail", &json!({}))["isError"], true);
}

#[test]
fn a_tool_whose_results_are_offloaded_has_no_output_schema() {
    let never = "\n[tool.\"server/structured\"]\nmax_inline_chars = \"never\"\nmax_inline_bytes = \"never\"\n";
    for (revision, settings, is_listed) in [
        ("2025-11-25", String::new(), true),
        ("2025-03-26", String::new(), false),
        ("2025-11-25", "[mcp]\nstructured = \"offload\"\n".to_owned(), false),
        ("2025-11-25", format!("[mcp]\nstructured = \"offload\"\n{never}"), true),
    ] {
        let store = Arc::new(TestStore::new());
        std::fs::write(store.path().join("ctxfs.toml"), &settings).unwrap();
        let mut gateway = Gateway::start(&store, &[], &server(), &[]);
        gateway.shake_hands(revision);
        let listed = gateway.request("tools/list", &json!({"cursor": "two"}));
        let schema = listed["result"]["tools"][0].get("outputSchema");
        assert_eq!(schema.is_some(), is_listed, "{revision} {settings}");
    }
}

#[test]
fn small_results_keep_every_byte() {
    let mut gateway = Gateway::new();
    let line = r#"{"jsonrpc":"2.0","id":$ID, "result": {"z":1.10,"content":[ {"type":"text","text":"\ud83d\u00e9 1"}],"n":12345678901234567890123,"_meta":{"io.x/y":[1e400]}}}"#;
    let id = gateway.ask("tools/call", &json!({"name": "raw", "arguments": {"line": line}}));
    assert_eq!(gateway.line(), line.replace("$ID", &id.to_string()));
    let id = gateway.ask("tools/call", &json!({"name": "error", "arguments": {}}));
    let failed = gateway.answer(id);
    assert_eq!(failed["error"], json!({"code": -32042, "message": "no", "data": {"n": 1}}));
    // Nothing was stored, and no store was opened.
    assert!(!gateway.store.path().join("VERSION").exists());
}

#[test]
fn arguments_pass_as_they_are_written() {
    let mut gateway = Gateway::new();
    gateway.send(
        r#"{"jsonrpc":"2.0","id":"x-1","method":"tools/call","params":{"name":"echo","arguments":{"n":12345678901234567890123,"s":"\u00e9"},"_meta":{"a/b":2}}}"#,
    );
    let answer = gateway.answer("x-1");
    let echoed = text(&answer["result"], 0);
    assert!(
        echoed.contains("12345678901234567890123") && echoed.contains("\"a/b\": 2"),
        "{echoed}"
    );
    assert_eq!(answer["result"]["_meta"], json!({"x": 1}));
}

#[test]
fn servers_ask_the_client() {
    let mut gateway = Gateway::new();
    for method in ["sampling/createMessage", "roots/list", "elicitation/create"] {
        let arguments = json!({"method": method, "params": {"deep": {"n": 1}}});
        let id = gateway.ask("tools/call", &json!({"name": "ask", "arguments": arguments}));
        let question = gateway.message();
        assert_eq!(
            (&question["method"], &question["params"]),
            (&json!(method), &json!({"deep": {"n": 1}}))
        );
        let number = &question["id"];
        gateway
            .send(&format!(r#"{{"jsonrpc":"2.0","id":{number},"result":{{"action":"accept"}}}}"#));
        let answer = gateway.answer(id);
        let told: Value = serde_json::from_str(text(&answer["result"], 0)).unwrap();
        assert_eq!(told, json!({"jsonrpc": "2.0", "id": "q-1", "result": {"action": "accept"}}));
    }
}

#[test]
fn progress_comes_in_order_before_the_answer() {
    let mut gateway = Gateway::new();
    let params = json!({
        "name": "progress", "arguments": {"steps": 5}, "_meta": {"progressToken": "t-9"},
    });
    assert_eq!(text(&gateway.request("tools/call", &params)["result"], 0), "done");
    let steps: Vec<&Value> = gateway.other.iter().map(|one| &one["params"]["progress"]).collect();
    assert_eq!(steps, [0, 1, 2, 3, 4]);
    assert_eq!(gateway.other[0]["params"]["progressToken"], "t-9");
}

#[test]
fn cancellation_reaches_the_server_with_its_own_id() {
    let mut gateway = Gateway::new();
    gateway
        .send(r#"{"jsonrpc":"2.0","id":"long","method":"tools/call","params":{"name":"silent"}}"#);
    gateway.send(
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"long","reason":"r"}}"#,
    );
    let seen = gateway.call("seen", &json!({}));
    let seen: Value = serde_json::from_str(text(&seen, 0)).unwrap();
    let cancelled = &seen.as_array().unwrap()[4];
    assert!(cancelled["requestId"].is_u64() && cancelled["reason"] == "r", "{seen}");
    // The id is free again.
    gateway.send(r#"{"jsonrpc":"2.0","id":"long","method":"tools/list"}"#);
    assert!(gateway.answer("long")["result"].is_object());
}

#[test]
fn all_other_methods_pass() {
    let mut gateway = Gateway::new();
    for method in ["prompts/list", "completion/complete", "logging/setLevel", "x/unknown"] {
        let told = gateway.request(method, &json!({"a": [1]}));
        assert_eq!(told["result"], json!({"method": method, "params": {"a": [1]}}));
    }
}

#[test]
fn a_resource_of_any_length_passes() {
    let mut gateway = Gateway::new();
    let told = gateway.request("resources/read", &json!({"uri": "test://big"}));
    assert_eq!(told["result"]["contents"][0]["text"].as_str().unwrap().len(), 3 << 20);
}

#[test]
fn long_requests_pass() {
    let mut gateway = Gateway::with(&[], &UNLIMITED);
    let long = "z\u{e9}\n".repeat(1 << 20);
    let told = gateway.call("echo", &json!({"long": long}));
    let echoed: Value = serde_json::from_str(text(&told, 0)).unwrap();
    assert!(echoed["arguments"]["long"] == long);
}

#[test]
fn batches_are_taken_apart() {
    let mut gateway = Gateway::new();
    gateway.send(
        r#"[{"jsonrpc":"2.0","id":71,"method":"prompts/list"},{"jsonrpc":"2.0","method":"notifications/x"},{"jsonrpc":"2.0","id":72,"method":"ping"}]"#,
    );
    let ids: Vec<Value> = vec![gateway.message()["id"].clone(), gateway.message()["id"].clone()];
    assert!(ids.contains(&json!(71)) && ids.contains(&json!(72)));
}

#[test]
fn the_server_gets_the_environment_without_our_settings() {
    let mut gateway = Gateway::with(&[], &[("GITHUB_TOKEN", "t"), ("CTXFS_MAX_LINES", "7")]);
    let names = json!(["GITHUB_TOKEN", "CTXFS_MAX_LINES", "CTXFS_STORE"]);
    let told = gateway.call("env", &json!({"names": names}));
    let environment: Value = serde_json::from_str(text(&told, 0)).unwrap();
    let expected = json!({"GITHUB_TOKEN": "t", "CTXFS_MAX_LINES": null, "CTXFS_STORE": null});
    assert_eq!(environment, expected);
}

#[test]
fn a_server_gets_what_the_client_gave_without_our_settings() {
    let environment = [
        ("CTXFS_MAX_INLINE_BYTES", "9000"),
        ("TOOL_OUTPUT_DIR", "out"),
        ("TOOL_OUTPUT_MAX_BYTES", "9000"),
        ("MY_KEY", "k"),
    ];
    let mut gateway = Gateway::with(&[], &environment);
    let names: Vec<&str> = environment.iter().map(|(name, _)| *name).collect();
    let told = gateway.call("env", &json!({"names": names}));
    let told: Value = serde_json::from_str(text(&told, 0)).unwrap();
    for (name, value) in environment {
        let expected = if name == "MY_KEY" { json!(value) } else { json!(null) };
        assert_eq!(told[name], expected, "{name}");
    }
}
