//! The commands that write, each killed between any two of its calls.

use std::fs;

use serde_json::Value;

use crate::crash::case::{Case, Ground};
use crate::support::{Output, TestStore, log};

/// The number of lines of the output.
const LINES: usize = 300;
const MESSAGE: &str = "{\"role\":\"user\",\"content\":\"hello\"}\n";

#[test]
fn put_of_a_new_output() {
    let check = |ground: &Ground| {
        others_are_there(&ground.store);
        if let Some(bytes) = read(&ground.store, "new") {
            let whole = log(LINES);
            assert!(whole.starts_with(&bytes));
            // Until there is a record, there is nothing to be lost.
            let told = is_incomplete(&ground.store, "new") || bytes.is_empty();
            assert!(told || bytes == whole, "{} bytes", bytes.len());
        }
    };
    let again = |ground: &Ground, output: &Output| {
        others_are_there(&ground.store);
        is_put(&ground.store, output, "new");
    };
    let command = &["put", "--conversation", "c7", "--call", "new", "--format", "ref"];
    Case { prepare, command, input: || log(LINES), check, again }.run();
}

#[test]
fn put_of_another_output_of_a_call() {
    let prepare = |ground: &Ground| {
        prepare(ground);
        ground.store.put("c7", "again", b"{\"before\": true}\n");
    };
    let check = |ground: &Ground| {
        others_are_there(&ground.store);
        assert_eq!(read(&ground.store, "again").unwrap(), b"{\"before\": true}\n");
        assert!(!is_incomplete(&ground.store, "again"));
    };
    let again = |ground: &Ground, output: &Output| is_put(&ground.store, output, "again-");
    let command = &["put", "--conversation", "c7", "--call", "again", "--format", "ref"];
    Case { prepare, command, input: || log(LINES), check, again }.run();
}

#[test]
fn import() {
    let prepare = |ground: &Ground| {
        prepare(ground);
        fs::write(ground.store.path().join("context/c7/history/messages.jsonl"), MESSAGE).unwrap();
        let archive = ground.beside.join("archive");
        ground.store.ctxfs("export", &["c7", "-o"]).arg(archive).stdout();
    };
    let check = |ground: &Ground| {
        others_are_there(&ground.store);
        if is_there(&ground.store, "c8") {
            is_copied(&ground.store);
        }
    };
    let again = |ground: &Ground, output: &Output| {
        assert!(output.code == 0 || output.to_string().contains("already"), "{output}");
        others_are_there(&ground.store);
        is_copied(&ground.store);
    };
    let command = &["import", "BESIDE/archive", "--as", "c8"];
    Case { prepare, command, input: Vec::new, check, again }.run();
}

#[test]
fn export() {
    let prepare = |ground: &Ground| {
        prepare(ground);
        fs::write(ground.beside.join("archive"), "before").unwrap();
    };
    let check = |ground: &Ground| {
        others_are_there(&ground.store);
        if fs::read(ground.beside.join("archive")).unwrap() != b"before" {
            archive_is_whole(ground);
        }
    };
    let again = |ground: &Ground, output: &Output| {
        assert_eq!(output.code, 0, "{output}");
        archive_is_whole(ground);
    };
    let command = &["export", "c7", "-o", "BESIDE/archive"];
    Case { prepare, command, input: Vec::new, check, again }.run();
}

#[test]
fn gc() {
    let check = |ground: &Ground| {
        kept_or_removed(&ground.store, "one", "one.txt", &log(50));
        kept_or_removed(&ground.store, "two", "two.json", b"[1, 2]\n");
    };
    let again = |ground: &Ground, output: &Output| {
        assert_eq!(output.code, 0, "{output}");
        assert!(!kept_or_removed(&ground.store, "one", "one.txt", &log(50)));
        kept_or_removed(&ground.store, "two", "two.json", b"[1, 2]\n");
    };
    let command = &["gc", "--keep-conversation", "100"];
    Case { prepare, command, input: Vec::new, check, again }.run();
}

/// Creates a conversation with two outputs.
fn prepare(ground: &Ground) {
    ground.store.put("c7", "one", &log(50));
    ground.store.put("c7", "two", b"[1, 2]\n");
}

fn others_are_there(store: &TestStore) {
    assert_eq!(read(store, "one").unwrap(), log(50));
    assert_eq!(read(store, "two").unwrap(), b"[1, 2]\n");
}

fn archive_is_whole(ground: &Ground) {
    let store = TestStore::new();
    store.ctxfs("import", &[]).arg(ground.beside.join("archive")).stdout();
    others_are_there(&store);
}

/// Returns the bytes that the bare id of a call opens, if it opens any.
fn read(store: &TestStore, call: &str) -> Option<Vec<u8>> {
    let output = store.ctxfs("view", &[&format!("c7/artifacts/tool/{call}")]).run();
    (output.code == 0).then_some(output.stdout)
}

/// Checks that the output is whole in the artifact that `ctxfs put` has printed, whose name begins
/// with `stem`. What an earlier one left behind when it was killed stays.
fn is_put(store: &TestStore, output: &Output, stem: &str) {
    assert_eq!(output.code, 0, "{output}");
    let reference: Value = serde_json::from_slice(&output.stdout).unwrap();
    let name = reference["id"].as_str().unwrap().rsplit('/').next().unwrap();
    assert!(name.starts_with(stem), "{name}");
    assert_eq!(read(store, name).unwrap(), log(LINES));
    assert!(!is_incomplete(store, name));
}

fn is_incomplete(store: &TestStore, call: &str) -> bool {
    let summary = store.view(&format!("c7/artifacts/tool/{call}.summary"));
    String::from_utf8(summary).unwrap().lines().next().unwrap().contains("INCOMPLETE")
}

/// Returns true if an output is there, unchanged. If it is gone, its summary must say so.
fn kept_or_removed(store: &TestStore, call: &str, name: &str, bytes: &[u8]) -> bool {
    if let Some(read) = read(store, call) {
        assert_eq!(read, bytes);
        return true;
    }
    let summary = store.view(&format!("c7/artifacts/tool/{name}.summary"));
    assert!(String::from_utf8(summary).unwrap().contains("REMOVED"), "{call}");
    false
}

fn is_there(store: &TestStore, id: &str) -> bool {
    store.ctxfs("ls", &[]).text().contains(id)
}

/// Asserts that `c8` is a copy of `c7`.
fn is_copied(store: &TestStore) {
    let manifest = |id: &str| {
        let text = String::from_utf8(store.view(&format!("{id}/manifest.json"))).unwrap();
        text.replace(&format!("ctx://{id}/"), "ctx://")
    };
    assert_eq!(manifest("c7"), manifest("c8"));
    assert_eq!(store.view("c8/artifacts/tool/one"), log(50));
    assert_eq!(store.view("c8/history/messages.jsonl"), MESSAGE.as_bytes());
}
