//! The table `[mcp]` of a settings file.

use super::*;

/// Starts a gateway with these lines in `[mcp]`.
fn with(lines: &str) -> Gateway {
    let (store, environment) = (store_with(lines), [("SERVER_MORE", MORE_TOOLS)]);
    let mut gateway = Gateway::start(&store, &[], &server(), &environment);
    gateway.shake_hands("2025-11-25");
    gateway
}

/// The same in index mode, where every call is allowed.
fn index_with(lines: &str) -> Gateway {
    let store = store_with(&format!("{lines}[permissions]\n\"*\" = \"allow\"\n"));
    let mut gateway = Gateway::of_servers(&store, &["--tools", "index"], &[("one", json!({}))]);
    gateway.shake_hands("2025-11-25");
    gateway
}

fn store_with(lines: &str) -> Arc<TestStore> {
    let store = Arc::new(TestStore::new());
    store.user_settings(format!("[mcp]\n{lines}"));
    store
}

fn batch(gateway: &mut Gateway, calls: &Value) -> Value {
    let result = gateway.call("run_tool_batch", &json!({"calls": calls}));
    serde_json::from_str(text(&result, 0)).unwrap_or_else(|error| panic!("{error}: {result}"))
}

#[test]
fn a_batch_keeps_to_the_budget_that_is_set() {
    let text = json!({"line": "a long line of text\n", "counts": [9000]});
    let calls = json!(vec![json!({"name": "one__text", "arguments": text}); 4]);
    let size = |lines| batch(&mut index_with(lines), &calls).to_string().len();
    let (small, usual) = (size("batch_budget = \"3 KiB\"\n"), size(""));
    assert!(small <= 3 << 10, "{small}");
    assert!(usual > 3 << 10, "{usual}");
}

#[test]
fn binary_content_passes_up_to_the_size_that_is_set() {
    // 3000 bytes, decoded.
    let image = json!({"type": "image", "data": "A".repeat(4000), "mimeType": "image/png"});
    let result = json!({"result": {"content": [image]}});
    for (lines, kind) in [("max_binary = \"2 KiB\"\n", "text"), ("max_binary = 3000\n", "image")] {
        let mut gateway = with(lines);
        let told = gateway.call_as("a1", "result", &result);
        assert_eq!(told["content"][0]["type"], kind, "{lines}: {told:.500}");
        assert_eq!(gateway.store.plain("c7", "a1.txt").exists(), kind == "text", "{lines}");
    }
}

#[test]
fn a_message_of_a_server_has_at_most_the_size_that_is_set() {
    let mut gateway = with("max_result = \"2 MiB\"\n");
    let told = gateway.call_as("a1", "stream", &json!({"size": 1 << 20}));
    assert!(told.get("isError").is_none(), "{told}");
    let told = gateway.call_as("a2", "stream", &json!({"size": 3 << 20}));
    assert_eq!(told["isError"], true);
    assert!(text(&told, 0).contains("; what came is in "), "{told}");
    assert!(stored(&gateway.store, "a2.txt").len() >= 1 << 20);
}

#[test]
fn references_can_be_switched_off() {
    let arguments = json!({"whole": {"$ctx": "a1"}});
    let mut gateway = with("references = false\n");
    gateway.store.put("c7", "a1", b"stored");
    let told = gateway.call("echo", &arguments);
    assert_eq!(text(&told, 0), r#"{"arguments": {"whole": {"$ctx": "a1"}}, "name": "echo"}"#);
    let mut gateway = with("references = true\n");
    gateway.store.put("c7", "a1", b"stored");
    let told = gateway.call("echo", &arguments);
    assert_eq!(text(&told, 0), r#"{"arguments": {"whole": "stored"}, "name": "echo"}"#);
}

#[test]
fn a_model_is_not_told_of_references_that_are_off() {
    let mut gateway = index_with("references = false\n");
    let listed = gateway.request("tools/list", &json!({}));
    assert!(!listed.to_string().contains("$ctx"), "{listed}");
    let call = json!([{"name": "one__echo", "arguments": {"a": {"$ctx": "nothing"}}}]);
    let reply = batch(&mut gateway, &call);
    assert_eq!(
        reply["results"][0]["text"],
        r#"{"arguments": {"a": {"$ctx": "nothing"}}, "name": "echo"}"#
    );
}
