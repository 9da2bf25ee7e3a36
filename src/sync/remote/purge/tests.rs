use super::*;
use crate::bucket::Objects as _;
use crate::bucket::{CONVERSATIONS, Line, SegmentHead, unpack_member};
use crate::remote::files::tests::scene::TOOL;
use crate::remote::sync::tests::{Host, deadline, two_hosts};

const SECRET: &str = "a secret that is not to be anywhere\n";

fn path(name: &str) -> RelPath {
    RelPath::from_text(&format!("{TOOL}/{name}.txt")).unwrap()
}

fn purge(host: &Host, name: &str, dry_run: bool) -> PurgeReport {
    let conversation = Some(&*host.scene.conversation);
    let notes = host.notes();
    host.sync(|sync| sync.purge(&notes, conversation, &path(name), dry_run)).unwrap()
}

/// Returns all keys in the bucket.
fn keys(host: &Host) -> Vec<String> {
    let listed = host.bucket.list(CONVERSATIONS, deadline()).unwrap();
    listed.into_iter().map(|each| format!("{CONVERSATIONS}{}", each.name)).collect()
}

/// Returns the bytes of the small artifacts in a segment.
fn small_bytes(segment: &[u8]) -> Vec<u8> {
    let head = SegmentHead::read(segment).unwrap().unwrap();
    let frame = &segment[head.records_start as usize..head.records_end as usize];
    let records = head.records(frame).unwrap();
    let mut all = Vec::new();
    for line in head.lines(&records) {
        if let Line::Put(put) = line.unwrap().1
            && let Some(range) = head.range_of(&put.place).unwrap()
        {
            let frame = &segment[range.start as usize..range.end as usize];
            all.extend(unpack_member(frame, put.place.size()).unwrap());
        }
    }
    all
}

/// Returns true if a segment contains the secret, or if there is any object, because all objects
/// contain the secret.
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

/// Returns the names of three cached files: the first block and the table of the large artifact,
/// and a block of another object.
fn block_names(host: &Host) -> [String; 3] {
    let listed = keys(host);
    let object = listed.iter().find(|key| key.contains("/objects/") && !key.ends_with("blocks"));
    let object = object.unwrap().rsplit('/').next().unwrap().trim_end_matches(".zst");
    let other = "0".repeat(32) + "-00000000";
    [format!("{object}-00000000"), format!("{object}.blocks"), other]
}

/// Returns which of these files a host has.
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

/// Merges all segments of the bucket into one.
fn merge(host: &Host) {
    let notes = host.notes();
    let found = pieces(&notes).unwrap().pieces;
    let part = found.iter().map(|piece| piece.id).collect();
    let merged = host.sync(|sync| {
        let push = sync.pushing(&notes, &NoSource);
        push.merge_part(&found, &part, &mut Session::default(), &mut Pushed::default())
    });
    assert!(merged.unwrap());
}

fn remove(host: &Host, name: &str) {
    std::fs::remove_file(host.scene.at(&format!("{TOOL}/{name}.txt"))).unwrap();
    host.push();
}

#[test]
fn what_was_merged_away_goes_too() {
    let (one, other) = filled();
    remove(&one, "small");
    remove(&one, "large");
    merge(&one);
    // This host has never read the covered segments.
    let third = Host::beside(&other);
    for (host, name) in [(&third, "large"), (&one, "small")] {
        let purged = purge(host, name, false);
        assert!(!purged.is_incomplete() && purged.unnamed == 0, "{purged:?}");
    }
    assert!(!has_secret(&one));
    let again = purge(&one, "large", false);
    assert!(again.is_empty() && !again.is_incomplete(), "{again:?}");
}

#[test]
fn what_was_renamed_goes_with_its_names() {
    let (one, other) = filled();
    let at = |name: &str| one.scene.at(&format!("{TOOL}/{name}.txt"));
    std::fs::rename(at("small"), at("renamed")).unwrap();
    one.push();
    // No other host has seen this name.
    std::fs::rename(at("large"), at("again")).unwrap();
    for name in ["small", "large"] {
        let purged = purge(&one, name, false);
        assert!(purged.is_removed_here && !purged.is_incomplete(), "{purged:?}");
    }
    assert!(!has_secret(&one) && one.sight().len() == 1);
    assert!(one.push().segments.is_empty(), "it is not sent again under its other name");
    for piece in pieces(&one.notes()).unwrap().pieces {
        assert!(piece.moves.is_empty(), "a segment still has the name: {piece:?}");
    }
    other.pull();
    assert_eq!(one.sight(), other.sight());
}

#[test]
fn the_arguments_of_a_call_leave_the_records() {
    let (one, _) = two_hosts();
    one.scene.put("call", "harmless\n");
    let manifest = one.scene.store.root().join("context/c7/manifest.jsonl");
    let has = || std::fs::read_to_string(&manifest).unwrap().contains("call.txt");
    one.push();
    assert!(has());
    purge(&one, "call", false);
    let text = std::fs::read_to_string(&manifest).unwrap();
    assert!(!text.contains("\"digest\""), "the record is still there: {text}");
}

fn log_of_messages() -> RelPath {
    RelPath::from_text("history/messages.jsonl").unwrap()
}

fn say(host: &Host, lines: &[&str], in_place: bool) {
    let at = host.scene.at("history/messages.jsonl");
    let text: Vec<String> =
        lines.iter().map(|line| format!("{{\"content\":\"{line}\"}}\n")).collect();
    let text = text.concat();
    if in_place {
        std::fs::write(at, text).unwrap();
    } else {
        std::fs::create_dir_all(at.parent().unwrap()).unwrap();
        std::fs::write(at.with_extension("new"), text).unwrap();
        std::fs::rename(at.with_extension("new"), at).unwrap();
    }
}

/// Returns true if the records of a segment in the bucket contain the text.
fn is_told(host: &Host, text: &str) -> bool {
    let segments = keys(host).into_iter().filter(|key| key.ends_with(".tar.zst"));
    let mut segments = segments.map(|key| host.bucket.get(&key, None, deadline()).unwrap());
    segments.any(|segment| {
        let head = SegmentHead::read(&segment).unwrap().unwrap();
        let frame = &segment[head.records_start as usize..head.records_end as usize];
        String::from_utf8(head.records(frame).unwrap()).unwrap().contains(text)
    })
}

#[test]
fn messages_that_were_taken_out_of_the_log_leave_the_bucket() {
    for in_place in [false, true] {
        let (one, other) = two_hosts();
        say(&one, &["the secret", "hello"], false);
        one.push();
        other.pull();
        merge(&other);
        assert!(is_told(&one, "the secret"));
        let purge = |host: &Host| {
            let (notes, conversation) = (host.notes(), Some(&*host.scene.conversation));
            host.sync(|sync| sync.purge(&notes, conversation, &log_of_messages(), false)).unwrap()
        };
        assert!(purge(&one).is_empty(), "all of them live");
        say(&one, &["the [gone]", "hello"], in_place);
        let purged = purge(&one);
        assert!(purged.messages > 0 && !purged.is_incomplete(), "{in_place} {purged:?}");
        assert!(!is_told(&one, "the secret") && is_told(&one, "the [gone]"), "{in_place}");
        other.pull();
        assert_eq!(other.heard(), ["the [gone]", "hello"], "{in_place}");
        for id in other.notes().segments().unwrap() {
            let records = other.notes().open_segment(id).unwrap().records;
            assert!(!String::from_utf8(records).unwrap().contains("the secret"));
        }
    }
}

#[test]
fn a_segment_that_is_missing_makes_it_incomplete() {
    let (one, other) = filled();
    one.scene.put("second", "more\n");
    one.push();
    let first = one.notes().segments().unwrap()[0];
    let key = segment_key(one.scene.conversation.id(), first);
    one.bucket.delete(vec![key], deadline());
    let third = Host::beside(&other);
    let purged = purge(&third, "second", false);
    assert!(purged.is_incomplete() && purged.missing == [first], "{purged:?}");
}

#[test]
fn a_purge_that_was_cut_off_goes_on() {
    let (one, _) = filled();
    let notes = one.notes();
    let found = pieces(&notes).unwrap().pieces;
    let base = notes.agreement().unwrap().base;
    let wanted = one.sync(|sync| {
        let looked = look(sync.bucket, &notes, &deadline).unwrap();
        let known = KnownPieces::read(sync, &notes, &looked).unwrap();
        known.wanted(&base, &path("large"), Purging::default())
    });
    assert!(found.len() == 1 && !wanted.objects.is_empty());
    notes.keep_purging(Some(&wanted)).unwrap();
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
