//! Hosts and daemons that die in the middle of a message.

use std::fs;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use serde_json::json;

use super::{log_in, messages, plain_log, result};
use crate::support::{Command, Mode, TestMount, TestStore, listing, need};

/// The system calls by which a message changes the disk.
const CHANGES: &str = "openat,openat2,mkdirat,write,pwrite64,pwritev2,fsync,fdatasync,fsetxattr,\
                       renameat2,unlinkat,ftruncate,flock";

/// Appends `input` with a program that is killed at its `n`th call that changes the disk. Returns
/// true if there were so many.
fn killed_at(n: u32, store: &TestStore, input: &str) -> bool {
    let inject = format!("inject={CHANGES}:signal=KILL:when={n}");
    let output = Command::new("strace")
        .args(["-f", "-o", "/dev/null", "-e", &format!("trace={CHANGES}"), "-e", &inject])
        .arg(env!("CARGO_BIN_EXE_ctxfs"))
        .args(["log", "append", "c7", "--advertise", "/ctx", "--store"])
        .arg(store.path())
        .without_settings()
        .stdin(input)
        .run();
    output.code != 0
}

/// Asserts that every artifact that a message refers to exists and is complete. Returns the number
/// of messages.
fn refers_to_whole(store: &TestStore, output: &str) -> usize {
    let log = plain_log(store);
    let log = if log.exists() { messages(&log) } else { Vec::new() };
    for message in &log {
        if let Some(path) = message["fullOutputPath"].as_str() {
            let name = path.strip_prefix("/ctx/c7/artifacts/tool/").unwrap();
            assert_eq!(fs::read_to_string(store.plain("c7", name)).unwrap(), output);
        }
    }
    log.len()
}

#[test]
fn a_host_that_dies_at_any_moment_leaves_a_log_that_can_be_gone_on_with() {
    need("strace", "strace");
    let output = "line of output\n".repeat(5000);
    let input = format!("{}\n{}\n", json!({ "role": "user" }), result("call_1", &output));
    let mut n = 0;
    loop {
        n += 1;
        let store = TestStore::new();
        let killed = killed_at(n, &store, &input);
        let left = refers_to_whole(&store, &output);
        assert!(killed || left == 2, "at {n}");
        // The host comes back and tells it again.
        store.ctxfs("log", &["append", "c7", "--advertise", "/ctx"]).stdin(&*input).stdout();
        assert_eq!(refers_to_whole(&store, &output), left + 2, "at {n}");
        // A part that was stored stays beside the whole.
        let mut names = listing(&store.plain("c7", ""));
        names.sort();
        assert!(names == ["call_1.txt"] || names == ["call_1-2.txt", "call_1.txt"], "{names:?}");
        if !killed {
            break;
        }
    }
    assert!(n > 10, "it was killed {n} times only");
}

/// The output was stored and its message was not. When the message is appended again, the output is
/// not stored again.
#[test]
fn a_message_told_again_finds_its_output() {
    let store = TestStore::new();
    let output = "line of output\n".repeat(5000);
    assert_eq!(store.put("c7", "call_1", output.as_bytes()), "call_1.txt");
    let input = format!("{}\n", result("call_1", &output));
    store.ctxfs("log", &["append", "c7", "--advertise", "/ctx"]).stdin(input).stdout();
    assert_eq!(refers_to_whole(&store, &output), 1);
    assert_eq!(listing(&store.plain("c7", "")), ["call_1.txt"]);
}

#[test]
fn a_torn_line_is_set_aside_by_whoever_looks_next() {
    for mode in Mode::ALL {
        let store = Arc::new(TestStore::new());
        store.ctxfs("log", &["append", "c7"]).stdin("{\"role\":\"user\"}\n").stdout();
        tear(&plain_log(&store));
        let mount = TestMount::of(&store, mode, &[]);
        let log = log_in(mount.path());
        assert_eq!(fs::metadata(&log).unwrap().len(), 16, "{mode:?}");
        assert_eq!(fs::read_to_string(&log).unwrap(), "{\"role\":\"user\"}\n");
        assert_eq!(fs::read(plain_log(&store)).unwrap(), b"{\"role\":\"user\"}\n");
        let torn = log.with_file_name("messages.torn");
        assert_eq!(fs::read(torn).unwrap(), b"{\"role\":\"to\n", "{mode:?}");
    }
}

/// While another program writes the file directly, ctxfs does not change it, and readers see whole
/// lines only.
#[test]
fn a_line_that_is_still_written_is_left_alone() {
    let store = Arc::new(TestStore::new());
    store.ctxfs("log", &["append", "c7"]).stdin("{\"role\":\"user\"}\n").stdout();
    let mount = TestMount::of(&store, Mode::Passthrough, &[]);
    let log = log_in(mount.path());
    let mut file = File::options().append(true).open(plain_log(&store)).unwrap();
    file.write_all(b"{\"role\":").unwrap();
    for suffix in ["", ".tail", ".lines/1-9"] {
        let path = format!("{}{suffix}", log.display());
        assert_eq!(fs::read_to_string(path).unwrap(), "{\"role\":\"user\"}\n");
    }
    file.write_all(b"\"tool\"}\n").unwrap();
    assert_eq!(messages(&log).len(), 2);
}

#[test]
fn a_daemon_that_dies_takes_no_line_with_it() {
    for mode in Mode::ALL {
        let mut mount = TestMount::new(mode);
        mount.tool("c7");
        let mut file = File::create(log_in(mount.path())).unwrap();
        file.write_all(b"{\"role\":\"user\"}\n{\"role\":\"to").unwrap();
        mount.power_cut();
        drop(file);
        let store = Arc::clone(mount.store());
        drop(mount);
        assert_eq!(fs::read(plain_log(&store)).unwrap(), b"{\"role\":\"user\"}\n", "{mode:?}");
    }
}

fn tear(log: &Path) {
    File::options().append(true).open(log).unwrap().write_all(b"{\"role\":\"to").unwrap();
}
