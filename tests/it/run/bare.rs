//! A command whose output cannot be stored runs all the same.

use std::fs;
use std::fs::File;
use std::path::Path;

use rustix::fs::FlockOperation;

use crate::support::{Command, Output, TestStore};

const SCRIPT: &str = "cat; echo out; echo err >&2; exit 3";

/// Runs a command, of which nothing is stored in `store`.
fn run(store: &Path, more: &[&str]) -> Output {
    let run = Command::ctxfs().arg("run").arg("--store").arg(store).with(|inner| {
        inner.args(more).args(["--", "sh", "-c", SCRIPT]);
    });
    run.stdin("in\n").run()
}

fn check(output: &Output, why: &str) {
    assert_eq!(output.code, 3, "{output}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "in\nout\n");
    let said = String::from_utf8_lossy(&output.stderr);
    let [first, "err"] = said.lines().collect::<Vec<_>>()[..] else { panic!("{said}") };
    assert!(first.starts_with("ctxfs: the output is not stored: "), "{first}");
    assert!(first.contains(why), "{first}");
}

#[test]
fn without_a_store() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("file");
    fs::write(&file, "").unwrap();
    check(&run(&file, &[]), "file");
    check(&run(Path::new("/proc/self/no-store"), &[]), "/proc");
    let newer = scratch.path().join("newer");
    fs::create_dir(&newer).unwrap();
    fs::write(newer.join("VERSION"), "99\n").unwrap();
    check(&run(&newer, &[]), "newer");
}

#[test]
fn without_settings_or_with_a_name_that_is_none() {
    let store = TestStore::new();
    let settings = store.scratch("settings").join("config.toml");
    fs::write(&settings, "store = [\n").unwrap();
    check(&run(&store.path(), &["--config", settings.to_str().unwrap()]), "config.toml");
    check(&run(&store.path(), &["-c", "a/b"]), "a/b");
}

#[test]
fn without_a_store_that_answers() {
    let store = TestStore::new();
    store.put("c7", "x", b"text\n");
    let manifest =
        File::options().append(true).open(store.path().join("context/c7/manifest.jsonl"));
    let manifest = manifest.unwrap();
    rustix::fs::flock(&manifest, FlockOperation::LockExclusive).unwrap();
    check(&run(&store.path(), &["-c", "c7"]), "does not answer");
}

#[test]
fn a_command_that_cannot_be_run_says_so_then_too() {
    let output = Command::ctxfs()
        .with(|inner| {
            inner.args(["run", "--store", "/proc/self/no-store", "--", "no-such-program"]);
        })
        .run();
    assert_eq!(output.code, 127);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("ctxfs: cannot run `no-such-program`: "), "{said}");
}
