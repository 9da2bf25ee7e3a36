//! A bucket that a newer ctxfs made, things in it that no ctxfs wrote, and hosts that were copied.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::{fs, io};

use crate::remote::{Pair, assert_told, ending, outputs};
use crate::support::{Command, TestStore};

/// The bytes of a segment from which on nobody reads it, and some more.
const TOO_LARGE: u64 = 65 << 20;
/// The bytes that a small segment unpacks to: more than records may have.
const BOMB: u64 = 1 << 30;

#[test]
fn a_bucket_of_a_newer_format_is_refused() {
    let pair = Pair::new();
    pair.one.put("c7", "x", b"text\n");
    pair.push(&pair.one);
    let mark = pair.bucket().join("ctxfs.json");
    let old = fs::read_to_string(&mark).unwrap();
    fs::write(&mark, old.replace("\"format\":1", "\"format\":2")).unwrap();
    for (command, store) in [("push", &pair.one), ("pull", &pair.other)] {
        let told = pair.ctxfs(store, command, &[]).run();
        assert_told(&told, 1, "update ctxfs");
    }
    pair.one.put("c7", "y", b"more\n");
    assert_eq!(pair.one.view("c7/artifacts/tool/y.txt"), b"more\n");
    fs::write(&mark, old).unwrap();
    pair.meet();
    assert_eq!(outputs(&pair.other).len(), 2);
}

#[test]
fn segments_that_no_ctxfs_wrote_are_refused_and_the_rest_comes() {
    let pair = Pair::new();
    pair.one.put("c7", "x", b"text\n");
    pair.push(&pair.one);
    let log = pair.bucket().join("conversations/c7/log");
    let good = ending(&log, ".tar.zst").remove(0);
    let at = |number: u32| log.join(format!("00000000000000ff-{number:012}.tar.zst"));
    fs::write(at(1), b"no archive").unwrap();
    fs::write(at(2), b"").unwrap();
    File::create(at(3)).unwrap().set_len(TOO_LARGE).unwrap();
    bomb(&at(4));
    // A copy says another name.
    fs::copy(good, at(5)).unwrap();
    fs::write(log.join("README"), b"of no segment").unwrap();
    let pulled = pair.ctxfs(&pair.other, "pull", &[]).run();
    let told = pulled.to_string().matches(": segment 00000000000000ff-").count();
    assert_eq!((pulled.code, told), (1, 5), "{pulled}");
    assert_eq!(outputs(&pair.other), outputs(&pair.one), "the rest came");
    let gc = pair.ctxfs(&pair.one, "remote", &["gc"]).run();
    assert_told(&gc, 1, "nothing is deleted in `c7`");
    pair.one.put("c7", "y", b"more\n");
    pair.push(&pair.one);
    assert_eq!(pair.ctxfs(&pair.other, "pull", &[]).run().code, 1, "it is told again");
    assert_eq!(outputs(&pair.other), outputs(&pair.one));
}

#[test]
fn a_segment_that_was_mended_is_asked_for_again() {
    let pair = Pair::new();
    pair.one.put("c7", "x", b"text\n");
    pair.push(&pair.one);
    let segment = ending(&pair.bucket().join("conversations/c7/log"), ".tar.zst").remove(0);
    let good = fs::read(&segment).unwrap();
    fs::write(&segment, b"no archive").unwrap();
    let pulled = pair.ctxfs(&pair.other, "pull", &[]).run();
    assert_told(&pulled, 1, "c7: segment ");
    fs::remove_file(&segment).unwrap();
    // Its host has it whole.
    assert_told(&pair.ctxfs(&pair.one, "push", &["c7"]).run(), 0, "1 sent again");
    assert_eq!(fs::read(&segment).unwrap(), good);
    assert_eq!(pair.ctxfs(&pair.other, "remote", &["check"]).run().code, 0);
    pair.pull(&pair.other);
    assert_eq!(outputs(&pair.other), outputs(&pair.one));
}

/// Writes a frame that unpacks to much more than it has.
fn bomb(path: &Path) {
    let mut packer = zstd::Encoder::new(File::create(path).unwrap(), 3).unwrap();
    io::copy(&mut io::repeat(0).take(BOMB), &mut packer).unwrap();
    packer.finish().unwrap();
}

fn copy(from: &TestStore, to: &TestStore) {
    fs::remove_dir_all(to.path()).unwrap();
    Command::new("cp").arg("-aT").arg(from.path()).arg(to.path()).stdout();
}

#[test]
fn a_host_and_its_clone_lose_nothing() {
    let pair = Pair::new();
    pair.one.put("c7", "before", b"of both\n");
    pair.push(&pair.one);
    copy(&pair.one, &pair.other);
    pair.one.put("c7", "x", b"of one\n");
    pair.other.put("c7", "y", b"of the clone\n");
    pair.push(&pair.one);
    pair.push(&pair.other);
    pair.meet();
    let names: Vec<String> = outputs(&pair.one).into_keys().collect();
    assert_eq!(names, ["before.txt", "x.txt", "y.txt"]);
}

#[test]
fn a_backup_that_is_restored_goes_on() {
    let pair = Pair::new();
    let backup = TestStore::new();
    pair.one.put("c7", "before", b"in the backup\n");
    pair.one.put("c7", "removed", b"by the other host, since\n");
    pair.push(&pair.one);
    copy(&pair.one, &backup);
    pair.pull(&pair.other);
    fs::remove_file(pair.other.plain("c7", "removed.txt")).unwrap();
    pair.push(&pair.other);
    pair.one.put("c7", "since", b"pushed since\n");
    pair.push(&pair.one);
    copy(&backup, &pair.one);
    pair.one.put("c7", "after", b"after the backup was restored\n");
    pair.push(&pair.one);
    pair.meet();
    let names: Vec<String> = outputs(&pair.one).into_keys().collect();
    assert_eq!(names, ["after.txt", "before.txt", "since.txt"]);
}
