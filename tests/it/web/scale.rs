//! Many conversations, many outputs, and one output of gigabytes.

use std::fs;
use std::io::Write as _;
use std::sync::Arc;

use super::*;
use crate::support::{TestStore, comes_true, eventually};

/// Lines of a large log.
const LINES: u64 = 3_000_000;

/// Conversations that are made as files, as putting each would take an hour.
fn conversations(store: &TestStore, count: usize, outputs: usize) {
    for conversation in 0..count {
        let dir = store.path().join(format!("context/c{conversation:05}/artifacts/tool"));
        fs::create_dir_all(&dir).unwrap();
        for output in 0..outputs {
            fs::write(dir.join(format!("x{output}.txt")), "text\n").unwrap();
        }
    }
}

#[test]
fn ten_thousand_conversations_are_listed() {
    let store = Arc::new(TestStore::new());
    store.put("first", "one", b"text\n");
    conversations(&store, 10_000, 1);
    let page = Served::new(&store, &[]);
    // Before all are known, the page says how many are.
    let early = page.get("/");
    assert!(early.has("conversations"), "{}", early.text());
    // A build for tests on a busy machine takes minutes.
    let is_listed = || page.get("/").has("<caption>10,001 conversations");
    assert!((0..4).any(|_| comes_true(is_listed)));
    let filtered = page.get("/?part=table&q=c0999");
    assert_eq!(filtered.attributes("data-conversation").len(), 10);
    let last = page.get("/?sort=name&order=desc&page=101");
    assert_eq!(last.attributes("data-conversation").len(), 1);
}

#[test]
fn thousands_of_outputs_are_pages() {
    let store = Arc::new(TestStore::new());
    conversations(&store, 1, 5_000);
    let page = Served::new(&store, &[]);
    let shown = page.get("/c/c00000/outputs?sort=name");
    assert!(shown.has("5,000 outputs") && shown.has("page 1 of 50"));
    assert_eq!(shown.text().matches("<tr data-output").count(), 100);
    assert!(page.get("/c/c00000").has("Older"));
}

#[test]
fn a_window_deep_in_a_large_log_is_found() {
    let store = Arc::new(TestStore::new());
    store.put("c7", "big", b"first\n");
    let path = store.plain("c7", "big.txt");
    let mut file = std::io::BufWriter::new(fs::File::create(&path).unwrap());
    for line in 1..=LINES {
        writeln!(file, "{line} some words of a log that is long, and goes on").unwrap();
    }
    drop(file);
    let page = Served::new(&store, &[]);
    let output = "/c/c7/o/artifacts/tool/big.txt";
    let size = fs::metadata(&path).unwrap().len();
    // By bytes, whatever is counted.
    let middle = page.get(&format!("{output}?part=lines&at={}", size / 2));
    assert!(middle.has("some words of a log"));
    assert!(page.get(&format!("{output}?part=lines&end=1")).has(&format!("{LINES} some words")));
    eventually("the line is found", || {
        let window = page.get(&format!("{output}?part=lines&line=2500000"));
        window.attributes("data-line").first().is_some_and(|line| line == "2500000")
            && window.has("<code>2500000 some words")
    });
    eventually("all lines are counted", || {
        page.get(&format!("{output}?part=lines")).attributes("data-lines") == [LINES.to_string()]
    });
    for line in (1..20).map(|number| number * LINES / 20) {
        let window = page.get(&format!("{output}?part=lines&line={line}"));
        assert_eq!(window.attributes("data-line")[0], line.to_string());
    }
}

#[test]
fn downloads_that_nobody_reads_hold_up_nobody() {
    let store = Arc::new(TestStore::new());
    store.put("c7", "big", &b"text\n".repeat(8 << 20));
    let page = Served::new(&store, &[]);
    let raw = "/c/c7/raw/artifacts/tool/big.txt";
    let cookie = [("cookie", &*page.cookie)];
    let _unread: Vec<_> = (0..20).map(|_| page.send("GET", raw, &cookie)).collect();
    assert!(page.get("/c/c7").has("big.txt"));
    assert_eq!(page.get(raw).body.len(), 5 * (8 << 20));
}
