//! Failures of the disk while artifacts are written and read.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::{fs, io};

use rustix::io::Errno;

use crate::support::{
    Call, Command, Fault, FaultyDisk, Mode, TestMount, TestStore, disk_clock_moves_on, errno,
    eventually, log,
};

/// A mount of a store on a disk that can fail. The mount is dropped first.
pub(super) struct Ground {
    pub(super) mount: TestMount,
    pub(super) disk: FaultyDisk,
}

impl Ground {
    pub(super) fn new(mode: Mode) -> Self {
        let disk = FaultyDisk::new();
        Self { mount: TestMount::of(disk.store(), mode, &[]), disk }
    }
}

/// Returns the error number of a read or write that must fail.
fn refused(result: io::Result<usize>) -> Errno {
    errno(result)
}

pub(super) fn view(path: &Path, suffix: &str) -> io::Result<Vec<u8>> {
    let name = format!("{}{suffix}", path.file_name().unwrap().to_str().unwrap());
    fs::read(path.with_file_name(name))
}

pub(super) fn first_line(path: &Path) -> String {
    let summary = String::from_utf8(view(path, ".summary").unwrap()).unwrap();
    summary.lines().next().unwrap().to_owned()
}

/// Checks that file and views show exactly `bytes`.
fn shows(path: &Path, bytes: &[u8]) {
    assert_eq!(fs::read(path).unwrap(), bytes);
    assert_eq!(view(path, ".tail").unwrap(), bytes);
    assert_eq!(fs::metadata(path).unwrap().len(), bytes.len() as u64);
    let numbered = bytes.split_inclusive(|byte| *byte == b'\n').enumerate();
    let found = numbered.filter(|(_, line)| line.starts_with(b"line"));
    let found = found.flat_map(|(at, line)| [format!("{}:", at + 1).as_bytes(), line].concat());
    let found: Vec<u8> = found.collect();
    assert_eq!(view(path, ".grep/^line").unwrap(), found);
}

#[test]
fn a_write_that_the_disk_fails_is_an_error_of_that_write() {
    for mode in Mode::ALL {
        let ground = Ground::new(mode);
        let path = ground.mount.tool("c7").join("x.txt");
        let mut file = File::create(&path).unwrap();
        file.write_all(b"line 1\n").unwrap();
        ground.disk.fail(Fault::error(Call::Write, libc::EIO).of("x.txt"));
        assert_eq!(refused(file.write(b"line 2\n")), Errno::IO, "{mode:?}");
        shows(&path, b"line 1\n");
        assert!(ground.disk.mend() > 0);
        file.write_all(b"line 3\n").unwrap();
        drop(file);
        shows(&path, b"line 1\nline 3\n");
        eventually("the summary says why", || first_line(&path).contains("the disk failed"));
        // Written again to its end, it is whole.
        fs::write(&path, b"line 4\n").unwrap();
        shows(&path, b"line 4\n");
        assert!(!first_line(&path).contains("INCOMPLETE"), "{mode:?}");
    }
}

#[test]
fn a_disk_that_fills_up_in_the_middle_of_a_write_keeps_what_was_acknowledged() {
    for mode in Mode::ALL {
        let ground = Ground::new(mode);
        let path = ground.mount.tool("c7").join("x.txt");
        let mut file = File::create(&path).unwrap();
        ground.disk.fail(Fault::room(10).of("x.txt"));
        file.write_all(b"line 1\n").unwrap();
        assert_eq!(refused(file.write(b"line 2\n")), Errno::NOSPC, "{mode:?}");
        // What fitted is there, and nothing that is not.
        shows(&path, b"line 1\nlin");
        assert_eq!(refused(file.write(b"line 2\n")), Errno::NOSPC, "{mode:?}");
        drop(file);
        eventually("the summary says why", || first_line(&path).contains("there was no room"));
        assert!(ground.disk.mend() > 0);
        shows(&path, b"line 1\nlin");
        assert_eq!(ground.disk.truth("c7", "x.txt"), b"line 1\nlin");
    }
}

/// Bytes are overwritten within one tick of the disk's clock, with the length unchanged.
#[test]
fn a_view_shows_the_part_of_a_failed_write_that_was_done() {
    let ground = Ground::new(Mode::Cached);
    let path = ground.mount.tool("c7").join("x.txt");
    for _ in 0..20 {
        fs::write(&path, b"line 1\n").unwrap();
        let file = File::options().write(true).open(&path).unwrap();
        assert_eq!(view(&path, ".tail").unwrap(), b"line 1\n");
        ground.disk.fail(Fault::room(5).of("x.txt"));
        let error = std::os::unix::fs::FileExt::write_at(&file, b"LINE 2\n", 0).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOSPC));
        assert!(ground.disk.mend() > 0);
        assert_eq!(ground.disk.truth("c7", "x.txt"), b"LINE 1\n");
        assert_eq!(view(&path, ".tail").unwrap(), b"LINE 1\n");
    }
}

#[test]
fn a_disk_that_writes_less_than_asked_loses_nothing() {
    for mode in Mode::ALL {
        let ground = Ground::new(mode);
        ground.disk.fail(Fault::short(Call::Write));
        let path = ground.mount.artifact("c7", "x.txt", &log(50));
        let mut file = File::options().append(true).open(&path).unwrap();
        file.write_all(b"line 1\nline 2\n").unwrap();
        drop(file);
        eventually("it is sealed", || view(&path, ".meta.json").is_ok());
        assert!(ground.disk.mend() > 0);
        shows(&path, &[log(50), b"line 1\nline 2\n".to_vec()].concat());
        assert!(!first_line(&path).contains("INCOMPLETE"), "{mode:?}");
    }
}

#[test]
fn a_disk_that_reads_less_than_asked_hides_nothing() {
    for mode in Mode::ALL {
        let ground = Ground::new(mode);
        let bytes = log(100);
        let path = ground.mount.artifact("c7", "x.txt", &bytes);
        ground.disk.fail(Fault::short(Call::Read));
        shows(&path, &bytes);
        assert!(first_line(&path).contains("complete output is stored"), "{mode:?}");
        assert!(ground.disk.mend() > 0);
    }
}

#[test]
fn a_read_that_the_disk_fails_is_an_error_and_no_text() {
    for mode in Mode::ALL {
        let ground = Ground::new(mode);
        let bytes = log(100);
        let path = ground.mount.artifact("c7", "x.txt", &bytes);
        ground.disk.fail(Fault::error(Call::Read, libc::EIO).of("x.txt"));
        for suffix in [".tail", ".lines/2-3", ".grep/ERROR", ".grep/absent", ".pages/0001"] {
            let error = view(&path, suffix).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EIO), "{mode:?} {suffix}");
        }
        assert!(ground.disk.mend() > 0);
        // Nothing of the failure is kept.
        shows(&path, &bytes);
        assert_eq!(view(&path, ".grep/absent").unwrap(), b"");
        eventually("it is sealed", || sealed(&ground, "x.txt"));
        assert!(first_line(&path).contains("complete output is stored"), "{mode:?}");
    }
}

#[test]
fn a_sync_that_the_disk_fails_is_told() {
    for mode in Mode::ALL {
        let ground = Ground::new(mode);
        let path = ground.mount.tool("c7").join("x.txt");
        let mut file = File::create(&path).unwrap();
        file.write_all(b"line 1\n").unwrap();
        ground.disk.fail(Fault::error(Call::Sync, libc::EIO).of("x.txt"));
        assert_eq!(errno(file.sync_all()), Errno::IO, "{mode:?}");
        assert_eq!(errno(file.sync_data()), Errno::IO, "{mode:?}");
        assert!(ground.disk.mend() > 0);
        file.sync_all().unwrap();
        shows(&path, b"line 1\n");
    }
}

#[test]
fn a_file_that_cannot_be_made_or_opened_is_an_error() {
    for mode in Mode::ALL {
        let ground = Ground::new(mode);
        let path = ground.mount.artifact("c7", "x.txt", b"line 1\n");
        let other = path.with_file_name("y.txt");
        ground.disk.fail(Fault::error(Call::Create, libc::ENOSPC).of("y.txt"));
        assert_eq!(errno(File::create(&other)), Errno::NOSPC, "{mode:?}");
        ground.disk.fail(Fault::error(Call::Open, libc::EMFILE).of("x.txt"));
        assert_eq!(errno(File::open(&path)), Errno::MFILE, "{mode:?}");
        ground.disk.fail(Fault::error(Call::Rename, libc::EIO).of("z.txt"));
        assert_eq!(errno(fs::rename(&path, path.with_file_name("z.txt"))), Errno::IO, "{mode:?}");
        assert!(ground.disk.mend() >= 3);
        shows(&path, b"line 1\n");
        assert!(!other.exists() && !path.with_file_name("z.txt").exists());
    }
}

/// A text that outgrows memory goes to the disk.
#[test]
fn a_view_for_which_there_is_no_room_is_an_error_and_no_part() {
    let ground = Ground::new(Mode::Cached);
    let text = format!("[{}0]\n", "1,".repeat(200_000));
    let path = ground.mount.artifact("c7", "x.json", text.as_bytes());
    ground.disk.fail(Fault::room(100_000).of("/cache/"));
    assert_eq!(errno(view(&path, ".pretty")), Errno::NOSPC);
    assert_eq!(fs::read(&path).unwrap(), text.as_bytes());
    assert!(ground.disk.mend() > 0);
    let pretty = view(&path, ".pretty").unwrap();
    assert!(pretty.starts_with(b"[\n  1,\n") && pretty.ends_with(b"  0\n]\n"));
    let mut start = [0; 4];
    File::open(path.with_file_name("x.json.pretty")).unwrap().read_exact(&mut start).unwrap();
    assert_eq!(&start, b"[\n  ");
}

/// Every command that walks the store does the rest, names what it could not read, and fails.
#[test]
fn a_directory_that_cannot_be_read_is_named_and_the_rest_is_done() {
    let disk = FaultyDisk::new();
    let store = disk.store();
    for (conversation, call) in [("c7", "9f3k"), ("c8", "other")] {
        store.put(conversation, call, b"text\n");
    }
    let shut = store.plain("c7", "shut");
    fs::create_dir(&shut).unwrap();
    fs::write(shut.join("x.txt"), "lost\n").unwrap();
    disk.fail(Fault::error(Call::List, libc::EIO).of("tool/shut"));
    let archive = store.scratch("archive").join("c7");
    let named = "c7/artifacts/tool/shut: Input/output error (os error 5)";
    let short = named.strip_prefix("c7/").unwrap();
    let cases: [(&str, &[&str], &str, &str); 4] = [
        ("ls", &[], "c8", named),
        ("ls", &["c7"], "9f3k.txt", short),
        ("gc", &["-n", "--keep-conversation", "1"], "2 outputs would be removed", named),
        ("export", &["c7", "-o"], "/c7", short),
    ];
    for (command, arguments, done, named) in cases {
        let mut told = store.ctxfs(command, arguments);
        if command == "export" {
            told = told.arg(&archive);
        }
        let told = told.run();
        let (out, said) =
            (String::from_utf8_lossy(&told.stdout), String::from_utf8_lossy(&told.stderr));
        assert_eq!(told.code, 1, "{told}");
        assert!(out.contains(done), "{told}");
        assert!(said.starts_with(&format!("error: cannot read {named}\n")), "{told}");
    }
    let told = store.ctxfs("gc", &["--json", "--keep-conversation", "1"]).run();
    let value: serde_json::Value = serde_json::from_slice(&told.stdout).unwrap();
    assert_eq!((told.code, value["outputs"].as_u64()), (1, Some(2)), "{told}");
    assert_eq!(value["unread"][0]["path"], "c7/artifacts/tool/shut");
    assert!(disk.mend() > 0);
    assert_eq!(store.ctxfs("gc", &["--json", "--keep-conversation", "1"]).run().code, 0);
    let other = TestStore::new();
    let told = other.ctxfs("import", &[]).arg(&archive).run();
    assert_eq!(told.code, 0, "{told}");
    assert_eq!(other.view("c7/artifacts/tool/9f3k.txt"), b"text\n");
}

/// Neither the quota nor retention of a mount ends at a directory that cannot be read.
#[test]
fn a_mount_keeps_to_its_limits_beside_a_directory_that_cannot_be_read() {
    let disk = FaultyDisk::new();
    let options = ["--quota", "1000000", "--keep-conversation", "200000"];
    let mount = TestMount::of(disk.store(), Mode::Cached, &options);
    let first = mount.artifact("c7", "first.txt", &b"x".repeat(90_000));
    // Only what is sealed can go, and only what is dated earlier goes first.
    mount.settle();
    disk_clock_moves_on();
    fs::create_dir(mount.tool("c7").join("shut")).unwrap();
    disk.fail(Fault::error(Call::List, libc::EIO).of("tool/shut"));
    let second = mount.artifact("c7", "second.txt", &b"y".repeat(90_000));
    let third = mount.artifact("c7", "third.txt", &b"z".repeat(90_000));
    eventually("the oldest output is removed", || !first.exists());
    assert!(second.exists() && third.exists());
    let found = fs::read_to_string(mount.path().join("c7/.grep/-l y")).unwrap();
    let notice = "# 1 place could not be read, and not searched: artifacts/tool/shut (";
    assert!(
        found.starts_with(notice) && found.ends_with("\nartifacts/tool/second.txt\n"),
        "{found}"
    );
    let manifest = fs::read(mount.path().join("c7/manifest.json")).unwrap();
    let listed: Vec<serde_json::Value> = serde_json::from_slice(&manifest).unwrap();
    assert_eq!((listed.len(), &listed[2]["kind"]), (3, &"unread".into()));
    disk.mend();
    let found = fs::read_to_string(mount.path().join("c7/.grep/-l y")).unwrap();
    assert_eq!(found, "artifacts/tool/second.txt\n");
}

/// A name that is not synced is lost in a power cut. That is an error before anything is stored.
#[test]
fn a_new_directory_that_cannot_be_synced_is_an_error() {
    let fails = |of| {
        let disk = FaultyDisk::new();
        let store = disk.store();
        store.put("old", "9f3k", b"text\n");
        disk.fail(Fault::error(Call::SyncDir, libc::EIO).of(of));
        let told = store.ctxfs("put", &["-c", "c7", "--call", "9f3k"]).stdin("text\n").run();
        assert_eq!((told.code, disk.struck()), (1, 1), "{of}: {told}");
        assert!(String::from_utf8_lossy(&told.stderr).contains("Input/output error"), "{told}");
    };
    for of in ["/context/.", "/context/c7/.", "/context/c7/artifacts/.", "/context/c7/history/."] {
        fails(of);
    }
    let ground = Ground::new(Mode::Cached);
    ground.mount.tool("old");
    ground.disk.fail(Fault::error(Call::SyncDir, libc::EIO).of("/context/."));
    assert_eq!(errno(fs::create_dir(ground.mount.path().join("c7"))), Errno::IO);
    // What is there already is not synced again.
    ground.disk.store().put("old", "9f3k", b"text\n");
    assert_eq!(ground.disk.mend(), 1);
}

#[test]
fn a_new_store_is_synced_with_all_directories_above_it() {
    let disk = FaultyDisk::new();
    let place = disk.store().path().join("a/b/store");
    for (number, of) in ["/b/.", "/a/.", "/store/."].into_iter().enumerate() {
        disk.fail(Fault::error(Call::SyncDir, libc::EIO).of(of));
        let place = if number == 2 { place.clone() } else { place.join(number.to_string()) };
        let told = Command::ctxfs().args(["put", "--store"]).arg(&place).stdin("text\n").run();
        assert_eq!((told.code, disk.mend()), (1, 1), "{of}: {told}");
        fs::remove_dir_all(disk.store().path().join("a")).unwrap();
    }
}

fn sealed(ground: &Ground, name: &str) -> bool {
    let manifest = ground.disk.store().path().join("context/c7/manifest.jsonl");
    let text = fs::read_to_string(manifest).unwrap_or_default();
    let last = text.lines().rfind(|line| line.contains(name)).unwrap_or_default();
    last.contains(r#""state":"sealed""#) && last.contains(r#""digest""#)
}
