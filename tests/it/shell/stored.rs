//! What is stored of outputs that the model gets whole, and for how long.

use std::time::Duration;

use super::{logs, shell};
use crate::support::{TestStore, eventually};

fn run(store: &TestStore, id: &str, script: &str, kept: &str) -> Vec<u8> {
    let command = shell(store, id, &["--host=claude-code"], &["sh", "-c", script]);
    let output = command.env("CTXFS_HOOKS_STORE", kept).run();
    assert_eq!(output.stderr, b"", "{output}");
    output.stdout
}

#[test]
fn what_has_1000_characters_or_failed_is_stored_without_a_word() {
    let store = TestStore::new();
    let cases = [
        ("enough", "printf %01000d 1", 1000, true),
        ("little", "printf %0999d 1", 999, false),
        ("failed", "echo no; exit 1", 3, true),
        ("silent", "exit 1", 0, false),
        ("long", "seq 5000", 23_893, true),
    ];
    let mut all = Vec::new();
    for (id, script, length, is_stored) in cases {
        assert_eq!(run(&store, id, script, "all").len(), length, "{id}");
        all.extend(is_stored.then(|| format!("{id}.log")));
        all.sort();
        assert_eq!(logs(&store), all);
    }
    let found = store.ctxfs("view", &["c7/artifacts/terminal/failed.log"]).stdout();
    assert_eq!(found, b"no\n");

    let store = TestStore::new();
    for (id, script, length, _) in cases {
        assert_eq!(run(&store, id, script, "long").len(), length, "{id}");
    }
    assert_eq!(logs(&store), [""; 0]);
    run(&store, "cut", "seq 50000", "long");
    assert_eq!(logs(&store), ["cut.log"]);
}

/// The limits are about what was stored by itself.
#[test]
fn outputs_of_hosts_have_limits_of_their_own() {
    let gc = |store: &TestStore, name: &str, value: &str| {
        let command = store.ctxfs("gc", &["--json"]).env(name, value);
        let done: serde_json::Value = serde_json::from_slice(&command.stdout()).unwrap();
        let removed = done["removed"].as_array().unwrap();
        let path = |row: &serde_json::Value| row["path"].as_str().unwrap().to_owned();
        removed.iter().map(path).collect::<Vec<String>>()
    };
    for (name, value) in [("CTXFS_HOOKS_KEEP_AGE", "1s"), ("CTXFS_HOOKS_KEEP_STORE", "0")] {
        let store = TestStore::new();
        store.put("c7", "mine", b"text\n");
        store.ctxfs("run", &["-c", "c7", "--id", "run", "--", "seq", "5000"]).stdout();
        run(&store, "theirs", "seq 5000", "all");
        assert_eq!(gc(&store, name, "off"), [""; 0]);
        assert_eq!(gc(&store, "CTXFS_LOG", "info"), [""; 0], "30 days and 10 GiB by default");
        let exported = store.path().join("exported.tar.zst");
        store.ctxfs("export", &["c7", "-o", exported.to_str().unwrap()]).stdout();
        eventually("it is over the limit", || {
            gc(&store, name, value) == ["artifacts/terminal/theirs.log"]
        });
        let told = store.ctxfs("view", &["c7/artifacts/terminal/theirs.log.summary"]).stdout();
        let told = String::from_utf8(told).unwrap();
        assert!(told.starts_with("[ctxfs] REMOVED") && told.contains("`hooks.keep_"), "{told}");

        store.ctxfs("import", &[exported.to_str().unwrap(), "--as", "c8"]).stdout();
        std::thread::sleep(Duration::from_millis(1100));
        assert_eq!(gc(&store, name, value), [""; 0], "a person imported it");
    }
}
