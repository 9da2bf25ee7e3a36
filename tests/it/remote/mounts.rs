//! Two mounts that share a directory: each sends by itself, and asks when it is asked.

use std::fs::{File, Permissions};
use std::io::{ErrorKind, Read as _, Seek as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use std::{fs, process, thread};

use ctxfs_store::RemovalOutcome;
use ctxfs_sync::remote::pieces;
use rustix::fs::XattrFlags;
use rustix::process::Signal;
use tempfile::TempDir;

use super::host::Sharing;
use super::{ending, files, large};
use crate::support::{
    Call, Fault, FaultyDisk, Mode, TestMount, TestStore, eventually, signal, while_none_starts,
};

/// A store that shares `bucket`. It sends within a second, and an answer of it is as old at most.
pub(super) fn store(bucket: &Path) -> Arc<TestStore> {
    let store = Arc::new(TestStore::new());
    share(&store, bucket);
    store
}

/// Writes the settings of a store that shares the bucket in a directory.
fn share(store: &TestStore, bucket: &Path) {
    let url = format!("file://{}/bucket", bucket.display());
    let settings = format!("[remote]\nurl = \"{url}\"\nevery = \"1s\"\npoll = \"1s\"\n");
    fs::create_dir_all(store.path()).unwrap();
    store.user_settings(settings);
}

struct Mounts {
    one: TestMount,
    other: TestMount,
    shared: TempDir,
}

impl Mounts {
    fn new() -> Self {
        let shared = tempfile::Builder::new().prefix("ctxfs-bucket-").tempdir().unwrap();
        let mount = || TestMount::of(&store(shared.path()), Mode::Passthrough, &[]);
        let (one, other) = (mount(), mount());
        Self { one, other, shared }
    }

    /// Waits until the other mount shows an output.
    fn arrives(&self, name: &str, bytes: &[u8]) {
        let there = self.other.tool("c7").join(name);
        eventually("an output arrives", || fs::read(&there).is_ok_and(|read| read == bytes));
    }
}

#[test]
fn what_is_written_here_is_seen_there_by_name_and_in_the_listing() {
    let mounts = Mounts::new();
    mounts.one.artifact("c7", "x.txt", b"some bytes\n");
    mounts.arrives("x.txt", b"some bytes\n");
    let summary = fs::read_to_string(mounts.other.tool("c7").join("x.txt.summary")).unwrap();
    assert!(summary.contains("x.txt"), "{summary}");
    let log = large("log");
    mounts.one.artifact("c7", "log.txt", &log);
    let listed = || {
        let entries = fs::read_dir(mounts.other.tool("c7")).unwrap();
        entries.flatten().any(|entry| entry.file_name() == "log.txt")
    };
    eventually("it is listed", listed);
    assert!(ending(&mounts.other.store().plain("c7", ""), "log.txt").is_empty());
    mounts.arrives("log.txt", &log);
}

#[test]
fn while_the_disk_of_the_bucket_is_not_mounted_nothing_is_begun_there() {
    let mounts = Mounts::new();
    mounts.one.artifact("c7", "x.txt", b"some bytes\n");
    mounts.arrives("x.txt", b"some bytes\n");
    let (bucket, away) = (mounts.shared.path().join("bucket"), mounts.shared.path().join("away"));
    fs::rename(&bucket, &away).unwrap();
    fs::create_dir(&bucket).unwrap();
    mounts.one.artifact("c7", "y.txt", b"other bytes\n");
    let status = mounts.one.path().join(".ctxfs/status.json");
    let is_told = || fs::read_to_string(&status).unwrap().contains("has no ctxfs.json");
    eventually("it is told", is_told);
    assert_eq!(fs::read_dir(&bucket).unwrap().count(), 0);
    fs::remove_dir(&bucket).unwrap();
    fs::rename(&away, &bucket).unwrap();
    mounts.arrives("y.txt", b"other bytes\n");
}

#[test]
fn a_search_and_the_manifest_have_what_others_wrote() {
    let mounts = Mounts::new();
    mounts.one.artifact("c7", "x.txt", b"some bytes\n");
    mounts.arrives("x.txt", b"some bytes\n");
    let there = mounts.other.path().join("c7");
    let shows = |text: &str, name: &str| {
        fs::read_to_string(there.join(text)).is_ok_and(|text| text.contains(name))
    };
    // Each is looked for by one text alone, whose bytes stay elsewhere before.
    mounts.one.artifact("c7", "log.txt", &[&large("log"), &b"needle\n"[..]].concat());
    eventually("a search finds it", || shows(".grep/needle", "log.txt"));
    mounts.one.artifact("c7", "y.txt", b"other bytes\n");
    eventually("the manifest has it", || shows("manifest.json", "y.txt"));
    mounts.one.artifact("c7", "z.txt", b"a haystack\n");
    eventually("passages are found", || shows("artifacts/tool/.find/haystack", "z.txt"));
}

#[test]
fn what_is_removed_here_is_gone_there() {
    let mounts = Mounts::new();
    let here = mounts.one.artifact("c7", "x.txt", b"some bytes\n");
    mounts.arrives("x.txt", b"some bytes\n");
    fs::remove_file(here).unwrap();
    let gone = || {
        let listed = fs::read_dir(mounts.other.tool("c7")).unwrap();
        !listed.flatten().any(|entry| entry.file_name() == "x.txt")
    };
    eventually("it is gone", gone);
}

#[test]
fn a_conversation_that_is_removed_is_gone_from_the_root_of_both() {
    let mounts = Mounts::new();
    mounts.one.artifact("c7", "x.txt", b"some bytes\n");
    mounts.arrives("x.txt", b"some bytes\n");
    fs::remove_dir_all(mounts.one.path().join("c7")).unwrap();
    let lists = |mount: &TestMount| {
        let root = fs::read_dir(mount.path()).unwrap();
        root.flatten().any(|entry| entry.file_name() == "c7")
    };
    assert!(!lists(&mounts.one));
    // Looking for it in the tree asks for it.
    let there = mounts.other.path().join("c7");
    let is_gone = || fs::read_dir(there.join("artifacts/tool")).is_err() && !lists(&mounts.other);
    eventually("it is gone there", is_gone);
    assert!(!lists(&mounts.one));
    fs::create_dir(&there).unwrap();
    assert!(fs::read_dir(there.join("artifacts/tool")).is_ok() && lists(&mounts.other));
}

#[test]
fn attributes_that_are_set_later_stay_on_their_host_and_send_nothing() {
    let mounts = Mounts::new();
    let here = mounts.one.artifact("c7", "x.txt", b"some bytes\n");
    mounts.arrives("x.txt", b"some bytes\n");
    let there = mounts.other.tool("c7").join("x.txt");
    for (file, mode) in [(&here, 0o640), (&there, 0o644)] {
        fs::set_permissions(file, Permissions::from_mode(mode)).unwrap();
        rustix::fs::setxattr(file, "user.note", b"of one", XattrFlags::empty()).unwrap();
        File::open(file).unwrap().set_modified(SystemTime::now()).unwrap();
    }
    // What each sends after that would come with it.
    mounts.other.artifact("c7", "y.txt", b"of the other\n");
    mounts.one.artifact("c7", "z.txt", b"of the one\n");
    mounts.arrives("z.txt", b"of the one\n");
    let from_there = mounts.one.tool("c7").join("y.txt");
    eventually("it arrives here", || fs::read(&from_there).is_ok());
    let url = format!("file://{}/bucket", mounts.shared.path().display());
    let host = Sharing::new(&mounts.one.store().path(), &url, 0);
    let found = host.sync(|sync| pieces(&sync.home.conversation(host.conversation.id()).unwrap()));
    let found = found.unwrap().pieces;
    let artifacts = found.iter().flat_map(|piece| piece.artifacts.values());
    assert_eq!(artifacts.filter(|claim| claim.path == "artifacts/tool/x.txt").count(), 1);
    let mode = |file| fs::metadata(file).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&here), mode(&there)), (0o640, 0o644));
}

#[test]
fn what_was_renamed_goes_from_this_disk_and_can_be_read() {
    let mounts = Mounts::new();
    let first = mounts.one.artifact("c7", "x.txt", b"some bytes\n");
    mounts.arrives("x.txt", b"some bytes\n");
    let renamed = mounts.one.tool("c7").join("y.txt");
    fs::rename(first, &renamed).unwrap();
    mounts.arrives("y.txt", b"some bytes\n");
    let url = format!("file://{}/bucket", mounts.shared.path().display());
    let host = Sharing::new(&mounts.one.store().path(), &url, 0);
    eventually("it goes", || {
        while_none_starts(|| host.evict("tool/y.txt")) == RemovalOutcome::Removed
    });
    assert!(host.is_far("tool/y.txt"));
    assert_eq!(fs::read(&renamed).unwrap(), b"some bytes\n");
}

#[test]
fn a_conversation_that_only_others_have_is_in_the_root() {
    let mounts = Mounts::new();
    mounts.one.artifact("c7", "x.txt", b"some bytes\n");
    eventually("it is sent", || !ending(mounts.shared.path(), ".tar.zst").is_empty());
    let is_listed = || {
        let root = fs::read_dir(mounts.other.path()).unwrap();
        root.flatten().any(|entry| entry.file_name() == "c7")
    };
    eventually("it is listed", is_listed);
    let stores = mounts.other.store().path().join("context/c7");
    assert!(!stores.exists(), "a listing fetches nothing");
    eventually("it opens", || mounts.other.path().join("c7").is_dir());
    assert!(stores.exists());
}

#[test]
fn names_that_nothing_has_are_not_made_up() {
    let mounts = Mounts::new();
    mounts.one.artifact("c7", "x.txt", b"some bytes\n");
    mounts.arrives("x.txt", b"some bytes\n");
    for number in 0..1000 {
        let name = mounts.other.tool("c7").join(format!("none-{number}.txt"));
        assert_eq!(fs::metadata(name).unwrap_err().kind(), ErrorKind::NotFound);
    }
    let remote = mounts.other.store().path().join("remote");
    let absent = mounts.other.path().join("none");
    assert_eq!(fs::metadata(absent).unwrap_err().kind(), ErrorKind::NotFound);
    assert!(!files(&remote).iter().any(|path| path.to_string_lossy().contains("none")));
}

#[test]
fn without_the_bucket_nobody_waits_and_what_is_left_is_sent_later() {
    let shared = tempfile::Builder::new().prefix("ctxfs-bucket-").tempdir().unwrap();
    let store = store(shared.path());
    // A file stands where the directory is to be.
    fs::write(shared.path().join("bucket"), "").unwrap();
    let mut mount = TestMount::of(&store, Mode::Passthrough, &[]);
    mount.artifact("c7", "x.txt", b"some bytes\n");
    let failing = || mount.status()["remote"]["error"].is_string();
    eventually("it fails", failing);
    let start = Instant::now();
    for number in 0..100 {
        let name = mount.tool("c7").join(format!("none-{number}.txt"));
        assert!(fs::metadata(name).is_err());
    }
    // A hundred waits of a second would be many more.
    assert!(start.elapsed() < Duration::from_secs(50), "{:?}", start.elapsed());
    eventually("it waits, once it is sealed", || mount.status()["remote"]["waiting"] == 1);
    mount.end(Signal::INT);
    fs::remove_file(shared.path().join("bucket")).unwrap();
    let _again = TestMount::of(&store, Mode::Passthrough, &[]);
    eventually("it is sent", || !ending(shared.path(), ".tar.zst").is_empty());
}

/// A directory takes names of 255 bytes. As the bucket writes it, this one has 540.
#[test]
fn a_name_that_the_bucket_cannot_have_holds_up_no_other() {
    let mounts = Mounts::new();
    let long = "\u{4f1a}".repeat(60);
    mounts.one.tool("c7");
    mounts.one.artifact(&long, "x.txt", b"some bytes\n");
    let told = || mounts.one.status()["remote"]["error"].as_str().unwrap_or_default().to_owned();
    eventually("it is told", || told().contains("the bucket never takes"));
    for number in 0..5 {
        let (name, start) = (format!("{number}.txt"), Instant::now());
        mounts.one.artifact("c7", &name, b"other bytes\n");
        mounts.arrives(&name, b"other bytes\n");
        assert!(start.elapsed() < Duration::from_secs(12), "{:?}", start.elapsed());
        assert!(!told().contains("does not answer"));
    }
    let found = mounts.one.store().ctxfs("doctor", &[]).run().stdout;
    let found = String::from_utf8(found).unwrap();
    assert!(found.contains("the names of 1 conversation are too long for the bucket"), "{found}");
}

/// Returns the processes that ask a bucket for mounts.
fn processes_of(bucket: &Path) -> Vec<u32> {
    let url = format!("file://{}/bucket", bucket.display());
    let is_it = |line: &[u8]| {
        let line = String::from_utf8_lossy(line);
        line.starts_with("ctxfs-remote\0") && line.contains(&format!("\"{url}\""))
    };
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid: &u32| fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| is_it(&line)))
        .collect()
}

#[test]
fn a_process_that_is_stopped_is_replaced_and_does_not_outlive_the_mount() {
    let shared = tempfile::Builder::new().prefix("ctxfs-bucket-").tempdir().unwrap();
    let mut mount = TestMount::of(&store(shared.path()), Mode::Passthrough, &[]);
    mount.artifact("c7", "x.txt", b"some bytes\n");
    eventually("it is sent", || !ending(shared.path(), ".tar.zst").is_empty());
    let first = processes_of(shared.path())[0];
    signal(first, Signal::STOP);
    let start = Instant::now();
    assert!(fs::metadata(mount.tool("c7").join("none.txt")).is_err());
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    let another = || {
        fs::metadata(mount.tool("c7").join("none.txt")).ok();
        processes_of(shared.path()).iter().any(|pid| *pid != first)
    };
    eventually("another one asks", another);
    eventually("the first has ended", || !Path::new(&format!("/proc/{first}")).exists());
    mount.artifact("c7", "y.txt", b"more bytes\n");
    eventually("it is sent, too", || ending(shared.path(), ".tar.zst").len() > 1);
    let second = processes_of(shared.path())[0];
    signal(second, Signal::STOP);
    assert_eq!(mount.end(Signal::INT), Some(0));
    eventually("it has ended", || !Path::new(&format!("/proc/{second}")).exists());
}

#[test]
fn what_a_full_disk_cannot_show_is_told_and_comes_later() {
    let shared = tempfile::Builder::new().prefix("ctxfs-bucket-").tempdir().unwrap();
    let disk = FaultyDisk::new();
    share(disk.store(), shared.path());
    let one = TestMount::of(&store(shared.path()), Mode::Passthrough, &[]);
    one.artifact("c7", "x.txt", b"some bytes\n");
    eventually("it is sent", || !ending(shared.path(), ".tar.zst").is_empty());
    disk.fail(Fault::error(Call::Write, libc::ENOSPC).of("manifest.jsonl"));
    let other = TestMount::of(disk.store(), Mode::Passthrough, &[]);
    let there = other.path().join("c7/artifacts/tool/x.txt");
    let error = || {
        fs::metadata(&there).ok();
        other.status()["remote"]["error"].clone()
    };
    let is_told = || error().as_str().is_some_and(|error| error.contains("No space left"));
    eventually("the status says why it is not there", is_told);
    assert!(fs::metadata(&there).is_err() && disk.mend() > 0);
    eventually("it arrives", || fs::metadata(&there).is_ok());
    eventually("nothing is wrong any more", || error().is_null());
}

#[test]
fn whoever_waits_for_a_view_whose_bytes_do_not_come_can_be_ended() {
    let mounts = Mounts::new();
    mounts.one.artifact("c7", "log.txt", &large("log"));
    let there = mounts.other.tool("c7").join("log.txt");
    eventually("it arrives", || fs::metadata(&there).is_ok());
    let stopped = processes_of(mounts.shared.path());
    for pid in &stopped {
        signal(*pid, Signal::STOP);
    }
    for view in ["log.txt.grep/line 15000", "log.txt.lines/15000-15001", "log.txt"] {
        let path = there.with_file_name(view);
        let mut client = process::Command::new("cat");
        let client = client.arg(path).stdout(process::Stdio::null()).stderr(process::Stdio::null());
        let mut client = client.spawn().unwrap();
        thread::sleep(Duration::from_millis(500));
        assert!(client.try_wait().unwrap().is_none(), "{view}: it did not wait");
        let start = Instant::now();
        // Children of a shell in the background ignore SIGINT.
        signal(client.id(), Signal::TERM);
        client.wait().unwrap();
        assert!(start.elapsed() < Duration::from_secs(5), "{view}: {:?}", start.elapsed());
    }
    // Otherwise the mount ends once the deadline of these reads is past.
    for pid in stopped {
        signal(pid, Signal::CONT);
    }
}

#[test]
fn without_the_bucket_what_is_elsewhere_is_written_anew() {
    let mounts = Mounts::new();
    mounts.one.artifact("c7", "log.txt", &large("log"));
    let there = mounts.other.tool("c7").join("log.txt");
    eventually("it is known", || fs::metadata(&there).is_ok());
    let bucket = mounts.shared.path().join("bucket");
    fs::rename(bucket, mounts.shared.path().join("away")).unwrap();
    let mut reader = File::open(&there).ok();
    fs::write(&there, b"another\n").unwrap();
    assert_eq!(fs::read(&there).unwrap(), b"another\n");
    if let Some(reader) = &mut reader {
        let mut read = Vec::new();
        reader.read_to_end(&mut read).unwrap();
        assert_eq!(read, b"another\n");
    }
}

#[test]
fn who_follows_what_is_elsewhere_sees_what_is_added() {
    let mounts = Mounts::new();
    let before = large("log");
    mounts.one.artifact("c7", "log.txt", &before);
    let there = mounts.other.tool("c7").join("log.txt");
    eventually("it is known", || fs::metadata(&there).is_ok());
    let mut reader = File::open(&there).unwrap();
    let mut read = Vec::new();
    reader.read_to_end(&mut read).unwrap();
    assert!(read == before);
    let mut writer = File::options().append(true).open(&there).unwrap();
    for line in ["one more line\n", "and another one\n"] {
        writer.write_all(line.as_bytes()).unwrap();
        read.clear();
        reader.read_to_end(&mut read).unwrap();
        assert_eq!(read, line.as_bytes());
    }
    drop(writer);
    fs::remove_file(&there).unwrap();
    assert_eq!(reader.metadata().unwrap().len(), before.len() as u64 + 30);
    reader.rewind().unwrap();
    read.clear();
    reader.read_to_end(&mut read).unwrap();
    assert!(read.starts_with(&before) && read.ends_with(b"and another one\n"));
}

#[test]
fn what_was_written_last_is_sent_before_the_end() {
    let shared = tempfile::Builder::new().prefix("ctxfs-bucket-").tempdir().unwrap();
    let mut mount = TestMount::of(&store(shared.path()), Mode::Passthrough, &[]);
    mount.artifact("c7", "x.txt", b"some bytes\n");
    assert_eq!(mount.end(Signal::INT), Some(0));
    assert!(!ending(shared.path(), ".tar.zst").is_empty());
}
