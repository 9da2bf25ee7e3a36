//! The server, killed between any two calls of the sealing thread.

use std::fs;
use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use crate::crash::chosen;
use crate::crash::sound::sound;
use crate::crash::stops::{attach, calls};
use crate::support::{Mode, TestMount, TestStore, comes_true, eventually, log};

#[test]
fn sealing() {
    let store = Arc::new(TestStore::new());
    let trace = store.scratch("trace").join("calls");
    let mount = TestMount::of(&store, Mode::Cached, &[]);
    let mut tracer = attach(sealing_thread(mount.pid()), &[], &trace);
    work(&mount);
    eventually("all is sealed", || sealed(&store));
    drop(mount);
    tracer.wait().unwrap();
    let mut stopped = 0;
    for call in chosen(calls(&trace, "manifest.jsonl")) {
        println!("stopped before {call}");
        let store = Arc::new(TestStore::new());
        let mount = TestMount::of(&store, Mode::Cached, &[]);
        let trace = store.scratch("trace").join("calls");
        let mut tracer = attach(sealing_thread(mount.pid()), &call.options(), &trace);
        let written = work(&mount);
        let died = comes_true(|| !is_alive(&mount) || sealed(&store)) && !is_alive(&mount);
        stopped += usize::from(died);
        // The watchdog clears the mount.
        drop(mount);
        tracer.wait().unwrap();
        let mount = TestMount::of(&store, Mode::Passthrough, &[]);
        whole(&mount, written, died);
        drop(mount);
        sound(&store);
    }
    assert!(stopped >= 5, "stopped {stopped} times");
}

fn sealing_thread(server: u32) -> u32 {
    let is_sealing = |task: &PathBuf| {
        fs::read_to_string(task.join("comm")).is_ok_and(|name| name.trim() == "ctxfs-seal")
    };
    let mut found = None;
    // A thread names itself when it begins to run.
    eventually("there is a thread that seals", || {
        let tasks = fs::read_dir(format!("/proc/{server}/task")).unwrap();
        found = tasks.map(|task| task.unwrap().path()).find(is_sealing);
        found.is_some()
    });
    found.unwrap().file_name().unwrap().to_str().unwrap().parse().unwrap()
}

/// Writes two artifacts, one of them in two generations, until the server dies. Returns how many
/// bytes of the first were written.
fn work(mount: &TestMount) -> usize {
    let dir = mount.path().join("c7/artifacts/tool");
    let mut written = 0;
    let mut write = || -> std::io::Result<()> {
        fs::create_dir(mount.path().join("c7"))?;
        let mut writer = File::create(dir.join("one.txt"))?;
        writer.write_all(&log(200))?;
        written = log(200).len();
        until(mount, "live");
        drop(writer);
        until(mount, "sealed");
        File::options().append(true).open(dir.join("one.txt"))?.write_all(b"more\n")?;
        fs::write(dir.join("two.txt"), b"text\n")?;
        Ok(())
    };
    // The server may end at any of these.
    write().ok();
    written
}

/// Waits for a record of the first artifact, as long as the server lives.
fn until(mount: &TestMount, state: &str) {
    eventually("there is a record, or there will be none", || {
        !is_alive(mount) || record(mount.store(), "one.txt", state).is_some()
    });
}

fn is_alive(mount: &TestMount) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", mount.pid())).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

/// Returns the last record of an artifact, if it is in this state.
fn record(store: &TestStore, name: &str, state: &str) -> Option<String> {
    let manifest = fs::read_to_string(store.path().join("context/c7/manifest.jsonl")).ok()?;
    let last = manifest.lines().rfind(|line| line.contains(name))?;
    last.contains(&format!(r#""state":"{state}""#)).then(|| last.to_owned())
}

fn sealed(store: &TestStore) -> bool {
    let sealed = |name| record(store, name, "sealed");
    let second = sealed("one.txt").is_some_and(|line| line.contains(r#""generation":2"#));
    second && sealed("two.txt").is_some()
}

/// Asserts that the bytes that were written before the server ended are there.
fn whole(mount: &TestMount, written: usize, died: bool) {
    let dir = mount.path().join("c7/artifacts/tool");
    let one = fs::read(dir.join("one.txt")).unwrap();
    let all = [log(200), b"more\n".to_vec()].concat();
    assert!(all.starts_with(&one) && one.len() >= written, "{} bytes of {written}", one.len());
    assert!(died || one == all);
    for name in ["one.txt", "two.txt"] {
        let path = dir.join(name);
        if path.exists() {
            let tail = fs::read(path.with_file_name(format!("{name}.tail"))).unwrap();
            assert!(fs::read(&path).unwrap().ends_with(&tail));
            assert!(fs::metadata(path.with_file_name(format!("{name}.summary"))).is_ok());
        }
    }
}
