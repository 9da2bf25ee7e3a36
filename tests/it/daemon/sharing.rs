//! Several processes on one store see each other's work.

use std::fs::File;
use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;
use std::{fs, thread};

use rustix::fs::FlockOperation;

use crate::support::{Mode, TestMount, TestStore, eventually, listing, log};

#[test]
fn what_put_stores_shows_in_the_mount_at_once() {
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        assert!(!mount.path().join("c7").exists());
        for number in 0..5 {
            let text = log(100 + number);
            let arguments = ["--conversation", "c7", "--call", &format!("call_{number}")];
            let told = ["--tool", "exec", "--exit-code", "3"];
            let put = mount.store().ctxfs("put", &[&arguments[..], &told[..]].concat());
            let stand_in = put.stdin(text.clone()).stdout();
            let dir = mount.path().join("c7/artifacts/tool");
            let name = format!("call_{number}.txt");
            assert_eq!(fs::read(dir.join(&name)).unwrap(), text, "{mode:?}");
            assert_eq!(listing(&dir).len(), 4 * (number + 1), "{mode:?}");
            let summary = fs::read_to_string(dir.join(format!("{name}.summary"))).unwrap();
            assert!(summary.contains("exit code 3"), "{summary}");
            assert!(!stand_in.is_empty());
            // The bare id opens it too, unlisted.
            assert_eq!(fs::read(dir.join(format!("call_{number}"))).unwrap(), text);
            assert!(dir.join(format!("call_{number}.summary")).exists());
        }
        let manifest = fs::read_to_string(mount.path().join("c7/manifest.json")).unwrap();
        assert_eq!(manifest.matches("ctx://c7/artifacts/tool/call_").count(), 5, "{manifest}");
    }
}

#[test]
fn two_mounts_of_one_store() {
    for modes in [[Mode::Passthrough, Mode::Passthrough], [Mode::Cached, Mode::Passthrough]] {
        let store = Arc::new(TestStore::new());
        let [one, two] = modes.map(|mode| TestMount::of(&store, mode, &[]));
        let path = one.artifact("c7", "x.txt", b"first\n");
        let there = two.path().join("c7/artifacts/tool/x.txt");
        assert_eq!(fs::read(&there).unwrap(), b"first\n", "{modes:?}");
        assert_eq!(fs::read(there.with_file_name("x.txt.tail")).unwrap(), b"first\n");
        let mut append = File::options().append(true).open(&there).unwrap();
        append.write_all(b"second\n").unwrap();
        drop(append);
        assert_eq!(fs::read(&path).unwrap(), b"first\nsecond\n", "{modes:?}");
        assert_eq!(fs::read(path.with_file_name("x.txt.tail")).unwrap(), b"first\nsecond\n");
        fs::write(&path, b"THIRD\n").unwrap();
        assert_eq!(fs::read(&there).unwrap(), b"THIRD\n", "{modes:?}");
        assert_eq!(fs::read(there.with_file_name("x.txt.tail")).unwrap(), b"THIRD\n");
        // A name that was just made is believed for some milliseconds.
        thread::sleep(Duration::from_millis(50));
        fs::remove_file(&there).unwrap();
        eventually("it is gone", || !path.exists());
        assert!(listing(&one.tool("c7")).is_empty(), "{modes:?}");
    }
}

/// A second daemon that starts must not take the first one's live artifacts for broken.
#[test]
fn a_second_mount_leaves_live_artifacts_alone() {
    let store = Arc::new(TestStore::new());
    let one = TestMount::of(&store, Mode::Passthrough, &[]);
    let path = one.tool("c7").join("x.txt");
    let mut writer = File::create(&path).unwrap();
    writer.write_all(b"first\n").unwrap();
    let two = TestMount::of(&store, Mode::Passthrough, &[]);
    writer.write_all(b"second\n").unwrap();
    let there = two.path().join("c7/artifacts/tool/x.txt.tail");
    assert_eq!(fs::read(there).unwrap(), b"first\nsecond\n");
    drop(writer);
    let told =
        |mount: &TestMount| fs::read_to_string(mount.tool("c7").join("x.txt.summary")).unwrap();
    for mount in [&one, &two] {
        assert!(!told(mount).contains("INCOMPLETE"), "{}", told(mount));
    }
}

/// Between `close` and the record of the seal there is a moment in which nobody writes: another
/// process must not take that for a crash.
#[test]
fn what_was_just_closed_is_complete_elsewhere() {
    for mode in Mode::ALL {
        let store = Arc::new(TestStore::new());
        let [one, two] = [mode, mode].map(|mode| TestMount::of(&store, mode, &[]));
        let there = two.path().join("c7/artifacts/tool");
        for number in 0..300 {
            let path = one.tool("c7").join(format!("{number}.txt"));
            let mut writer = File::create(&path).unwrap();
            writer.write_all(b"text\n").unwrap();
            assert!(there.join(format!("{number}.txt")).exists());
            drop(writer);
            let summary = fs::read_to_string(there.join(format!("{number}.txt.summary"))).unwrap();
            assert!(!summary.contains("INCOMPLETE"), "{mode:?}, output {number}: {summary}");
        }
    }
}

#[test]
fn the_command_line_sees_what_the_mount_wrote() {
    let mount = TestMount::new(Mode::Passthrough);
    mount.artifact("c7", "x.txt", &log(300));
    let listed = mount.store().ctxfs("ls", &["--json"]).text();
    assert!(listed.contains("c7"), "{listed}");
    for line in listed.lines() {
        serde_json::from_str::<serde_json::Value>(line)
            .or_else(|_| serde_json::from_str(&listed))
            .unwrap();
    }
    let tail = mount.store().view("c7/artifacts/tool/x.txt.tail");
    assert_eq!(tail, fs::read(mount.tool("c7").join("x.txt.tail")).unwrap());
    mount.store().ctxfs("ls", &[]).stdout();
}

#[test]
fn doctor_and_demo_work() {
    let store = TestStore::new();
    let said = store.ctxfs("doctor", &[]).text();
    assert!(said.contains("/dev/fuse"), "{said}");
    let said = crate::support::Command::ctxfs().arg("demo").text();
    let json = said.split("system.json.summary'").nth(1).expect("the tour passes by it");
    let summary = json.split("\n$ ").next().unwrap();
    assert!(summary.contains("; JSON, valid\nshape: "), "{summary}");
}

/// Only the record of a file waits for the lock of the manifest.
#[test]
fn neither_close_nor_a_view_waits_for_the_record() {
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        mount.artifact("c7", "first.txt", b"first\n");
        let manifest = mount.store().path().join("context/c7/manifest.jsonl");
        let records = || fs::read_to_string(&manifest).unwrap_or_default();
        eventually("the first is recorded", || records().contains("\"digest\""));
        let lock = File::open(&manifest).unwrap();
        rustix::fs::flock(&lock, FlockOperation::LockExclusive).unwrap();
        let text = log(1000);
        let path = mount.artifact("c7", "second.txt", &text);
        let tail = fs::read(path.with_file_name("second.txt.tail")).unwrap();
        assert!(text.ends_with(&tail) && tail.len() > 1000, "{mode:?}");
        let summary = fs::read_to_string(path.with_file_name("second.txt.summary")).unwrap();
        assert!(summary.contains("1,000 lines"), "{mode:?} {summary}");
        assert!(!records().contains("second.txt"), "{mode:?}");
        drop(lock);
        eventually("it is recorded", || records().contains("second.txt"));
    }
}
