//! Every end leaves the directory as it was.

use std::fs::File;
use std::time::Duration;
use std::{fs, thread};

use rustix::process::Signal;

use super::waiting::lock;
use crate::support::{Mode, TestMount, eventually, is_mounted, processes_of, server_of, signal};

#[test]
fn signals_unmount() {
    for by in [Signal::TERM, Signal::INT, Signal::HUP] {
        let mut mount = TestMount::new(Mode::Passthrough);
        let path = mount.artifact("c7", "x.txt", b"text\n");
        assert_eq!(mount.end(by), Some(0), "{by:?}");
        assert!(!is_mounted(mount.path()), "{by:?}");
        assert!(!path.exists(), "{by:?}");
        eventually("nothing is left running", || processes_of(mount.path()).is_empty());
        assert_eq!(fs::read_dir(mount.path()).unwrap().count(), 0, "{by:?}");
        assert_eq!(fs::read(mount.store().plain("c7", "x.txt")).unwrap(), b"text\n");
    }
}

#[test]
fn a_signal_unmounts_while_files_are_open() {
    let mut mount = TestMount::new(Mode::Passthrough);
    let path = mount.artifact("c7", "x.txt", b"text\n");
    let _reader = File::open(&path).unwrap();
    let _view = File::open(path.with_file_name("x.txt.tail")).unwrap();
    assert_eq!(mount.end(Signal::TERM), Some(0));
    assert!(!is_mounted(mount.path()));
}

/// Sealing may take long: it waits for a lock here, longer than open files are served.
#[test]
fn a_signal_ends_the_daemon_when_all_is_sealed() {
    let mut mount = TestMount::new(Mode::Passthrough);
    let path = mount.artifact("c7", "x.txt", b"text\n");
    let manifest = mount.store().path().join("context/c7/manifest.jsonl");
    let says = |text: &str| fs::read_to_string(&manifest).is_ok_and(|lines| lines.contains(text));
    eventually("it is sealed", || says("\"digest\""));
    let held = lock(&manifest);
    fs::write(path.with_file_name("y.txt"), b"more text\n").unwrap();
    let unlocks = thread::spawn(move || {
        thread::sleep(Duration::from_secs(7));
        drop(held);
    });
    assert_eq!(mount.end(Signal::TERM), Some(0));
    unlocks.join().unwrap();
    assert!(says("\"size\":10"));
}

#[test]
fn an_unmount_from_outside_ends_the_daemon() {
    let mut mount = TestMount::new(Mode::Passthrough);
    rustix::mount::unmount(mount.path(), rustix::mount::UnmountFlags::empty()).unwrap();
    assert_eq!(mount.ended(), Some(0));
}

#[test]
fn a_killed_server_leaves_no_dead_mount() {
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        mount.artifact("c7", "x.txt", b"text\n");
        signal(server_of(mount.path()), Signal::KILL);
        eventually(&format!("the dead mount is taken away, {mode:?}"), || {
            !is_mounted(mount.path())
        });
        eventually("nothing is left running", || processes_of(mount.path()).is_empty());
        assert_eq!(fs::read_dir(mount.path()).unwrap().count(), 0);
    }
}

#[test]
fn a_killed_watchdog_is_replaced() {
    let mut mount = TestMount::new(Mode::Passthrough);
    let path = mount.artifact("c7", "x.txt", b"text\n");
    let watchdogs = |mount: &TestMount| {
        let all = processes_of(mount.path()).into_iter();
        all.filter(|pid| *pid != mount.pid()).collect::<Vec<_>>()
    };
    for _ in 0..2 {
        let before = watchdogs(&mount);
        assert_eq!(before.len(), 2, "two processes that watch the server");
        signal(before[0], Signal::KILL);
        eventually("another takes its place", || {
            let now = watchdogs(&mount);
            now.len() == 2 && !now.contains(&before[0])
        });
    }
    assert_eq!(fs::read(&path).unwrap(), b"text\n");
    signal(mount.pid(), Signal::KILL);
    eventually("the dead mount is taken away", || !is_mounted(mount.path()));
    mount.ended();
}

#[test]
fn a_watchdog_that_was_replaced_unmounts() {
    let mut mount = TestMount::new(Mode::Cached);
    let first: Vec<u32> = processes_of(mount.path());
    let lost = first.iter().find(|pid| **pid != mount.pid()).unwrap();
    signal(*lost, Signal::KILL);
    eventually("another takes its place", || {
        let now = processes_of(mount.path());
        now.len() == 3 && !now.contains(lost)
    });
    let other = first.iter().rfind(|pid| **pid != mount.pid() && *pid != lost).unwrap();
    signal(*other, Signal::KILL);
    assert_eq!(mount.end(Signal::TERM), Some(0));
    assert!(!is_mounted(mount.path()));
    eventually("nothing is left running", || processes_of(mount.path()).is_empty());
}
