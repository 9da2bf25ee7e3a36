use std::fs;
use std::fs::OpenOptions;
use std::io::Write as _;

use super::*;
use crate::remote::tests::host::TestHost;
use crate::replica::{Entry, FileKey, FileVersion, WriterId};

const AGREEMENT: &str = "agreement.jsonl";

fn segment(number: u64) -> SegmentId {
    SegmentId { writer: WriterId(7), number }
}

fn entry(number: u64) -> Entry {
    let origins = vec![Origin { segment: segment(number), place: 0 }];
    // All paths are hard links to one file.
    let key = FileKey::Local { inode: 1, born: 2 };
    let version = FileVersion { size: 3, modified: 4 };
    let digest = "d".repeat(64).into();
    Entry { path: format!("x{number}"), asked: None, origins, key, version, digest }
}

fn agreement(numbers: std::ops::Range<u64>) -> Agreement {
    let mut agreement = Agreement { writer: Some(WriterId(7)), ..Agreement::default() };
    agreement.base.entries = numbers.map(entry).collect();
    agreement.clock.see(Stamp(99));
    agreement
}

fn append(notes: &Notes, text: &str) {
    let file = OpenOptions::new().append(true).open(notes.dir.path.join(AGREEMENT));
    file.unwrap().write_all(text.as_bytes()).unwrap();
}

#[test]
fn an_agreement_is_read_as_it_was_saved() {
    let host = TestHost::new();
    let notes = &host.notes;
    assert_eq!(notes.agreement().unwrap(), Agreement::default());
    let (first, mut second) = (agreement(1..5), agreement(3..9));
    notes.save(&Agreement::default(), &first).unwrap();
    assert_eq!(notes.agreement().unwrap(), first);
    second.base.entries[0].path = "other".to_owned();
    (second.next, second.messages.offset) = (12, 77);
    notes.save(&first, &second).unwrap();
    assert_eq!(notes.agreement().unwrap(), second);
    assert_eq!(
        fs::read_to_string(notes.dir.path.join(AGREEMENT)).unwrap().lines().count(),
        4 + 1 + 1
    );
}

/// A segment that only adds files is added without reading the entries.
#[test]
fn what_is_only_added_is_appended() {
    let host = TestHost::new();
    let notes = &host.notes;
    let accepted = Accepted { puts: vec![entry(9)], ..Accepted::default() };
    let intent = Intent {
        segment: segment(9),
        accepted,
        messages: None,
        stamp: Stamp(200),
        since: Moment::default(),
        digest: String::new(),
    };
    assert!(!append_sent(notes, &intent).unwrap(), "there is no file yet");
    let before = Agreement { unshared: [(5, 6)].into(), ..agreement(1..5) };
    notes.save(&Agreement::default(), &before).unwrap();
    let mut expected = before;
    expected.base.entries.push(entry(9));
    (expected.next, expected.messages) = (10, LogPosition::default());
    expected.clock.see(Stamp(200));
    assert!(append_sent(notes, &intent).unwrap());
    assert_eq!(notes.agreement().unwrap(), expected);
    let removed = [Origin { segment: segment(1), place: 0 }].into();
    let accepted = Accepted { removed, ..intent.accepted.clone() };
    assert!(
        !append_sent(notes, &Intent { accepted, ..intent.clone() }).unwrap(),
        "it removes something"
    );
    append(notes, "{\"at\":");
    assert!(!append_sent(notes, &intent).unwrap(), "a line is cut off");
    assert_eq!(notes.agreement().unwrap(), expected);
}

#[test]
fn the_end_of_the_file_tells_how_far_this_host_has_come() {
    let host = TestHost::new();
    let notes = &host.notes;
    let progress = || notes.progress().map(|now| (now.writer, now.next, now.stamp)).unwrap();
    assert_eq!(progress(), (None, 1, Stamp(0)));
    let mut before = Agreement::default();
    for (next, numbers) in [(2, 1..2), (3, 1..5), (4, 1..3000)] {
        let after = Agreement { next, ..agreement(numbers) };
        notes.save(&before, &after).unwrap();
        assert_eq!(progress(), (Some(WriterId(7)), next, Stamp(99)));
        before = after;
    }
    let text = fs::read_to_string(notes.dir.path.join(AGREEMENT)).unwrap();
    assert!(text.lines().last().unwrap().len() < 1000 && text.len() > 100_000);
    append(notes, "{");
    notes.see(Stamp(98)).unwrap();
    assert_eq!(progress(), (Some(WriterId(7)), 4, Stamp(99)));
    notes.see(Stamp(100)).unwrap();
    assert_eq!(progress(), (Some(WriterId(7)), 4, Stamp(100)));
    assert_eq!(notes.agreement().unwrap().base, before.base);
}

#[test]
fn a_line_that_is_cut_off_does_not_count() {
    let host = TestHost::new();
    let notes = &host.notes;
    let (first, second) = (agreement(1..3), agreement(1..4));
    notes.save(&Agreement::default(), &first).unwrap();
    for torn in ["{", "\0\0\0"] {
        append(notes, torn);
        assert_eq!(notes.agreement().unwrap(), first);
    }
    notes.save(&first, &second).unwrap();
    assert_eq!(notes.agreement().unwrap(), second);
    append(notes, "{\n");
    let error = notes.agreement().unwrap_err();
    assert!(matches!(error, RemoteError::Damaged { .. }), "{error}");
}

#[test]
fn a_file_of_old_lines_is_written_anew() {
    let host = TestHost::new();
    let mut before = Agreement::default();
    let mut largest = 0;
    for number in 1..200 {
        let mut after = agreement(number..number + 1);
        after.base.entries[0].path = "x".repeat(4000);
        host.notes.save(&before, &after).unwrap();
        before = after;
        largest = largest.max(fs::metadata(host.notes.dir.path.join(AGREEMENT)).unwrap().len());
    }
    let length = fs::metadata(host.notes.dir.path.join(AGREEMENT)).unwrap().len();
    assert!(length < largest && largest < 400_000, "{length} {largest}");
    assert_eq!(host.notes.agreement().unwrap(), before);
}

#[test]
fn an_intent_counts_with_its_bytes_alone() {
    let host = TestHost::new();
    let notes = &host.notes;
    let intent = Intent {
        segment: segment(1),
        accepted: Accepted::default(),
        messages: Some(LogPosition { inode: 1, born: -2, offset: 3, chain: 4 }),
        stamp: Stamp(5),
        since: Moment { wall: 1, boot: "b".to_owned(), uptime: 2 },
        digest: blake3::hash(b"bytes").to_hex().to_string(),
    };
    assert_eq!(notes.intent().unwrap(), None);
    notes.keep_intent(&intent, b"bytes").unwrap();
    assert_eq!(notes.intent().unwrap(), Some((intent.clone(), b"bytes".to_vec())));
    fs::write(notes.dir.path.join("intent.tar.zst"), "byte").unwrap();
    assert_eq!(notes.intent().unwrap(), None);
    notes.keep_intent(&intent, b"bytes").unwrap();
    notes.drop_intent().unwrap();
    notes.drop_intent().unwrap();
    assert_eq!(notes.intent().unwrap(), None);
}

#[test]
fn the_last_look_has_a_time() {
    let host = TestHost::new();
    assert_eq!(host.notes.looked().unwrap(), None);
    host.notes.keep_look().unwrap();
    let age = host.notes.looked().unwrap().unwrap().age();
    assert!(age.is_none_or(|age| age.as_secs() < 600));
}

#[test]
fn what_is_no_segment_is_passed_over() {
    let host = TestHost::new();
    host.notes.keep_segment(segment(2), b"damaged").unwrap();
    host.notes.refuse_segment(segment(3), "why").unwrap();
    fs::write(host.notes.dir.path.join("log").join("x.tar.zst"), "").unwrap();
    assert_eq!(host.notes.segments().unwrap(), [segment(2)]);
    assert_eq!(host.notes.refused().unwrap(), [segment(3)]);
    assert_eq!(host.notes.refusal(segment(3)).unwrap(), "why");
    assert!(matches!(host.notes.open_segment(segment(2)), Err(RemoteError::Segment { .. })));
    host.notes.forget_segment(segment(2)).unwrap();
    host.notes.forget_segment(segment(3)).unwrap();
    assert!(host.notes.segments().unwrap().is_empty() && host.notes.refused().unwrap().is_empty());
}
