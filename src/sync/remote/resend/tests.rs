use super::*;
use crate::bucket::CONVERSATIONS;
use crate::remote::files::tests::scene::{Scene, TOOL, soon};
use crate::remote::sync::tests::{Host, deadline, two_hosts};
use crate::remote::tests::bucket::TestBucket;
use crate::remote::{Home, Moment, Objects as _};

fn filled() -> (Host, Host) {
    let (one, other) = two_hosts();
    one.scene.put("small", "few bytes\n");
    one.scene.put("large", &"a line of a log that is long\n".repeat(100_000));
    one.push();
    (one, other)
}

fn empty(host: &Host) {
    let listed = host.bucket.list(CONVERSATIONS, deadline()).unwrap();
    let keys = listed.iter().map(|each| format!("{CONVERSATIONS}{}", each.name)).collect();
    host.bucket.delete(keys, deadline());
}

fn resend(host: &Host) -> RepairReport {
    let looked = look(&host.bucket, &host.notes(), &deadline).unwrap();
    host.sync(|sync| sync.resend(&host.scene.conversation, &looked)).unwrap()
}

#[test]
fn what_the_bucket_lost_comes_back() {
    let (one, other) = filled();
    assert!(resend(&one).segments.is_empty(), "nothing is lost");
    empty(&one);
    let resent = resend(&one);
    assert_eq!((resent.segments.len(), resent.objects, resent.lost.len()), (1, 1, 0));
    other.pull();
    assert_eq!(other.sight(), one.sight());
    assert!(resend(&one).segments.is_empty(), "nothing is lost any more");
}

#[test]
fn bytes_that_nobody_has_any_more_are_named() {
    let (one, _) = filled();
    empty(&one);
    let large = format!("{TOOL}/large.txt");
    std::fs::remove_file(one.scene.at(&large)).unwrap();
    let resent = resend(&one);
    assert_eq!((resent.segments.len(), resent.lost), (1, vec![large]));
}

#[test]
fn what_others_wrote_meanwhile_is_compared() {
    let (scene, bucket) = (Scene::new(), TestBucket::new());
    scene.put("small", "few bytes\n");
    let id = bucket.found(false, deadline()).unwrap().id;
    let home = Home::open(&scene.store, id).unwrap();
    let lock = home.lock().unwrap().unwrap();
    let (store, now) = (&scene.store, &Moment::now);
    let sync =
        Synchronizer { store, bucket: &bucket, home: &home, lock: &lock, now, deadline: &deadline };
    let conversation = &scene.conversation;
    let segment = soon(|| sync.push(conversation).unwrap().segments.first().copied());
    let notes = home.conversation(conversation.id()).unwrap();
    let (key, good) =
        (segment_key(conversation.id(), segment), notes.segment_bytes(segment).unwrap());
    for (others, is_sent) in [(good.as_slice(), true), (&b"other bytes"[..], false)] {
        bucket.delete(vec![key.clone()], deadline());
        let looked = look(&bucket, &notes, &deadline).unwrap();
        bucket.take_before(&key, others);
        let resent = sync.resend(conversation, &looked).unwrap();
        assert_eq!(
            (resent.segments.len(), resent.taken.len()),
            (usize::from(is_sent), usize::from(!is_sent))
        );
    }
}
