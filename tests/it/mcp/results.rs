//! Long results: stored whole, a stand-in in their place, in bounded memory.

use super::*;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD};

use crate::support::{Mode, TestMount};

/// The most memory of a gateway, in KiB. A build for tests needs more than a release.
const MOST_MEMORY: u64 = 64 << 10;

fn lines(count: usize) -> String {
    (0..count).map(|number| format!("line {number}\n")).collect::<Vec<_>>().concat()
}

#[test]
fn a_long_text_becomes_an_artifact_with_its_provenance() {
    let mut gateway = Gateway::new();
    let result = gateway.call_as("toolu_1", "text", &json!({"line": "row\n", "counts": [3000, 1]}));
    let stand_in = text(&result, 0);
    assert!(stand_in.starts_with("[ctxfs] The complete output is stored"), "{stand_in}");
    assert!(stand_in.contains("tool: server/text    call: toolu_1"), "{stand_in}");
    assert!(stand_in.contains("ctx://c7/artifacts/tool/toolu_1.txt"), "{stand_in}");
    assert!(stand_in.contains("context_read") && !stand_in.contains("/ctx/c7"), "{stand_in}");
    assert!(stand_in.len() <= 6 * 1024);
    assert_eq!(result["content"][1]["type"], "resource_link");
    assert_eq!(result["content"][1]["size"], 12_000);
    assert_eq!(text(&result, 2), "row\n");
    assert_eq!(stored(&gateway.store, "toolu_1.txt"), "row\n".repeat(3000).as_bytes());
    let meta = gateway.store.view("c7/artifacts/tool/toolu_1.txt.meta.json");
    let meta: Value = serde_json::from_slice(&meta).unwrap();
    assert_eq!((&meta["tool"], &meta["server"]), (&json!("text"), &json!("server")));
    assert!(meta["args"].as_str().unwrap().contains("[3000,1]"), "{meta}");
    assert!(meta["duration_ms"].is_u64(), "{meta}");
}

#[test]
fn calls_without_an_id_get_one() {
    let mut gateway = Gateway::new();
    let arguments = json!({"line": "x\n", "counts": [6000]});
    let names: Vec<String> = (0..2)
        .map(|_| {
            gateway.call("text", &arguments)["content"][1]["name"].as_str().unwrap().to_owned()
        })
        .collect();
    assert_ne!(names[0], names[1]);
    assert!(names[0].len() < 20, "{names:?}");
}

#[test]
fn a_mounted_store_is_named_by_its_paths() {
    let store = Arc::new(TestStore::new());
    let mount = TestMount::of(&store, Mode::Passthrough, &[]);
    let mut gateway = Gateway::start(&store, &[], &server(), &[]);
    gateway.shake_hands("2025-11-25");
    let result = gateway.call_as("a", "text", &json!({"line": "row\n", "counts": [3000]}));
    let path = mount.path().join("c7/artifacts/tool/a.txt");
    assert!(text(&result, 0).contains(path.to_str().unwrap()), "{result}");
    assert_eq!(std::fs::read(path).unwrap(), "row\n".repeat(3000).as_bytes());
}

#[test]
fn old_clients_get_no_links() {
    let mut gateway = Gateway::start(&Arc::new(TestStore::new()), &[], &server(), &[]);
    gateway.shake_hands("2024-11-05");
    let result = gateway.call_as("a", "text", &json!({"line": "row\n", "counts": [3000]}));
    assert_eq!(result["content"].as_array().unwrap().len(), 1);
    assert!(text(&result, 0).contains("ctx://c7/artifacts/tool/a.txt"));
}

#[test]
fn errors_show_their_end() {
    let mut gateway = Gateway::new();
    let line = "a line of the way to the failure\n";
    let result = gateway.call("fail", &json!({"line": line, "count": 3000}));
    assert_eq!(result["isError"], true);
    assert!(text(&result, 0).contains("ERROR: the reason"), "{}", text(&result, 0));
}

#[test]
fn errors_of_600_kb_arrive_as_stand_ins() {
    let mut gateway = Gateway::new();
    let line = "a line of the way to the failure\n";
    let told = gateway.call_as("marked", "fail", &json!({"line": line, "count": 18_000}));
    assert_eq!(told["isError"], true);
    assert!(text(&told, 0).contains("ERROR: the reason"), "{}", text(&told, 0));
    assert_eq!(stored(&gateway.store, "marked.txt").len(), line.len() * 18_000 + 18);
    let arguments = json!({"line": line, "count": 18_000});
    let meta = json!({"claudecode/toolUseId": "refused"});
    let call = json!({"name": "error", "arguments": arguments, "_meta": meta});
    let error = gateway.request("tools/call", &call)["error"].clone();
    assert_eq!((&error["code"], &error["data"]), (&json!(-32042), &json!({"n": 1})));
    let reason = error["message"].as_str().unwrap();
    assert!(reason.starts_with("[ctxfs] ") && reason.len() < 6144, "{reason}");
    assert_eq!(stored(&gateway.store, "refused.txt"), line.repeat(18_000).as_bytes());
}

#[test]
fn structured_content_of_any_size_reaches_scripts() {
    let mut gateway = Gateway::new();
    let rows: Vec<Value> =
        (0..150_000).map(|n| json!({"n": n, "name": format!("row {n}")})).collect();
    let same = json!({"rows": rows}).to_string();
    let content = json!([{"type": "text", "text": same}]);
    let sent = json!({"result": {"content": content, "structuredContent": {"rows": rows}}});
    let result = gateway.call_as("rows", "result", &sent);
    assert_eq!(result["structuredContent"], json!({"rows": rows}));
    assert!(text(&result, 0).starts_with("[ctxfs] "), "{}", text(&result, 0));
    assert_eq!(stored(&gateway.store, "rows.json"), same.as_bytes());
}

#[test]
fn a_huge_text_takes_no_memory() {
    let size: u64 = 100 << 20;
    for id_first in [true, false] {
        let mut gateway = Gateway::new();
        let before = gateway.peak();
        let arguments = json!({"size": size, "id_first": id_first});
        let result = gateway.call_as("huge", "stream", &arguments);
        assert!(text(&result, 0).starts_with("[ctxfs] The complete output is stored"));
        let bytes = stored(&gateway.store, "huge.txt");
        let line = "2026-01-13 12:00:00 INFO request took 97 ms: caf\u{e9} \"quoted\"\n";
        assert!(bytes.len() as u64 >= size * 8 / 10, "{}", bytes.len());
        assert_eq!(&bytes[..line.len()], line.as_bytes());
        assert!(bytes.ends_with(line.as_bytes()));
        assert_eq!(memchr::memchr_iter(b'\n', &bytes).count() * line.len(), bytes.len());
        println!("peak {} KiB, after the handshake {before} KiB", gateway.peak());
        assert!(gateway.peak() < MOST_MEMORY, "{} KiB", gateway.peak());
        // The message itself is gone.
        let cache = gateway.store.path().join("cache");
        assert_eq!(std::fs::read_dir(cache).unwrap().count(), 0);
    }
}

#[test]
fn images_beyond_the_limit_are_stored() {
    let mut gateway = Gateway::new();
    let data = |bytes: usize| "QUJD".repeat(bytes / 3);
    let image =
        |bytes: usize| json!({"type": "image", "data": data(bytes), "mimeType": "image/png"});
    let small = json!({"result": {"content": [image(600_000)]}});
    assert_eq!(gateway.call("result", &small)["content"][0], image(600_000));
    let result =
        gateway.call_as("i", "result", &json!({"result": {"content": [image(1_500_000)]}}));
    assert_eq!(result["content"][0]["type"], "text");
    assert_eq!(result["content"][1]["mimeType"], "image/png");
    assert_eq!(stored(&gateway.store, "i.txt"), "ABC".repeat(500_000).as_bytes());
}

/// Whatever form the base64 has, the bytes are stored. What is not base64 is stored as it is. The text
/// beside it arrives.
#[test]
fn binary_content_in_any_form_is_stored() {
    let mut gateway = Gateway::new();
    let bytes: Vec<u8> = (0..=255).cycle().take(1_500_001).collect();
    let plain = STANDARD.encode(&bytes);
    let lines: Vec<&str> =
        plain.as_bytes().chunks(76).map(|line| std::str::from_utf8(line).unwrap()).collect();
    let forms = [
        plain.clone(),
        STANDARD_NO_PAD.encode(&bytes),
        URL_SAFE_NO_PAD.encode(&bytes),
        lines.join("\r\n"),
        format!("data:image/png;base64,{plain}"),
    ];
    let svg = format!("data:image/svg+xml,%3Csvg%3E{}", "x".repeat(2_000_000));
    let cases = forms.iter().map(|form| (form, bytes.as_slice())).chain([(&svg, svg.as_bytes())]);
    for (number, (data, want)) in cases.enumerate() {
        for (letter, block) in [
            ("i", json!({"type": "image", "data": data, "mimeType": "image/png"})),
            ("b", json!({"type": "resource", "resource": {"uri": "x://y", "blob": data}})),
        ] {
            let call = format!("{letter}{number}");
            let content = json!([{"type": "text", "text": "beside it"}, block]);
            let result = gateway.call_as(&call, "result", &json!({"result": {"content": content}}));
            assert_eq!(text(&result, 0), "beside it");
            assert_eq!(result.get("isError"), None, "{call}");
            assert!(stored(&gateway.store, &format!("{call}.txt")) == want, "{call}");
        }
    }
}

#[test]
fn many_blocks_are_one_artifact() {
    let mut gateway = Gateway::new();
    let blocks: Vec<Value> = (0..40_000)
        .map(|number| json!({"type": "text", "text": format!("block {number}")}))
        .collect();
    let result = gateway.call_as("m", "result", &json!({"result": {"content": blocks}}));
    assert!(text(&result, 0).starts_with("[ctxfs] The complete output"), "{result}");
    let kept: Value = serde_json::from_slice(&stored(&gateway.store, "m.json")).unwrap();
    assert_eq!(kept["content"].as_array().unwrap().len(), 40_000);
}

#[test]
fn limits_are_those_of_the_tool() {
    let store = Arc::new(TestStore::new());
    std::fs::write(
        store.path().join("ctxfs.toml"),
        "[tool.\"srv/text\"]\nmax_inline_chars = \"never\"\nmax_inline_bytes = \"never\"\n\
         [tool.\"srv/result\"]\nmax_inline_chars = \"mirror\"\n",
    )
    .unwrap();
    let mut gateway = Gateway::start(&store, &["--name", "srv"], &server(), &[]);
    gateway.shake_hands("2025-11-25");
    let result = gateway.call("text", &json!({"line": "row\n", "counts": [700_000]}));
    assert_eq!(text(&result, 0), "row\n".repeat(700_000));
    let small = json!({"content": [{"type": "text", "text": "tiny"}]});
    assert_eq!(gateway.call_as("mi", "result", &json!({"result": small})), small);
    assert_eq!(stored(&store, "mi.txt"), b"tiny");
    let long = json!({"content": [{"type": "text", "text": lines(5000)}]});
    assert_eq!(gateway.call_as("m2", "result", &json!({"result": long})), long);
    assert_eq!(stored(&store, "m2.txt"), lines(5000).as_bytes());
}

#[test]
fn without_room_a_result_passes_with_a_note_or_says_why() {
    let mut gateway = Gateway::with(&[], &[("CTXFS_QUOTA", "1024")]);
    let result = gateway.call("text", &json!({"line": "row\n", "counts": [3000]}));
    assert!(
        text(&result, 0).starts_with("[ctxfs] The result that follows is not stored"),
        "{result}"
    );
    assert_eq!(text(&result, 1), "row\n".repeat(3000));
    let result = gateway.call("text", &json!({"line": "row\n", "counts": [1_000_000]}));
    assert_eq!(result["isError"], true);
    assert!(text(&result, 0).contains("quota"), "{result}");
    // No place for long messages.
    let mut gateway = Gateway::with(&[], &[("CTXFS_MIN_FREE", "1000TiB")]);
    let result = gateway.call("text", &json!({"line": "row\n", "counts": [1_000_000]}));
    assert_eq!(result["isError"], true);
    assert!(text(&result, 0).contains("no room"), "{result}");
    assert_eq!(text(&gateway.call("text", &json!({"line": "x", "counts": [1]})), 0), "x");
}

#[test]
fn what_was_saved_is_counted() {
    let mut gateway = Gateway::new();
    gateway.call("text", &json!({"line": "row\n", "counts": [3000]}));
    let store = Arc::clone(&gateway.store);
    assert_eq!(gateway.end(), 0);
    let counts = store.ctxfs("stats", &["--json"]).text();
    assert!(counts.contains("server/text"), "{counts}");
}

#[test]
fn an_output_is_the_same_artifact_as_by_put() {
    let store = Arc::new(TestStore::new());
    let mut gateway = Gateway::start(&store, &["--advertise", "/ctx"], &server(), &[]);
    gateway.shake_hands("2025-11-25");
    let arguments = json!({"line": "row\n", "counts": [3000]});
    let result = gateway.call_as("call_1", "text", &arguments);

    let other = TestStore::new();
    let known = ["-c", "c7", "--call", "call_1", "--tool", "text", "--server", "server"];
    let put = other.ctxfs("put", &known).env("CTXFS_ADVERTISE", "/ctx");
    let printed = put.args(["--args", &arguments.to_string()]).stdin("row\n".repeat(3000)).text();
    assert_eq!(text(&result, 0), printed);
    let record = |store: &TestStore| {
        let meta = store.view("c7/artifacts/tool/call_1.txt.meta.json");
        let mut meta: Value = serde_json::from_slice(&meta).unwrap();
        for time in ["created", "duration_ms"] {
            meta.as_object_mut().unwrap().remove(time);
        }
        meta
    };
    assert_eq!(record(&store), record(&other));
}

#[test]
fn a_conversation_that_was_removed_is_made_again() {
    let mut gateway = Gateway::new();
    let long = json!({"line": "some row\n", "counts": [9000]});
    // A result of this length is read from a file of the store.
    let longer = json!({"line": "some row\n", "counts": [300_000]});
    for (number, gone) in ["context/c7", "context", "", "context/c7"].iter().enumerate() {
        let id = format!("n{number}");
        let result = gateway.call_as(&id, "text", if number % 2 == 0 { &longer } else { &long });
        assert!(text(&result, 0).contains("The complete output is stored"), "{result:.500}");
        let listed = text(&gateway.call("context_list", &json!({})), 0).to_owned();
        assert!(listed.contains(&id), "{listed}");
        std::fs::remove_dir_all(gateway.store.path().join(gone)).unwrap();
    }
}

#[test]
fn without_context_tools_nothing_names_them() {
    let mut gateway = Gateway::with(&["--no-context-tools"], &[]);
    let texts = json!({"line": "some row\n", "counts": [9000, 9000, 9000, 9000]});
    let result = gateway.call("text", &texts).to_string();
    assert!(result.contains("Stored whole, not shown here"), "{result:.3000}");
    assert!(!result.contains("context_"), "{result:.3000}");
    let servers = [("one", json!({}))];
    let options = ["--no-context-tools", "--tools", "index"];
    let mut gateway = Gateway::of_servers(&Arc::new(TestStore::new()), &options, &servers);
    let told = gateway.shake_hands("2025-11-25").to_string();
    let listed = gateway.request("tools/list", &json!({})).to_string();
    assert!(told.contains("one__*") && listed.contains("one__*"), "{told} {listed}");
    assert!(!told.contains("context_read") && !listed.contains("context_read"), "{told} {listed}");
}

#[test]
fn an_embedded_resource_keeps_its_uri_in_the_record() {
    let store = Arc::new(TestStore::new());
    let environment = [("SERVER_MORE", MORE_TOOLS)];
    let mut gateway = Gateway::start(&store, &[], &server(), &environment);
    gateway.shake_hands("2025-11-25");
    let resource = json!({"uri": "mem://some/where?n=1", "text": "x".repeat(12_000)});
    let result = json!({"content": [{"type": "resource", "resource": resource}]});
    gateway.call_as("r", "result", &json!({"result": result}));
    let meta = gateway.call("context_view", &json!({"ref": "r", "view": "meta.json"}));
    let meta: Value = serde_json::from_str(text(&meta, 0)).unwrap();
    assert_eq!(meta["uri"], "mem://some/where?n=1", "{meta}");
}
