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

/// Returns the names of the first block and of the table of the large artifact, and of a block of
/// another object.
fn block_names(host: &Host) -> [String; 3] {
    let listed = keys(host);
    let object = listed.iter().find(|key| key.contains("/objects/") && !key.ends_with("blocks"));
    let object = object.unwrap().rsplit('/').next().unwrap().trim_end_matches(".zst");
    let other = "0".repeat(32) + "-00000000";
    [format!("{object}-00000000"), format!("{object}.blocks"), other]
}

/// Returns which of these a host keeps.
fn kept(host: &Host, names: &[String; 3]) -> [bool; 3] {
    let blocks = host.home.blocks(u64::MAX).unwrap();
    names.each_ref().map(|name| blocks.get(name).is_some())
}

fn keep(host: &Host, names: &[String; 3]) {
    let blocks = host.home.blocks(u64::MAX).unwrap();
    assert!(names.iter().all(|name| blocks.put(name, b"bytes")));
}

#[test]
fn blocks_that_were_fetched_go_too() {
    let (one, _) = filled();
    let names = block_names(&one);
    keep(&one, &names);
    purge(&one, "large", true);
    assert_eq!(kept(&one, &names), [true; 3], "nothing was done");
    purge(&one, "large", false);
    assert_eq!(kept(&one, &names), [false, false, true]);
}

#[test]
fn other_hosts_lose_what_they_keep_of_it_when_they_look() {
    let (one, other) = filled();
    let names = block_names(&one);
    keep(&other, &names);
    for name in ["small", "large"] {
        purge(&one, name, false);
    }
    other.pull();
    assert_eq!(kept(&other, &names), [false, false, true]);
    let notes = other.notes();
    for id in notes.segments().unwrap() {
        let bytes = small_bytes(&notes.segment_bytes(id).unwrap());
        assert!(memchr::memmem::find(&bytes, SECRET.trim_end().as_bytes()).is_none());
    }
}

#[test]
fn blocks_of_what_was_removed_go_when_other_hosts_look() {
    let (one, other) = filled();
    let names = block_names(&one);
    keep(&other, &names);
    one.scene.put("small", "other words\n");
    one.push();
    other.pull();
    assert_eq!(kept(&other, &names), [true; 3], "it lives");
    std::fs::remove_file(one.scene.at(&format!("{TOOL}/large.txt"))).unwrap();
    one.push();
    other.pull();
    assert_eq!(kept(&other, &names), [false, false, true]);
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
