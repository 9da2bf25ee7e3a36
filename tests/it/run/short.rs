//! Outputs that are not stored because they stay short.

use std::fs;

use rustix::process::Signal;

use super::{plain, record, run, says, start};
use crate::support::{TestStore, signal};

const DISCARD: &str = "--discard-short";

/// Returns the names in the folder of logs.
fn logs(store: &TestStore) -> Vec<String> {
    let entries = fs::read_dir(plain(store, "")).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_short_output_is_printed_and_not_stored() {
    let store = TestStore::new();
    let script = "printf '\\033[1mout\\033[0m\\n'; echo err >&2; exit 3";
    for more in [&[DISCARD][..], &[DISCARD, "--split"]] {
        let output = run(&store, "x", more, &["sh", "-c", script]).run();
        assert_eq!((output.code, &*output.stdout), (3, &b"\x1b[1mout\x1b[0m\nerr\n"[..]));
        assert_eq!(logs(&store), [""; 0]);
    }
    assert_eq!(store.ctxfs("ls", &["c7"]).run().stdout, b"");
    // Nothing of it is left that another command could take for an earlier one.
    run(&store, "x", &[], &["echo", "more"]).run();
    assert_eq!(logs(&store), ["x.log"]);
}

#[test]
fn what_is_over_a_limit_is_stored() {
    let store = TestStore::new();
    for (id, script) in [("chars", "printf %08001d 1"), ("bytes", "seq 1 40000")] {
        let output = run(&store, id, &[DISCARD], &["sh", "-c", script]).run();
        let printed = String::from_utf8(output.stdout).unwrap();
        assert!(printed.contains("\n[ctxfs] The output goes on."), "{printed}");
        assert_eq!(record(&store, &format!("{id}.log"))["state"], "sealed");
    }
    let output = run(&store, "most", &[DISCARD], &["printf", "%08000d", "1"]).run();
    assert_eq!((output.stdout.len(), logs(&store).len()), (8000, 2));
}

#[test]
fn a_store_that_mirrors_keeps_short_outputs() {
    let store = TestStore::new();
    let command =
        run(&store, "x", &[DISCARD], &["echo", "text"]).env("CTXFS_MAX_INLINE_CHARS", "mirror");
    assert_eq!(command.run().stdout, b"text\n");
    assert_eq!(logs(&store), ["x.log"]);
}

#[test]
fn secrets_are_masked_in_what_is_not_stored() {
    let store = TestStore::new();
    let token = format!("ghp_{}", "a1B2".repeat(9));
    let command = run(&store, "x", &[DISCARD], &["echo", &token]).env("CTXFS_REDACT", "views");
    let printed = String::from_utf8(command.run().stdout).unwrap();
    assert!(!printed.contains(&token) && !printed.is_empty(), "{printed}");
    assert_eq!(logs(&store), [""; 0]);
}

#[test]
fn it_can_be_read_while_the_command_runs() {
    let store = TestStore::new();
    let mut child = start(&store, "x", &[DISCARD], &["sh", "-c", "echo begun; exec sleep 600"]);
    says(&store, "x.log", b"begun\n");
    signal(child.id(), Signal::TERM);
    assert_eq!(child.wait().unwrap().code(), Some(143));
    assert_eq!(logs(&store), [""; 0]);
}
