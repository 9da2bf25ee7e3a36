//! Outputs, names and requests that do their worst: nothing of them becomes markup, and nothing is
//! outgrown.

use std::fmt::Write as _;
use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::*;
use crate::support::{TestStore, eventually};

/// Texts that would do something if they were markup.
const PAYLOADS: &[&str] = &[
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>",
    "' onmouseover='alert(1)",
    "<a href=\"javascript:alert(1)\">x</a>",
    "</pre></code></div><svg/onload=alert(1)>",
    "<!--",
    "]]>",
    "&lt;b&gt;",
    "<base href=//evil.example>",
    "<meta http-equiv=refresh content=0;url=//evil.example>",
    "\u{202e}gnp.exe\u{2066}",
    "\u{200b}\u{feff}",
    "\x1b]8;;javascript:alert(1)\x1b\\click\x1b]8;;\x1b\\",
    "\x1b[2J\x1b[H\x1b]0;title\x07\x1b[?1049h",
    "{{7*7}}${7*7}",
];

/// Fails if a page has markup that is not its own.
fn check(page: &Served, path: &str) -> Answer {
    let answer = page.get(path);
    let text = answer.text().to_lowercase();
    for tag in
        ["<script>", "<script ", "<img src=x", "<svg/", "<base", "<meta http-equiv=refresh", "<!--"]
    {
        let own = usize::from(tag == "<script ");
        assert!(text.matches(tag).count() <= own, "{path}: {tag}");
    }
    for attribute in ["onerror=", "onload=", "onmouseover='", "href=\"javascript:", "style=\""] {
        let inside = text.split('<').skip(1).filter_map(|rest| rest.split('>').next());
        assert!(
            !inside.clone().any(|tag| outside_quotes(tag).contains(attribute)),
            "{path}: {attribute}"
        );
    }
    // What is read; attributes have names as they are.
    let read: String =
        text.split('<').filter_map(|rest| rest.split_once('>')).map(|x| x.1).collect();
    for hidden in ['\u{202e}', '\u{2066}', '\u{200b}', '\u{feff}', '\x1b', '\x07', '\0'] {
        assert!(!read.contains(hidden), "{path}: {hidden:?}");
    }
    answer
}

/// Returns a tag without the values in its quotes.
fn outside_quotes(tag: &str) -> String {
    let mut parts = tag.split('"');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.skip(1).step_by(2).fold(first, |all, part| all + part)
}

#[test]
fn outputs_stay_text_in_every_view() {
    let store = Arc::new(TestStore::new());
    let text =
        PAYLOADS.iter().map(|payload| format!("error: {payload}\n")).collect::<Vec<_>>().concat();
    store.put("c7", "text", text.as_bytes());
    let members: Vec<_> = PAYLOADS.iter().map(|p| serde_json::json!({*p: p})).collect();
    store.put("c7", "doc", serde_json::to_vec(&members).unwrap().as_slice());
    let log = store.path().join("context/c7/artifacts/terminal/log.log");
    fs::write(&log, &text).unwrap();
    let page = Served::new(&store, &[]);
    for path in [
        "/",
        "/c/c7",
        "/c/c7?q=error",
        "/c/c7/outputs",
        "/c/c7/o/artifacts/tool/text.txt",
        "/c/c7/o/artifacts/tool/text.txt?view=hex",
        "/c/c7/o/artifacts/tool/text.txt?q=error",
        "/c/c7/o/artifacts/tool/text.txt?q=%3Cscript%3Ealert(1)%3C/script%3E",
        "/c/c7/o/artifacts/tool/text.txt?view=%22%3E%3Cscript%3E&line=%22&json=%3Cscript%3E",
        "/c/c7/o/artifacts/tool/doc.json",
        "/c/c7/o/artifacts/tool/doc.json?view=text",
        "/c/c7/o/artifacts/terminal/log.log",
        "/c/c7/o/artifacts/terminal/log.log?view=text",
        "/?q=%3Cscript%3Ealert(1)%3C/script%3E&sort=%22%3E",
        "/saved",
    ] {
        check(&page, path);
    }
    let nodes = page.get("/c/c7/o/artifacts/tool/doc.json").attributes("data-at");
    check(
        &page,
        &format!("/c/c7/o/artifacts/tool/doc.json?view=json&part=json&json=.&at={}", nodes[0]),
    );
}

#[test]
fn names_messages_and_arguments_stay_text() {
    let store = Arc::new(TestStore::new());
    for (number, payload) in PAYLOADS.iter().enumerate() {
        let name: String = payload.chars().filter(|c| !c.is_control() && *c != '/').collect();
        let call = format!("{number}{name}");
        let options = [
            "-c",
            &format!("c{number}{name}"),
            "--call",
            &call,
            "--tool",
            payload,
            "--server",
            payload,
            "--args",
            payload,
            "--exit-code",
            "1",
        ];
        store.ctxfs("put", &options).stdin("error: x\n").stdout();
        let message = serde_json::json!({"role": "user", "content": payload, "createdAt": payload,
            "mode": payload, "tool_call_id": payload, "toolName": payload,
            "tool_calls": [{"id": payload, "function": {"name": payload, "arguments": payload}}]});
        store.ctxfs("log", &["append", "c7"]).stdin(format!("{message}\n")).stdout();
    }
    let page = Served::new(&store, &[]);
    check(&page, "/saved");
    check(&page, "/c/c7");
    let names = PAYLOADS.len() + 1;
    eventually("all are listed", || page.get("/").has(&format!("<caption>{names} conversations")));
    let front = check(&page, "/?sort=name");
    let links: Vec<String> =
        front.attributes("href").into_iter().filter(|link| link.starts_with("/c/")).collect();
    assert!(links.len() >= PAYLOADS.len(), "{links:?}");
    for link in links.iter().filter(|link| !link.contains("/o/")) {
        let conversation = check(&page, link);
        let outputs = conversation.attributes("href");
        for output in outputs.iter().filter(|link| link.contains("/o/")) {
            check(&page, output.split('#').next().unwrap());
        }
    }
}

#[test]
fn a_million_tags_and_controls_are_as_many_characters() {
    let store = Arc::new(TestStore::new());
    store.put("c7", "tags", "<b>".repeat(1_000_000).as_bytes());
    store.put("c7", "deep", "[".repeat(1_000_000).as_bytes());
    store.put("c7", "brackets", ("[".repeat(100_000) + &"]".repeat(100_000)).as_bytes());
    store.put("c7", "zero", &vec![0; 3_000_000]);
    let moves = "\x1b[9999A\x1b[9999C\x1b[9999Bx\x1b[2J\n".repeat(50_000);
    let log = store.path().join("context/c7/artifacts/terminal/log.log");
    fs::write(&log, moves).unwrap();
    let page = Served::new(&store, &[]);
    for path in [
        "/c/c7/o/artifacts/tool/tags.txt",
        "/c/c7/o/artifacts/tool/deep.txt",
        "/c/c7/o/artifacts/tool/brackets.json",
        "/c/c7/o/artifacts/tool/brackets.json?view=text",
        "/c/c7/o/artifacts/tool/zero.txt",
        "/c/c7/o/artifacts/terminal/log.log",
        "/c/c7/o/artifacts/terminal/log.log?line=25000",
    ] {
        let began = Instant::now();
        let answer = page.get(path);
        assert!(answer.body.len() < 2_000_000, "{path}: {}", answer.body.len());
        assert!(began.elapsed() < Duration::from_mins(1), "{path}: {:?}", began.elapsed());
    }
    let status = fs::read_to_string(format!("/proc/{}/status", page.pid())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(peak < 200 << 10, "{peak} KiB");
}

#[test]
fn parameters_of_any_kind_are_answered() {
    let store = Arc::new(TestStore::new());
    store.put("c7", "one", b"one\ntwo\n");
    let page = Served::new(&store, &[]);
    let most = u64::MAX.to_string();
    for value in ["", "-1", "x", "18446744073709551616", &most, "%00", "%ff", "1e9"] {
        for name in
            ["line", "at", "from", "before", "page", "sort", "view", "json", "q", "part", "end"]
        {
            for path in ["/", "/c/c7", "/c/c7/o/artifacts/tool/one.txt", "/saved"] {
                let status = page.try_get(&format!("{path}?{name}={value}")).status;
                assert!([200, 400, 404].contains(&status), "{path} {name}={value}: {status}");
            }
        }
    }
    for path in [
        "/c/..",
        "/c/%2e%2e",
        "/c/%00",
        "/c/.ctxfs",
        "/c/c7/o/%2e%2e/x",
        "/c/c7/o/history/messages.jsonl/x",
        "/c/c7/raw/..%2f..%2fVERSION",
        "/c//",
        "/c/c7/o/",
        "/static/../VERSION",
        "/static/page.js.map",
    ] {
        let status = page.try_get(path).status;
        assert!([400, 404].contains(&status), "{path}: {status}");
    }
    let mut many = String::from("/events?");
    for number in 0..200 {
        let _ = write!(many, "watch=c/{number}&");
    }
    for path in ["/events", "/events?watch=x", "/events?watch=c/none", &many] {
        assert!([400, 404].contains(&page.try_get(path).status), "{path}");
    }
    let long = "x".repeat(5000);
    assert!(page.get(&format!("/search/stream?conversation=c7&q={long}")).has("\"kind\":\"done\""));
    assert_eq!(page.try_get(&format!("/search/stream?conversation=c7&q=x&tab={long}")).status, 400);
}
