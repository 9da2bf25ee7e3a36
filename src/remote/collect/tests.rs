use std::time::Duration;

use super::*;
use crate::remote::tests::bucket::TestBucket;
use crate::remote::tests::bucket::soon;
use crate::remote::tests::host::TestHost;

const ONE_DAY: Duration = Duration::from_hours(24);

fn collected(bucket: &TestBucket, host: &TestHost, dry_run: bool) -> Vec<Collected> {
    collect(bucket, &host.notes, dry_run, soon()).unwrap()
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
    assert!(collected(&bucket, &host, false).is_empty());
    assert_eq!(objects(&bucket, &host), 4);
    bucket.pass(2 * ONE_DAY);
    let gone = collected(&bucket, &host, false);
    assert_eq!(gone.len(), 2, "the object and its blocks");
    assert!(gone.iter().all(|each| matches!(each.outcome, Some(Ok(())))));
    assert_eq!(objects(&bucket, &host), 2);
    assert!(collected(&bucket, &host, false).is_empty());
}

#[test]
fn a_dry_run_deletes_nothing_and_writes_nothing() {
    let (bucket, mut host) = (TestBucket::new(), TestHost::new());
    host.write("removed", vec![1; 300 << 10]);
    host.push_all(&bucket);
    host.remove("removed");
    bucket.pass(8 * ONE_DAY);
    host.write("new", vec![2; 300 << 10]);
    host.push_all(&bucket);
    bucket.made();
    let gone = collected(&bucket, &host, true);
    assert_eq!(bucket.made(), ["list", "list"]);
    assert!(gone.len() == 2 && gone.iter().all(|each| each.outcome.is_none() && each.size > 0));
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
    assert_eq!(collected(&bucket, &host, false).len(), 1);
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
        let error = collect(&bucket, &reader.notes, false, soon()).unwrap_err();
        assert!(matches!(error, RemoteError::Blind { count: 1, .. }), "{error}");
    }
    assert_eq!(objects(&bucket, &host), 2);
}
