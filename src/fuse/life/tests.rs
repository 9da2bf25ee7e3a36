//! Unit tests of `Life`, without a mount.

use std::time::{Duration, SystemTime};

use super::*;

fn stat(size: u64, seconds: i64) -> Stat {
    let time = Time { seconds, nanos: 0 };
    Stat { size, atime: time, mtime: time, ctime: time, ..Stat::imagined() }
}

fn record(generation: u64, state: ArtifactState) -> Record {
    Record { generation, state, ..Record::default() }
}

#[test]
fn a_life_begins_with_the_first_writer_and_is_sealed_after_the_last() {
    let mut life = Life::at_rest(&stat(0, 1));
    assert!(life.opened(false, None) && !life.opened(true, None));
    life.bytes.written(0, &stat(5, 2));
    let end = life.end();
    life.bytes.written(end, &stat(9, 3));
    assert_eq!((life.end(), life.bytes.changes, life.bytes.rewrites().own), (9, 2, 0));
    assert!(!life.closed(None) && life.closed(None));
    assert!(life.is_unsealed() && life.is_mapped() && !life.is_at_rest());
    life.sealed();
    assert!(life.is_at_rest() && !life.is_mapped());
    assert_eq!((life.take_uncounted(), life.take_uncounted()), (9, 0));
}

/// A mount may hold hundreds of thousands of files at rest.
#[test]
fn a_file_at_rest_holds_nothing_of_its_use() {
    let file = Arc::new(tempfile::tempfile().unwrap());
    let mut life = Life::at_rest(&stat(0, 1));
    life.remember(&file);
    life.opened(true, None);
    let end = life.end();
    life.bytes.written(end, &stat(9, 3));
    life.closing(Instant::now());
    life.closed(None);
    life.sealed();
    assert_eq!(life.take_uncounted(), 9);
    assert!(life.in_use.is_some(), "it is open");
    drop(file);
    life.rest();
    assert!(life.in_use.is_none() && life.any_open().is_none());
    assert_eq!((life.is_at_rest(), life.end(), life.take_uncounted()), (true, 9, 0));
    life.failed("why".to_owned());
    life.rest();
    assert!(!life.is_at_rest(), "what it may lack is not forgotten");
}

/// Cached pages from an earlier open stay valid as long as the file has not changed at all.
#[test]
fn pages_are_kept_while_no_change_can_hide() {
    let clock = FileClock::of_steps(Duration::from_hours(1));
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let (past, recent) = (stat(10, 1), stat(10, now.cast_signed()));
    let mut life = Life::at_rest(&recent);
    assert_eq!(life.opened_to_read(&recent, clock), Pages::None);
    assert_eq!(life.opened_to_read(&past, clock), Pages::New);
    assert_eq!(life.opened_to_read(&past, clock), Pages::Kept);
    assert_eq!(life.opened_to_read(&stat(10, 2), clock), Pages::New);
    life.noticed(&recent, clock);
    life.opened(false, None);
    life.bytes.written(0, &recent);
    let others = life.bytes.rewrites().others;
    life.noticed(&recent, clock);
    assert_eq!(life.bytes.rewrites().others, others, "this mount writes it");
    life.closed(None);
    life.noticed(&recent, clock);
    assert_eq!(life.bytes.rewrites().others, others + 1);
}

#[test]
fn each_life_is_a_generation() {
    let mut life = Life::at_rest(&stat(0, 1));
    life.opened(false, None);
    assert_eq!(life.bring_up(record(0, ArtifactState::Sealed), false).generation, 1);
    let live = life.noted_live(record(1, ArtifactState::Sealed)).unwrap();
    assert_eq!((live.generation, live.state), (1, ArtifactState::Live));
    life.closed(None);
    assert!(life.noted_live(record(1, ArtifactState::Live)).is_none(), "closed meanwhile");
    life.sealed();
    life.opened(false, None);
    assert_eq!(life.bring_up(record(1, ArtifactState::Sealed), true).generation, 2);
    life.closed(None);
    life.opened(false, None);
    assert_eq!(life.bring_up(record(1, ArtifactState::Sealed), true).generation, 3);
}

#[test]
fn overwriting_and_cutting_are_rewrites_and_growing_is_none() {
    let mut life = Life::at_rest(&stat(10, 1));
    life.bytes.written(10, &stat(12, 2));
    assert_eq!(life.bytes.rewrites().own, 0);
    life.bytes.written(3, &stat(12, 3));
    assert!(life.resized(&stat(4, 4)), "nobody writes: it is to be sealed");
    assert_eq!(life.bytes.rewrites().own, 2);
    assert!(life.resized(&stat(100, 5)));
    assert_eq!(life.bytes.rewrites().own, 2);
    life.sealed();
    assert_eq!(life.take_uncounted(), 96, "four bytes were there before");
}

#[test]
fn what_others_do_is_noticed_and_what_this_mount_does_is_not() {
    let mut life = Life::at_rest(&stat(10, 1));
    life.noticed(&stat(10, 1), FileClock::FINE);
    life.bytes.written(10, &stat(11, 2));
    life.bytes.left_as(&stat(11, 7));
    life.noticed(&stat(11, 7), FileClock::FINE);
    assert_eq!(life.bytes.rewrites().others, 0);
    life.noticed(&stat(12, 7), FileClock::FINE);
    life.noticed(&stat(12, 8), FileClock::FINE);
    assert_eq!((life.bytes.rewrites().others, life.end()), (2, 12));
}

#[test]
fn trouble_makes_a_record_incomplete_until_the_next_life() {
    let mut life = Life::at_rest(&stat(0, 1));
    life.opened(false, None);
    life.failed("no room".to_owned());
    let brought_up = life.bring_up(record(1, ArtifactState::Live), true);
    assert_eq!(brought_up.state, ArtifactState::Incomplete("no room".to_owned()));
    life.closed(None);
    life.opened(false, None);
    assert_eq!(life.bring_up(record(1, ArtifactState::Live), true).state, ArtifactState::Live);
}

#[test]
fn trouble_ends_when_nothing_is_left_of_the_artifact() {
    let mut life = Life::at_rest(&stat(0, 1));
    life.opened(false, None);
    life.bytes.written(0, &stat(10, 2));
    life.failed("the disk failed".to_owned());
    life.resized(&stat(5, 3));
    assert!(matches!(
        life.bring_up(record(1, ArtifactState::Live), true).state,
        ArtifactState::Incomplete(_)
    ));
    life.resized(&stat(0, 4));
    assert_eq!(life.bring_up(record(1, ArtifactState::Live), true).state, ArtifactState::Live);
}

#[test]
fn what_a_rename_asks_for_depends_on_writers_and_record() {
    let mut sealed = Life::at_rest(&stat(0, 1));
    assert_eq!(sealed.renamed(Some(&record(1, ArtifactState::Sealed))), AfterRename::Nothing);
    assert_eq!(sealed.renamed(None), AfterRename::Seal);
    let mut open = Life::at_rest(&stat(0, 1));
    open.opened(false, None);
    assert_eq!(open.renamed(None), AfterRename::NoteLive);
    assert_eq!(open.bring_up(record(4, ArtifactState::Sealed), true).generation, 5);
    assert!(!open.needs_record());
    open.closed(None);
    assert!(open.needs_record());
}

#[test]
fn what_is_masked_stays_so_until_it_is_written_again() {
    let mut life = Life::at_rest(&stat(100, 1));
    life.bytes.masked(100, Some(&stat(100, 2)));
    assert_eq!((life.bytes.redacted, life.bytes.rewrites().own), (100, 1));
    life.bytes.written(40, &stat(100, 3));
    assert_eq!(life.bytes.redacted, 40);
    life.unmapped();
    assert_eq!(life.bytes.redacted, 0);
}
