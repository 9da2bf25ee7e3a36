//! Random schedules, and single scenarios that once failed.

use std::panic;

use crate::replica::tests::world::World;

/// Default number of schedules. The variable `CTXFS_REPLICA_SCHEDULES` sets another number. Seeds
/// start with 0.
const SCHEDULES: u64 = 2_000;

#[test]
fn hosts_agree_and_lose_nothing() {
    run_all("CTXFS_REPLICA_SCHEDULE", |seed| World::new(seed, false));
}

#[test]
fn hosts_that_are_restored_from_copies_agree_and_lose_nothing() {
    run_all("CTXFS_REPLICA_COPIES", |seed| World::new(seed, false).copying());
}

#[test]
fn hosts_whose_bucket_loses_segments_delete_nothing_that_lives() {
    run_all("CTXFS_REPLICA_LOSSES", |seed| World::new(seed, false).losing());
}

fn run_all(one: &str, world: impl Fn(u64) -> World + panic::RefUnwindSafe) {
    let asked = std::env::var("CTXFS_REPLICA_SCHEDULES").ok();
    let count = asked.and_then(|count| count.parse().ok()).unwrap_or(SCHEDULES);
    for seed in 0..count {
        let run = panic::catch_unwind(|| world(seed).run());
        assert!(run.is_ok(), "schedule {seed} fails: {one}={seed} shows its steps");
    }
}

#[test]
fn one_schedule() {
    let asked = |one: &str| -> Option<u64> { std::env::var(one).ok()?.parse().ok() };
    if let Some(seed) = asked("CTXFS_REPLICA_SCHEDULE") {
        World::new(seed, true).run();
    }
    if let Some(seed) = asked("CTXFS_REPLICA_COPIES") {
        World::new(seed, true).copying().run();
    }
    if let Some(seed) = asked("CTXFS_REPLICA_LOSSES") {
        World::new(seed, true).losing().run();
    }
}

/// Files that a host has from a copy of its store count as published, unless a user has written
/// them since.
#[test]
fn what_was_removed_stays_away_where_copies_are_restored() {
    for copies in [false, true] {
        let world = || if copies { World::new(0, false).copying() } else { World::new(0, false) };
        assert_eq!(world().restored_after_a_removal(false), 0, "{copies}");
        assert_eq!(world().restored_after_a_removal(true), 1, "{copies}");
    }
}

/// A restored host builds a different segment with a name that a merge covers and whose segment is
/// deleted. The new segment counts as not sent.
#[test]
fn what_is_covered_is_another_segment() {
    World::new(47_333, false).run();
    for seed in 0..100 {
        World::new(seed, false).restored_before_it_wrote();
    }
}

/// A segment that was sent is recognized as sent, even after it was merged twice and deleted.
#[test]
fn what_is_covered_was_sent() {
    for seed in 0..100 {
        World::new(seed, false).restored_before_it_sent();
    }
}

/// If a host was killed before it recorded an artifact that it shows, the artifact does not count
/// as seen. A file that a user writes in its place does not replace it, so both stay. After the
/// artifact is recorded, the file replaces it.
#[test]
fn what_is_shown_and_not_noted_stays() {
    World::new(65_067, false).run();
    assert_eq!(World::new(0, false).killed_before_it_noted(false), 3);
    assert_eq!(World::new(0, false).killed_before_it_noted(true), 2);
}

/// Two hosts wrote the same bytes under one name. A user who removes one copy has not seen the
/// other, so the other stays. In contrast, a file that was downloaded, but not recorded before its
/// host was killed, is removed.
#[test]
fn the_same_bytes_are_not_removed_unseen() {
    World::new(68_077, false).run();
    assert_eq!(World::new(0, false).same_bytes(false), 1);
    assert_eq!(World::new(0, false).same_bytes(true), 0);
}

/// A host renames a file and then reverts that, and another host has renamed the file in the
/// meantime.
#[test]
fn what_was_renamed_back_was_not_renamed() {
    World::new(93_281, false).run();
}
