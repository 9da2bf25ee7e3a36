//! The context tools and resources.

use super::*;

fn with_outputs() -> (Arc<TestStore>, Gateway) {
    let store = Arc::new(TestStore::new());
    let lines: Vec<String> = (1..=3000).map(|number| format!("line {number}\n")).collect();
    let lines = lines.concat();
    store.put("c7", "a1", format!("{lines}ERROR: broken pipe\n").as_bytes());
    let items: Vec<Value> = (0..900).map(|n| json!({"id": n, "name": format!("n{n}")})).collect();
    store.put("c7", "b2", json!({"items": items}).to_string().as_bytes());
    store.put("c8", "secret", b"of another conversation");
    let mut gateway = Gateway::start(&store, &[], &[], &[]);
    gateway.shake_hands("2025-11-25");
    (store, gateway)
}

#[test]
fn without_a_server_there_are_the_context_tools() {
    let (_store, mut gateway) = with_outputs();
    let tools = gateway.request("tools/list", &json!({}))["result"]["tools"].clone();
    let names: Vec<&str> =
        tools.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        ["context_list", "context_read", "context_tail", "context_grep", "context_view",],
        "no model is configured"
    );
    assert_eq!(tools[1]["inputSchema"]["required"], json!(["ref"]));
    for list in ["tools/list", "resources/list", "resources/templates/list"] {
        let refused = gateway.request(list, &json!({"cursor": "x"}));
        assert_eq!(refused["error"]["code"], -32602, "{list}");
    }
    assert_eq!(gateway.request("nothing/here", &json!({}))["error"]["code"], -32601);
    let unknown = gateway.request("tools/call", &json!({"name": "echo", "arguments": {}}));
    assert_eq!(unknown["error"]["code"], -32602);
}

#[test]
fn outputs_are_listed_newest_first_in_pages() {
    let (_store, mut gateway) = with_outputs();
    let page = gateway.call("context_list", &json!({"limit": 1}))["structuredContent"].clone();
    assert_eq!(page["artifacts"][0]["id"], "ctx://c7/artifacts/tool/b2.json");
    assert_eq!(page["artifacts"].as_array().unwrap().len(), 1);
    let next = gateway.call("context_list", &json!({"cursor": page["next"]}));
    let next = &next["structuredContent"];
    assert_eq!(next["artifacts"][0]["id"], "ctx://c7/artifacts/tool/a1.txt");
    assert!(next.get("next").is_none());
    let none = gateway.call("context_list", &json!({"since": 1u64 << 60}));
    assert_eq!(none["structuredContent"]["artifacts"], json!([]));
}

#[test]
fn every_name_of_an_output_is_read() {
    let (_store, mut gateway) = with_outputs();
    for name in
        ["a1", "a1.txt", "c7/a1.txt", "ctx://c7/artifacts/tool/a1.txt", "artifacts/tool/a1.txt"]
    {
        let read = gateway.call("context_read", &json!({"ref": name, "offset": 5, "limit": 9}));
        assert_eq!(text(&read, 0), "1\nline 2\n", "{name}");
        let told = json!({"offset": 5, "next": 14, "total": 31_912});
        assert_eq!(read["structuredContent"]["next"], told["next"], "{read}");
    }
    for name in [
        "c8/secret.txt",
        "ctx://c8/artifacts/tool/secret.txt",
        "../c8/artifacts/tool/secret.txt",
        "/etc/passwd",
        "nothing",
        "",
        "manifest.jsonl/../../c8/artifacts/tool/secret.txt",
        "..",
    ] {
        let read = gateway.call("context_read", &json!({"ref": name}));
        assert_eq!(read["isError"], true, "{name}: {read}");
    }
}

#[test]
fn a_path_of_any_mount_is_read() {
    let (_store, mut gateway) = with_outputs();
    let path = "/home/me/ctx/c7/artifacts/tool/a1.txt";
    let read = gateway.call("context_read", &json!({"ref": path, "lines": "7-7"}));
    assert_eq!(text(&read, 0), "line 7\n");
    let other = gateway.call("context_read", &json!({"ref": path.replace("c7", "c8")}));
    assert_eq!(other["isError"], true);
}

#[test]
fn a_long_answer_keeps_its_limit_and_says_where_to_go_on() {
    let store = Arc::new(TestStore::new());
    let row = |number: u32| format!("row {number}\n");
    let rows: String = (1..=5000).map(row).collect();
    store.put("c7", "a1", rows.as_bytes());
    for most in [500, 2000] {
        let limit = [("CTXFS_MAX_INLINE_BYTES", &*most.to_string())];
        let mut gateway = Gateway::start(&store, &[], &[], &limit);
        gateway.shake_hands("2025-11-25");
        for lines in [json!(null), json!(3), json!(1000), json!(1_u64 << 60)] {
            let tail = gateway.call("context_tail", &json!({"ref": "a1", "lines": lines}));
            let tail = text(&tail, 0);
            assert!(tail.len() <= most && tail.ends_with("row 5000\n"), "{lines}: {tail}");
            let is_cut = tail.starts_with("# the last ");
            assert!(is_cut || lines.as_u64().unwrap_or(200) * 10 < most as u64 + 200, "{tail}");
            let told: Option<usize> = tail.split(' ').nth(3).and_then(|word| word.parse().ok());
            assert!(!is_cut || told == Some(tail.lines().count() - 1), "{tail}");
        }
        for reference in [Some("a1"), None] {
            let found = json!({"ref": reference, "pattern": "row 1"});
            let found = gateway.call("context_grep", &found);
            let found = text(&found, 0);
            let (first, shown) = found.split_once('\n').unwrap();
            assert!(found.len() <= most && first.contains("; the first follow, in "), "{found}");
            let (before, offset) = first.rsplit_once(" from offset ").unwrap();
            let name = before.split_once("context_read of ").unwrap().1;
            let rest = json!({"ref": name, "offset": offset.parse::<u64>().unwrap()});
            let rest = gateway.call("context_read", &rest);
            let last = shown.lines().last().unwrap();
            let next = text(&rest, 0).lines().next().unwrap();
            let number = |line: &str| line.rsplit("row ").next().unwrap().parse::<u64>().unwrap();
            assert!(number(next) > number(last), "{last} {next}");
        }
    }
}

#[test]
fn the_end_of_a_long_last_line_is_its_end() {
    let store = Arc::new(TestStore::new());
    store.put("c7", "a1", format!("first\n{}the end", "x".repeat(5000)).as_bytes());
    let mut gateway = Gateway::start(&store, &[], &[], &[("CTXFS_MAX_INLINE_BYTES", "500")]);
    gateway.shake_hands("2025-11-25");
    for lines in [json!(null), json!(1)] {
        let tail = gateway.call("context_tail", &json!({"ref": "a1", "lines": lines}));
        let tail = text(&tail, 0);
        assert!(tail.len() <= 500 && tail.ends_with("xxthe end"), "{tail}");
        assert!(tail.starts_with("# the last ") && !tail.contains("first"), "{tail}");
    }
}

#[test]
fn a_whole_output_is_read_in_parts() {
    let (store, mut gateway) = with_outputs();
    let (mut at, mut all) = (json!(0), String::new());
    while !at.is_null() {
        let read = gateway.call("context_read", &json!({"ref": "a1", "offset": at}));
        assert!(text(&read, 0).len() <= 16_384);
        all += text(&read, 0);
        at = read["structuredContent"]["next"].clone();
    }
    assert_eq!(all.as_bytes(), stored(&store, "a1.txt"));
}

#[test]
fn answers_are_the_bytes_of_the_views() {
    let (store, mut gateway) = with_outputs();
    let view = |name: &str| {
        String::from_utf8(
            store
                .ctxfs("view", &["--advertise", "ctx://", &format!("c7/artifacts/tool/{name}")])
                .stdout(),
        )
        .unwrap()
    };
    let cases = [
        ("context_tail", json!({"ref": "a1"}), "a1.txt.tail"),
        ("context_tail", json!({"ref": "a1", "lines": 3}), "a1.txt.lines/-3"),
        ("context_read", json!({"ref": "a1", "lines": "10-12"}), "a1.txt.lines/10-12"),
        (
            "context_grep",
            json!({"ref": "a1", "pattern": "error", "ignore_case": true}),
            "a1.txt.grep/-i error",
        ),
        (
            "context_grep",
            json!({"ref": "a1", "pattern": "line 1.0$", "context": 1}),
            "a1.txt.grep/-C1 line 1.0$",
        ),
        ("context_view", json!({"ref": "a1", "view": "errors"}), "a1.txt.errors"),
        ("context_view", json!({"ref": "b2", "view": "jq/.items[7]"}), "b2.json.jq/.items[7]"),
        (
            "context_view",
            json!({"ref": "b2", "view": "pretty.grep/n88"}),
            "b2.json.pretty.grep/n88",
        ),
    ];
    for (tool, arguments, name) in cases {
        assert_eq!(text(&gateway.call(tool, &arguments), 0), view(name), "{name}");
    }
    let all = gateway.call("context_grep", &json!({"pattern": "broken|n899"}));
    assert!(text(&all, 0).contains("a1.txt:3001:ERROR: broken pipe"), "{all}");
    assert!(text(&all, 0).contains("b2.json:1"), "{all}");
    let wrong = gateway.call("context_view", &json!({"ref": "a1", "view": "nothing"}));
    assert_eq!(wrong["isError"], true);
}

#[test]
fn names_in_a_summary_can_be_read() {
    let mut gateway = Gateway::new();
    let result = gateway.call_as("n", "text", &json!({"line": "some row\n", "counts": [2000]}));
    let named: Vec<String> = text(&result, 0)
        .split_whitespace()
        .filter(|word| word.starts_with("ctx://"))
        .map(|word| word.trim_end_matches([',', ')', ';']).to_owned())
        .collect();
    assert!(!named.is_empty(), "{}", text(&result, 0));
    for name in named {
        let read = gateway.call("context_read", &json!({"ref": name}));
        assert!(read.get("isError").is_none(), "{name}: {read}");
    }
}

#[test]
fn outputs_and_views_are_resources() {
    let (_store, mut gateway) = with_outputs();
    let listed = gateway.request("resources/list", &json!({}))["result"]["resources"].clone();
    assert_eq!(listed[1]["uri"], "ctx://c7/artifacts/tool/a1.txt");
    assert_eq!(listed[0]["mimeType"], "application/json");
    let templates = gateway.request("resources/templates/list", &json!({}));
    assert_eq!(templates["result"]["resourceTemplates"][0]["uriTemplate"], "ctx://c7/{+path}");
    let uri = "ctx://c7/artifacts/tool/a1.txt.grep/ERROR";
    let read = gateway.request("resources/read", &json!({"uri": uri}));
    assert_eq!(read["result"]["contents"][0]["text"], "3001:ERROR: broken pipe\n");
    let read =
        gateway.request("resources/read", &json!({"uri": "ctx://c8/artifacts/tool/secret.txt"}));
    assert_eq!(read["error"]["code"], -32602);
}

#[test]
fn a_server_with_resources_keeps_them() {
    let mut gateway =
        Gateway::with(&[], &[("SERVER_CAPABILITIES", r#"{"resources":{"subscribe":true}}"#)]);
    let read = gateway.request("resources/read", &json!({"uri": "test://small"}));
    assert_eq!(read["result"]["contents"][0]["text"], "small");
    // It has no tools; ours are there all the same.
    let tools = gateway.request("tools/list", &json!({}));
    assert_eq!(tools["result"]["tools"].as_array().unwrap().len(), 5);
}

#[test]
fn arguments_can_be_references() {
    let mut gateway = Gateway::new();
    let store = Arc::clone(&gateway.store);
    store.put("c7", "src", b"one\ntwo \"2\"\nthree\n");
    store.put("c7", "data", br#"{"items":[{"n":12345678901234567890123},{"n":"x"}]}"#);
    store.put("c7", "long", "row\n".repeat(100_000).as_bytes());
    let mut echoed = |arguments: Value| {
        let result = gateway.call("echo", &arguments);
        let told: Value = serde_json::from_str(text(&result, 0)).unwrap_or_default();
        (result["isError"] == true, told["arguments"].clone())
    };
    let given = json!({"a": [{"$ctx": "src"}], "b": {"$ctx": "src", "lines": "2-3"},
        "c": {"$ctx": "data", "jq": ".items[1].n"}, "d": {"$ctx": "src", "other": 1}, "e": "$ctx"});
    let (_, told) = echoed(given);
    assert_eq!(
        told,
        json!({"a": ["one\ntwo \"2\"\nthree\n"], "b": "two \"2\"\nthree\n",
        "c": "x", "d": {"$ctx": "src", "other": 1}, "e": "$ctx"})
    );
    let (_, told) = echoed(json!({"n": {"$ctx": "data", "jq": ".items[0]"}}));
    assert!(told["n"]["n"].is_number(), "{told}");
    for wrong in [
        json!({"$ctx": "none"}),
        json!({"$ctx": "c8/x"}),
        json!({"$ctx": 1}),
        json!({"$ctx": "src", "lines": "x"}),
        json!({"$ctx": "src", "jq": ".["}),
    ] {
        assert!(echoed(json!({"a": wrong})).0, "{wrong}");
    }
    let result = gateway.call_as("big", "echo", &json!({"a": {"$ctx": "long"}}));
    assert!(text(&result, 0).starts_with("[ctxfs]"));
    let meta: Value =
        serde_json::from_slice(&store.view("c7/artifacts/tool/big.json.meta.json")).unwrap();
    assert_eq!(meta["args"], r#"{"a":{"$ctx":"long"}}"#);
}
