//! Changes of the store's files by other processes, outside the mount.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::time::{Duration, SystemTime};

use super::fixture::Fixture;
use crate::{Fh, NewTime, OpenMode, RenameMode, SetAttr};
use ctxfs_core::materialize::Analyzer;
use ctxfs_core::model::Analysis;
use ctxfs_engine::quota::fixture::of_new_conversation;
use ctxfs_engine::{EngineOptions, FileLife as _, RewriteCount};
use ctxfs_store::{FileClock, stat_file};

/// Appends through the mount, at the end `end` that the kernel has cached.
fn append(fixture: &Fixture, fh: Fh, end: u64, bytes: &[u8]) {
    let mode = OpenMode { flags: libc::O_WRONLY | libc::O_APPEND };
    fixture.fs.write(fh, end, bytes, mode, None).unwrap();
}

/// Appends without using the mount.
fn append_outside(fixture: &Fixture, name: &str, bytes: &[u8]) {
    let mut file = File::options().append(true).open(fixture.plain(name)).unwrap();
    file.write_all(bytes).unwrap();
}

fn analysed(bytes: &[u8]) -> Analysis {
    let mut analyzer = Analyzer::new();
    analyzer.push(bytes);
    analyzer.finish()
}

/// Checks that `.meta.json` describes the current bytes of `name`.
fn check(fixture: &Fixture, name: &str) {
    let bytes = std::fs::read(fixture.plain(name)).unwrap();
    let meta = fixture.meta(name);
    let expected = analysed(&bytes);
    assert_eq!(meta["analysis"], serde_json::to_value(expected).unwrap());
    assert_eq!(meta["size"], bytes.len());
}

fn past(fixture: &Fixture, name: &str) -> RewriteCount {
    let node = fixture.fs.0.nodes.get(fixture.ino(name)).unwrap();
    let file = node.as_file().unwrap();
    let mut life = file.life();
    life.noticed(&stat_file(File::open(fixture.plain(name)).unwrap()).unwrap(), FileClock::FINE);
    life.bytes.rewrites()
}

fn end(fixture: &Fixture, name: &str) -> u64 {
    let node = fixture.fs.0.nodes.get(fixture.ino(name)).unwrap();
    node.as_file().unwrap().life().end()
}

#[test]
fn what_others_wrote_is_analysed_anew() {
    let fixture = Fixture::new();
    fixture.put("a.txt", b"one\n");
    fixture.settle();
    check(&fixture, "a.txt");
    // The new text has the same length, or is longer, or is shorter.
    for text in ["two\n", "three and four\n", "5\n", "sixty six\n"] {
        std::fs::write(fixture.plain("a.txt"), text).unwrap();
        check(&fixture, "a.txt");
    }
    let file = File::options().write(true).open(fixture.plain("a.txt")).unwrap();
    file.write_all_at(b"SEVEN", 0).unwrap();
    check(&fixture, "a.txt");
    append_outside(&fixture, "a.txt", b"eight\n");
    check(&fixture, "a.txt");
}

/// Setting an attribute must not hide a change of the bytes.
#[test]
fn what_others_wrote_is_not_taken_for_analysed_when_an_attribute_is_set() {
    let fixture = Fixture::new();
    let ino = fixture.put("a.txt", b"one\n");
    fixture.settle();
    std::fs::write(fixture.plain("a.txt"), "two\n").unwrap();
    fixture.fs.setxattr(ino, OsStr::new("user.ctx.tool"), b"exec", 0).unwrap();
    assert_eq!(fixture.record("a.txt").unwrap().provenance.tool.as_deref(), Some("exec"));
    check(&fixture, "a.txt");
}

/// The recorded analysis of the bytes stays valid.
#[test]
fn a_record_follows_what_is_changed_beside_the_bytes() {
    let fixture = Fixture::new();
    let ino = fixture.put("a.txt", b"one\n");
    fixture.settle();
    let is_recorded = || {
        let (record, path) = (fixture.record("a.txt").unwrap(), fixture.plain("a.txt"));
        let stat = stat_file(File::open(path).unwrap()).unwrap();
        stat.is_recorded(&record) && record.analysis == Some(analysed(b"one\n"))
    };
    assert!(is_recorded());
    let long_ago = NewTime::At(SystemTime::UNIX_EPOCH + Duration::from_secs(228_901_302));
    let mode = SetAttr { mode: Some(0o600), ..SetAttr::default() };
    let time = SetAttr { mtime: Some(long_ago), ..SetAttr::default() };
    for change in [mode, time, mode] {
        fixture.fs.setattr(ino, &change, None).unwrap();
        assert!(is_recorded(), "{change:?}");
    }
    for name in ["user.ctx.tool", "user.other"] {
        fixture.fs.setxattr(ino, OsStr::new(name), b"exec", 0).unwrap();
        assert!(is_recorded(), "{name}");
    }
    fixture.fs.removexattr(ino, OsStr::new("user.other")).unwrap();
    assert!(is_recorded());
    for (from, to) in [("a.txt", "b.txt"), ("b.txt", "a.txt")] {
        fixture.rename(from, to, RenameMode::Replace).unwrap();
        fixture.settle();
        assert_eq!(fixture.record(from), None);
    }
    assert!(is_recorded());
    fixture.put("c.txt", b"two\n");
    fixture.settle();
    fixture.rename("a.txt", "c.txt", RenameMode::Exchange).unwrap();
    fixture.rename("c.txt", "a.txt", RenameMode::Replace).unwrap();
    assert!(is_recorded(), "it has exchanged its name with another one, and then replaced that");
    // Another process made the change, so other changes by it cannot be excluded.
    let mode = std::fs::Permissions::from_mode(0o640);
    std::fs::set_permissions(fixture.plain("a.txt"), mode).unwrap();
    fixture.fs.setxattr(ino, OsStr::new("user.other"), b"x", 0).unwrap();
    assert!(!is_recorded());
    check(&fixture, "a.txt");
}

#[test]
fn who_appends_while_others_append_knows_the_end() {
    let fixture = Fixture::new();
    let fh = fixture.create("a.txt", libc::O_WRONLY | libc::O_APPEND).unwrap();
    append(&fixture, fh, 0, b"one\n");
    append_outside(&fixture, "a.txt", b"of another process\n");
    // The kernel has not noticed the change.
    append(&fixture, fh, 4, b"two\n");
    assert_eq!(end(&fixture, "a.txt"), 27);
    check(&fixture, "a.txt");
    // Overwrites bytes that another process wrote.
    fixture.write(fh, 5, b"XY").unwrap();
    check(&fixture, "a.txt");
    append_outside(&fixture, "a.txt", b"the end\n");
    fixture.write(fh, 27, b"THE").unwrap();
    check(&fixture, "a.txt");
    fixture.close(fh);
    fixture.settle();
    check(&fixture, "a.txt");
    let recorded = fixture.record("a.txt").unwrap().analysis.unwrap();
    let bytes = std::fs::read(fixture.plain("a.txt")).unwrap();
    assert_eq!(bytes, b"one\noXYanother process\ntwo\nTHE end\n");
    assert_eq!(recorded, analysed(&bytes));
}

#[test]
fn a_quota_counts_what_others_appended() {
    let quota = Some(of_new_conversation(1_000_000));
    let fixture = Fixture::with(EngineOptions { quota, ..EngineOptions::default() });
    let fh = fixture.create("a.txt", libc::O_WRONLY | libc::O_APPEND).unwrap();
    append(&fixture, fh, 0, &vec![b'a'; 100_000]);
    append_outside(&fixture, "a.txt", &vec![b'b'; 600_000]);
    append(&fixture, fh, 100_000, &vec![b'c'; 100_000]);
    // Rewriting the bytes does not make the file grow.
    for _ in 0..10 {
        fixture.write(fh, 0, &vec![b'd'; 800_000]).unwrap();
    }
    assert_eq!(end(&fixture, "a.txt"), 800_000);
}

#[test]
fn what_the_mount_does_itself_is_nothing_of_others() {
    let fixture = Fixture::new();
    let fh = fixture.create("a.txt", libc::O_WRONLY).unwrap();
    let before = past(&fixture, "a.txt");
    for line in 0..5 {
        fixture.write(fh, line * 4, b"one\n").unwrap();
        check(&fixture, "a.txt");
    }
    let ino = fixture.ino("a.txt");
    let time = Some(NewTime::At(std::time::SystemTime::UNIX_EPOCH));
    let change = SetAttr { mtime: time, mode: Some(0o600), ..SetAttr::default() };
    fixture.fs.setattr(ino, &change, None).unwrap();
    fixture.set_len(ino, 30).unwrap();
    fixture.close(fh);
    fixture.settle();
    assert_eq!(past(&fixture, "a.txt"), before);
    check(&fixture, "a.txt");
    fixture.set_len(ino, 7).unwrap();
    fixture.settle();
    assert_ne!(past(&fixture, "a.txt"), before);
    check(&fixture, "a.txt");
}
