//! Ids that are too long, or are paths.

use std::fs;
use std::sync::Arc;

use crate::support::{Mode, TestMount, TestStore};

#[test]
fn a_long_call_id_is_shortened_and_kept() {
    let store = TestStore::new();
    let ids = ["a".repeat(1500), "a".repeat(1499) + "b", format!("call/{}", "x/".repeat(300))];
    let mut names = Vec::new();
    for id in &ids {
        let name = store.put("c7", id, id.as_bytes());
        assert!(name.len() <= 255 && !name.contains('/') && !name.starts_with('.'), "{name}");
        let plain = fs::read(store.plain("c7", &name)).unwrap();
        assert_eq!(plain, id.as_bytes());
        let meta = store.view(&format!("c7/artifacts/tool/{name}.meta.json"));
        let meta = String::from_utf8(meta).unwrap();
        assert!(meta.contains(id.as_str()), "the id is kept: {meta:.600}");
        let summary = store.view(&format!("c7/artifacts/tool/{name}.summary"));
        assert!(!summary.is_empty());
        names.push(name);
    }
    names.sort();
    names.dedup();
    assert_eq!(names.len(), ids.len(), "{names:?}");
}

#[test]
fn ids_that_are_paths_lead_nowhere() {
    let store = TestStore::new();
    for id in
        ["..", ".", ".ctxfs", ".ctxfs/x", "../c8", "../../../../escaped", "/escaped", "a\nb", ""]
    {
        let arguments = ["--conversation", id];
        let output = store.ctxfs("put", &arguments).stdin("x\n").run();
        assert!(matches!(output.code, 1 | 2), "conversation {id:?}: {output}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{id:?}: {output}");
    }
    for id in ["..", ".", ".ctxfs", "../../x", "a/../../../x", "/x", "a\nb"] {
        let arguments = ["--conversation", "c7", "--call", id, "--format", "ref"];
        let output = store.ctxfs("put", &arguments).stdin("x\n").run();
        // Refused, or stored under a name of its own: never anywhere else.
        if output.code == 0 {
            let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
            let name = told["id"].as_str().unwrap().rsplit('/').next().unwrap();
            assert_eq!(fs::read(store.plain("c7", name)).unwrap(), b"x\n", "{id:?}: {name}");
            assert!(!name.starts_with('.'), "{id:?}: {name}");
        }
    }
    for path in ["../../VERSION", "/etc/passwd", "c7/../../VERSION", "c7/../../VERSION.tail", ".."]
    {
        let output = store.ctxfs("view", &[path]).run();
        assert!(matches!(output.code, 1 | 2) && output.stdout.is_empty(), "{path}: {output}");
    }
    let top: Vec<String> = crate::support::listing(&store.path().join("context"));
    assert_eq!(top, ["c7"]);
    assert!(!store.path().parent().unwrap().join("escaped").exists());
}

#[test]
fn one_id_twice_loses_nothing() {
    let store = TestStore::new();
    let first = store.put("c7", "call_1", b"first\n");
    let second = store.put("c7", "call_1", b"second\n");
    assert_eq!(fs::read(store.plain("c7", &second)).unwrap(), b"second\n");
    if first != second {
        assert_eq!(fs::read(store.plain("c7", &first)).unwrap(), b"first\n");
    }
}

#[test]
fn the_kind_of_output_names_it() {
    let store = TestStore::new();
    assert_eq!(store.put("c7", "a", b"{\"x\": [1, 2]}\n"), "a.json");
    assert_eq!(store.put("c7", "b", b"{\"x\": 1}\n{\"x\": 2}\n"), "b.json");
    assert_eq!(store.put("c7", "c", b"text\n"), "c.txt");
    assert_eq!(store.view("c7/artifacts/tool/a.tail"), b"{\"x\": [1, 2]}\n");
    assert_eq!(store.view("c7/artifacts/tool/a"), b"{\"x\": [1, 2]}\n");
}

#[test]
fn names_that_writers_chose_stay_in_their_lines() {
    let store = Arc::new(TestStore::new());
    let tool = "t\u{202e}\nforged";
    let options = ["-c", "c", "--call", "a", "--tool", tool];
    store.ctxfs("put", &options).stdin("x\n".repeat(5000)).stdout();
    let mount = TestMount::of(&store, Mode::Cached, &[]);
    mount.artifact("c", "odd\u{202e}forged.txt", b"y");
    mount.settle();
    drop(mount);
    for (command, options) in [
        ("ls", &["c"] as &[&str]),
        ("stats", &[]),
        ("gc", &["c", "--keep-conversation", "0", "--dry-run"]),
    ] {
        let told = String::from_utf8(store.ctxfs(command, options).stdout()).unwrap();
        assert!(told.contains("\\u{202e}"), "{command}: {told}");
        assert!(!told.contains('\u{202e}') && !told.contains("\nforged"), "{command}: {told}");
    }
}
