//! Processes in the background that a command leaves behind.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, Signal, getsid};

use super::{plain, record, run, says};
use crate::support::{Command, Output, TestStore, eventually, signal};

/// Waits for a file of this name.
const WAIT: &str = "while [ -e \"$PWD\" ] && [ ! -e go ]; do sleep 0.02; done";

/// Runs a script in a directory, which is returned with its output.
fn run_in(store: &TestStore, more: &[&str], script: &str) -> (PathBuf, Output) {
    let dir = store.scratch("flags");
    let output = run(store, "x", more, &["sh", "-c", script]).current_dir(&dir).run();
    (dir, output)
}

fn go(dir: &Path) {
    fs::write(dir.join("go"), "").unwrap();
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Returns the process that writes the log.
fn owner(store: &TestStore) -> u32 {
    u32::try_from(record(store, "x.log")["owner"]["pid"].as_u64().unwrap()).unwrap()
}

fn is_sealed(store: &TestStore, name: &str) {
    eventually("the log is sealed", || record(store, name)["state"] == "sealed");
}

#[test]
fn the_command_ends_and_they_go_on_with_the_log() {
    let store = TestStore::new();
    let script = format!("({WAIT}; echo late; echo more >&2; rm go) & echo early; exit 5");
    let (dir, output) = run_in(&store, &[], &script);
    assert_eq!((output.code, text(&output.stdout), text(&output.stderr)), (5, "early\n", ""));
    let live = record(&store, "x.log");
    assert_eq!((&live["state"], &live["exit_code"]), (&"live".into(), &5.into()));
    let keeper = owner(&store);
    let keeper = Pid::from_raw(keeper.cast_signed()).unwrap();
    assert_eq!(getsid(Some(keeper)).unwrap(), keeper);
    go(&dir);
    says(&store, "x.log", b"early\nlate\nmore\n");
    is_sealed(&store, "x.log");
    // They had somebody who read to the end.
    assert!(!dir.join("go").exists());
    let sealed = record(&store, "x.log");
    assert_eq!((&sealed["exit_code"], &sealed["analysis"]["lines"]), (&5.into(), &3.into()));
    assert!(sealed["owner"].is_null(), "{sealed}");
}

#[test]
fn a_stand_in_says_that_the_log_is_live() {
    let store = TestStore::new();
    let script = format!("({WAIT}; echo late) & seq 5000; exit 1");
    let (dir, output) = run_in(&store, &[], &script);
    let told = text(&output.stdout);
    assert!(told.contains("\n[ctxfs] INCOMPLETE: ") && told.contains("it is live: "), "{told}");
    assert!(told.contains("exit code 1 (failed)") && told.contains("\n5000\n"), "{told}");
    go(&dir);
    is_sealed(&store, "x.log");
    assert_eq!(record(&store, "x.log")["analysis"]["lines"], 5001);
}

#[test]
fn streams_are_kept_apart_to_the_end() {
    let store = TestStore::new();
    let script = format!("({WAIT}; echo out; echo err >&2) & echo 1; echo 2 >&2");
    let (dir, output) = run_in(&store, &["--split"], &script);
    assert_eq!((output.code, output.stdout.len()), (0, 4));
    go(&dir);
    says(&store, "x.stdout.log", b"1\nout\n");
    says(&store, "x.stderr.log", b"2\nerr\n");
    for log in ["x.log", "x.stdout.log", "x.stderr.log"] {
        is_sealed(&store, log);
    }
    // One stream may be closed long before the other one.
    let store = TestStore::new();
    let script = format!("exec >&-; ({WAIT}; echo err >&2) & exit 4");
    let (dir, output) = run_in(&store, &["--split"], &script);
    assert_eq!(output.code, 4);
    go(&dir);
    says(&store, "x.stderr.log", b"err\n");
    is_sealed(&store, "x.stderr.log");
}

#[test]
fn a_short_output_stays_only_if_more_comes() {
    for (late, stays) in [("echo late", true), (":", false)] {
        let store = TestStore::new();
        let script = format!("({WAIT}; {late}) & echo early");
        let (dir, output) = run_in(&store, &["--discard-short"], &script);
        assert_eq!((output.code, text(&output.stdout)), (0, "early\n"));
        assert!(plain(&store, "x.log").exists());
        go(&dir);
        if stays {
            is_sealed(&store, "x.log");
        }
        eventually("it is decided", || plain(&store, "x.log").exists() == stays);
    }
}

/// A host may wait for the end of any descriptor that it has handed down.
#[test]
fn no_descriptor_of_whoever_started_it_stays_open() {
    let store = TestStore::new();
    let dir = store.scratch("flags");
    let script = "exec 9>&1; exec \"$1\" run --store \"$2\" -c c7 --id x -- sh -c \"$3\"";
    let command = format!("exec 9>&-; ({WAIT}) & echo early");
    let program = Path::new(env!("CARGO_BIN_EXE_ctxfs"));
    let command = Command::shell(script, &[program, &store.path()]).arg(&command);
    let output = command.without_settings().current_dir(&dir).run();
    assert_eq!((output.code, text(&output.stdout)), (0, "early\n"));
    assert_eq!(record(&store, "x.log")["state"], "live");
    go(&dir);
    is_sealed(&store, "x.log");
}

#[test]
fn the_cap_holds_for_them_too() {
    let store = TestStore::new();
    let dir = store.scratch("flags");
    let script = format!("({WAIT}; seq 100000; echo the end) & echo early");
    let command = run(&store, "x", &[], &["sh", "-c", &script]).current_dir(&dir);
    assert_eq!(command.env("CTXFS_MAX_TERMINAL", "50000").run().code, 0);
    go(&dir);
    eventually("it is at its end", || record(&store, "x.log")["state"] == "incomplete");
    let kept = fs::read(plain(&store, "x.log")).unwrap();
    assert!(kept.len() <= 50_000 && kept.starts_with(b"early\n1\n"), "{}", kept.len());
    assert!(kept.ends_with(b"100000\nthe end\n"));
}

#[test]
fn where_nothing_more_fits_they_go_on_all_the_same() {
    let store = TestStore::new();
    let dir = store.scratch("flags");
    let script = format!("({WAIT}; seq 100000; rm go) & seq 100000; exit 2");
    let command = run(&store, "x", &[], &["sh", "-c", &script]).current_dir(&dir);
    let output = command.env("CTXFS_MIN_FREE", "1000000TiB").run();
    assert!(output.code == 2 && output.stdout.ends_with(b"100000\n"), "{output}");
    go(&dir);
    eventually("they have ended", || !dir.join("go").exists());
    eventually("it is sealed", || record(&store, "x.log")["state"] == "incomplete");
}

#[test]
fn who_kills_the_group_of_the_command_leaves_a_sealed_log() {
    let store = TestStore::new();
    let (dir, output) = run_in(&store, &[], "sleep 1000 & echo $! > pid; echo early");
    assert_eq!(text(&output.stdout), "early\n");
    let left = fs::read_to_string(dir.join("pid")).unwrap().trim().parse().unwrap();
    let group = rustix::process::getpgid(Pid::from_raw(left)).unwrap();
    rustix::process::kill_process_group(group, Signal::KILL).unwrap();
    is_sealed(&store, "x.log");
}

#[test]
fn who_kills_the_process_that_reads_on_leaves_an_incomplete_log() {
    let store = TestStore::new();
    let (dir, _) = run_in(&store, &[], &format!("({WAIT}) & echo early"));
    signal(owner(&store), Signal::KILL);
    eventually("it is told that the log may lack its end", || {
        let told = store.view("c7/artifacts/terminal/x.log.summary");
        text(&told).starts_with("[ctxfs] INCOMPLETE")
    });
    go(&dir);
    assert_eq!(fs::read(plain(&store, "x.log")).unwrap(), b"early\n");
}

#[test]
fn a_writer_that_never_pauses_holds_up_nobody() {
    let store = TestStore::new();
    let script = "yes & echo $! > pid; exit 6";
    let dir = store.scratch("flags");
    let command = run(&store, "x", &[], &["sh", "-c", script]).current_dir(&dir);
    let output = command.env("CTXFS_MAX_TERMINAL", "1000000").run();
    assert_eq!(output.code, 6);
    let pid = fs::read_to_string(dir.join("pid")).unwrap().trim().parse().unwrap();
    signal(pid, Signal::KILL);
    eventually("the log is at its end", || record(&store, "x.log")["state"] != "live");
}
