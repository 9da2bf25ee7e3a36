use super::*;
use crate::remote::files::tests::scene::soon;
use crate::remote::sync::tests::{Host, two_hosts};

fn of(host: &Host) -> SyncStatus {
    let conversation = Some(&*host.scene.conversation);
    standing(conversation, &host.notes(), host.scene.store.clock()).unwrap()
}

#[test]
fn what_is_not_sent_is_counted() {
    let (one, other) = two_hosts();
    assert!(of(&one).is_sent() && of(&one).looked.is_none());
    one.scene.put("a", "12345\n");
    one.scene.put("b", "1\n");
    let before = soon(|| Some(of(&one)).filter(|standing| standing.live == 0));
    assert_eq!((before.files, before.bytes, before.live), (2, 8, 0));
    assert!(before.oldest.is_some() && !before.is_sent());
    one.push();
    let after = of(&one);
    assert!(after.is_sent() && after.segments == 1 && after.looked.is_some(), "{after:?}");
    other.pull();
    assert!(of(&other).is_sent(), "what came is nothing new");
    let gone = standing(None, &one.notes(), one.scene.store.clock()).unwrap();
    assert_eq!((gone.others, gone.files), (2, 0), "a conversation that is gone was removed");
}
