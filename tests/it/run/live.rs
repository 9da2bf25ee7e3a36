//! The log while the command runs, and after `ctxfs run` is killed.

use std::fs;
use std::fs::File;
use std::io::Write as _;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::Arc;

use super::{plain, record, run, says};
use crate::support::{Command, Mode, TestMount, TestStore, eventually};

/// Runs `cat` with the log `x`. Returns it with its standard input.
fn cat(store: &TestStore) -> (Child, ChildStdin) {
    let piped = |inner: &mut std::process::Command| {
        inner.stdin(Stdio::piped()).stdout(Stdio::null());
    };
    let mut child = run(store, "x", &[], &["cat"]).with(piped).spawn();
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"begun\n").unwrap();
    says(store, "x.log", b"begun\n");
    (child, input)
}

#[test]
fn the_log_is_live_in_every_mount() {
    for mode in Mode::ALL {
        let store = Arc::new(TestStore::new());
        let mounts = [TestMount::of(&store, mode, &[]), TestMount::of(&store, mode, &[])];
        let (mut child, mut input) = cat(&store);
        assert_eq!(record(&store, "x.log")["state"], "live");
        assert_eq!(record(&store, "x.log")["owner"]["pid"], child.id());
        let mut wanted = "begun\n".to_owned();
        for line in ["second", "error: third failed", "fourth"] {
            wanted = format!("{wanted}{line}\n");
            writeln!(input, "{line}").unwrap();
            says(&store, "x.log", wanted.as_bytes());
            for mount in &mounts {
                let log = mount.path().join("c7/artifacts/terminal/x.log");
                let tail = fs::read_to_string(log.with_file_name("x.log.tail")).unwrap();
                assert_eq!(tail, wanted, "{mode:?}");
                let errors = fs::read_to_string(log.with_file_name("x.log.errors")).unwrap();
                assert_eq!(errors.contains("third failed"), wanted.contains("third"), "{errors}");
                let summary = fs::read_to_string(log.with_file_name("x.log.summary")).unwrap();
                assert!(!summary.contains("INCOMPLETE"), "{summary}");
                assert!(summary.contains(line), "{summary}");
            }
        }
        drop(input);
        assert_eq!(child.wait().unwrap().code(), Some(0));
        assert_eq!(record(&store, "x.log")["state"], "sealed");
    }
}

#[test]
fn two_writers_and_a_reader_share_a_log() {
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        let store = mount.store();
        fs::create_dir(mount.path().join("c7")).unwrap();
        let (mut child, mut input) = cat(store);
        let log = mount.path().join("c7/artifacts/terminal/x.log");
        let copy = store.scratch("out").join("copy");
        let mut tail = Command::new("tail")
            .args(["-n", "+1", "-f", "---disable-inotify", "-s", "0.05"])
            .arg(&log)
            .with(|inner| {
                inner.stdin(Stdio::null()).stdout(File::create(&copy).unwrap());
            })
            .spawn();
        let mut wanted = "begun\n".to_owned();
        for number in 0..20 {
            writeln!(input, "command {number}").unwrap();
            wanted = format!("{wanted}command {number}\n");
            says(store, "x.log", wanted.as_bytes());
            Command::shell("echo \"$2\" >> \"$1\"", &[&log])
                .arg(format!("other {number}"))
                .stdout();
            wanted = format!("{wanted}other {number}\n");
        }
        eventually("tail -f shows what both wrote", || {
            fs::read_to_string(&copy).unwrap() == wanted
        });
        drop(input);
        child.wait().unwrap();
        assert_eq!(fs::read_to_string(&log).unwrap(), wanted);
        assert_eq!(record(store, "x.log")["size"], wanted.len());
        let counted = fs::read_to_string(log.with_file_name("x.log.grep").join("-c other"));
        assert_eq!(counted.unwrap(), "20\n");
        tail.kill().unwrap();
        tail.wait().unwrap();
    }
}

#[test]
fn a_killed_run_leaves_an_incomplete_log() {
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        let (mut child, input) = cat(mount.store());
        let summary = mount.path().join("c7/artifacts/terminal/x.log.summary");
        assert!(!fs::read_to_string(&summary).unwrap().contains("INCOMPLETE"));
        child.kill().unwrap();
        child.wait().unwrap();
        let told = fs::read_to_string(&summary).unwrap();
        assert!(told.lines().next().unwrap().contains("INCOMPLETE"), "{told}");
        assert!(told.contains("begun"), "{told}");
        drop(input);
        assert_eq!(fs::read(plain(mount.store(), "x.log")).unwrap(), b"begun\n");
    }
}
