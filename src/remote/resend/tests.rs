use super::*;
use crate::bucket::CONVERSATIONS;
use crate::remote::files::tests::scene::TOOL;
use crate::remote::sync::tests::Host;
use crate::remote::sync::tests::deadline;
use crate::remote::sync::tests::two_hosts;

fn filled() -> (Host, Host) {
    let (one, other) = two_hosts();
    one.scene.put("small", "few bytes\n");
    one.scene.put("large", &"a line of a log that is long\n".repeat(100_000));
    one.push();
    (one, other)
}

fn empty(host: &Host) {
    let listed = host.bucket.list(CONVERSATIONS, None, deadline()).unwrap();
    let keys = listed.iter().map(|each| format!("{CONVERSATIONS}{}", each.name)).collect();
    host.bucket.delete(keys, deadline());
}

fn resend(host: &Host) -> Resent {
    let looked = look(&host.bucket, &host.notes(), deadline()).unwrap();
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
