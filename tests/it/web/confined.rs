//! The page is confined, and changes nothing.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use super::*;
use crate::support::TestStore;

/// `CAP_DAC_READ_SEARCH` and `CAP_LEASE`.
const READING: u64 = 1 << 2 | 1 << 28;

#[test]
fn every_thread_reads_the_store_and_nothing_else() {
    let store = Arc::new(TestStore::new());
    store.put("c7", "one", b"text\n");
    let page = Served::new(&store, &[]);
    for what in ["files", "network", "signals", "noNewPrivileges", "memory"] {
        assert_eq!(page.told["confinement"][what], true, "{what}");
    }
    page.get("/c/c7/o/artifacts/tool/one.txt");
    let mut threads = 0;
    for task in fs::read_dir(format!("/proc/{}/task", page.pid())).unwrap() {
        let status = fs::read_to_string(task.unwrap().path().join("status")).unwrap();
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(":\t"));
            line.unwrap().to_owned()
        };
        assert_eq!(field("NoNewPrivs"), "1");
        for set in ["CapPrm", "CapEff", "CapBnd"] {
            let found = u64::from_str_radix(&field(set), 16).unwrap();
            assert_eq!(found & !READING, 0, "{set} {found:x}");
        }
        threads += 1;
    }
    assert!(threads > 2, "{threads}");
}

#[test]
fn no_request_changes_the_store() {
    let store = Arc::new(TestStore::new());
    store.put("c7", "one", b"error: some text\n");
    store.put("c7", "doc", b"{\"a\": [1, 2]}");
    store.ctxfs("log", &["append", "c7"]).stdin("{\"role\":\"user\",\"content\":\"x\"}\n").stdout();
    // A live record whose writer is gone: others mark it as incomplete.
    let manifest = store.path().join("context/c7/manifest.jsonl");
    let record = "{\"path\":\"artifacts/tool/died.txt\",\"generation\":1,\"state\":\"live\",\"size\":0,\"modified\":0,\"created\":1}\n";
    fs::write(store.plain("c7", "died.txt"), "partly").unwrap();
    let mut text = fs::read_to_string(&manifest).unwrap();
    text.push_str(record);
    fs::write(&manifest, text).unwrap();
    let page = Served::new(&store, &[]);
    let before = state(&store.path());
    for path in [
        "/",
        "/saved",
        "/c/c7",
        "/c/c7?q=text",
        "/c/c7/outputs",
        "/c/c7/o/artifacts/tool/one.txt",
        "/c/c7/o/artifacts/tool/one.txt?q=error",
        "/c/c7/o/artifacts/tool/doc.json",
        "/c/c7/raw/artifacts/tool/one.txt",
        "/search/stream?conversation=c7&q=text",
    ] {
        page.get(path);
    }
    let died = page.get("/c/c7/o/artifacts/tool/died.txt");
    assert!(died.has("incomplete") && died.has("partly"), "{}", died.text());
    for method in ["POST", "PUT", "DELETE"] {
        page.ask(method, "/c/c7/o/artifacts/tool/one.txt", &[("cookie", &page.cookie)]);
    }
    assert_eq!(state(&store.path()), before);
}

#[test]
fn it_can_be_turned_off() {
    let store = Arc::new(TestStore::new());
    store.put("c7", "one", b"text\n");
    store.user_settings("confine = \"off\"\n");
    let page = Served::new(&store, &[]);
    assert_eq!(page.told["confinement"]["files"], false);
    assert!(page.get("/").has("c7"));
}

/// Returns the size and the time of change of each file.
fn state(dir: &Path) -> BTreeMap<PathBuf, (u64, SystemTime)> {
    let mut found = BTreeMap::new();
    let mut open = vec![dir.to_owned()];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let stat = fs::symlink_metadata(&path).unwrap();
            if stat.is_dir() {
                open.push(path.clone());
            }
            found.insert(path, (stat.len(), stat.modified().unwrap()));
        }
    }
    found
}
