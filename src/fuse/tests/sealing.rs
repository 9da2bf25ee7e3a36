//! The order in which the sealing thread does its jobs, and the cost of the jobs.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::time::Duration;

use super::fixture::{Fixture, ME};
use super::redaction;
use crate::node::Node;
use crate::seal_queue::{SealJob, Sealer};
use crate::{Fh, Ino, OpenMode, Result, write_once};
use ctxfs_engine::EngineOptions;
use ctxfs_engine::patience::promptly;
use ctxfs_engine::sync::{mpsc, now, thread};

/// Creates a file in a conversation and returns its node.
fn node(fixture: &Fixture, conversation: &str, name: &str) -> Arc<Node> {
    fixture.fs.mkdir(Ino::ROOT, OsStr::new(conversation), 0o700, ME).ok();
    let dir = fixture.find(&format!("{conversation}/artifacts/tool")).unwrap().attr.ino;
    let mode = OpenMode { flags: libc::O_WRONLY };
    let (entry, opened) = fixture.fs.create(dir, OsStr::new(name), 0o600, mode, ME).unwrap();
    fixture.close(opened.fh);
    fixture.fs.0.nodes.get(entry.attr.ino).unwrap()
}

fn seal(node: &Arc<Node>) -> SealJob {
    SealJob::Seal(Arc::clone(node))
}

/// Takes the next due job and returns the inode number of its node.
fn next(queue: &Sealer) -> Ino {
    queue.next().expect("it is not closed").0.node().ino
}

#[test]
fn conversations_take_turns_to_be_sealed() {
    let (fixture, queue) = (Fixture::new(), Sealer::default());
    let many: Vec<_> = (0..300).map(|n| node(&fixture, "many", &format!("{n}.txt"))).collect();
    let (few, other) = (node(&fixture, "few", "x.txt"), node(&fixture, "other", "x.txt"));
    for node in &many {
        queue.submit(seal(node));
    }
    queue.submit(seal(&few));
    queue.submit(seal(&other));
    let order = [next(&queue), next(&queue), next(&queue), next(&queue)];
    assert_eq!(order, [many[0].ino, few.ino, other.ino, many[1].ino]);
}

#[test]
fn what_has_not_begun_comes_first_and_what_has_is_not_forgotten() {
    let (fixture, queue) = (Fixture::new(), Sealer::default());
    let large: Vec<_> = (0..300).map(|n| node(&fixture, "c2", &format!("{n}.bin"))).collect();
    for node in &large {
        queue.submit_again(seal(node));
    }
    let small: Vec<_> = (0..100).map(|n| node(&fixture, "c2", &format!("{n}.txt"))).collect();
    for node in &small {
        queue.submit(seal(node));
    }
    let order: Vec<Ino> = (0..102).map(|_| next(&queue)).collect();
    assert_eq!(order[0], small[0].ino);
    let begun = order.iter().filter(|ino| large.iter().any(|node| node.ino == **ino)).count();
    assert!((2..20).contains(&begun), "{begun} of the large ones");
}

#[test]
fn a_file_that_is_closed_again_and_again_has_one_job() {
    let (fixture, queue) = (Fixture::new(), Sealer::default());
    let (again, other) = (node(&fixture, "c2", "a.txt"), node(&fixture, "c2", "b.txt"));
    for _ in 0..1000 {
        queue.submit(SealJob::NoteLive(Arc::clone(&again)));
        queue.submit(seal(&again));
        queue.submit_later(Duration::from_hours(1), seal(&again));
    }
    queue.submit(seal(&other));
    assert_eq!(queue.waiting(), 4);
    assert_eq!([next(&queue), next(&queue), next(&queue)], [again.ino, again.ino, other.ino]);
    queue.submit(seal(&again));
    assert_eq!(next(&queue), again.ino, "it was closed after the job began");
}

#[test]
fn a_conversation_that_is_held_pauses_alone() {
    let (fixture, queue) = (Fixture::new(), Sealer::default());
    let held: Vec<_> = (0..3).map(|n| node(&fixture, "held", &format!("{n}.txt"))).collect();
    let other = node(&fixture, "other", "x.txt");
    queue.submit(seal(&held[1]));
    queue.hold(Duration::from_millis(20), seal(&held[0]));
    queue.submit(seal(&held[2]));
    queue.submit(seal(&other));
    assert_eq!(next(&queue), other.ino);
    let order = [next(&queue), next(&queue), next(&queue)];
    assert_eq!(order, [held[1].ino, held[2].ino, held[0].ino], "after the pause");
}

#[test]
fn so_many_jobs_that_no_more_files_are_written() {
    let (fixture, queue) = (Fixture::new(), Sealer::default());
    let whom = node(&fixture, "c2", "x.txt").conversation();
    for number in 0..16_384 / 4 {
        queue.check_backlog(&whom).unwrap();
        let node = node(&fixture, "c2", &format!("{number}.txt"));
        queue.submit(SealJob::NoteLive(Arc::clone(&node)));
        queue.submit(SealJob::Follow(Arc::clone(&node)));
        queue.submit(SealJob::Analyse(Arc::clone(&node)));
        queue.submit(seal(&node));
    }
    assert!(queue.check_backlog(&whom).unwrap_err().must_wait());
    queue.check_backlog(&node(&fixture, "c3", "x.txt").conversation()).unwrap();
}

/// Opens a file for writing. Returns the result and the name of the thread that delivers it.
fn answer(fixture: &Fixture, ino: Ino) -> (Result<Fh>, String) {
    let (send, receive) = mpsc::channel();
    fixture.fs.open(ino, OpenMode { flags: libc::O_WRONLY }, ME, move |opened| {
        let name = std::thread::current().name().unwrap_or_default().to_owned();
        send.send((opened.map(|opened| opened.fh), name)).unwrap();
    });
    receive.recv().unwrap()
}

#[test]
fn no_thread_waits_for_the_end_of_a_close() {
    let once = EngineOptions { write_once: true, ..EngineOptions::default() };
    let fixture = Fixture::with(once);
    let fh = fixture.create("a.txt", libc::O_WRONLY).unwrap();
    let ino = fixture.ino("a.txt");
    fixture.fs.flush(fh, ME, None).unwrap();
    // Another descriptor is still open, which shows only after a while.
    let (opened, thread) = answer(&fixture, ino);
    assert_eq!(thread, "ctxfs-wait");
    fixture.close(opened.unwrap());
    fixture.fs.release(fh).unwrap();
    let (opened, thread) = answer(&fixture, ino);
    assert_eq!(opened.unwrap_err().errno().0, libc::EPERM);
    assert_ne!(thread, "ctxfs-wait");
}

/// On a busy machine, an open may be served long after the client requested it, and the preceding
/// release even later.
#[test]
fn an_open_that_is_served_late_waits_for_the_end_of_a_close() {
    let once = EngineOptions { write_once: true, ..EngineOptions::default() };
    let fixture = Fixture::with(once);
    let fh = fixture.create("a.txt", libc::O_WRONLY).unwrap();
    let node = fixture.fs.0.nodes.get(fixture.ino("a.txt")).unwrap();
    let check = |asked| {
        let file = node.as_file().unwrap();
        promptly(asked, || write_once::check(&fixture.fs.0, file))
    };
    fixture.fs.flush(fh, ME, None).unwrap();
    let asked = now();
    thread::sleep(Duration::from_millis(60));
    assert!(check(asked).unwrap_err().must_wait());
    let long_ago = asked.checked_sub(Duration::from_secs(2)).unwrap();
    assert!(check(long_ago).is_ok(), "it has waited: another descriptor is left");
    fixture.fs.release(fh).unwrap();
    assert_eq!(check(long_ago).unwrap_err().errno().0, libc::EPERM);
}

/// Masking a terabyte of zeros would take minutes.
#[test]
fn holes_are_not_searched_for_secrets() {
    const KEY: &str = concat!("AKI", "AQYLPMN5HHHFPZAM2");
    const END: u64 = 1 << 40;
    let fixture = redaction::fixture(true);
    let fh = fixture.create("a.bin", libc::O_WRONLY).unwrap();
    let offsets = [0, END / 2 - 7, END - 100];
    for offset in offsets {
        fixture.write(fh, offset, format!(" {KEY} ").as_bytes()).unwrap();
    }
    fixture.close(fh);
    let plain = fs::File::open(fixture.plain("a.bin")).unwrap();
    let is_masked = |offset: &u64| {
        let mut bytes = [0; 21];
        plain.read_exact_at(&mut bytes, *offset).unwrap();
        bytes.starts_with(b" [redacted")
    };
    let record = || fixture.record("a.bin").filter(|record| record.owner.is_none());
    for _ in 0..20_000 {
        if record().is_some() {
            break;
        }
        thread::sleep(Duration::from_millis(1));
    }
    assert!(record().is_some_and(|record| record.size > END - 100), "it is sealed");
    assert!(offsets.iter().all(is_masked));
}
