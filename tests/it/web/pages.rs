//! What the pages show.

use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::Value;

use super::*;
use crate::support::{Command, TestStore, eventually};

fn failing(store: &TestStore) {
    let script = "seq 300; echo 'error: cannot find the config' >&2; seq 40; exit 3";
    let run = ["-c", "c7", "--id", "build", "--", "sh", "-c", script];
    assert_eq!(store.ctxfs("run", &run).run().code, 3);
}

#[test]
fn the_first_page_leads_to_the_line_that_says_why() {
    let store = Arc::new(TestStore::new());
    store.put("old", "one", b"fine\n");
    failing(&store);
    let page = Served::new(&store, &[]);
    let front = page.get("/");
    let last = "id=\"last-conversation\" href=\"/c/c7\"";
    assert!(front.has(last), "{}", front.text());
    assert!(front.has("exit 3"));
    let link = "/c/c7/o/artifacts/terminal/build.log?line=";
    let text = front.text();
    let at = text.find("last-failure-line").unwrap();
    let href = text[at..].split("href=\"").nth(1).unwrap().split('"').next().unwrap();
    assert!(href.starts_with(link) && href.ends_with("#L301"), "{href}");
    assert!(front.has("cannot find the config"));
    let output = page.get(href.split('#').next().unwrap());
    assert!(output.has("id=\"L301\"") && output.has("cannot find the config"));
}

#[test]
fn conversations_are_sorted_filtered_and_paged() {
    let store = Arc::new(TestStore::new());
    for number in 0..130 {
        let output = "x".repeat(number + 1);
        store.put(&format!("c{number:03}"), "one", output.as_bytes());
    }
    let page = Served::new(&store, &[]);
    let names = |path: &str| page.get(path).attributes("data-conversation");
    eventually("all are listed", || page.get("/").has("<caption>130 conversations"));
    let first = names("/?sort=name&order=asc");
    assert_eq!((first.len(), &*first[0], &*first[99]), (100, "c000", "c099"));
    assert_eq!(names("/?sort=name&order=asc&page=2").len(), 30);
    assert_eq!(names("/?sort=bytes")[0], "c129");
    assert_eq!(
        names("/?q=C12"),
        ["c129", "c128", "c127", "c126", "c125", "c124", "c123", "c122", "c121", "c120"]
            .map(str::to_owned)
            .into_iter()
            .filter(|name| names("/?q=C12").contains(name))
            .collect::<Vec<_>>()
    );
    let part = page.get("/?part=table&q=c00");
    assert!(!part.has("<html") && part.attributes("data-conversation").len() == 10);
    assert!(page.get("/?q=none").has("0 of 130 conversations"));
}

#[test]
fn a_conversation_has_its_messages_calls_and_outputs() {
    let store = Arc::new(TestStore::new());
    let long = "row of the output\n".repeat(5000);
    store.put("c7", "call_1", long.as_bytes());
    let messages = [
        serde_json::json!({"role": "user", "content": "count the <rows>", "createdAt": 1}),
        serde_json::json!({"role": "assistant", "content": "", "createdAt": 2,
            "tool_calls": [{"id": "call_1", "function": {"name": "sh", "arguments": "{\"c\": 1}"}}]}),
        serde_json::json!({"role": "tool", "tool_call_id": "call_1", "toolName": "sh",
            "content": "the beginning", "createdAt": 3}),
    ];
    let lines = messages.iter().map(|message| format!("{message}\n")).collect::<Vec<_>>().concat();
    store.ctxfs("log", &["append", "c7"]).stdin(lines).stdout();
    let page = Served::new(&store, &[]);
    let shown = page.get("/c/c7");
    assert_eq!(shown.attributes("data-role"), ["user", "assistant", "tool"]);
    assert!(shown.has("count the &lt;rows&gt;"));
    assert!(shown.has("href=\"/c/c7/o/artifacts/tool/call_1.txt\""));
    assert!(
        shown.has("<pre class=\"stand-in\" tabindex=\"0\">the beginning</pre>"),
        "{}",
        shown.text()
    );
    assert!(shown.attributes("data-output").contains(&"artifacts/tool/call_1.txt".to_owned()));
    let end = &shown.attributes("data-end")[0];
    let more = page.get(&format!("/c/c7?part=messages&after={end}"));
    assert!(more.attributes("data-role").is_empty());
    // Without messages, calls are what there is.
    store.put("c8", "two", long.as_bytes());
    let shown = page.get("/c/c8");
    assert_eq!(shown.attributes("data-role"), ["output"]);
    assert!(shown.has("[ctxfs] The complete output is stored."));
}

#[test]
fn lists_begin_with_what_a_thing_is_of() {
    let store = Arc::new(TestStore::new());
    let args = serde_json::json!({ "command": "cargo test <x>" }).to_string();
    let put =
        ["-c", "c7", "--call", "call_1", "--tool", "Bash", "--exit-code", "101", "--args", &args];
    store.ctxfs("put", &put).stdin("one\nERROR: no test\n").stdout();
    let about = r#"{"directory":"/src/p<","host":"codex","prompt":"fix <it>","more":1}"#;
    std::fs::write(store.path().join("context/c7/about.json"), about).unwrap();
    store.put("c8", "call_2", b"fine\n");
    let page = Served::new(&store, &[]);
    eventually("all are listed", || page.get("/").has("<caption>2 conversations"));
    let front = page.get("/");
    let row = "<a href=\"/c/c7\">fix &lt;it&gt;</a><br><span class=\"faint\">/src/p&lt;, codex</span>\
               <br><span class=\"faint\">last: cargo test &lt;x&gt;</span>\
               <br><span class=\"faint\">c7</span>";
    assert!(front.has(row), "{}", front.text());
    assert!(front.has("<a href=\"/c/c8\">c8</a><br><span class=\"faint\">last: call_2.txt</span>"));
    for found in ["FIX", "src/p", "cargo", "c7"] {
        let path = format!("/?part=table&q={found}");
        assert_eq!(page.get(&path).attributes("data-conversation"), ["c7"], "{found}");
    }
    let shown = page.get("/c/c7");
    assert!(shown.has("<p id=\"about\">fix &lt;it&gt;, /src/p&lt;, codex</p>"), "{}", shown.text());
    let row = "<a href=\"/c/c7/o/artifacts/tool/call_1.txt\">cargo test &lt;x&gt;</a>\
               <br><span class=\"faint\">call_1.txt</span>";
    assert!(shown.has(row), "{}", shown.text());
    assert!(
        page.get("/c/c8").has("<a href=\"/c/c8/o/artifacts/tool/call_2.txt\">call_2.txt</a></th>")
    );
}

#[test]
fn old_messages_are_pages_away() {
    let store = Arc::new(TestStore::new());
    let mut lines = String::new();
    for number in 0..100 {
        let _ = writeln!(lines, "{{\"role\":\"user\",\"content\":\"message {number}.\"}}");
    }
    store.ctxfs("log", &["append", "c7"]).stdin(lines).stdout();
    let page = Served::new(&store, &[]);
    let newest = page.get("/c/c7");
    assert!(newest.has("message 99.") && newest.has("message 60.") && !newest.has("message 59."));
    let before = newest.attributes("data-start")[0].clone();
    let older = page.get(&format!("/c/c7?before={before}"));
    assert!(older.has("message 59.") && older.has("message 20.") && !older.has("message 60."));
}

#[test]
fn an_output_is_shown_in_windows_of_lines() {
    let store = Arc::new(TestStore::new());
    let text = (1..=5000).map(|line| format!("line {line}\n")).collect::<Vec<_>>().concat();
    store.put("c7", "one", text.as_bytes());
    let page = Served::new(&store, &[]);
    let path = "/c/c7/o/artifacts/tool/one.txt";
    let lines = |query: &str| page.get(&format!("{path}{query}")).attributes("data-line");
    let first = lines("?part=lines");
    assert_eq!((first.len(), &*first[0], &*first[199]), (200, "1", "200"));
    assert_eq!(lines("?part=lines&line=4400")[0], "4400");
    assert_eq!(lines("?part=lines&end=1").last().unwrap(), "5000");
    assert_eq!(lines("?part=lines&line=9999").last().unwrap(), "5000");
    let window = page.get(&format!("{path}?part=lines&line=300"));
    let (start, end) = (&window.attributes("data-start")[0], &window.attributes("data-end")[0]);
    assert_eq!(lines(&format!("?part=lines&before={start}")).last().unwrap(), "299");
    assert_eq!(lines(&format!("?part=lines&from={end}"))[0], "500");
    let shown = page.get(&format!("{path}?line=4400"));
    for there in [
        "id=\"L4400\"",
        "Beginning",
        "lines 4,400-4,599 of 5,000",
        "5,000</dd>",
        "data-text=\"ctx://c7/artifacts/tool/one.txt\"",
    ] {
        assert!(shown.has(there), "{there}");
    }
    assert_eq!(page.try_get("/c/c7/o/artifacts/tool/none.txt").status, 404);
    assert_eq!(page.try_get("/c/c7/o/artifacts/tool").status, 404);
    assert_eq!(page.try_get("/c/c7/o/..%2f..%2f..%2fVERSION").status, 404);
}

#[test]
fn a_long_line_is_shown_in_parts() {
    let store = Arc::new(TestStore::new());
    let text = "word ".repeat(100_000);
    store.put("c7", "one", text.as_bytes());
    let page = Served::new(&store, &[]);
    let window = page.get("/c/c7/o/artifacts/tool/one.txt?part=lines");
    let columns = window.attributes("data-column");
    assert!(columns.len() >= 3, "{columns:?}");
    assert_eq!(window.attributes("data-line")[0], "1");
    assert!(window.body.len() < 100_000);
}

#[test]
fn a_log_is_shown_as_on_the_terminal_and_as_text() {
    let store = Arc::new(TestStore::new());
    let script = r"printf '\033[31mred\033[0m\n10%%\r100%% done\nend\n'";
    store.ctxfs("run", &["-c", "c7", "--id", "log", "--", "sh", "-c", script]).run();
    let page = Served::new(&store, &[]);
    let path = "/c/c7/o/artifacts/terminal/log.log";
    let screen = page.get(path);
    assert!(screen.has("data-view=\"screen\"") && screen.has("<span class=\"f1\">red</span>"));
    assert!(screen.has("100% done") && !screen.has("10%<"), "{}", screen.text());
    let text = page.get(&format!("{path}?view=text"));
    assert!(text.has("<code>red</code>") && text.has("<code>100% done</code>"));
}

#[test]
fn json_is_a_tree_that_opens_node_by_node() {
    let store = Arc::new(TestStore::new());
    let items: Vec<Value> = (0..250).map(|id| serde_json::json!({"id": id, "a b": [1]})).collect();
    let document = serde_json::json!({"total": 250, "items": items});
    store.put("c7", "doc", document.to_string().as_bytes());
    let page = Served::new(&store, &[]);
    let path = "/c/c7/o/artifacts/tool/doc.json";
    let root = page.get(path);
    assert!(root.has("role=\"tree\""));
    let paths = root.attributes("data-path");
    assert!(
        paths.contains(&".items".to_owned()) && paths.contains(&".total".to_owned()),
        "{paths:?}"
    );
    let list = page.get(&format!("{path}?part=json&view=json&json=.items"));
    assert_eq!(list.attributes("data-path").len(), 100);
    assert!(list.has("250 or more") || list.has("of 250"));
    let later = page.get(&format!("{path}?part=json&view=json&json=.items&from=200"));
    assert_eq!(later.attributes("data-path")[0], ".items[200]");
    let item = page.get(&format!("{path}?part=json&view=json&json=.items%5B7%5D"));
    assert_eq!(item.attributes("data-path"), [".items[7].&quot;a b&quot;", ".items[7].id"]);
    // What is copied is what `.jq/` takes.
    assert_eq!(store.view("c7/artifacts/tool/doc.json.jq/.items[7].\"a b\"[0]"), b"1\n");
    let lines = "{\"m\":1}\n{\"m\":{\"x\":2}}\n";
    store.put("c7", "lines", lines.as_bytes());
    let root = page.get("/c/c7/o/artifacts/tool/lines.json");
    let paths = root.attributes("data-path");
    assert_eq!(paths, ["-s .", "-s .[0]", "-s .[1]"]);
    assert_eq!(store.view("c7/artifacts/tool/lines.json.jq/-s .[1].m.x"), b"2\n");
}

#[test]
fn bytes_and_images_are_shown_and_downloaded() {
    let store = Arc::new(TestStore::new());
    let png = [&b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0"[..], &[0; 60]]
        .concat();
    let image = store.put("c7", "png", &png);
    let binary = store.put("c7", "bin", &(0..=255).collect::<Vec<u8>>().repeat(40));
    let text = store.put("c7", "txt", b"<script>alert(1)</script>\n");
    let page = Served::new(&store, &[]);
    let at = |what: &str, name: &str| format!("/c/c7/{what}/artifacts/tool/{name}");
    assert!(page.get(&at("o", &image)).has(&format!("src=\"{}\"", at("image", &image))));
    let shown = page.get(&at("image", &image));
    assert_eq!((shown.header("content-type"), &*shown.body), (Some("image/png"), &*png));
    assert!(shown.header("content-security-policy").unwrap().contains("sandbox"));
    assert_eq!(page.try_get(&at("image", &text)).status, 404);
    let hex = page.get(&at("o", &binary));
    assert!(hex.has("id=\"hex\"") && hex.has("00 01 02 03"));
    assert!(page.get(&format!("{}?view=hex&at=4096&part=hex", at("o", &binary))).has("00001000"));
    let raw = page.get(&at("raw", &text));
    assert_eq!(raw.header("content-type"), Some("text/plain; charset=utf-8"));
    assert!(raw.header("content-disposition").unwrap().starts_with("attachment; "));
    assert_eq!(raw.body, b"<script>alert(1)</script>\n");
    let raw = page.get(&at("raw", &binary));
    assert_eq!(raw.header("content-type"), Some("application/octet-stream"));
    let headers = [("cookie", &*page.cookie), ("range", "bytes=256-258")];
    let part = page.ask("GET", &at("raw", &binary), &headers);
    assert_eq!((part.status, &*part.body), (206, &[0, 1, 2][..]));
    assert_eq!(part.header("content-range"), Some("bytes 256-258/10240"));
}

#[test]
fn what_was_saved_is_plotted_with_its_numbers() {
    let store = Arc::new(TestStore::new());
    assert!(Served::new(&store, &[]).get("/saved").has("Nothing has been counted yet."));
    let long = "a line of some words\n".repeat(3000);
    for call in ["one", "two"] {
        let options = ["-c", "c7", "--call", call, "--tool", "sh/exec"];
        store.ctxfs("put", &options).stdin(&*long).stdout();
    }
    let page = Served::new(&store, &[]);
    let saved = page.get("/saved");
    for there in [
        "id=\"totals\"",
        "id=\"over-time\"",
        "id=\"by-tool\"",
        "id=\"by-conversation\"",
        "<svg role=\"img\"",
        "sh/exec",
        "2 outputs",
        "id=\"days\"",
    ] {
        assert!(saved.has(there), "{there}");
    }
    let told: Value = serde_json::from_slice(&store.ctxfs("stats", &["--json"]).stdout()).unwrap();
    let tokens = told["total"]["savedTokens"].as_u64().unwrap().to_string();
    assert!(saved.text().replace(',', "").contains(&tokens), "{tokens}");
    assert!(page.get("/saved?conversation=c7").has("id=\"tools\""));
    assert_eq!(page.try_get("/saved?conversation=none").status, 404);
}

#[test]
fn secrets_are_masked_as_in_views() {
    let store = Arc::new(TestStore::new());
    let key = "AKIAIOSFODNN7EXAMPLE";
    let text = format!("key {key}\n{{\"token\": \"{key}\"}}\n");
    store.put("c7", "one", text.as_bytes());
    store.put("c7", "doc", format!("{{\"key\": \"{key}\"}}").as_bytes());
    store.user_settings("redact = \"views\"\n");
    let page = Served::new(&store, &[]);
    for path in [
        "/c/c7",
        "/c/c7/o/artifacts/tool/one.txt",
        "/c/c7/o/artifacts/tool/one.txt?view=hex",
        "/c/c7/o/artifacts/tool/doc.json?view=json",
        "/c/c7/raw/artifacts/tool/one.txt",
        "/search/stream?conversation=c7&q=key",
        "/c/c7?q=key",
    ] {
        let shown = page.get(path);
        assert!(!shown.has("FODNN7EX"), "{path}: {}", shown.text());
    }
    assert!(Command::ctxfs().arg("--version").run().code == 0);
}

#[test]
fn every_line_that_looks_like_an_error_is_known() {
    let store = Arc::new(TestStore::new());
    let text = |wide: &dyn Fn(&str) -> Vec<u8>| {
        let kind = |number| if number % 400 == 399 { "ERROR" } else { "INFO" };
        let line = |number| format!("{} batch {number} took 7 ms\n", kind(number));
        wide(&(0..3000).map(line).collect::<String>())
    };
    store.put("c7", "plain", &text(&|text| text.as_bytes().to_vec()));
    store.put(
        "c7",
        "wide",
        &text(&|text| text.encode_utf16().flat_map(u16::to_le_bytes).collect()),
    );
    store.put(
        "c7",
        "coloured",
        &text(&|text| text.replace("ERROR", "\x1b[31mERROR\x1b[0m").into()),
    );
    store.put("c7", "fine", b"all is well\n");
    store.put("c7", "data", br#"[{"level": "error", "message": "error: it failed"}]"#);
    let page = Served::new(&store, &[]);
    let known = |path: &str| page.get(&format!("/c/c7/o/artifacts/{path}?part=errors")).text();
    for name in ["plain.txt", "wide.txt", "coloured.txt"] {
        assert_eq!(known(&format!("tool/{name}")), "400 800 1200 1600 2000 2400 2800", "{name}");
    }
    assert_eq!(known("tool/fine.txt"), "");
    assert_eq!(known("tool/data.json"), "1");
}

#[test]
fn the_last_error_of_a_kind_is_known_however_many_there_are() {
    const ERRORS: usize = 10_100;
    let store = Arc::new(TestStore::new());
    let line = |number| format!("ERROR batch {number} took 7 ms\n");
    store.put("c7", "many", (0..ERRORS).map(line).collect::<String>().as_bytes());
    let page = Served::new(&store, &[]);
    let known = page.get("/c/c7/o/artifacts/tool/many.txt?part=errors").text();
    let known: Vec<&str> = known.split(' ').collect();
    assert_eq!((known[0], known[known.len() - 1]), ("1", &*ERRORS.to_string()));
    assert!(known.len() < ERRORS, "{}", known.len());
}
