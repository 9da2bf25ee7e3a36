use std::time::Duration;

use super::*;
use crate::bucket::objects_prefix;
use crate::remote::tests::bucket::{TestBucket, soon};
use crate::remote::tests::host::{TestHost, path};
use crate::replica::WriterId;

fn names(bucket: &TestBucket, host: &TestHost) -> Vec<String> {
    bucket.names(&log_prefix(host.notes.conversation()))
}

fn key(host: &TestHost, id: SegmentId) -> String {
    segment_key(host.notes.conversation(), id)
}

/// Returns bytes that cannot be compressed.
fn noise(count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    blake3::Hasher::new().update(b"noise").finalize_xof().fill(&mut bytes);
    bytes
}

#[test]
fn what_is_new_comes_with_one_list() {
    let (bucket, mut writer, reader) = (TestBucket::new(), TestHost::new(), TestHost::new());
    for name in ["a", "b"] {
        writer.write(name, name);
        writer.push_all(&bucket);
    }
    bucket.made();
    let looked = reader.look(&bucket);
    assert_eq!(bucket.made(), ["list", "get", "get"]);
    assert_eq!((looked.new.len(), looked.segments.len()), (2, 2));
    assert_eq!(reader.living(), writer.own());
    assert!(reader.look(&bucket).new.is_empty());
    assert_eq!(bucket.made(), ["list"]);
    assert!(writer.look(&bucket).new.is_empty(), "its own are kept when they are sent");
}

#[test]
fn of_a_large_segment_the_records_come() {
    let (bucket, mut writer, reader) = (TestBucket::new(), TestHost::new(), TestHost::new());
    for number in 0..12 {
        writer.write(&number.to_string(), &noise(200_000 + number)[number..]);
    }
    writer.push_all(&bucket);
    bucket.made();
    let id = reader.look(&bucket).new[0];
    assert_eq!(bucket.made(), ["list", "get"]);
    let head = reader.notes.head(id).unwrap();
    assert_eq!(reader.notes.segment_bytes(id).unwrap().len() as u64, head.records_end);
    assert_eq!(reader.living(), writer.own());
}

#[test]
fn what_came_before_a_failure_is_kept() {
    let (bucket, mut writer, reader) = (TestBucket::new(), TestHost::new(), TestHost::new());
    for name in ["a", "b", "c"] {
        writer.write(name, name);
        writer.push_all(&bucket);
    }
    bucket.fail_after(2, false);
    assert!(look(&bucket, &reader.notes, &soon).is_err());
    assert_eq!(reader.notes.segments().unwrap().len(), 1);
    assert_eq!(reader.notes.looked().unwrap(), None);
    bucket.work();
    assert_eq!(reader.look(&bucket).new.len(), 2);
    assert!(reader.notes.looked().unwrap().is_some());
}

/// What arrived before the process ended, or before the bucket failed, need not come again.
#[test]
fn many_segments_come_in_several_looks() {
    let (bucket, mut writer, reader) = (TestBucket::new(), TestHost::new(), TestHost::new());
    for number in 0..BATCH + 2 {
        writer.write(&number.to_string(), "x");
        writer.push_all(&bucket);
    }
    bucket.fail_after(1 + BATCH, false);
    assert!(look(&bucket, &reader.notes, &soon).is_err());
    assert_eq!(reader.notes.segments().unwrap().len(), BATCH);
    bucket.work();
    assert_eq!(reader.look(&bucket).new.len(), 2);
    assert_eq!(reader.living(), writer.own());
}

/// A merge is later than what it covers, so it comes first.
#[test]
fn what_a_merge_covers_is_not_fetched() {
    let (bucket, mut writer, reader) = (TestBucket::new(), TestHost::new(), TestHost::new());
    for number in 0..2 * BATCH {
        writer.write(&number.to_string(), "x");
        writer.push_all(&bucket);
    }
    bucket.pass(Duration::from_mins(1));
    let all = writer.pieces();
    let part = all.iter().map(|piece| piece.id).collect();
    let mut pushed = crate::remote::Pushed::default();
    let is_done = writer.pushing(&bucket, |push, session| {
        push.merge_part(&all, &part, session, &mut pushed).unwrap()
    });
    assert!(is_done);
    bucket.made();
    let looked = reader.look(&bucket);
    assert_eq!(looked.segments.len(), 2 * BATCH + 1);
    assert_eq!(bucket.made().len(), 1 + FIRST_BATCH, "a list, and one batch");
    assert_eq!(reader.living(), writer.own());
}

/// Names that are known here may be skipped in lists. They count neither as missing nor as gone.
#[test]
fn known_names_may_be_skipped() {
    let (bucket, mut writer, reader) = (TestBucket::new(), TestHost::new(), TestHost::new());
    for name in ["a", "b", "c"] {
        writer.write(name, name);
        writer.push_all(&bucket);
    }
    reader.look(&bucket);
    writer.write("d", "d");
    writer.push_all(&bucket);
    bucket.skip();
    let looked = look_at_news(&bucket, &reader.notes, &soon).unwrap();
    assert_eq!(looked.segments.len(), 2, "the first name, and the new one");
    assert_eq!(looked.there.len(), 4, "also those that were skipped");
    assert_eq!((looked.new.len(), &looked.missing, &looked.gaps), (1, &vec![], &vec![]));
    assert_eq!(reader.living(), writer.own());
    // What is not known is seen, whatever its number.
    let other = TestHost::new();
    other.look(&bucket);
    let second = other.notes.segments().unwrap()[1];
    other.notes.forget_segment(second).unwrap();
    let looked = look_at_news(&bucket, &other.notes, &soon).unwrap();
    assert_eq!(looked.new, [second]);
}

#[test]
fn what_is_damaged_is_refused_once() {
    let (bucket, mut writer, reader) = (TestBucket::new(), TestHost::new(), TestHost::new());
    writer.write("a", "a");
    writer.push_all(&bucket);
    let id = writer.notes.segments().unwrap()[0];
    bucket.replace(&key(&writer, id), b"no segment");
    let looked = reader.look(&bucket);
    assert!(looked.new.is_empty() && looked.refused[0].0 == id);
    assert_eq!(reader.look(&bucket).refused.len(), 0);
    assert_eq!(pieces(&reader.notes).unwrap().refused.len(), 1);
    bucket.delete(vec![key(&writer, id)], Deadline::after(Duration::from_secs(9)));
    reader.look(&bucket);
    assert_eq!(reader.notes.refused().unwrap(), []);
}

#[test]
fn what_came_is_not_read_again() {
    let (bucket, mut writer, reader) = (TestBucket::new(), TestHost::new(), TestHost::new());
    for number in 0..2 * 64 + 3 {
        writer.write(&number.to_string(), number.to_string());
        writer.push_all(&bucket);
    }
    let mut looked = reader.look(&bucket);
    assert_eq!(looked.pieces(&reader.notes).unwrap().pieces, reader.pieces());
    assert_eq!(reader.pieces().len(), 2 * 64 + 3);
    writer.write("last", "last");
    writer.push_all(&bucket);
    let mut looked = reader.look(&bucket);
    let id = looked.new[0];
    let head = reader.notes.head(id).unwrap();
    let mut bytes = reader.notes.segment_bytes(id).unwrap();
    bytes[head.records_start as usize..head.records_end as usize].fill(0);
    reader.notes.keep_segment(id, &bytes).unwrap();
    assert_eq!(pieces(&reader.notes).unwrap().refused.len(), 1, "on the disk it is damaged");
    let found = looked.pieces(&reader.notes).unwrap();
    assert!(found.refused.is_empty() && found.pieces.iter().any(|piece| piece.id == id));
}

#[test]
fn what_is_gone_and_not_covered_is_told() {
    let (bucket, mut writer, reader) = (TestBucket::new(), TestHost::new(), TestHost::new());
    writer.write("a", "a");
    writer.push_all(&bucket);
    reader.look(&bucket);
    let id = writer.notes.segments().unwrap()[0];
    bucket.delete(vec![key(&writer, id)], Deadline::after(Duration::from_secs(9)));
    let looked = writer.look(&bucket);
    assert_eq!((looked.lost, looked.missing), (vec![id], vec![]));
    let looked = reader.look(&bucket);
    assert_eq!((looked.lost, looked.missing), (vec![], vec![id]));
    assert_eq!(reader.living(), [(path("a"), writer.own()[0].1.clone())]);
}

#[test]
fn stamps_are_later_than_all_that_was_seen() {
    let (bucket, mut ahead, mut behind) = (TestBucket::new(), TestHost::new(), TestHost::new());
    ahead.pass(Duration::from_hours(1000));
    ahead.write("x", "first");
    ahead.push_all(&bucket);
    behind.look(&bucket);
    behind.write("x", "second");
    behind.push_all(&bucket);
    let own = behind.notes.agreement().unwrap().writer;
    let pieces = behind.pieces();
    let last = pieces.iter().find(|piece| Some(piece.id.writer) == own).unwrap();
    assert_eq!(Some(last.latest()), pieces.iter().map(Piece::latest).max());
    assert_eq!(pieces.len(), 2);
}

#[test]
fn a_look_leaves_objects_alone() {
    let (bucket, mut writer, reader) = (TestBucket::new(), TestHost::new(), TestHost::new());
    writer.write("large", vec![7; 300 << 10]);
    writer.push_all(&bucket);
    bucket.made();
    reader.look(&bucket);
    assert_eq!(bucket.made(), ["list", "get"]);
    assert_eq!(bucket.names(&objects_prefix(reader.notes.conversation())).len(), 2);
    assert_eq!(names(&bucket, &writer).len(), 1);
}

#[test]
fn of_many_records_some_come_at_once() {
    let writer = WriterId(7);
    let part = |number, bytes: u64| (SegmentId { writer, number }, Bytes::new(), 5..5 + bytes);
    let sizes = [10 << 20, 6 << 20, 1, 40 << 20, 1, 2];
    let mut parts = (1..).zip(sizes).map(|(number, bytes)| part(number, bytes)).peekable();
    let taken = std::iter::from_fn(|| {
        let taken = taken_at_once(&mut parts).len();
        (taken > 0).then_some(taken)
    });
    assert_eq!(taken.collect::<Vec<_>>(), [2, 1, 1, 2]);
}
