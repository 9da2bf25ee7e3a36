//! What a look through a mount sees of changes by other processes, in both modes of coherence.

use std::fs::{File, Permissions};
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fs, thread};

use crate::support::{Mode, TestMount, TestStore, listing};

/// The time after which a file is at rest.
const REST: Duration = Duration::from_millis(120);
/// The time for which a name is promised, and some for a busy machine.
const PROMISED: Duration = Duration::from_millis(1500);

/// A mount over a store in which others write.
struct Shared {
    mount: TestMount,
    strict: bool,
}

impl Shared {
    fn each(test: impl Fn(&Self)) {
        for (mode, coherence) in [
            (Mode::Passthrough, "relaxed"),
            (Mode::Cached, "relaxed"),
            (Mode::Passthrough, "strict"),
        ] {
            let store = Arc::new(TestStore::new());
            let mount = TestMount::of(&store, mode, &["--coherence", coherence]);
            test(&Self { mount, strict: coherence == "strict" });
        }
    }

    /// Writes an output that is at rest and known to the kernel. Returns its path in the mount, and
    /// that in the store.
    fn known(&self, name: &str, bytes: &[u8]) -> (PathBuf, PathBuf) {
        let path = self.mount.artifact("c7", name, bytes);
        self.mount.settle();
        thread::sleep(REST);
        look(&path);
        (path, self.mount.store().plain("c7", name))
    }

    /// Checks that `seen` is true: at once in strict mode, and after a moment otherwise.
    #[track_caller]
    fn sees(&self, what: &str, mut seen: impl FnMut() -> bool) {
        let changed = Instant::now();
        let mut is_seen = seen();
        while !is_seen && !self.strict && changed.elapsed() < PROMISED {
            thread::sleep(Duration::from_millis(1));
            is_seen = seen();
        }
        assert!(is_seen, "{what}, strict: {}, after {:?}", self.strict, changed.elapsed());
    }
}

/// Makes the kernel know the file and its views.
fn look(path: &Path) {
    listing(path.parent().unwrap());
    for suffix in ["", ".summary", ".tail", ".grep"] {
        fs::metadata(view(path, suffix)).unwrap();
    }
}

fn view(path: &Path, suffix: &str) -> PathBuf {
    PathBuf::from(format!("{}{suffix}", path.display()))
}

#[test]
fn an_append_in_the_store_shows() {
    Shared::each(|shared| {
        let (path, plain) = shared.known("x.txt", b"first\n");
        let mut file = File::options().append(true).open(&plain).unwrap();
        file.write_all(b"second\n").unwrap();
        // Opening asks the server.
        assert_eq!(fs::read(&path).unwrap(), b"first\nsecond\n");
        assert_eq!(fs::read(view(&path, ".tail")).unwrap(), b"first\nsecond\n");
        shared.sees("the size", || fs::metadata(&path).unwrap().len() == 13);
        shared.sees("the size of the tail", || {
            fs::metadata(view(&path, ".tail")).unwrap().len() == 13
        });
    });
}

#[test]
fn a_truncation_in_the_store_shows() {
    Shared::each(|shared| {
        let (path, plain) = shared.known("x.txt", b"first\n");
        File::options().write(true).open(&plain).unwrap().set_len(2).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"fi");
        shared.sees("the size", || fs::metadata(&path).unwrap().len() == 2);
    });
}

/// Puts a file with the same bytes in the place of an output's, and records it, as a process does
/// that has compared their digests.
fn replace_by_copy(plain: &Path) {
    let (copy, before) = (plain.with_file_name(".copy"), fs::metadata(plain).unwrap());
    fs::copy(plain, &copy).unwrap();
    File::open(&copy).unwrap().set_modified(before.modified().unwrap()).unwrap();
    fs::rename(&copy, plain).unwrap();
    let now = fs::metadata(plain).unwrap();
    assert_ne!(now.ino(), before.ino());
    let manifest = plain.ancestors().nth(3).unwrap().join("manifest.jsonl");
    let records = fs::read_to_string(&manifest).unwrap();
    let mut record: serde_json::Value =
        serde_json::from_str(records.lines().last().unwrap()).unwrap();
    record["file"]["copied"] = (now.ctime() * 1_000_000_000 + now.ctime_nsec()).into();
    let mut manifest = File::options().append(true).open(manifest).unwrap();
    writeln!(manifest, "{record}").unwrap();
}

#[test]
fn a_recorded_copy_of_the_file_is_the_same_output() {
    Shared::each(|shared| {
        let (path, plain) = shared.known("x.json", b"[1, 2]\n");
        let pretty = view(&path, ".pretty");
        let text = fs::read(&pretty).unwrap();
        let held = File::open(&pretty).unwrap();
        let again = PathBuf::from(format!("/proc/self/fd/{}", held.as_raw_fd()));
        let numbers = || [&path, &pretty].map(|path| fs::metadata(path).unwrap().ino());
        let before = numbers();
        for _ in 0..2 {
            replace_by_copy(&plain);
            // Opened by its number: nobody looks its name up.
            assert_eq!(fs::read(&again).unwrap(), text);
            assert_eq!(fs::read(&path).unwrap(), b"[1, 2]\n");
            assert_eq!(fs::read(&pretty).unwrap(), text);
            assert_eq!(numbers(), before);
        }
        fs::write(&path, b"[3]\n").unwrap();
        assert_eq!(fs::read(&plain).unwrap(), b"[3]\n");
        assert_eq!(fs::read(&pretty).unwrap(), b"[\n  3\n]\n");
        assert_eq!(numbers()[0], before[0]);
    });
}

#[test]
fn a_change_of_mode_in_the_store_shows() {
    Shared::each(|shared| {
        let (path, plain) = shared.known("x.txt", b"first\n");
        fs::set_permissions(&plain, Permissions::from_mode(0o640)).unwrap();
        shared.sees("the mode", || fs::metadata(&path).unwrap().mode() & 0o777 == 0o640);
        shared.sees("that of the tail", || {
            fs::metadata(view(&path, ".tail")).unwrap().mode() & 0o777 == 0o440
        });
    });
}

#[test]
fn a_removal_in_the_store_shows() {
    Shared::each(|shared| {
        let (path, plain) = shared.known("x.txt", b"first\n");
        fs::remove_file(&plain).unwrap();
        assert!(File::open(&path).is_err() && File::open(view(&path, ".tail")).is_err());
        for suffix in ["", ".summary", ".tail", ".grep"] {
            shared.sees(&format!("the end of x.txt{suffix}"), || !view(&path, suffix).exists());
        }
        // The name is free.
        fs::write(&path, b"new\n").unwrap();
        assert_eq!(fs::read(view(&path, ".tail")).unwrap(), b"new\n");
    });
}

#[test]
fn a_rename_in_the_store_shows() {
    Shared::each(|shared| {
        let (path, plain) = shared.known("x.txt", b"first\n");
        let (to, plain_to) = (path.with_file_name("y.txt"), plain.with_file_name("y.txt"));
        fs::rename(&plain, &plain_to).unwrap();
        assert_eq!(fs::read(&to).unwrap(), b"first\n");
        assert_eq!(fs::read(view(&to, ".tail")).unwrap(), b"first\n");
        shared.sees("the old name", || !path.exists() && !view(&path, ".tail").exists());
    });
}

#[test]
fn a_file_that_replaces_another_in_the_store_shows() {
    Shared::each(|shared| {
        let (path, plain) = shared.known("x.txt", b"first\n");
        let new = plain.with_file_name(".new.tmp");
        fs::write(&new, b"another one\n").unwrap();
        fs::rename(&new, &plain).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"another one\n");
        assert_eq!(fs::read(view(&path, ".tail")).unwrap(), b"another one\n");
        shared.sees("the size", || fs::metadata(&path).unwrap().len() == 12);
    });
}

#[test]
fn what_another_mount_does_shows() {
    Shared::each(|shared| {
        let (path, _) = shared.known("x.txt", b"first\n");
        let other = TestMount::of(shared.mount.store(), Mode::Passthrough, &[]);
        let there = other.path().join("c7/artifacts/tool/x.txt");
        File::options().append(true).open(&there).unwrap().write_all(b"second\n").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"first\nsecond\n");
        shared.sees("the size", || fs::metadata(&path).unwrap().len() == 13);
        fs::remove_file(&there).unwrap();
        assert!(File::open(&path).is_err());
        shared.sees("the removal", || !path.exists());
    });
}

#[test]
fn what_put_stores_beside_a_mount_shows() {
    Shared::each(|shared| {
        let (path, _) = shared.known("x.txt", b"first\n");
        let name = shared.mount.store().put("c7", "call_1", b"from put\n");
        let there = path.with_file_name(name);
        assert_eq!(fs::metadata(&there).unwrap().len(), 9);
        assert_eq!(fs::read(view(&there, ".tail")).unwrap(), b"from put\n");
    });
}

/// Whatever was promised, a change through the mount shows in it at once.
#[test]
fn changes_through_the_mount_show_at_once() {
    Shared::each(|shared| {
        let size = |path: &Path| fs::metadata(path).unwrap().len();
        let (path, _) = shared.known("x.txt", b"first\n");
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        assert_eq!(fs::metadata(view(&path, ".tail")).unwrap().mode() & 0o777, 0o440);
        thread::sleep(REST);
        look(&path);
        let mut file = File::options().append(true).open(&path).unwrap();
        file.write_all(b"second\n").unwrap();
        assert_eq!((size(&path), size(&view(&path, ".tail"))), (13, 13));
        drop(file);
        shared.mount.settle();
        thread::sleep(REST);
        look(&path);
        File::options().write(true).open(&path).unwrap().set_len(3).unwrap();
        assert_eq!((size(&path), size(&view(&path, ".tail"))), (3, 3));
        shared.mount.settle();
        thread::sleep(REST);
        look(&path);
        let to = path.with_file_name("y.txt");
        fs::rename(&path, &to).unwrap();
        assert!(!path.exists() && !view(&path, ".tail").exists() && !view(&path, ".grep").exists());
        assert_eq!(size(&view(&to, ".tail")), 3);
        thread::sleep(REST);
        look(&to);
        fs::remove_file(&to).unwrap();
        assert!(!view(&to, ".summary").exists() && !view(&to, ".grep").exists());
    });
}

/// A listing with attributes tells what a look-up of each name would.
#[test]
fn a_listing_agrees_with_look_ups() {
    Shared::each(|shared| {
        for number in 0..100 {
            let text = format!("output {number}\n").repeat(number + 1);
            shared.mount.artifact("c7", &format!("{number}.txt"), text.as_bytes());
        }
        shared.mount.settle();
        thread::sleep(REST);
        let dir = shared.mount.tool("c7");
        let mut count = 0;
        for entry in dir.read_dir().unwrap() {
            let entry = entry.unwrap();
            let listed = entry.metadata().unwrap();
            let opened = File::open(entry.path()).unwrap().metadata().unwrap();
            assert_eq!((listed.ino(), listed.len()), (opened.ino(), opened.len()), "{entry:?}");
            if listed.is_file() {
                let read = fs::read(entry.path()).unwrap();
                assert_eq!(read.len() as u64, listed.len(), "{entry:?}");
            }
            count += 1;
        }
        assert_eq!(count, 400);
    });
}
