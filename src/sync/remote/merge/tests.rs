use std::time::Duration;

use super::*;
use crate::bucket::{log_prefix, unpack_parts};
use crate::remote::tests::bucket::{TestBucket, soon};
use crate::remote::tests::host::TestHost;
use crate::remote::{Objects as _, pieces, store_now};

const ONE_DAY: Duration = Duration::from_hours(24);

fn count(bucket: &TestBucket, host: &TestHost) -> usize {
    bucket.names(&log_prefix(host.notes.conversation())).len()
}

fn merged(bucket: &TestBucket, host: &mut TestHost) -> Result<Pushed, RemoteError> {
    let looked = host.look(bucket);
    merged_after(&looked, bucket, host)
}

fn merged_after(
    looked: &LookReport,
    bucket: &TestBucket,
    host: &mut TestHost,
) -> Result<Pushed, RemoteError> {
    let found = pieces(&host.notes).unwrap();
    let stale = stale(&found.pieces, looked, None);
    host.pushing(bucket, |push, session| push.merge((looked, &found), stale, session))
}

/// Deletes the segments that are covered for long enough.
fn swept(bucket: &TestBucket, host: &mut TestHost) -> usize {
    let (looked, pieces) = (host.look(bucket), host.pieces());
    let now = store_now(bucket, host.notes.conversation(), soon()).unwrap();
    let (clock, none) = (StoreClock { now, is_exact: true }, BTreeSet::new());
    let useless = host.pushing(bucket, |push, _| push.to_sweep(&looked, &pieces, (clock, &none)));
    let useless = useless.unwrap();
    let prefix = log_prefix(host.notes.conversation());
    let keys = useless.iter().map(|listed| format!("{prefix}{}", listed.name)).collect();
    assert!(bucket.delete(keys, soon()).iter().all(|(_, outcome)| outcome.is_ok()));
    useless.len()
}

/// A host that has published many segments with records of all kinds.
fn filled(bucket: &TestBucket) -> TestHost {
    let mut host = TestHost::new();
    host.write("large.log", vec![b'x'; 300 << 10]);
    for number in 0..MANY {
        host.write(&number.to_string(), format!("bytes {number}"));
        host.source.messages.push(format!("{{\"m\":{number}}}"));
        host.push_all(bucket);
    }
    host.remove("3");
    host.rename("4", "moved");
    host.push_all(bucket);
    host
}

#[track_caller]
fn assert_shared(bucket: &TestBucket, host: &TestHost) {
    let reader = TestHost::new();
    reader.look(bucket);
    assert_eq!(reader.living(), host.own());
    assert_eq!(reader.told(), host.source.messages);
    for piece in reader.pieces() {
        let segment = reader.notes.open_segment(piece.id).unwrap();
        for claim in piece.artifacts.values().filter(|claim| claim.artifact.small) {
            let Line::Put(line) = segment.line(&claim.artifact.line).unwrap() else { panic!() };
            if let Some(parts) = &line.parts {
                let frame = segment.parts_frame(parts).unwrap().unwrap();
                unpack_parts(&frame, parts).unwrap();
                continue;
            }
            let bytes = segment.bytes(&line.place).unwrap().unwrap();
            assert_eq!(blake3::hash(&bytes).to_hex().as_str(), &*claim.digest);
        }
    }
}

#[test]
fn many_become_one_and_go_an_hour_later() {
    let bucket = TestBucket::new();
    let mut host = filled(&bucket);
    bucket.made();
    assert_eq!(merged(&bucket, &mut host).unwrap().segments.len(), 1);
    assert_eq!(bucket.made(), ["list", "create"]);
    assert_eq!(count(&bucket, &host), MANY + 2);
    assert_shared(&bucket, &host);
    assert_eq!(merged(&bucket, &mut host).unwrap().segments, [], "it is done");
    bucket.pass(Duration::from_mins(59));
    assert_eq!(swept(&bucket, &mut host), 0);
    bucket.pass(Duration::from_mins(2));
    assert_eq!(swept(&bucket, &mut host), MANY + 1);
    assert_shared(&bucket, &host);
    assert_eq!(host.look(&bucket).gone.len(), MANY + 1);
    assert_eq!(host.notes.segments().unwrap().len(), 1);
    host.write("later", "text");
    host.push_all(&bucket);
    assert_shared(&bucket, &host);
}

/// A host that published shortly before a merge may not know of it. What is covered stays until that
/// host has published again, and so has looked, or for a day.
#[test]
fn what_is_covered_stays_until_each_host_has_passed_it() {
    for passes in [false, true] {
        let bucket = TestBucket::new();
        let (mut host, mut other) = (filled(&bucket), TestHost::new());
        other.write("other", "other");
        other.push_all(&bucket);
        merged(&bucket, &mut host).unwrap();
        bucket.pass(Duration::from_mins(40));
        if passes {
            other.write("again", "again");
            other.push_all(&bucket);
        }
        bucket.pass(Duration::from_mins(40));
        assert_eq!(swept(&bucket, &mut host), if passes { MANY + 2 } else { 0 });
        bucket.pass(ONE_DAY);
        assert_eq!(swept(&bucket, &mut host), if passes { 0 } else { MANY + 2 });
    }
}

/// A merge that another one covers covers what it covered all the same. Otherwise nothing would go
/// while a host publishes much.
#[test]
fn frequent_merges_keep_nothing() {
    let bucket = TestBucket::new();
    let mut host = filled(&bucket);
    merged(&bucket, &mut host).unwrap();
    bucket.pass(Duration::from_mins(50));
    for number in 0..MANY {
        host.write(&format!("later {number}"), "text");
        host.push_all(&bucket);
    }
    assert_eq!(merged(&bucket, &mut host).unwrap().segments.len(), 1);
    bucket.pass(Duration::from_mins(15));
    assert_eq!(swept(&bucket, &mut host), MANY + 1, "those of the first merge");
    let reader = TestHost::new();
    let looked = reader.look(&bucket);
    assert!(looked.gaps.is_empty() && looked.absent.is_empty(), "{looked:?}");
    assert_eq!(reader.living(), host.own());
}

#[test]
fn whoever_has_what_is_covered_sees_the_same() {
    let bucket = TestBucket::new();
    let mut host = filled(&bucket);
    let (early, mut other) = (TestHost::new(), TestHost::new());
    early.look(&bucket);
    let looked = other.look(&bucket);
    merged(&bucket, &mut host).unwrap();
    // Both hosts merge at the same time.
    let second = merged_after(&looked, &bucket, &mut other).unwrap();
    assert_eq!(second.segments.len(), 1);
    bucket.pass(2 * ONE_DAY);
    swept(&bucket, &mut host);
    let looked = early.look(&bucket);
    assert!(looked.missing.is_empty() && looked.lost.is_empty());
    assert_eq!((early.living(), early.told()), (host.own(), host.source.messages.clone()));
    assert_shared(&bucket, &host);
}

#[test]
fn a_merge_that_is_cut_off_goes_on() {
    for (requests, does_last) in [(1, false), (1, true)] {
        let bucket = TestBucket::new();
        let mut host = filled(&bucket);
        bucket.fail_after(requests, does_last);
        merged(&bucket, &mut host).unwrap_err();
        bucket.work();
        host.restart();
        host.write("later", "text");
        host.push_all(&bucket);
        assert_shared(&bucket, &host);
        assert_eq!(count(&bucket, &host), MANY + 3);
    }
}

#[test]
fn removed_bytes_leave_after_a_week() {
    let (bucket, mut host) = (TestBucket::new(), TestHost::new());
    host.write("secret", "secret");
    host.write("other", "other");
    host.push_all(&bucket);
    host.remove("secret");
    host.push_all(&bucket);
    assert_eq!(merged(&bucket, &mut host).unwrap().segments, []);
    bucket.pass(8 * ONE_DAY);
    host.write("today", "today");
    host.push_all(&bucket);
    assert_eq!(merged(&bucket, &mut host).unwrap().segments.len(), 1);
    bucket.pass(2 * ONE_DAY);
    assert_eq!(swept(&bucket, &mut host), 1);
    assert_shared(&bucket, &host);
}

#[test]
fn a_merge_of_nothing_goes_a_week_later() {
    let (bucket, mut host) = (TestBucket::new(), TestHost::new());
    host.write("x", "x");
    host.push_all(&bucket);
    host.remove("x");
    host.push_all(&bucket);
    let part = host.pieces().iter().map(|piece| piece.id).collect();
    let pieces = host.pieces();
    let mut pushed = Pushed::default();
    host.pushing(&bucket, |push, session| {
        push.merge_part(&pieces, &part, session, &mut pushed).unwrap()
    });
    bucket.pass(2 * ONE_DAY);
    assert_eq!(swept(&bucket, &mut host), 2);
    assert_eq!(swept(&bucket, &mut host), 0);
    bucket.pass(8 * ONE_DAY);
    assert_eq!(swept(&bucket, &mut host), 1);
    let looked = host.look(&bucket);
    assert!(looked.lost.is_empty() && host.notes.segments().unwrap().is_empty());
}

#[test]
fn bytes_that_are_not_here_are_fetched() {
    let (bucket, mut writer, mut other) = (TestBucket::new(), TestHost::new(), TestHost::new());
    for number in 0..12_u64 {
        let mut bytes = vec![0; 200_000];
        blake3::Hasher::new().update(&number.to_le_bytes()).finalize_xof().fill(&mut bytes);
        writer.write(&number.to_string(), bytes);
    }
    writer.push_all(&bucket);
    other.look(&bucket);
    let pieces = other.pieces();
    let part = pieces.iter().map(|piece| piece.id).collect();
    bucket.made();
    let mut pushed = Pushed::default();
    other.pushing(&bucket, |push, session| {
        push.merge_part(&pieces, &part, session, &mut pushed).unwrap()
    });
    assert_eq!(bucket.made(), ["get", "list", "create"], "it looks before it sends");
    assert_eq!(other.living(), writer.own());
    bucket.pass(2 * ONE_DAY);
    assert_eq!(swept(&bucket, &mut other), 1);
    let merge = other.notes.open_segment(pushed.segments[0]).unwrap();
    for line in merge.head.lines(&merge.records) {
        let (_, Line::Put(line), _) = line.unwrap() else { panic!("all are puts") };
        let bytes = merge.bytes(&line.place).unwrap().unwrap();
        assert_eq!(Some(blake3::hash(&bytes).to_hex().as_str()), line.digest());
    }
}

fn id(number: u64) -> SegmentId {
    SegmentId { writer: WriterId(7), number }
}

#[test]
fn records_fill_a_merge_as_bytes_do() {
    let of = |count: u64, records: u64| -> Sizes {
        (1..=count).map(|number| (id(number), SegmentSize { bytes: 1000, records })).collect()
    };
    let merged = |sizes: &Sizes| fitting(BTreeSet::new(), sizes).len();
    assert_eq!(merged(&of(63, 1000)), 0, "they are few");
    assert_eq!(merged(&of(64, 1000)), 64);
    assert_eq!(merged(&of(64, MOST_RECORDS / 16)), 16);
    assert_eq!(merged(&of(64, LARGE_RECORDS - 1)), 2);
    assert_eq!(merged(&of(64, LARGE_RECORDS)), 0, "they are large");
    // A stale segment is merged regardless of its size.
    let stale = BTreeSet::from([id(3)]);
    assert_eq!(fitting(stale.clone(), &of(64, 3 * MOST_RECORDS)), stale);
}

#[test]
fn merges_of_the_largest_conversations_come_to_an_end() {
    // 1,000,000 messages of 300 bytes in the segments in which they were sent, and 100,000 outputs
    // with records of 1,000 bytes.
    for (segments, lines, line) in [(103, 9_800, 345), (100, 1_000, 1_000)] {
        let records = lines * (line + 64);
        let size = SegmentSize { bytes: records / 8, records };
        let mut sizes: Sizes = (1..=segments).map(|number| (id(number), size)).collect();
        let all: u64 = sizes.values().map(|size| size.records).sum();
        for number in 1000.. {
            let part = fitting(BTreeSet::new(), &sizes);
            if part.is_empty() {
                break;
            }
            assert!(part.len() > 1 && number < 1100);
            let parts = part.iter().filter_map(|each| sizes.remove(each));
            let merged = parts.fold(SegmentSize::default(), SegmentSize::and);
            assert!(merged.fits(), "{merged:?}");
            sizes.insert(id(number), merged);
        }
        assert!(sizes.len() < 64 + (all / LARGE_RECORDS) as usize, "{}", sizes.len());
        assert_eq!(sizes.values().map(|size| size.records).sum::<u64>(), all);
    }
}

#[test]
fn long_messages_become_several_segments() {
    let bucket = TestBucket::new();
    let mut host = TestHost::new();
    for number in 0..MANY {
        host.source.messages.push(format!("{{\"m\":\"{number}{}\"}}", "x".repeat(300 << 10)));
        host.push_all(&bucket);
    }
    let merges = merged(&bucket, &mut host).unwrap().segments;
    let head = host.notes.head(merges[0]).unwrap();
    let covered = head.covers.len();
    assert!(merges.len() == 1 && covered > MANY / 2 && covered < MANY, "{covered}");
    assert!(head.merged_bytes() <= MOST_RECORDS + 64 * covered as u64);
    assert_eq!(merged(&bucket, &mut host).unwrap().segments, [], "few are left");
    assert_shared(&bucket, &host);
}

#[test]
fn many_removals_take_several_lines() {
    let origins = (0..=MOST_REMOVED as u32).map(|place| Origin { segment: id(1), place });
    let removed = Removed { origins: origins.collect(), segments: [id(2)].into(), ends: false };
    let lines = remove_lines(&removed);
    assert_eq!(lines.len(), 3);
    let mut all = Removed::default();
    for line in lines {
        all.extend(&Removed { origins: line.origins, segments: line.segments, ends: line.ends });
    }
    assert_eq!(all, removed);
    assert_eq!(remove_lines(&Removed::default()), []);
}
