//! Sealing concurrent with returning writers, renames, and the end of the mount.

use std::sync::Arc;
use std::time::Duration;

use super::super::fixture::{Fixture, errno};
use super::{Work, together, under_schedules};
use crate::{Ino, RenameMode};
use ctxfs_core::materialize::Analyzer;
use ctxfs_core::model::{ArtifactState, Record};
use ctxfs_engine::sync::thread;
use ctxfs_engine::{EngineOptions, Source};
use ctxfs_store::{Stat, Time};

const FIRST: &[u8] = b"one\n";
const HALF: &[u8] = b"one\ntwo\n";
const ALL: &[u8] = b"one\ntwo\nthree\n";

/// Opens `a.txt`, writes twice, and closes it.
fn writes_on() -> Work {
    Box::new(|fixture| {
        let ino = fixture.ino("a.txt");
        let fh = fixture.open(ino, libc::O_WRONLY).unwrap().fh;
        fixture.write(fh, FIRST.len() as u64, b"two\n").unwrap();
        fixture.write(fh, HALF.len() as u64, b"three\n").unwrap();
        fixture.close(fh);
        fixture.fs.forget(ino, 1);
    })
}

/// Creates `a.txt`. The returned work writes the whole content and closes the file.
fn makes(fixture: &Fixture) -> Work {
    let fh = fixture.create("a.txt", libc::O_WRONLY).unwrap();
    Box::new(move |fixture| {
        fixture.write(fh, 0, ALL).unwrap();
        fixture.close(fh);
    })
}

/// Fails if a sealed record does not describe the complete bytes of a writer.
fn looks_at_the_record() -> Work {
    Box::new(|fixture| {
        for _ in 0..8 {
            // Reading the record is a step of its own.
            thread::sleep(Duration::ZERO);
            if let Some(record) = sealed(fixture, "a.txt") {
                let found = [FIRST, ALL].iter().any(|bytes| speaks_of(&record, bytes));
                assert!(found, "sealed between two writes: {record:?}");
            }
        }
    })
}

fn sealed(fixture: &Fixture, name: &str) -> Option<Record> {
    fixture.record(name).filter(|record| record.state == ArtifactState::Sealed)
}

fn speaks_of(record: &Record, bytes: &[u8]) -> bool {
    let mut analyzer = Analyzer::new();
    analyzer.push(bytes);
    let digest = analyzer.finish().digest;
    let analysis = record.analysis.as_ref();
    record.size == bytes.len() as u64 && analysis.is_none_or(|found| found.digest == digest)
}

fn assert_sealed(fixture: &Fixture, name: &str, bytes: &[u8]) {
    let record = fixture.record(name).unwrap_or_else(|| panic!("{name} has no record"));
    assert_eq!(record.state, ArtifactState::Sealed, "{name}");
    assert!(record.analysis.is_some() && speaks_of(&record, bytes), "{name}: {record:?}");
}

#[test]
fn a_writer_that_comes_back_is_never_sealed_halfway() {
    under_schedules(|| {
        let fixture = Arc::new(Fixture::new());
        // Gives the sealing thread other files to seal first.
        for name in ["b.txt", "c.txt"] {
            fixture.put(name, FIRST);
        }
        // Two look-ups are counted: one for the creation and one for the look-up itself. The node
        // stays in the table until the file is sealed.
        let ino = fixture.put("a.txt", FIRST);
        fixture.fs.forget(ino, 2);
        together(&fixture, vec![writes_on(), looks_at_the_record()]);
        fixture.settle();
        assert_sealed(&fixture, "a.txt", ALL);
        assert_eq!(fixture.record("a.txt").unwrap().generation, 2);
    });
}

#[test]
fn what_is_closed_is_sealed_at_the_end_of_the_mount() {
    under_schedules(|| {
        let fixture = Arc::new(Fixture::new());
        fixture.put("a.txt", FIRST);
        together(&fixture, vec![writes_on(), Box::new(|fixture| drop(fixture.text("a.txt.tail")))]);
        fixture.fs.shut_down();
        assert_sealed(&fixture, "a.txt", ALL);
    });
}

#[test]
fn a_renamed_artifact_is_sealed_where_it_stands() {
    under_schedules(|| {
        let fixture = Arc::new(Fixture::new());
        let closes = makes(&fixture);
        let renames: Work = Box::new(|fixture| {
            fixture.rename("a.txt", "b.txt", RenameMode::Replace).unwrap();
        });
        let looks: Work = Box::new(|fixture| drop(fixture.read("a.txt.summary")));
        together(&fixture, vec![closes, renames, looks]);
        fixture.settle();
        assert_sealed(&fixture, "b.txt", ALL);
        assert_eq!(fixture.record("a.txt"), None);
    });
}

#[test]
fn a_removed_artifact_leaves_no_record() {
    under_schedules(|| {
        let fixture = Arc::new(Fixture::new());
        let closes = makes(&fixture);
        let removes: Work = Box::new(|fixture| fixture.unlink("a.txt").unwrap());
        together(&fixture, vec![closes, removes]);
        fixture.settle();
        assert_eq!(fixture.record("a.txt"), None);
    });
}

/// The artifact of the first writer may or may not have been sealed between the two writers.
#[test]
fn a_writer_that_comes_back_begins_anew() {
    under_schedules(|| {
        let options =
            EngineOptions { max_artifact: Some(ALL.len() as u64), ..EngineOptions::default() };
        let fixture = Arc::new(Fixture::with(options));
        let fh = fixture.create("a.txt", libc::O_WRONLY).unwrap();
        assert_eq!(errno(fixture.write(fh, 0, &[b'x'; 100])), libc::EFBIG);
        fixture.close(fh);
        let ino = fixture.ino("a.txt");
        let fh = fixture.open(ino, libc::O_WRONLY).unwrap().fh;
        fixture.write(fh, 0, ALL).unwrap();
        fixture.close(fh);
        fixture.settle();
        assert_sealed(&fixture, "a.txt", ALL);
    });
}

/// If the version of a file went back, a view would become stale twice in a row, but the kernel
/// looks a name up again only once.
#[test]
fn the_facts_about_a_file_never_go_back() {
    under_schedules(|| {
        let fixture = Arc::new(Fixture::new());
        let ino = fixture.put("a.txt", FIRST);
        fixture.settle();
        let sealed = facts_of(&fixture, ino);
        let reopens: Work = Box::new(move |fixture| {
            let fh = fixture.open(ino, libc::O_WRONLY).unwrap().fh;
            fixture.close(fh);
        });
        let looks: Work = Box::new(move |fixture| {
            let seen: Vec<u64> = (0..6).map(|_| facts_of(fixture, ino)).collect();
            let later = seen.iter().skip_while(|facts| **facts == sealed);
            assert!(later.copied().all(|facts| facts != sealed), "{seen:?}");
        });
        together(&fixture, vec![reopens, looks]);
        fixture.settle();
        assert_ne!(facts_of(&fixture, ino), sealed);
    });
}

/// Returns the facts version of a file as if its last change was long ago.
fn facts_of(fixture: &Fixture, ino: Ino) -> u64 {
    let node = fixture.fs.0.nodes.get(ino).unwrap();
    let file = node.as_file().unwrap();
    let stat = Stat { ctime: Time { seconds: 100, nanos: 0 }, ..file.stat().unwrap() };
    Source::present(fixture.fs.engine(), Arc::clone(file) as _, &stat, 0).unwrap().1.facts
}
