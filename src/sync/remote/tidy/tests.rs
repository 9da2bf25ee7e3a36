mod collect;
use std::cell::Cell;
use std::fs;

use super::*;
use crate::remote::files::tests::scene::{TOOL, soon};
use crate::remote::sync::tests::{deadline, two_hosts};
use crate::remote::tests::bucket::TestBucket;

#[test]
fn many_segments_become_one_and_nothing_else_goes() {
    let (one, other) = two_hosts();
    let id = one.scene.conversation.id().clone();
    for number in 0..64 {
        one.scene.put(&number.to_string(), &format!("output {number}\n"));
        one.push();
    }
    let would = one.sync(|sync| sync.tidy(&id, GcMode::Look)).unwrap();
    assert_eq!((would.to_merge, would.merges.len(), would.deletions.len()), (64, 0, 0));
    let tidied = one.sync(|sync| sync.tidy(&id, GcMode::Delete)).unwrap();
    assert_eq!(tidied.merges.len(), 1);
    assert!(tidied.deletions.is_empty(), "what is covered stays for a day: {tidied:?}");
    other.pull();
    assert_eq!(other.sight(), one.sight());
    let many = one.sync(|sync| sync.tidy_due(&id, GcMode::Delete, true)).unwrap();
    assert!(many.is_none(), "those that are covered and still there are no reason");
    let again = one.sync(|sync| sync.tidy(&id, GcMode::Merge)).unwrap();
    assert!(again.merges.is_empty());
}

#[test]
fn a_conversation_that_nobody_has_is_tidy() {
    let (one, _) = two_hosts();
    let id = Component::new("absent").unwrap();
    let tidied = one.sync(|sync| sync.tidy(&id, GcMode::Delete)).unwrap();
    assert!(tidied.merges.is_empty() && tidied.deletions.is_empty());
}

/// The clock of the store tells the age of what was removed, and this host's how often it tidies.
#[test]
fn what_a_host_removed_leaves_within_a_week_or_so() {
    let ((one, _), bucket) = (two_hosts(), TestBucket::new());
    let (days, id) = (Cell::new(0), one.scene.conversation.id().clone());
    let now = || {
        let now = Moment::now();
        Moment { wall: now.wall + days.get() * 24 * HOUR, ..now }
    };
    let sync = Synchronizer {
        store: &one.scene.store,
        bucket: &bucket,
        home: &one.home,
        lock: &one.lock,
        now: &now,
        deadline: &deadline,
    };
    let push = || {
        soon(|| {
            let sent = sync.push(&one.scene.conversation).unwrap();
            sent.live.is_empty().then_some(())
        });
    };
    let tidied = |is_first| sync.tidy_due(&id, GcMode::Delete, is_first).unwrap();
    one.scene.put("small", "a secret\n");
    one.scene.put("large", &"large\n".repeat(100_000));
    push();
    assert!(tidied(true).is_none(), "nothing was removed");
    for name in ["small", "large"] {
        fs::remove_file(one.scene.at(&format!("{TOOL}/{name}.txt"))).unwrap();
    }
    push();
    assert!(tidied(false).is_none(), "there was nothing to tidy before");
    let early = tidied(true).unwrap();
    assert!(early.merges.is_empty() && early.deletions.is_empty(), "{early:?}");

    bucket.pass(Duration::from_hours(8 * 24));
    let blind = tidied(true).unwrap().blind;
    assert!(matches!(blind, Some(RemoteError::Clocks { .. })), "{blind:?}");
    days.set(8);
    bucket.answer_later(-2 * HOUR as i64);
    let blind = tidied(true).unwrap().blind;
    assert!(matches!(blind, Some(RemoteError::Clocks { .. })), "{blind:?}");
    bucket.answer_later(60_000);
    let late = tidied(true).unwrap();
    let keys: Vec<_> = late.deletions.iter().map(|each| each.key.as_str()).collect();
    assert_eq!(keys.len(), 3, "an object, its blocks, and the segment with the bytes: {keys:?}");
    assert!(late.deletions.iter().all(|each| matches!(each.outcome, Some(Ok(())))), "{keys:?}");
    assert!(tidied(false).is_none(), "once a day");
    bucket.pass(Duration::from_hours(3 * 24));
    days.set(11);
    assert!(tidied(false).is_some());
    assert!(tidied(true).is_none(), "all of it has left");
}
