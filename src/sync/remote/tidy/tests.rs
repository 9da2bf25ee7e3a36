mod collect;
use super::*;
use crate::remote::sync::tests::two_hosts;

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
    let many = one.sync(|sync| sync.tidy_many(&id, GcMode::Delete)).unwrap();
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
