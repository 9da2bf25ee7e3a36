//! A daemon that runs out of a resource, or whose store is changed under it.

use std::fs;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustix::process::{Pid, Resource, Rlimit, Signal, prlimit};

use super::disk::{first_line, view};
use crate::support::{FaultyDisk, Mode, TestMount, TestStore, eventually, log};

/// Limits the daemon to so many descriptors. Returns the limit before.
fn allow_descriptors(mount: &TestMount, count: Option<u64>) -> Option<u64> {
    let pid = Pid::from_raw(mount.pid().cast_signed());
    let before = rustix::process::getrlimit(Resource::Nofile);
    let new = Rlimit { current: count, maximum: before.maximum };
    prlimit(pid, Resource::Nofile, new).unwrap().current
}

#[test]
fn a_daemon_without_descriptors_says_so_and_recovers() {
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        let dir = mount.tool("c7");
        let path = mount.artifact("c7", "x.txt", b"line 1\n");
        view(&path, ".tail").unwrap();
        let before = allow_descriptors(&mount, Some(mount.descriptors() as u64 + 20));
        let mut open = Vec::new();
        let error = loop {
            match File::create(dir.join(format!("{}.txt", open.len()))) {
                Ok(file) => open.push(file),
                Err(error) => break error,
            }
            assert!(open.len() < 100, "{mode:?}: the limit is not met");
        };
        assert_eq!(error.raw_os_error(), Some(libc::EMFILE), "{mode:?}");
        // What is open works on.
        for (number, file) in open.iter_mut().enumerate() {
            file.write_all(format!("line {number}\n").as_bytes()).unwrap();
        }
        // Sealing may have let one go meanwhile.
        match view(&path, ".head") {
            Ok(text) => assert_eq!(text, b"line 1\n", "{mode:?}"),
            Err(error) => assert_eq!(error.raw_os_error(), Some(libc::EMFILE), "{mode:?}"),
        }
        let count = open.len();
        drop(open);
        allow_descriptors(&mount, before);
        assert_eq!(view(&path, ".head").unwrap(), b"line 1\n", "{mode:?}");
        for number in 0..count {
            let path = dir.join(format!("{number}.txt"));
            assert_eq!(fs::read_to_string(&path).unwrap(), format!("line {number}\n"));
            let says = || first_line(&path).contains("complete output is stored");
            eventually("it is sealed", || says() && is_sealed(&mount, &format!("{number}.txt")));
        }
    }
}

#[test]
fn a_conversation_that_is_removed_under_the_mount_is_gone_and_no_more() {
    for mode in Mode::ALL {
        let mut mount = TestMount::new(mode);
        let path = mount.artifact("c7", "x.txt", &log(50));
        let other = mount.artifact("c8", "y.txt", b"line 1\n");
        let held = File::open(&path).unwrap();
        view(&path, ".tail").unwrap();
        remove(&mount.store().path().join("context/c7"));
        let gone = |error: std::io::Error| {
            assert_eq!(error.raw_os_error(), Some(libc::ENOENT), "{mode:?}");
        };
        // Names of directories are believed for a second.
        eventually("it is gone", || !mount.path().join("c7").exists());
        gone(view(&path, ".tail").unwrap_err());
        gone(File::create(path.with_file_name("z.txt")).unwrap_err());
        // Who has it open keeps it.
        let mut bytes = vec![0; log(50).len()];
        held.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(bytes, log(50), "{mode:?}");
        drop(held);
        assert_eq!(view(&other, ".tail").unwrap(), b"line 1\n");
        let again = mount.artifact("c7", "x.txt", b"line 2\n");
        assert_eq!(view(&again, ".tail").unwrap(), b"line 2\n");
        assert_eq!(mount.end(Signal::TERM), Some(0));
    }
}

#[test]
fn a_store_that_is_removed_under_the_mount_gives_errors_and_ends() {
    for mode in Mode::ALL {
        let mut mount = TestMount::new(mode);
        let path = mount.artifact("c7", "x.txt", b"line 1\n");
        view(&path, ".tail").unwrap();
        remove(&mount.store().path());
        eventually("it is gone", || fs::read(&path).is_err());
        assert!(view(&path, ".tail").is_err() && view(&path, ".summary").is_err());
        assert!(fs::create_dir(mount.path().join("c8")).is_err());
        assert!(fs::read_to_string(mount.path().join("README.md")).is_ok());
        assert_eq!(mount.end(Signal::TERM), Some(0), "{mode:?}");
    }
}

#[test]
fn a_store_that_is_moved_under_the_mount_is_followed() {
    let store = Arc::new(TestStore::new());
    let mount = TestMount::of(&store, Mode::Cached, &[]);
    let path = mount.artifact("c7", "x.txt", b"line 1\n");
    let moved = store.scratch("elsewhere").join("store");
    fs::rename(store.path(), &moved).unwrap();
    File::options().append(true).open(&path).unwrap().write_all(b"line 2\n").unwrap();
    assert_eq!(view(&path, ".tail").unwrap(), b"line 1\nline 2\n");
    assert_eq!(
        fs::read(moved.join("context/c7/artifacts/tool/x.txt")).unwrap(),
        b"line 1\nline 2\n"
    );
}

/// Times of files go back, and lie in future years.
#[test]
fn a_clock_that_goes_back_hides_no_change() {
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        let path = mount.artifact("c7", "x.txt", b"line 1\n");
        let future = SystemTime::now() + Duration::from_hours(24 * 365 * 50);
        for number in 2..6 {
            let times = fs::FileTimes::new().set_modified(if number % 2 == 0 {
                future
            } else {
                SystemTime::UNIX_EPOCH + Duration::from_secs(1)
            });
            File::options().write(true).open(&path).unwrap().set_times(times).unwrap();
            view(&path, ".tail").unwrap();
            let line = format!("line {number}\n");
            File::options().write(true).open(&path).unwrap().write_all(line.as_bytes()).unwrap();
            assert_eq!(view(&path, ".tail").unwrap(), line.as_bytes(), "{mode:?}");
            // Behind the mount, at a time before the last one.
            let plain = mount.store().plain("c7", "x.txt");
            fs::write(&plain, line.to_uppercase()).unwrap();
            let back = SystemTime::UNIX_EPOCH + Duration::from_secs(number);
            let plain = File::options().write(true).open(&plain).unwrap();
            plain.set_times(fs::FileTimes::new().set_modified(back)).unwrap();
            assert_eq!(view(&path, ".tail").unwrap(), line.to_uppercase().as_bytes(), "{mode:?}");
        }
        let summary = first_line(&path);
        assert!(summary.contains("complete output is stored"), "{summary}");
    }
}

/// A disk that is itself served by a program, and keeps times in whole seconds.
#[test]
fn a_store_on_another_fuse_mount_outlives_its_daemon() {
    let disk = FaultyDisk::with_coarse_times();
    let mut mount = TestMount::of(disk.store(), Mode::Cached, &[]);
    let path = mount.tool("c7").join("x.txt");
    let mut file = File::create(&path).unwrap();
    file.write_all(&log(50)).unwrap();
    eventually("it is recorded", || manifest(&mount).contains(r#""state":"live""#));
    mount.power_cut();
    drop(file);
    drop(mount);
    let mount = TestMount::of(disk.store(), Mode::Cached, &[]);
    let path = mount.path().join("c7/artifacts/tool/x.txt");
    assert_eq!(fs::read(&path).unwrap(), log(50));
    assert!(first_line(&path).contains("INCOMPLETE"), "{}", first_line(&path));
    File::options().append(true).open(&path).unwrap().write_all(b"line 51\n").unwrap();
    eventually("it is sealed", || is_sealed(&mount, "x.txt"));
}

/// Removes a directory in which something may still be recorded.
fn remove(dir: &Path) {
    eventually("it can be removed", || {
        fs::remove_dir_all(dir).ok();
        !dir.exists()
    });
}

fn manifest(mount: &TestMount) -> String {
    fs::read_to_string(mount.store().path().join("context/c7/manifest.jsonl")).unwrap_or_default()
}

fn is_sealed(mount: &TestMount, name: &str) -> bool {
    let manifest = manifest(mount);
    let named = format!("/{name}\"");
    let last = manifest.lines().rfind(|line| line.contains(&named)).unwrap_or_default();
    last.contains(r#""state":"sealed""#)
}
