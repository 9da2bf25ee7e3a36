//! An export that is imported into another store is unchanged.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use crate::moving::{export, import};
use crate::support::{Mode, TestMount, TestStore, eventually, log};

/// Returns a mount with a conversation `c7` that has files of all kinds.
fn filled() -> TestMount {
    let mount = TestMount::new(Mode::Passthrough);
    let put = ["--conversation", "c7", "--call", "9f3k", "--tool", "exec", "--exit-code", "3"];
    let args = ["--server", "shell", "--args", "{\n  \"command\": \"make\"\n}"];
    mount.store().ctxfs("put", &[&put[..], &args[..]].concat()).stdin(log(5000)).stdout();
    mount.store().put("c7", "j1", b"{\"a\": [1, 2, 3]}\n");
    mount.artifact("c7", "written.txt", &log(300));
    mount.artifact("c7", "empty.txt", b"");
    let root = mount.path().join("c7");
    fs::write(root.join("artifacts/terminal/s1.log"), "\x1b[1mbold\x1b[0m\n").unwrap();
    fs::create_dir(root.join("artifacts/tool/deep")).unwrap();
    fs::write(root.join("artifacts/tool/deep/b.bin"), [0, 255, 7]).unwrap();
    fs::write(root.join("history/messages.jsonl"), "{\"role\":\"user\"}\n").unwrap();
    fs::write(root.join("catalog/index.json"), "[]\n").unwrap();
    fs::write(root.join("a\u{e9} \\ name"), "plain").unwrap();
    let cut = mount.tool("c7").join("cut.txt");
    fs::write(&cut, "part").unwrap();
    let manifest = root.join("manifest.json");
    eventually("all are sealed", || {
        let refs = fs::read_to_string(&manifest).unwrap();
        refs.matches("mimeType").count() == refs.matches("\"id\"").count()
    });
    mount
}

/// Path, mode, time and content.
type Seen = (PathBuf, u32, (i64, i64), Vec<u8>);

/// Returns every file and directory of a conversation as a mount shows it.
fn tree(root: &Path) -> Vec<Seen> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            // A directory of views lists none; what it says is compared by asking.
            let stat = path.metadata().unwrap();
            let content = if stat.is_dir() { Vec::new() } else { fs::read(&path).unwrap() };
            // The references are compared one by one.
            let computed = path.ends_with("manifest.json");
            let time = if computed { (0, 0) } else { (stat.mtime(), stat.mtime_nsec()) };
            let name = path.strip_prefix(root).unwrap().to_owned();
            found.push((name, stat.mode(), time, content));
            if stat.is_dir() {
                folders.push(path);
            }
        }
    }
    found.sort();
    found
}

fn references(conversation: &Path) -> Vec<Value> {
    serde_json::from_slice(&fs::read(conversation.join("manifest.json")).unwrap()).unwrap()
}

#[test]
fn the_trees_are_equal() {
    let from = filled();
    let archive = export(from.store());
    let store = Arc::new(TestStore::new());
    // With the same prefix, so that views are the same to the last byte.
    let prefix = ["--advertise", from.path().to_str().unwrap()];
    let to = TestMount::of(&store, Mode::Cached, &prefix);
    assert!(!to.path().join("c7").exists());
    let imported = import(&store, &archive, &[]);
    assert_eq!((imported.code, &*imported.stdout), (0, &b"c7\n"[..]), "{imported}");
    assert_eq!(imported.stderr, b"");
    let (here, there) = (from.path().join("c7"), to.path().join("c7"));
    let (before, after) = (tree(&here), tree(&there));
    assert!(before.len() > 30, "{}", before.len());
    for (before, after) in before.iter().zip(&after) {
        assert_eq!(before, after);
    }
    assert_eq!(before.len(), after.len());
    let listed = |store: &TestStore| store.ctxfs("ls", &["c7", "--json"]).text();
    assert_eq!(listed(from.store()), listed(&store));
}

#[test]
fn every_reference_opens_the_same() {
    let from = filled();
    let archive = export(from.store());
    let store = Arc::new(TestStore::new());
    let to = TestMount::of(&store, Mode::Passthrough, &[]);
    for (options, id) in [(&[][..], "c7"), (&["--as", "c8"], "c8")] {
        assert_eq!(import(&store, &archive, options).code, 0);
        let (before, after) =
            (references(&from.path().join("c7")), references(&to.path().join(id)));
        assert_eq!(before.len(), 7);
        assert_eq!(after.len(), before.len());
        for (before, after) in before.iter().zip(&after) {
            let (old, new) = (before["id"].as_str().unwrap(), after["id"].as_str().unwrap());
            assert_eq!(new, old.replace("ctx://c7/", &format!("ctx://{id}/")));
            let mut expected = before.clone();
            expected["id"] = after["id"].clone();
            assert_eq!(after, &expected);
            assert_eq!(store.view(new), from.store().view(old), "{new}");
            let meta = |store: &TestStore, id: &str| -> Value {
                serde_json::from_slice(&store.view(&format!("{id}.meta.json"))).unwrap()
            };
            let (mut meta, there) = (meta(from.store(), old), meta(&store, new));
            assert_eq!(meta["analysis"]["digest"], there["analysis"]["digest"]);
            assert!(meta["analysis"]["digest"].is_string());
            for field in ["reference", "file"] {
                meta[field] = there[field].clone();
            }
            assert_eq!(meta, there);
        }
    }
    // What is outside of artifacts has a reference too, with the time at which it was made.
    let history = |store: &TestStore| store.view("c7/history/messages.jsonl.ref.json");
    assert_eq!(history(from.store()), history(&store));
}

#[test]
fn an_import_counts_on_where_the_original_was() {
    let from = filled();
    let path = from.tool("c7").join("written.txt");
    fs::write(&path, "again").unwrap();
    let generation = |store: &TestStore, want: u64| {
        let meta = store.view("c7/artifacts/tool/written.txt.meta.json");
        serde_json::from_slice::<Value>(&meta).unwrap()["generation"] == want
    };
    eventually("it is sealed again", || generation(from.store(), 2));
    let store = Arc::new(TestStore::new());
    assert_eq!(import(&store, &export(from.store()), &[]).code, 0);
    assert!(generation(&store, 2));
    let to = TestMount::of(&store, Mode::Passthrough, &[]);
    fs::write(to.tool("c7").join("written.txt"), "and again").unwrap();
    eventually("the next generation", || generation(&store, 3));
    // It can be removed as any, and what is made in its place is new.
    fs::remove_dir_all(to.path().join("c7")).unwrap();
    assert_eq!(fs::read_dir(store.path().join("context")).unwrap().count(), 0);
}

#[test]
fn through_a_pipe_it_is_the_same() {
    let from = filled();
    let mut archive = Vec::new();
    // The sizes of views are recorded meanwhile.
    eventually("both are the same", || {
        archive = fs::read(export(from.store())).unwrap();
        let piped = from.store().ctxfs("export", &["c7"]).run();
        assert_eq!(piped.stderr, b"");
        piped.stdout == archive
    });
    let store = TestStore::new();
    let told = store.ctxfs("import", &["-", "--as", "c9", "--json"]).stdin(archive.clone()).text();
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(told["conversation"], "c9");
    assert_eq!(store.view("c9/artifacts/tool/written.txt"), log(300));
    // A reader that leaves early is no failure, and neither is a device.
    let left = from.store().ctxfs("export", &["c7", "-o", "-"]).with(|inner| {
        inner.stdout(std::process::Stdio::null());
    });
    left.spawn().wait().unwrap();
    let told = from.store().ctxfs("export", &["c7", "-o", "/dev/null"]).run();
    assert_eq!(told.code, 0, "{told}");
}
