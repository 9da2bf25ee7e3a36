//! Mounting in the background, and mounts that are refused.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;

use crate::support::{
    Command, Mode, Output, TestMount, TestStore, eventually, is_mounted, processes_of,
};

/// `ctxfs mount DIR`, which leaves its log beside the mountpoint.
fn mount(dir: &Path, store: &Path) -> Command {
    let state = dir.with_extension("state");
    Command::ctxfs().arg("mount").arg(dir).arg("--store").arg(store).env("XDG_STATE_HOME", state)
}

fn umount(dir: &Path) -> Command {
    Command::ctxfs().arg("umount").arg(dir)
}

#[test]
fn in_the_background() {
    let store = TestStore::new();
    let dir = store.scratch("mnt");
    let said = mount(&dir, &store.path()).text();
    // Everything is ready when the command returns.
    assert_eq!(said, format!("{}\n", dir.display()));
    fs::create_dir(dir.join("c7")).unwrap();
    fs::write(dir.join("c7/artifacts/tool/x.txt"), b"text\n").unwrap();
    assert_eq!(fs::read(dir.join("c7/artifacts/tool/x.txt.tail")).unwrap(), b"text\n");
    umount(&dir).stdout();
    assert!(!is_mounted(&dir));
    eventually("the daemon ends", || processes_of(&dir).is_empty());
    assert_eq!(fs::read(store.plain("c7", "x.txt")).unwrap(), b"text\n");
}

#[test]
fn a_directory_and_a_store_are_made() {
    let store = TestStore::new();
    let dir = store.scratch("new").join("deep/mnt");
    let other = store.scratch("other").join("deep/store");
    mount(&dir, &other).stdout();
    assert!(dir.join("README.md").exists());
    umount(&dir).stdout();
    assert!(other.join("VERSION").exists());
    assert_eq!(fs::metadata(&other).unwrap().mode() & 0o777, 0o700);
}

#[test]
fn twice_is_refused() {
    let mounted = TestMount::new(Mode::Passthrough);
    mounted.artifact("c7", "x.txt", b"text\n");
    let output = mount(mounted.path(), &mounted.store().path()).run();
    refused(&output, "mounted");
    assert_eq!(fs::read(mounted.tool("c7").join("x.txt")).unwrap(), b"text\n");
}

#[test]
fn a_store_inside_its_mount_is_refused() {
    let store = TestStore::new();
    let dir = store.scratch("mnt");
    for inside in [dir.clone(), dir.join("store")] {
        let output = mount(&dir, &inside).run();
        assert!(output.code == 2 && told(&output).contains("inside"), "{output}");
        assert!(!is_mounted(&dir));
    }
    let around = store.path().join("context");
    fs::create_dir_all(&around).unwrap();
    let output = mount(&around, &store.path()).run();
    assert!(output.code == 2 && !is_mounted(&around), "a mount over its store: {output}");
}

#[test]
fn what_cannot_be_a_mountpoint_is_refused() {
    let store = TestStore::new();
    let file = store.scratch("x").join("file");
    fs::write(&file, b"kept").unwrap();
    let output = mount(&file, &store.path()).run();
    assert!(output.code == 2 && told(&output).contains("is a file"), "{output}");
    assert_eq!(fs::read(&file).unwrap(), b"kept");
}

#[test]
fn a_newer_store_is_refused() {
    let store = TestStore::new();
    store.put("c7", "x", b"x\n");
    let version = store.path().join("VERSION");
    fs::write(&version, "999\n").unwrap();
    let dir = store.scratch("mnt");
    refused(&mount(&dir, &store.path()).run(), "format 999");
    assert!(!is_mounted(&dir));
}

#[test]
fn a_dead_mount_is_healed() {
    let mut dead = TestMount::new(Mode::Passthrough);
    dead.artifact("c7", "x.txt", b"text\n");
    // The mount is dead as long as nobody has taken it away.
    dead.power_cut();
    let store = Arc::clone(dead.store());
    let said = mount(dead.path(), &store.path()).text();
    assert_eq!(said, format!("{}\n", dead.path().display()));
    assert_eq!(fs::read(dead.path().join("c7/artifacts/tool/x.txt")).unwrap(), b"text\n");
    umount(dead.path()).stdout();
    eventually("the daemon ends", || processes_of(dead.path()).is_empty());
    assert!(!is_mounted(dead.path()));
}

#[test]
fn umount_takes_a_dead_mount_away() {
    let mut dead = TestMount::new(Mode::Passthrough);
    dead.power_cut();
    if is_mounted(dead.path()) {
        umount(dead.path()).stdout();
    }
    assert!(!is_mounted(dead.path()));
    refused(&umount(dead.path()).run(), "not");
}

#[test]
fn umount_works_while_a_file_is_open() {
    let store = TestStore::new();
    let dir = store.scratch("mnt");
    mount(&dir, &store.path()).stdout();
    let readme = fs::File::open(dir.join("README.md")).unwrap();
    umount(&dir).stdout();
    assert!(!is_mounted(&dir));
    drop(readme);
    eventually("the daemon ends", || processes_of(&dir).is_empty());
}

#[test]
fn wrong_usage() {
    for arguments in [&["mount", "--no-such-option"][..], &["no-such-command"], &["view"]] {
        let output = Command::ctxfs().args(arguments).run();
        assert_eq!(output.code, 2, "{arguments:?}: {output}");
        assert!(output.stdout.is_empty() && !output.stderr.is_empty(), "{arguments:?}: {output}");
    }
}

fn refused(output: &Output, why: &str) {
    assert!(output.code == 1 && output.stdout.is_empty(), "{output}");
    assert!(told(output).contains(why), "{output}");
}

/// Returns the messages of the daemon.
fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
