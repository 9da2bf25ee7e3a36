//! The life of an artifact, and its record.

use std::ffi::OsStr;
use std::io::Write as _;

use super::fixture::{Fixture, errno};
use crate::{OpenMode, RenameMode};
use ctxfs_core::model::{Analysis, ArtifactState, Component, Record, RelPath};
use ctxfs_engine::EngineOptions;
use ctxfs_engine::quota::fixture::of_new_conversation;

const EXIT: &str = "user.ctx.exit_code";

fn state(fixture: &Fixture, name: &str) -> Option<(ArtifactState, u64)> {
    fixture.record(name).map(|record| (record.state, record.generation))
}

#[test]
fn live_then_sealed_then_live_again_as_the_next_generation() {
    let fixture = Fixture::new();
    let fh = fixture.create("a.txt", libc::O_WRONLY).unwrap();
    fixture.write(fh, 0, b"one\n").unwrap();
    fixture.settle();
    assert_eq!(state(&fixture, "a.txt"), Some((ArtifactState::Live, 1)));
    assert_eq!(fixture.text("a.txt.tail"), "one\n");
    fixture.close(fh);
    fixture.settle();
    assert_eq!(state(&fixture, "a.txt"), Some((ArtifactState::Sealed, 1)));
    assert_eq!(fixture.record("a.txt").unwrap().analysis.unwrap().lines, 1);
    let fh = fixture.open(fixture.ino("a.txt"), libc::O_WRONLY | libc::O_APPEND).unwrap().fh;
    assert_eq!(fixture.meta("a.txt")["generation"], 2);
    fixture.settle();
    assert_eq!(state(&fixture, "a.txt"), Some((ArtifactState::Live, 2)));
    fixture.write(fh, 4, b"two\n").unwrap();
    fixture.close(fh);
    fixture.settle();
    assert_eq!(state(&fixture, "a.txt"), Some((ArtifactState::Sealed, 2)));
    assert_eq!(fixture.record("a.txt").unwrap().size, 8);
}

#[test]
fn the_last_writer_seals() {
    let fixture = Fixture::new();
    let first = fixture.create("a.txt", libc::O_WRONLY).unwrap();
    let second = fixture.open(fixture.ino("a.txt"), libc::O_WRONLY).unwrap().fh;
    fixture.close(first);
    fixture.settle();
    assert_eq!(state(&fixture, "a.txt"), Some((ArtifactState::Live, 1)));
    fixture.close(second);
    fixture.settle();
    assert_eq!(state(&fixture, "a.txt"), Some((ArtifactState::Sealed, 1)));
}

#[test]
fn what_a_writer_says_before_or_after_it_closes_is_recorded() {
    let fixture = Fixture::new();
    let fh = fixture.create("a.txt", libc::O_WRONLY).unwrap();
    let ino = fixture.ino("a.txt");
    fixture.fs.setxattr(ino, OsStr::new("user.ctx.tool"), b"exec", 0).unwrap();
    fixture.close(fh);
    fixture.settle();
    fixture.fs.setxattr(ino, OsStr::new(EXIT), b"3", 0).unwrap();
    let provenance = fixture.record("a.txt").unwrap().provenance;
    assert_eq!((provenance.tool.as_deref(), provenance.exit_code), (Some("exec"), Some(3)));
    assert_eq!(errno(fixture.fs.setxattr(ino, OsStr::new(EXIT), b"no", 0)), libc::EINVAL);
}

#[test]
fn an_artifact_that_met_its_cap_is_incomplete_until_it_is_written_anew() {
    let options = EngineOptions { max_artifact: Some(10), ..EngineOptions::default() };
    let fixture = Fixture::with(options);
    let fh = fixture.create("a.txt", libc::O_WRONLY).unwrap();
    fixture.write(fh, 0, b"12345678\n").unwrap();
    assert_eq!(errno(fixture.write(fh, 9, b"90")), libc::EFBIG);
    fixture.close(fh);
    assert!(fixture.text("a.txt.summary").lines().next().unwrap().contains("INCOMPLETE"));
    fixture.settle();
    let Some((ArtifactState::Incomplete(why), 1)) = state(&fixture, "a.txt") else { panic!() };
    assert!(why.contains("10 bytes"), "{why}");
    assert_eq!(fixture.read("a.txt").unwrap(), b"12345678\n");
    assert_eq!(errno(fixture.set_len(fixture.ino("a.txt"), 11)), libc::EFBIG);
    let ino = fixture.ino("a.txt");
    let fh = fixture.open(ino, libc::O_WRONLY).unwrap().fh;
    fixture.set_len(ino, 0).unwrap();
    fixture.write(fh, 0, b"all\n").unwrap();
    fixture.close(fh);
    fixture.settle();
    assert_eq!(state(&fixture, "a.txt"), Some((ArtifactState::Sealed, 2)));
    assert!(!fixture.text("a.txt.summary").contains("INCOMPLETE"));
}

#[test]
fn the_files_of_a_conversation_share_its_quota() {
    let quota = of_new_conversation(1_000_000);
    let fixture = Fixture::with(EngineOptions { quota: Some(quota), ..EngineOptions::default() });
    fixture.put("a.txt", &vec![b'x'; 500_000]);
    let fh = fixture.create("b.txt", libc::O_WRONLY).unwrap();
    fixture.write(fh, 0, &vec![b'y'; 300_000]).unwrap();
    assert_eq!(errno(fixture.write(fh, 300_000, &vec![b'y'; 400_000])), libc::EDQUOT);
    // Overwriting existing bytes takes no more space.
    fixture.write(fh, 0, &vec![b'z'; 300_000]).unwrap();
    fixture.close(fh);
    fixture.settle();
    let Some((ArtifactState::Incomplete(why), 1)) = state(&fixture, "b.txt") else { panic!() };
    assert!(why.contains(&format!("quota of {quota} bytes")), "{why}");
    assert_eq!(fixture.read("b.txt").unwrap(), vec![b'z'; 300_000]);
    fixture.unlink("a.txt").unwrap();
    fixture.put("c.txt", &vec![b'x'; 500_000]);
}

#[test]
fn a_disk_that_is_nearly_full_takes_no_more() {
    let options = EngineOptions { min_free: u64::MAX, ..EngineOptions::default() };
    let fixture = Fixture::with(options);
    let fh = fixture.create("a.txt", libc::O_WRONLY).unwrap();
    assert_eq!(errno(fixture.write(fh, 0, b"x")), libc::ENOSPC);
    fixture.close(fh);
    fixture.settle();
    assert!(matches!(state(&fixture, "a.txt"), Some((ArtifactState::Incomplete(_), 1))));
}

#[test]
fn write_once_refuses_to_change_what_is_sealed() {
    let once = EngineOptions { write_once: true, ..EngineOptions::default() };
    let fixture = Fixture::with(once);
    let fh = fixture.create("a.txt", libc::O_WRONLY).unwrap();
    let ino = fixture.ino("a.txt");
    let second = fixture.open(ino, libc::O_WRONLY | libc::O_APPEND).unwrap().fh;
    fixture.write(second, 0, b"x\n").unwrap();
    fixture.close(second);
    fixture.close(fh);
    for flags in [libc::O_WRONLY, libc::O_RDWR, libc::O_RDONLY | libc::O_TRUNC] {
        assert_eq!(errno(fixture.open(ino, flags)), libc::EPERM);
    }
    assert_eq!(errno(fixture.set_len(ino, 0)), libc::EPERM);
    fixture.put("b.txt", b"y\n");
    for mode in [RenameMode::Replace, RenameMode::Exchange] {
        assert_eq!(errno(fixture.rename("b.txt", "a.txt", mode)), libc::EPERM);
    }
    fixture.put("x.tmp", b"z\n");
    assert_eq!(errno(fixture.rename("x.tmp", "a.txt", RenameMode::Replace)), libc::EPERM);
    fixture.rename("x.tmp", "c.txt", RenameMode::Replace).unwrap();
    fixture.unlink("a.txt").unwrap();
    assert_eq!(fixture.text("c.txt.tail"), "z\n");
}

#[test]
fn a_scratch_file_is_materialized_by_its_name() {
    let fixture = Fixture::new();
    fixture.put("x.tmp", b"one\n");
    fixture.settle();
    assert_eq!(state(&fixture, "x.tmp"), None);
    assert_eq!(errno(fixture.lookup("x.tmp.summary")), libc::ENOENT);
    fixture.rename("x.tmp", "a.txt", RenameMode::Replace).unwrap();
    assert_eq!(fixture.text("a.txt.tail"), "one\n");
    fixture.settle();
    assert_eq!(state(&fixture, "a.txt"), Some((ArtifactState::Sealed, 1)));
}

#[test]
fn a_scratch_file_that_is_still_written_is_live_under_its_new_name() {
    let fixture = Fixture::new();
    let fh = fixture.create("x.tmp", libc::O_WRONLY).unwrap();
    fixture.rename("x.tmp", "a.txt", RenameMode::Replace).unwrap();
    fixture.settle();
    assert_eq!(state(&fixture, "a.txt"), Some((ArtifactState::Live, 1)));
    fixture.close(fh);
    fixture.settle();
    assert_eq!(state(&fixture, "a.txt"), Some((ArtifactState::Sealed, 1)));
}

#[test]
fn records_follow_renames() {
    let fixture = Fixture::new();
    let ino = fixture.put("a.txt", b"one\n");
    fixture.settle();
    fixture.fs.setxattr(ino, OsStr::new(EXIT), b"3", 0).unwrap();
    let before = fixture.record("a.txt").unwrap();
    fixture.rename("a.txt", "b.txt", RenameMode::Replace).unwrap();
    fixture.settle();
    assert_eq!(fixture.record("a.txt"), None);
    let path = "artifacts/tool/b.txt".to_owned();
    let after = fixture.record("b.txt").unwrap();
    assert_eq!(after, Record { path, file: after.file, ..before });
}

#[test]
fn what_is_renamed_over_an_artifact_is_its_next_generation() {
    let fixture = Fixture::new();
    let ino = fixture.put("a.txt", b"one\n");
    fixture.settle();
    fixture.fs.setxattr(ino, OsStr::new(EXIT), b"3", 0).unwrap();
    fixture.put("x.tmp", b"two\n");
    fixture.rename("x.tmp", "a.txt", RenameMode::Replace).unwrap();
    fixture.settle();
    assert_eq!(state(&fixture, "a.txt"), Some((ArtifactState::Sealed, 2)));
    assert_eq!(fixture.record("a.txt").unwrap().provenance.exit_code, None);
}

#[test]
fn each_write_says_whether_it_appends() {
    let fixture = Fixture::new();
    let fh = fixture.create("a.txt", libc::O_WRONLY | libc::O_APPEND).unwrap();
    let append = OpenMode { flags: libc::O_WRONLY | libc::O_APPEND };
    fixture.fs.write(fh, 0, b"one\n", append, None).unwrap();
    fixture.write(fh, 0, b"O").unwrap();
    // Another process has appended, and the kernel does not have the new length yet.
    let mut other = std::fs::OpenOptions::new().append(true).open(fixture.plain("a.txt")).unwrap();
    other.write_all(b"two\n").unwrap();
    fixture.fs.write(fh, 4, b"three\n", append, None).unwrap();
    fixture.close(fh);
    assert_eq!(fixture.text("a.txt"), "One\ntwo\nthree\n");
    fixture.settle();
    assert_eq!(fixture.record("a.txt").unwrap().analysis.unwrap().lines, 3);
}

#[test]
fn an_open_file_outlives_its_name() {
    let fixture = Fixture::new();
    let fh = fixture.create("a.txt", libc::O_RDWR).unwrap();
    let ino = fixture.ino("a.txt");
    fixture.write(fh, 0, b"one\n").unwrap();
    fixture.unlink("a.txt").unwrap();
    assert_eq!(errno(fixture.lookup("a.txt")), libc::ENOENT);
    assert_eq!(errno(fixture.lookup("a.txt.tail")), libc::ENOENT);
    fixture.write(fh, 4, b"two\n").unwrap();
    assert_eq!(fixture.read_fh(fh), b"one\ntwo\n");
    let attr = fixture.attr(ino).unwrap();
    assert_eq!((attr.size, attr.nlink), (8, 0));
    fixture.close(fh);
    fixture.settle();
    assert_eq!(state(&fixture, "a.txt"), None);
}

#[test]
fn a_file_of_another_life_has_another_number() {
    let fixture = Fixture::new();
    let first = fixture.put("a.txt", b"one\n");
    fixture.unlink("a.txt").unwrap();
    let second = fixture.put("a.txt", b"two\n");
    assert_ne!(first, second);
    assert_eq!(fixture.text("a.txt.tail"), "two\n");
}

/// The kernel closes the descriptors of a killed process without reporting the reason.
#[test]
fn an_artifact_whose_daemon_died_is_incomplete() {
    let fixture = Fixture::new();
    let fh = fixture.create("a.txt", libc::O_WRONLY).unwrap();
    fixture.write(fh, 0, b"one\n").unwrap();
    fixture.settle();
    drop(fixture.fs.0.handles.remove(fh));
    assert_eq!(state(&fixture, "a.txt"), Some((ArtifactState::Live, 1)));
    // The owner of the record is this process, which is still alive.
    let conversation = fixture.fs.engine().conversation(&Component::new("c1").unwrap()).unwrap();
    let path = RelPath::new("artifacts/tool/a.txt").unwrap();
    let live = conversation.record(&path).unwrap().unwrap();
    conversation.manifest().append(&[Record { owner: None, ..live }]).unwrap();
    let next = Fixture::of(Fixture::serve(&fixture.dir, EngineOptions::default()), &fixture);
    let summary = next.text("a.txt.summary");
    assert!(summary.lines().next().unwrap().contains("INCOMPLETE"), "{summary}");
    assert!(summary.contains("one\n"), "{summary}");
    assert!(matches!(state(&fixture, "a.txt"), Some((ArtifactState::Incomplete(_), 1))));
}

#[test]
fn every_opening_for_writing_is_a_generation_sealed_in_between_or_not() {
    let fixture = Fixture::new();
    let ino = fixture.put("a.txt", b"one\n");
    // No file is sealed while names may move.
    let places = fixture.fs.0.places.write();
    for _ in 0..9 {
        let fh = fixture.open(ino, libc::O_WRONLY).unwrap().fh;
        fixture.close(fh);
    }
    drop(places);
    fixture.settle();
    assert_eq!(state(&fixture, "a.txt"), Some((ArtifactState::Sealed, 10)));
}

#[test]
fn a_writer_that_comes_before_the_last_one_is_sealed_is_recorded_as_live() {
    let fixture = Fixture::new();
    let ino = fixture.put("a.txt", b"one\n");
    fixture.settle();
    // Nothing is recorded while names may move.
    let places = fixture.fs.0.places.write();
    fixture.set_len(ino, 2).unwrap();
    let fh = fixture.open(ino, libc::O_WRONLY).unwrap().fh;
    drop(places);
    fixture.settle();
    assert_eq!(state(&fixture, "a.txt"), Some((ArtifactState::Live, 3)));
    fixture.close(fh);
    fixture.settle();
    assert_eq!(state(&fixture, "a.txt"), Some((ArtifactState::Sealed, 3)));
}

#[test]
fn what_another_process_put_in_a_files_place_keeps_its_record() {
    let fixture = Fixture::new();
    let ino = fixture.put("a.txt", b"one\n");
    fixture.settle();
    let before = fixture.record("a.txt");
    let places = fixture.fs.0.places.write();
    let fh = fixture.open(ino, libc::O_WRONLY).unwrap().fh;
    let other = fixture.dir.path().join("other");
    std::fs::write(&other, "two\n").unwrap();
    std::fs::rename(&other, fixture.plain("a.txt")).unwrap();
    drop(places);
    fixture.settle();
    fixture.close(fh);
    fixture.settle();
    assert_eq!(fixture.record("a.txt"), before);
    assert_eq!(fixture.text("a.txt.tail"), "two\n");
}

#[test]
fn the_end_seals_what_is_closed() {
    let fixture = Fixture::new();
    let text = "line of a log\n".repeat(700_000);
    fixture.put("a.txt", text.as_bytes());
    fixture.fs.shut_down();
    assert_eq!(state(&fixture, "a.txt"), Some((ArtifactState::Sealed, 1)));
    assert_eq!(fixture.record("a.txt").unwrap().size, text.len() as u64);
}

#[test]
fn what_was_closed_when_the_mount_ended_is_complete_though_never_released() {
    for (closed, expected) in [(true, ArtifactState::Sealed), (false, ArtifactState::Live)] {
        let fixture = Fixture::new();
        let fh = fixture.create("a.txt", libc::O_WRONLY).unwrap();
        fixture.write(fh, 0, b"one\n").unwrap();
        fixture.settle();
        if closed {
            let caller = crate::Caller { uid: 0, gid: 0, pid: std::process::id() };
            fixture.fs.flush(fh, caller, None).unwrap();
        }
        fixture.fs.shut_down();
        assert_eq!(state(&fixture, "a.txt"), Some((expected, 1)));
    }
}

#[test]
fn what_another_version_found_is_found_anew() {
    let now = format!("\"version\":{}", Analysis::VERSION);
    for (version, lines) in [(now.as_str(), 77), ("\"version\":0", 1), ("\"other\":1", 1)] {
        let mut fixture = Fixture::new();
        fixture.put("a.txt", b"one\n");
        fixture.settle();
        let manifest = fixture.dir.path().join("context/c1/manifest.jsonl");
        let text = std::fs::read_to_string(&manifest).unwrap();
        assert!(text.contains(&now) && text.contains("\"lines\":1"), "{text}");
        let text = text.replace(&now, version).replace("\"lines\":1", "\"lines\":77");
        fixture.fs.shut_down();
        std::fs::write(&manifest, text).unwrap();
        fixture.fs = Fixture::serve(&fixture.dir, EngineOptions::default());
        assert_eq!(fixture.meta("a.txt")["analysis"]["lines"], lines, "{version}");
    }
}
