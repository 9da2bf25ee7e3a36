//! Searches: streamed, cancelled, and the same as in views.

use std::io::Write as _;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::*;
use crate::support::TestStore;

fn search(page: &Served, query: &str) -> Vec<Value> {
    let path = format!("/search/stream?{query}");
    let text = page.get(&path).text();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn hits(found: &[Value], kind: &str) -> Vec<(u64, String)> {
    let of = |hit: &&Value| hit["kind"] == kind;
    let hit =
        |hit: &Value| (hit["line"].as_u64().unwrap(), hit["text"].as_str().unwrap().to_owned());
    found.iter().filter(of).map(hit).collect()
}

#[test]
fn a_search_finds_what_the_view_shows() {
    let store = Arc::new(TestStore::new());
    let text = (1..=3000).map(|line| format!("line {line} of some\n")).collect::<Vec<_>>().concat();
    store.put("c7", "one", text.as_bytes());
    let page = Served::new(&store, &[]);
    let output = "conversation=c7&output=artifacts/tool/one.txt";
    let found = search(&page, &format!("{output}&q=-C1%20line%2015%5C%20of"));
    assert_eq!(hits(&found, "match"), [(15, "line 15 of some".to_owned())]);
    assert_eq!(hits(&found, "context").len(), 2);
    assert_eq!(found.last().unwrap()["kind"], "done");
    // All of many matches come, though a view shows only so many.
    let found = search(&page, &format!("{output}&q=line"));
    assert_eq!(hits(&found, "match").len(), 3000);
    let done = found.last().unwrap();
    assert_eq!((&done["matches"], &done["more"]), (&3000.into(), &Value::Null));
    let note = search(&page, &format!("{output}&q=(%5B"));
    assert!(
        note.iter().any(|line| line["kind"] == "note"
            && line["text"].as_str().unwrap().contains("searched as text")),
        "{note:?}"
    );
    for query in ["a%2Fb", "100%25", "HEAD", ".git", "..", ""] {
        let found = search(&page, &format!("{output}&q={query}"));
        assert_eq!(found.last().unwrap()["kind"], "done", "{query}");
    }
    assert!(page.get("/c/c7/o/artifacts/tool/one.txt?q=2999").has("line 2999 of some"));
}

#[test]
fn a_conversation_is_searched_with_links_to_lines() {
    let store = Arc::new(TestStore::new());
    store.put("c7", "a-1-b", b"one\nneedle here\n");
    store.put("c7", "other", b"a needle\n");
    let page = Served::new(&store, &[]);
    let found = search(&page, "conversation=c7&q=needle");
    let mut links: Vec<_> = found
        .iter()
        .filter(|hit| hit["kind"] == "match")
        .map(|hit| hit["href"].as_str().unwrap())
        .collect();
    links.sort_unstable();
    assert_eq!(
        links,
        [
            "/c/c7/o/artifacts/tool/a-1-b.txt?line=1#L2",
            "/c/c7/o/artifacts/tool/other.txt?line=1#L1",
        ]
    );
    let shown = page.get("/c/c7?q=needle");
    assert!(shown.has("class=\"hit\"") && shown.has("needle here"));
}

/// A file that takes long to be searched.
fn endless(store: &TestStore) {
    store.put("c7", "big", b"first\n");
    let file = std::fs::File::create(store.plain("c7", "big.txt")).unwrap();
    let mut file = std::io::BufWriter::new(file);
    // Nearly what is looked for, all the time.
    let block = "abcabcabcabcabcabcabcabcabcabcabcabcabcab absen absen absen absen\n".repeat(1000);
    for _ in 0..3000 {
        file.write_all(block.as_bytes()).unwrap();
    }
}

#[test]
fn the_next_search_of_a_tab_ends_the_one_before() {
    let store = Arc::new(TestStore::new());
    endless(&store);
    store.put("c7", "one", b"needle\n");
    let page = Arc::new(Served::new(&store, &[]));
    let long = "/search/stream?conversation=c7&output=artifacts/tool/big.txt&q=(abc)%2Bx%5Cw*absent%24&tab=t1";
    let shared = Arc::clone(&page);
    let first = thread::spawn(move || shared.get(long).text());
    thread::sleep(Duration::from_millis(100));
    let began = Instant::now();
    let found = search(&page, "conversation=c7&output=artifacts/tool/one.txt&q=needle&tab=t1");
    assert_eq!(hits(&found, "match").len(), 1);
    let ended = first.join().unwrap();
    assert!(ended.contains("\"cancelled\":true"), "{ended}");
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
}

#[test]
fn a_search_that_nobody_reads_ends() {
    let store = Arc::new(TestStore::new());
    endless(&store);
    store.put("c7", "one", b"needle\n");
    let page = Served::new(&store, &[]);
    // More than run at a time, and all of them are hung up on.
    for number in 0..8 {
        let path = format!(
            "/search/stream?conversation=c7&output=artifacts/tool/big.txt&q=(abc)%2Bx%5Cw*absent%24&tab=t{number}"
        );
        let stream = page.send("GET", &path, &[("cookie", &page.cookie)]);
        thread::sleep(Duration::from_millis(50));
        drop(stream);
    }
    let began = Instant::now();
    let found = search(&page, "conversation=c7&output=artifacts/tool/one.txt&q=needle&tab=last");
    assert_eq!(hits(&found, "match").len(), 1);
    assert!(began.elapsed() < Duration::from_mins(1), "{:?}", began.elapsed());
}
