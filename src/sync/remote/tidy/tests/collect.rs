use crate::bucket::segment_key;
use crate::remote::Pushed;
use crate::remote::error::Unknown;
use crate::remote::tests::bucket::{TestBucket, soon};
use crate::remote::tests::host::TestHost;
use crate::remote::tidy::*;

const ONE_DAY: Duration = Duration::from_hours(24);

fn collected(bucket: &TestBucket, host: &TestHost) -> Vec<Collected> {
    let now = store_now(bucket, host.notes.conversation(), soon()).unwrap();
    collect(bucket, &host.notes, (now, WEEK), &soon).unwrap()
}

fn objects(bucket: &TestBucket, host: &TestHost) -> usize {
    bucket.names(&objects_prefix(host.notes.conversation())).len()
}

#[test]
fn what_nobody_names_goes_after_a_week() {
    let (bucket, mut host) = (TestBucket::new(), TestHost::new());
    for name in ["kept", "removed"] {
        host.write(name, vec![name.len() as u8; 300 << 10]);
    }
    host.push_all(&bucket);
    host.remove("removed");
    host.push_all(&bucket);
    bucket.pass(6 * ONE_DAY);
    assert!(collected(&bucket, &host).is_empty());
    assert_eq!(objects(&bucket, &host), 4);
    bucket.pass(2 * ONE_DAY);
    let gone = collected(&bucket, &host);
    assert_eq!(gone.len(), 2, "the object and its blocks");
    assert!(gone.iter().all(|each| matches!(each.outcome, Some(Ok(())))));
    assert_eq!(objects(&bucket, &host), 2);
    assert!(collected(&bucket, &host).is_empty());
}

#[test]
fn a_survey_deletes_nothing_and_writes_nothing() {
    let (bucket, mut host) = (TestBucket::new(), TestHost::new());
    host.write("removed", vec![1; 300 << 10]);
    host.push_all(&bucket);
    host.remove("removed");
    bucket.pass(8 * ONE_DAY);
    host.write("new", vec![2; 300 << 10]);
    host.push_all(&bucket);
    bucket.made();
    let survey = Survey::of(&bucket, &host.notes, &soon).unwrap();
    let latest = survey.latest().unwrap();
    assert_eq!(survey.unused((latest, WEEK)).len(), 2);
    assert_eq!(bucket.made(), ["list", "list"]);
    assert_eq!(objects(&bucket, &host), 4);
}

#[test]
fn an_upload_that_was_cut_off_is_collected() {
    let (bucket, mut host) = (TestBucket::new(), TestHost::new());
    host.write("large", vec![1; 300 << 10]);
    bucket.fail_after(1, true);
    host.push(&bucket).unwrap_err();
    bucket.work();
    host.restart();
    host.push_all(&bucket);
    assert_eq!(objects(&bucket, &host), 3);
    bucket.pass(8 * ONE_DAY);
    assert_eq!(collected(&bucket, &host).len(), 1);
}

#[test]
fn nothing_goes_while_a_segment_cannot_be_read() {
    let (bucket, mut host) = (TestBucket::new(), TestHost::new());
    host.write("large", vec![1; 300 << 10]);
    host.push_all(&bucket);
    let name = &bucket.names(&log_prefix(host.notes.conversation()))[0];
    bucket.replace(&format!("{}{name}", log_prefix(host.notes.conversation())), b"damaged");
    bucket.pass(8 * ONE_DAY);
    let reader = TestHost::new();
    for _ in 0..2 {
        let error = collect(&bucket, &reader.notes, (u64::MAX, WEEK), &soon).unwrap_err();
        let why = Unknown::Unreadable;
        assert!(is_blind(&error, why), "{error}");
    }
    assert_eq!(objects(&bucket, &host), 2);
}

fn is_blind(error: &RemoteError, reason: Unknown) -> bool {
    matches!(error, RemoteError::Blind { why, others: 0, .. } if *why == reason)
}

/// Returns a host that has pushed a large file and then two other files, and the key of the first
/// segment. The object of the large file is old enough to be collected.
fn pushed(bucket: &TestBucket) -> (TestHost, String) {
    let mut host = TestHost::new();
    host.write("large", vec![1; 300 << 10]);
    host.push_all(bucket);
    let first = host.notes.segments().unwrap()[0];
    for name in ["second", "third"] {
        host.write(name, name);
        host.push_all(bucket);
    }
    bucket.pass(8 * ONE_DAY);
    (host, segment_key(TestHost::new().notes.conversation(), first))
}

#[test]
fn nothing_goes_while_a_segment_is_missing() {
    let bucket = TestBucket::new();
    let (host, first) = pushed(&bucket);
    let bytes = bucket.get(&first, None, soon()).unwrap();
    bucket.delete(vec![first.clone()], soon());
    for reader in [&TestHost::new(), &host] {
        let error = collect(&bucket, &reader.notes, (u64::MAX, WEEK), &soon).unwrap_err();
        assert!(is_blind(&error, Unknown::Missing), "{error}");
    }
    assert_eq!(objects(&bucket, &host), 2);
    bucket.create(&first, &bytes, soon()).unwrap();
    assert!(collected(&bucket, &TestHost::new()).is_empty());
    assert_eq!(objects(&bucket, &host), 2);
}

#[test]
fn nothing_goes_while_the_list_names_what_is_not_there() {
    let bucket = TestBucket::new();
    let (host, first) = pushed(&bucket);
    bucket.hide(Some(&first));
    let reader = TestHost::new();
    let error = collect(&bucket, &reader.notes, (u64::MAX, WEEK), &soon).unwrap_err();
    assert!(is_blind(&error, Unknown::Absent), "{error}");
    assert_eq!(objects(&bucket, &host), 2);
    bucket.hide(None);
    assert!(collected(&bucket, &reader).is_empty());
}

#[test]
fn nothing_goes_where_no_segment_is_left() {
    let bucket = TestBucket::new();
    let (host, _) = pushed(&bucket);
    let prefix = log_prefix(host.notes.conversation());
    let keys = bucket.names(&prefix).into_iter().map(|name| format!("{prefix}{name}"));
    bucket.delete(keys.collect(), soon());
    let error = collect(&bucket, &TestHost::new().notes, (u64::MAX, WEEK), &soon).unwrap_err();
    assert!(matches!(error, RemoteError::NoLog { .. }), "{error}");
    assert_eq!(objects(&bucket, &host), 2);
}

/// Segments that were written before the log ended are not missing, because a new writer id is used
/// after that.
#[test]
fn after_the_end_of_the_log_another_writer_begins() {
    let (bucket, mut host) = (TestBucket::new(), TestHost::new());
    host.write("x", "x");
    host.push_all(&bucket);
    let before = host.home.writer().unwrap();
    host.remove("x");
    host.push_all(&bucket);
    let all = host.pieces();
    let part = all.iter().map(|piece| piece.id).collect();
    let merged = host.pushing(&bucket, |push, session| {
        push.merge_part(&all, &part, session, &mut Pushed::default())
    });
    assert!(merged.unwrap());
    let prefix = log_prefix(host.notes.conversation());
    let keys = bucket.names(&prefix).into_iter().map(|name| format!("{prefix}{name}"));
    bucket.delete(keys.collect(), soon());
    host.look(&bucket);
    host.write("y", "y");
    host.push_all(&bucket);
    assert_ne!(host.home.writer().unwrap(), before);
    let reader = TestHost::new();
    let looked = reader.look(&bucket);
    assert!(looked.gaps.is_empty() && looked.segments.len() == 1, "{looked:?}");
    assert_eq!(reader.living(), host.own());
}
