//! Showing: the mount and `ctxfs view` give the same bytes, and miss the same names.

use std::fs;
use std::sync::Arc;

use super::{ctxfs, long_json, long_text, message, mounted};
use crate::support::{Mode, TestStore, eventually};

/// Files and views below `c7/` that are there.
const THERE: &[&str] = &[
    "artifacts/tool/call_1.txt",
    "artifacts/tool/call_1",
    "artifacts/tool/call_1.summary",
    "artifacts/tool/call_1.txt.summary",
    "artifacts/tool/call_1.txt.tail",
    "artifacts/tool/call_1.txt.head",
    "artifacts/tool/call_1.txt.errors",
    "artifacts/tool/call_1.txt.terms",
    "artifacts/tool/call_1.txt.wrap",
    "artifacts/tool/call_1.txt.meta.json",
    "artifacts/tool/call_1.txt.ref.json",
    "artifacts/tool/call_1.txt.handle",
    "artifacts/tool/call_1.txt.envelope.json",
    "artifacts/tool/call_1.txt.preview",
    "artifacts/tool/call_1.txt.grep/ERROR",
    "artifacts/tool/call_1.txt.grep/-i -C2 error",
    "artifacts/tool/call_1.txt.grep/no such thing",
    "artifacts/tool/call_1.txt.grep/(unclosed",
    "artifacts/tool/call_1.txt.lines/10-20",
    "artifacts/tool/call_1.txt.pages/0002",
    "artifacts/tool/x.json.pretty",
    "artifacts/tool/x.json.pretty.grep/title 77",
    "artifacts/tool/x.json.pretty.lines/3-9",
    "artifacts/tool/x.json.shape",
    "artifacts/tool/x.json.jq/.items[0]",
    "artifacts/tool/x.json.jq/.items[",
    "artifacts/tool/binary.bin",
    "artifacts/tool/binary.bin.summary",
    "artifacts/tool/empty",
    "artifacts/tool/empty.summary",
    "artifacts/tool/.ignore",
    "artifacts/tool/.grep/ERROR",
    ".grep/-i error",
    "manifest.json",
    "history/messages.jsonl",
    "history/messages.jsonl.tail",
    "history/messages.json",
];

/// Names below `c7/` that lead nowhere.
const MISSING: &[&str] = &[
    "artifacts/tool/call_2.txt",
    "artifacts/tool/call_1.txt.unknown",
    "artifacts/tool/call_1.txt.lines/9000-9001",
    "artifacts/tool/call_1.txt.pages/9999",
    "artifacts/tool/call_1.txt.tail.tail.tail",
    "artifacts/tool/x.json.pretty.lines/0",
    "manifest.jsonl",
    "manifest.json.summary.summary",
];

#[test]
fn the_mount_and_the_command_show_the_same() {
    for mode in Mode::ALL {
        let store = Arc::new(TestStore::new());
        ctxfs(&store, "put", &["-c", "c7", "--call", "call_1", "--tool", "exec"], &[])
            .stdin(long_text())
            .stdout();
        ctxfs(&store, "log", &["append", "c7"], &[]).stdin(message(b"short\n")).stdout();
        let mount = mounted(&store, mode, &[]);
        mount.artifact("c7", "x.json", &long_json());
        mount.artifact("c7", "binary.bin", &[0, 1, 2, 255].repeat(5000));
        mount.artifact("c7", "empty", b"");
        // Sealing brings no change to a view, but a new generation of a manifest's.
        eventually("all is sealed", || {
            let manifest = fs::read(store.path().join("context/c7/manifest.jsonl")).unwrap();
            String::from_utf8_lossy(&manifest).matches("\"digest\"").count() >= 4
        });
        for path in THERE {
            let mounted = fs::read(mount.path().join("c7").join(path));
            let mounted = mounted.unwrap_or_else(|error| panic!("{path}: {error}"));
            let shown = ctxfs(&store, "view", &[&format!("c7/{path}")], &[]).stdout();
            let (mounted, shown) =
                (String::from_utf8_lossy(&mounted), String::from_utf8_lossy(&shown));
            assert_eq!(mounted, shown, "{mode:?}: {path}");
        }
        for path in MISSING {
            let error = fs::read(mount.path().join("c7").join(path)).unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "{path}");
            let output = ctxfs(&store, "view", &[&format!("c7/{path}")], &[]).run();
            assert_eq!(output.code, 1, "{path}: {output}");
            let said = String::from_utf8_lossy(&output.stderr).to_lowercase();
            assert!(said.contains("no such file"), "{path}: {said}");
        }
    }
}
