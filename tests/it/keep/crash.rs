//! A sweep that is killed before each of its system calls that change something.

use std::fs;
use std::path::Path;

use crate::support::{Command, TestStore, listing, need};

/// The system calls by which a sweep changes the disk.
const CALLS: [&str; 6] = ["flock", "write", "fdatasync", "renameat", "renameat2", "unlinkat"];
/// Outputs of 10,000 bytes each, of which the two oldest are to be removed.
const OUTPUTS: usize = 4;
const LIMIT: &str = "25000";

fn filled() -> TestStore {
    let store = TestStore::new();
    for number in 0..OUTPUTS {
        store.put("c", &format!("call{number}"), &[b'x'; 10_000]);
    }
    store
}

/// Returns true if the sweep was killed before its `number`-th call of this name.
fn killed(store: &TestStore, call: &str, number: usize) -> bool {
    need("strace", "strace");
    let output = Command::new("strace")
        .without_settings()
        .args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={call}")])
        .args(["-e", &format!("inject={call}:signal=KILL:when={number}")])
        .arg(env!("CARGO_BIN_EXE_ctxfs"))
        .arg("--store")
        .arg(store.path())
        .args(["gc", "--keep-conversation", LIMIT])
        .run();
    output.code != 0
}

/// Each output is unchanged, or has left its trace. The next sweep completes.
fn sound(store: &TestStore, place: &str) {
    let tool = store.path().join("context/c/artifacts/tool");
    for number in 0..OUTPUTS {
        let name = format!("call{number}.txt");
        let summary = store.view(&format!("c/artifacts/tool/{name}.summary"));
        let summary = String::from_utf8(summary).unwrap();
        let is_there = tool.join(&name).exists();
        assert_eq!(summary.contains("REMOVED"), !is_there, "{place}: {name}: {summary}");
        assert!(summary.contains(&format!("call: call{number} ")), "{place}: {summary}");
        if is_there {
            assert_eq!(fs::read(tool.join(&name)).unwrap(), [b'x'; 10_000], "{place}");
        }
    }
    for number in 2..OUTPUTS {
        assert!(tool.join(format!("call{number}.txt")).exists(), "{place}: the youngest stay");
    }
    store.ctxfs("gc", &["--keep-conversation", LIMIT]).stdout();
    assert_eq!(listing(&tool).len(), 2, "{place}");
    let left = listing(Path::new(&store.path().join("context/c")));
    assert!(!left.iter().any(|name| name.starts_with(".ctxfs-gone")), "{place}: {left:?}");
}

#[test]
fn no_output_and_no_trace_is_lost() {
    let mut stops = 0;
    for call in CALLS {
        for number in 1.. {
            let store = filled();
            if !killed(&store, call, number) {
                break;
            }
            stops += 1;
            sound(&store, &format!("before call {number} of {call}"));
        }
    }
    assert!(stops >= 8, "{stops} calls were met");
}
