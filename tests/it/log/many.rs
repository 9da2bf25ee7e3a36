//! A log of 100,000 messages.

use std::fmt::Write as _;
use std::fs;
use std::fs::File;
use std::io::Write as _;
use std::sync::Arc;

use serde_json::Value;

use super::{log_in, plain_log};
use crate::support::{Command, Mode, TestMount, TestStore};

const MANY: usize = 100_000;

fn lines() -> String {
    let mut text = String::new();
    for number in 1..=MANY {
        let _ = writeln!(text, "{{\"role\":\"user\",\"content\":\"message {number}\"}}");
    }
    text
}

/// Returns the system calls of a command that appends one message, which do not grow with the log.
fn calls(store: &TestStore) -> Vec<String> {
    let trace = store.scratch("trace").join("calls");
    Command::new("strace")
        .args(["-f", "-e", "trace=read,pread64,write,pwritev2,flock,ftruncate", "-o"])
        .arg(&trace)
        .arg(env!("CARGO_BIN_EXE_ctxfs"))
        .args(["log", "append", "c7", "--store"])
        .arg(store.path())
        .without_settings()
        .stdin("{\"role\":\"user\"}\n")
        .stdout();
    let text = fs::read_to_string(trace).unwrap();
    let call = |line: &str| {
        let name = line.split_whitespace().nth(1)?.split('(').next()?;
        ["pread64", "pwritev2", "flock", "ftruncate"].contains(&name).then(|| name.to_owned())
    };
    text.lines().filter_map(call).collect()
}

#[test]
fn a_hundred_thousand_messages() {
    let store = Arc::new(TestStore::new());
    store.ctxfs("log", &["append", "c7"]).stdin("{\"role\":\"user\"}\n").stdout();
    let few = calls(&store);
    assert!(few.contains(&"pwritev2".to_owned()), "{few:?}");
    fs::remove_file(plain_log(&store)).unwrap();

    let mount = TestMount::of(&store, Mode::Passthrough, &[]);
    let log = log_in(mount.path());
    let text = lines();
    let mut file = File::options().append(true).create(true).open(&log).unwrap();
    let half = text[..text.len() / 2].rfind('\n').unwrap() + 1;
    let (first, second) = text.split_at(half);
    file.write_all(first.as_bytes()).unwrap();
    drop(file);
    store.ctxfs("log", &["append", "c7"]).stdin(second).limit(120).stdout();
    assert!(fs::read_to_string(&log).unwrap() == text);
    assert_eq!(calls(&store), few);

    let array = fs::read(log.with_file_name("messages.json")).unwrap();
    let array: Vec<Value> = serde_json::from_slice(&array).unwrap();
    assert_eq!(
        (array.len(), array[MANY - 1]["content"].as_str()),
        (MANY + 1, Some("message 100000"))
    );
    let shown = "\"$1\" log c7 --store \"$2\" --no-pager | head -n 2";
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_ctxfs"));
    let first = Command::shell(shown, &[program, &store.path()]).without_settings().text();
    assert_eq!(first, "user\n  message 1\n");
}
