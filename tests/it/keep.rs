//! Retention on real mounts.

mod crash;

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use std::{fs, thread};

use serde_json::Value;

use crate::support::{Mode, TestMount, TestStore, disk_clock_moves_on, eventually, listing};

/// Creates outputs of one call after the other, each younger than the one before.
fn outputs(mount: &TestMount, count: usize, bytes: usize) -> Vec<std::path::PathBuf> {
    let write = |number| {
        disk_clock_moves_on();
        mount.artifact("c", &format!("{number}.txt"), "0123456\n".repeat(bytes / 8).as_bytes())
    };
    (0..count).map(write).collect()
}

fn summary(path: &Path) -> String {
    fs::read_to_string(format!("{}.summary", path.display())).unwrap()
}

fn gc(store: &TestStore, arguments: &[&str]) -> Value {
    let mut all = vec!["--json"];
    all.extend(arguments);
    serde_json::from_slice(&store.ctxfs("gc", &all).stdout()).unwrap()
}

#[test]
fn nothing_goes_unless_it_is_said() {
    let mount = TestMount::new(Mode::Passthrough);
    let paths = outputs(&mount, 3, 80_000);
    let done = gc(mount.store(), &[]);
    assert_eq!((done["outputs"].as_u64(), done["bytes"].as_u64()), (Some(0), Some(0)));
    assert!(paths.iter().all(|path| path.exists()));
}

#[test]
fn a_summary_is_left_of_what_goes() {
    for mode in Mode::ALL {
        let mount = TestMount::new(mode);
        let paths = outputs(&mount, 3, 8000);
        mount.settle();
        assert_eq!(fs::read(&paths[0]).unwrap().len(), 8000, "read, it is used last");
        let dry = gc(mount.store(), &["--dry-run", "c", "--keep-conversation", "20000"]);
        assert_eq!(dry["removed"][0]["path"], "artifacts/tool/1.txt");
        assert!(paths.iter().all(|path| path.exists()), "nothing goes in a dry run");
        let done = gc(mount.store(), &["c", "--keep-conversation", "20000"]);
        assert_eq!((&done["outputs"], &done["bytes"]), (&dry["outputs"], &dry["bytes"]));
        let gone = &paths[1];
        eventually("the kernel has forgotten it", || !gone.exists());
        let text = summary(gone);
        assert!(text.starts_with("[ctxfs] REMOVED"), "{text}");
        assert!(text.contains("call: 1 ") && text.contains("`keep_conversation`"), "{text}");
        let names = listing(gone.parent().unwrap());
        assert!(!names.iter().any(|name| name.starts_with("1.txt")), "{names:?}");
        let manifest = fs::read_to_string(mount.path().join("c/manifest.json")).unwrap();
        assert!(!manifest.contains("1.txt"), "{manifest}");
        let mut tail = gone.clone().into_os_string();
        tail.push(".tail");
        assert!(fs::read(tail).is_err(), "there is nothing to be read");

        fs::write(gone, "anew\n").unwrap();
        assert!(summary(gone).contains("anew"), "it is an artifact as any");
        fs::remove_file(gone).unwrap();
        assert!(
            !Path::new(&format!("{}.summary", gone.display())).exists(),
            "a person removes both"
        );
    }
}

#[test]
fn a_person_removes_what_is_left_too() {
    let mount = TestMount::new(Mode::Passthrough);
    let path = mount.artifact("c", "a.txt", b"some text\n");
    mount.settle();
    gc(mount.store(), &["--keep-conversation", "0"]);
    eventually("it has gone", || !path.exists());
    let left = format!("{}.summary", path.display());
    assert!(OpenOptions::new().append(true).open(&left).is_err(), "it cannot be written");
    fs::remove_file(&left).unwrap();
    assert!(fs::read(&left).is_err());
    fs::remove_dir_all(mount.path().join("c")).unwrap();
}

#[test]
fn the_daemon_keeps_to_the_rules() {
    let store = Arc::new(TestStore::new());
    let mount = TestMount::of(&store, Mode::Passthrough, &["--keep-conversation", "100000"]);
    let paths = outputs(&mount, 20, 16_000);
    let left = || paths.iter().filter(|path| path.exists()).count();
    eventually("the oldest have gone", || left() <= 6);
    assert!(paths[19].exists() && paths[18].exists(), "the youngest stay");
    // The kernel is told a moment after it went.
    eventually("the first has gone", || !paths[0].exists());
    assert!(summary(&paths[0]).contains("REMOVED"));
    assert!(left() >= 4, "no more than has to goes");
}

#[test]
fn what_got_old_while_nobody_served_goes_at_the_start() {
    let store = Arc::new(TestStore::new());
    let name = store.put("c", "a", b"some text\n");
    thread::sleep(Duration::from_millis(2100));
    let mount = TestMount::of(&store, Mode::Passthrough, &["--keep-age", "2s"]);
    let path = mount.tool("c").join(name);
    eventually("it is too old", || !path.exists());
    assert!(summary(&path).contains("`keep_age`"));
}

#[test]
fn a_writer_is_made_room() {
    let store = Arc::new(TestStore::new());
    let options = ["--quota", "1MiB", "--keep-conversation", "1MiB"];
    let mount = TestMount::of(&store, Mode::Passthrough, &options);
    let block = vec![b'x'; 400 * 1024];
    for number in 0..10 {
        let path = mount.artifact("c", &format!("{number}.txt"), &block);
        assert_eq!(fs::metadata(&path).unwrap().len(), block.len() as u64);
    }
    // What is being written stays: there is nothing to make room of.
    let mut live = File::create(mount.tool("c").join("live.txt")).unwrap();
    let written = (0..20).map_while(|_| live.write_all(&block[..100 * 1024]).ok()).count();
    assert!((8..=10).contains(&written), "{written} of 20 blocks fit");
    let error = live.write_all(&block[..200 * 1024]).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EDQUOT));
}

#[test]
fn readers_and_writers_lose_nothing() {
    let mount = TestMount::new(Mode::Passthrough);
    let read = mount.artifact("c", "read.txt", &vec![b'r'; 300_000]);
    let written = mount.artifact("c", "written.txt", &vec![b'w'; 300_000]);
    let mut reader = File::open(&read).unwrap();
    mount.settle();
    let mut writer = OpenOptions::new().append(true).open(&written).unwrap();
    let done = gc(mount.store(), &["--keep-conversation", "0"]);
    assert_eq!(done["outputs"], 1, "{done}");
    writer.write_all(b"more").unwrap();
    drop(writer);
    assert_eq!(fs::metadata(&written).unwrap().len(), 300_004);
    let mut bytes = Vec::new();
    assert_eq!(reader.read_to_end(&mut bytes).unwrap(), 300_000);
    assert!(bytes.iter().all(|byte| *byte == b'r'));
}

/// With sweeps and appends at once, all appended bytes are in the file, or in a new file.
#[test]
fn an_append_never_goes_to_a_file_that_is_removed() {
    let mount = TestMount::new(Mode::Passthrough);
    let path = mount.artifact("c", "log.txt", b"");
    let store = Arc::clone(mount.store());
    thread::scope(|scope| {
        let sweeps = scope.spawn(move || {
            for _ in 0..30 {
                gc(&store, &["--keep-conversation", "0"]);
            }
        });
        let mut number = 0;
        while !sweeps.is_finished() {
            let line = format!("line {number}\n");
            let mut log = OpenOptions::new().append(true).create(true).open(&path).unwrap();
            log.write_all(line.as_bytes()).unwrap();
            // While it is open it is live, and stays.
            assert!(fs::read_to_string(&path).unwrap().ends_with(&line));
            number += 1;
        }
    });
}

/// Sweeps take turns: together they remove no more than one alone would.
#[test]
fn several_sweeps_remove_no_more_than_one() {
    let store = TestStore::new();
    for number in 0..40 {
        store.put("c", &format!("{number}"), &[b'x'; 10_000]);
    }
    let removed = thread::scope(|scope| {
        let sweep = || gc(&store, &["--keep-conversation", "200000"])["outputs"].as_u64().unwrap();
        let sweeps = [(); 4].map(|()| scope.spawn(sweep));
        sweeps.into_iter().map(|sweep| sweep.join().unwrap()).sum::<u64>()
    });
    // A tenth of the limit is made free.
    assert_eq!(removed, 22);
}

#[test]
fn a_reference_to_what_went_says_so() {
    let store = TestStore::new();
    let name = store.put("c", "a", b"some text\n");
    gc(&store, &["--keep-conversation", "0"]);
    let output = store.ctxfs("view", &[&format!("ctx://c/artifacts/tool/{name}")]).run();
    assert_eq!(output.code, 1);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("it was removed") && said.contains(".summary"), "{said}");
}

/// A small disk that is unmounted with the test.
struct SmallDisk(std::path::PathBuf);

impl SmallDisk {
    fn at(path: &Path) -> Self {
        let mount = crate::support::Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=8m", "tmpfs"]).arg(path).stdout();
        Self(path.to_owned())
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        rustix::mount::unmount(&self.0, rustix::mount::UnmountFlags::DETACH).ok();
    }
}

#[test]
fn a_full_disk_is_made_room_on() {
    let store = Arc::new(TestStore::new());
    let _disk = SmallDisk::at(&store.path());
    let options = ["--min-free", "1MiB", "--keep-free", "2MiB"];
    let mount = TestMount::of(&store, Mode::Passthrough, &options);
    let block = vec![b'x'; 1024 * 1024];
    let artifact = |number| {
        let path = mount.artifact("c", &format!("{number}.txt"), &block);
        // Only what is sealed can go.
        mount.settle();
        path
    };
    let paths: Vec<_> = (0..12).map(artifact).collect();
    let left = paths.iter().filter(|path| path.exists()).count();
    assert!((1..7).contains(&left), "{left} of 12 are left on 8 MiB");
    assert!(paths[11].exists(), "the youngest stays");
    let gone = paths.iter().find(|path| !path.exists()).unwrap();
    assert!(summary(gone).contains("`keep_free`"));
}

/// What is removed while a reader has it open takes room until it is closed.
#[test]
fn room_that_a_reader_holds_is_made_elsewhere() {
    let store = Arc::new(TestStore::new());
    let _disk = SmallDisk::at(&store.path());
    let options = ["--min-free", "1MiB", "--keep-free", "2MiB"];
    let mount = TestMount::of(&store, Mode::Passthrough, &options);
    let artifact = |number: usize| {
        let path = mount.artifact("c", &format!("{number}.txt"), &vec![b'x'; 1024 * 1024]);
        mount.settle();
        path
    };
    let oldest = artifact(0);
    let reader = File::open(store.plain("c", "0.txt")).unwrap();
    let others: Vec<_> = (1..9).map(artifact).collect();
    assert!(!oldest.exists() && others[7].exists());
    assert_eq!(reader.metadata().unwrap().nlink(), 0);
}
