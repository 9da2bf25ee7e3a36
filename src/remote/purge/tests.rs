use super::*;
use crate::bucket::CONVERSATIONS;
use crate::bucket::Line;
use crate::bucket::SegmentHead;
use crate::bucket::lines;
use crate::bucket::unpack_member;
use crate::remote::files::tests::scene::TOOL;
use crate::remote::sync::tests::Host;
use crate::remote::sync::tests::deadline;
use crate::remote::sync::tests::two_hosts;

const SECRET: &str = "a secret that is not to be anywhere\n";

fn path(name: &str) -> RelPath {
    RelPath::from_text(&format!("{TOOL}/{name}.txt")).unwrap()
}

fn purge(host: &Host, name: &str, dry_run: bool) -> Purged {
    let conversation = Some(&*host.scene.conversation);
    let notes = host.notes();
    host.sync(|sync| sync.purge(&notes, conversation, &path(name), dry_run)).unwrap()
}

/// Returns the keys in the bucket.
fn keys(host: &Host) -> Vec<String> {
    let listed = host.bucket.list(CONVERSATIONS, None, deadline()).unwrap();
    listed.into_iter().map(|each| format!("{CONVERSATIONS}{}", each.name)).collect()
}

/// Returns the bytes of the small artifacts in a segment.
fn small_bytes(segment: &[u8]) -> Vec<u8> {
    let head = SegmentHead::read(segment).unwrap().unwrap();
    let frame = &segment[head.records_start as usize..head.records_end as usize];
    let records = head.records(frame).unwrap();
    let mut all = Vec::new();
    for line in lines(&head, &records) {
        if let Line::Put(put) = line.unwrap().1
            && let Some(range) = head.range_of(&put.place).unwrap()
        {
            let frame = &segment[range.start as usize..range.end as usize];
            all.extend(unpack_member(frame, put.place.size()).unwrap());
        }
    }
    all
}

/// Returns true if a segment has the secret, or there is an object: all have it.
fn has_secret(host: &Host) -> bool {
    keys(host).iter().any(|key| {
        let bytes = host.bucket.get(key, None, deadline()).unwrap();
        let in_segment =
            || memchr::memmem::find(&small_bytes(&bytes), SECRET.trim_end().as_bytes()).is_some();
        !key.ends_with(".tar.zst") || in_segment()
    })
}

fn filled() -> (Host, Host) {
    let (one, other) = two_hosts();
    one.scene.put("small", SECRET);
    one.scene.put("large", &SECRET.repeat(20_000));
    one.scene.put("other", "harmless\n");
    one.push();
    other.pull();
    (one, other)
}

#[test]
fn bytes_leave_the_bucket_and_others_stay() {
    let (one, other) = filled();
    let would = purge(&one, "small", true);
    assert!(would.artifacts == 1 && would.is_removed_here && !would.deletions.is_empty());
    assert!(has_secret(&one) && one.sight().len() == 3, "nothing was done");
    for name in ["small", "large"] {
        let purged = purge(&one, name, false);
        assert!(purged.artifacts == 1 && !purged.is_incomplete(), "{purged:?}");
    }
    assert!(!has_secret(&one));
    other.pull();
    assert_eq!(one.sight(), other.sight());
    assert_eq!(one.sight().into_keys().collect::<Vec<_>>(), [format!("{TOOL}/other.txt")]);
    assert!(one.push().segments.is_empty(), "it does not come back");
    assert_eq!(one.notes().purging().unwrap(), Purging::default());
}

#[test]
fn blocks_that_were_fetched_go_too() {
    let (one, _) = filled();
    let listed = keys(&one);
    let object = listed.iter().find(|key| key.contains("/objects/") && !key.ends_with("blocks"));
    let object = object.unwrap().rsplit('/').next().unwrap().trim_end_matches(".zst");
    let (block, table) = (format!("{object}-00000000"), format!("{object}.blocks"));
    let other = "0".repeat(32) + "-00000000";
    let blocks = || one.home.blocks(u64::MAX).unwrap();
    for name in [&block, &table, &other] {
        assert!(blocks().put(name, b"bytes"));
    }
    purge(&one, "large", true);
    assert!(blocks().get(&block).is_some(), "nothing was done");
    purge(&one, "large", false);
    assert!(blocks().get(&block).is_none() && blocks().get(&table).is_none());
    assert!(blocks().get(&other).is_some(), "it is of another object");
}

#[test]
fn what_was_replaced_or_removed_before_goes_too() {
    let (one, _) = filled();
    one.scene.put("small", "nothing of interest\n");
    one.push();
    std::fs::remove_file(one.scene.at(&format!("{TOOL}/large.txt"))).unwrap();
    one.push();
    for name in ["large", "small"] {
        let purged = purge(&one, name, false);
        assert!(purged.artifacts == 1 && !purged.is_incomplete(), "{purged:?}");
    }
    assert!(!has_secret(&one));
}

#[test]
fn objects_that_no_record_names_any_more_are_counted() {
    let (one, _) = filled();
    std::fs::remove_file(one.scene.at(&format!("{TOOL}/large.txt"))).unwrap();
    one.push();
    // A merge forgets what was removed.
    purge(&one, "small", false);
    let purged = purge(&one, "large", false);
    assert_eq!((purged.artifacts, purged.unnamed), (0, 1));
}

#[test]
fn a_purge_that_was_cut_off_goes_on() {
    let (one, _) = filled();
    let notes = one.notes();
    let found = pieces(&notes).unwrap().pieces;
    let base = notes.agreement().unwrap().base;
    let wanted = wanted(&found, &base, &path("large"), Purging::default());
    notes.keep_purging(&wanted).unwrap();
    std::fs::remove_file(one.scene.at(&format!("{TOOL}/large.txt"))).unwrap();
    one.push();
    let purged = purge(&one, "large", false);
    assert!(purged.artifacts == 1 && !purged.is_incomplete(), "{purged:?}");
    assert_eq!(one.notes().purging().unwrap(), Purging::default());
}

#[test]
fn what_nobody_published_is_not_known() {
    let (one, _) = filled();
    one.scene.put("here", "of this host alone\n");
    let purged = purge(&one, "here", false);
    assert!(purged.artifacts == 0 && !purged.is_removed_here);
    assert_eq!(one.sight().len(), 4);
}
