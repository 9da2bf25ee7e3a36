//! Writers and daemons that are killed in the middle of a write.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{fs, thread};

use rustix::process::Signal;

use crate::support::{Command, Mode, TestMount, TestStore, eventually, listing, need};

/// Writes `part` lines to `$1`, reports that, and waits to be killed.
const WRITER: &str = "
import sys, time
file = open(sys.argv[1], 'wb', buffering=0)
for number in range(500):
    file.write(b'line %d\\n' % number)
print('written', flush=True)
time.sleep(100)
";

/// Files that are written beside children that begin and end.
const FILES: usize = 1000;

#[test]
fn a_killed_writer_leaves_an_incomplete_artifact() {
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        let path = mount.tool("c7").join("x.txt");
        let mut writer = writer(&path);
        writer.kill().unwrap();
        writer.wait().unwrap();
        assert_eq!(fs::read(&path).unwrap(), written(), "{mode:?}");
        let view = path.with_file_name("x.txt.summary");
        eventually(&format!("the summary says INCOMPLETE, {mode:?}"), || is_incomplete(&view));
    }
}

#[test]
fn a_writer_that_fails_in_the_ordinary_way_is_complete() {
    let mount = TestMount::new(Mode::Passthrough);
    let path = mount.tool("c7").join("x.txt");
    let output = Command::shell("echo text > \"$1\"; exit 3", &[&path]).run();
    assert_eq!(output.code, 3);
    assert!(!is_incomplete(&path.with_file_name("x.txt.summary")));
}

/// Between fork and exec, a child has the descriptors of its parent.
#[test]
fn children_that_are_killed_at_their_start_leave_what_their_parent_writes_complete() {
    let mount = TestMount::new(Mode::Passthrough);
    let dir = mount.tool("c7");
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                let mut child = Command::new("sleep").arg("100").spawn();
                child.kill().unwrap();
                child.wait().unwrap();
            }
        });
        for number in 0..FILES {
            fs::write(dir.join(format!("{number}.txt")), "text\n").unwrap();
        }
        is_done.store(true, Ordering::Relaxed);
    });
    for number in 0..FILES {
        assert!(!is_incomplete(&dir.join(format!("{number}.txt.summary"))), "{number}");
    }
}

/// Kills a `put` of the call `cut` in `c7` once 13,000 bytes of text have come.
fn kill_put(store: &TestStore) {
    let mut put = store
        .ctxfs("put", &["--conversation", "c7", "--call", "cut"])
        .with(|inner| {
            inner.stdin(Stdio::piped()).stdout(Stdio::null());
        })
        .spawn();
    let mut pipe = put.stdin.take().unwrap();
    pipe.write_all(&b"line of text\n".repeat(1000)).unwrap();
    pipe.flush().unwrap();
    let dir = store.path().join("context/c7/artifacts/tool");
    eventually("put has stored what came so far", || {
        let names = if dir.exists() { listing(&dir) } else { Vec::new() };
        names.iter().any(|name| fs::metadata(dir.join(name)).unwrap().len() == 13_000)
    });
    put.kill().unwrap();
    put.wait().unwrap();
}

#[test]
fn a_killed_put_leaves_the_earlier_output() {
    let store = TestStore::new();
    store.put("c7", "cut", b"{\"a\": 1}\n");
    kill_put(&store);
    let dir = store.path().join("context/c7/artifacts/tool");
    assert_eq!(store.view("c7/artifacts/tool/cut"), b"{\"a\": 1}\n");
    let names = listing(&dir);
    assert_eq!(names.len(), 2, "{names:?}");
    assert_eq!(fs::read(dir.join("cut-2.txt")).unwrap(), b"line of text\n".repeat(1000));
}

#[test]
fn a_killed_put_leaves_an_incomplete_artifact() {
    let store = TestStore::new();
    kill_put(&store);
    let dir = store.path().join("context/c7/artifacts/tool");
    let names = listing(&dir);
    assert_eq!(names.len(), 1, "{names:?}");
    let summary = store.view(&format!("c7/artifacts/tool/{}.summary", names[0]));
    let summary = String::from_utf8(summary).unwrap();
    assert!(summary.lines().next().unwrap().contains("INCOMPLETE"), "{summary}");
}

#[test]
fn a_killed_daemon_leaves_an_incomplete_artifact() {
    for mode in Mode::ALL {
        let mut mount = TestMount::new(mode);
        mount.artifact("c7", "done.txt", b"sealed before\n");
        let summary = mount.path().join("c7/artifacts/tool/done.txt.summary");
        fs::read(&summary).unwrap();
        eventually("the seal is recorded", || sealed(mount.store(), "done.txt"));
        let mut writer = writer(&mount.tool("c7").join("x.txt"));
        // A thread of its own writes that, some milliseconds after the opening.
        eventually("it is recorded as live", || state(mount.store(), "x.txt").contains("live"));
        mount.power_cut();
        writer.kill().unwrap();
        writer.wait().unwrap();
        let store = std::sync::Arc::clone(mount.store());
        drop(mount);

        let mount = TestMount::of(&store, mode, &[]);
        let dir = mount.tool("c7");
        assert_eq!(fs::read(dir.join("x.txt")).unwrap(), written(), "{mode:?}");
        assert!(is_incomplete(&dir.join("x.txt.summary")), "{mode:?}");
        assert!(!is_incomplete(&dir.join("done.txt.summary")), "{mode:?}");
        // Written again to its end, it is whole.
        fs::write(dir.join("x.txt"), b"all of it\n").unwrap();
        assert!(!is_incomplete(&dir.join("x.txt.summary")), "{mode:?}");
    }
}

#[test]
fn a_torn_manifest_loses_no_artifact() {
    let store = std::sync::Arc::new(TestStore::new());
    for number in 0..3 {
        store.put("c7", &format!("call_{number}"), b"text\n");
    }
    let manifest = store.path().join("context/c7/manifest.jsonl");
    let whole = fs::read(&manifest).unwrap();
    for torn in [&whole[..whole.len() - 20], b"", b"\0\0\0\0 no JSON \xff\n"] {
        fs::write(&manifest, torn).unwrap();
        let mount = TestMount::of(&store, Mode::Passthrough, &[]);
        for number in 0..3 {
            let path = mount.tool("c7").join(format!("call_{number}.txt"));
            assert_eq!(fs::read(&path).unwrap(), b"text\n");
            assert!(path.with_file_name(format!("call_{number}.txt.summary")).exists());
        }
    }
}

#[test]
fn a_client_killed_in_the_middle_of_a_view_harms_nobody() {
    need("cat", "coreutils");
    let mount = TestMount::new(Mode::Passthrough);
    let path = mount.artifact("c7", "x.txt", &b"some line of text ERROR here\n".repeat(400_000));
    for number in 0..10 {
        let view = path.with_file_name(format!("x.txt.grep/(a|b|t)+.*ERR.*e{number}?"));
        let mut client = Command::new("cat")
            .arg(view)
            .with(|inner| {
                inner.stdin(Stdio::null()).stdout(Stdio::null());
            })
            .spawn();
        std::thread::sleep(std::time::Duration::from_millis(number * 3));
        client.kill().unwrap();
        client.wait().unwrap();
    }
    assert_eq!(fs::read(path.with_file_name("x.txt.lines/2-2")).unwrap().len(), 29);
    mount.artifact("c7", "y.txt", b"still here\n");
}

/// A writer that has written its part.
fn writer(path: &Path) -> std::process::Child {
    let said = path.with_file_name(".said");
    let mut writer = Command::new("python3")
        .args(["-c", WRITER])
        .arg(path)
        .with(|inner| {
            inner.stdin(Stdio::null()).stdout(File::create(&said).unwrap());
        })
        .spawn();
    eventually("the writer has written", || {
        assert!(writer.try_wait().unwrap().is_none(), "the writer failed");
        fs::read(&said).unwrap() == b"written\n"
    });
    fs::remove_file(said).unwrap();
    writer
}

fn written() -> Vec<u8> {
    (0..500).flat_map(|number| format!("line {number}\n").into_bytes()).collect()
}

fn is_incomplete(summary: &Path) -> bool {
    let text = fs::read_to_string(summary).unwrap();
    text.lines().next().unwrap().contains("INCOMPLETE")
}

/// Returns true if the manifest on disk says that the artifact is sealed.
fn sealed(store: &TestStore, name: &str) -> bool {
    state(store, name) == "sealed"
}

/// Returns the state of an artifact in the manifest. It is empty if there is no record.
fn state(store: &TestStore, name: &str) -> String {
    let manifest = fs::read_to_string(store.path().join("context/c7/manifest.jsonl"));
    let manifest = manifest.unwrap_or_default();
    let last = manifest.lines().rfind(|line| line.contains(name)).unwrap_or("{}");
    let record: serde_json::Value = serde_json::from_str(last).unwrap_or_default();
    record["state"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_hung_up_daemon_is_not_a_power_cut() {
    let mut mount = TestMount::new(Mode::Passthrough);
    mount.artifact("c7", "x.txt", b"text\n");
    assert_eq!(mount.end(Signal::HUP), Some(0));
    let store = std::sync::Arc::clone(mount.store());
    let mount = TestMount::of(&store, Mode::Passthrough, &[]);
    assert!(!is_incomplete(&mount.tool("c7").join("x.txt.summary")));
}
