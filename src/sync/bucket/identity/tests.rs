//! Identity of a bucket.

use std::time::Duration;
use std::{fs, thread};

use bytes::Bytes;

use super::{BucketId, read_mark};
use crate::bucket::tests::{InjectedFault, Seen, TestServer};
use crate::bucket::{Bucket, BucketError, BucketUrl, Deadline, Objects as _};

fn soon() -> Deadline {
    Deadline::after(Duration::from_mins(1))
}

#[test]
fn the_first_host_decides() {
    let directory = tempfile::tempdir().unwrap();
    let open = |url: &str| Bucket::open(&BucketUrl::parse(url).unwrap(), []).unwrap();
    let server = TestServer::start();
    let file = format!("file://{}", directory.path().display());
    for bucket in [open("memory:"), open(&file), server.bucket()] {
        assert_eq!(bucket.identity(soon()).unwrap(), None);
        let first = bucket.found(true, soon()).unwrap();
        assert!(first.write_once && first.conditional && first.format == 1, "{first:?}");
        assert_eq!(bucket.found(true, soon()).unwrap(), first);
        let refused = bucket.found(false, soon()).unwrap_err();
        assert!(matches!(refused, BucketError::WriteOnce), "{refused}");
        let read = bucket.identity(soon()).unwrap().unwrap();
        assert_eq!((read.id, read.write_once), (first.id, true));
        assert_eq!(first.id.to_string().parse::<BucketId>().unwrap(), first.id);
    }
}

#[test]
fn a_host_with_another_setting_is_refused() {
    let bucket = Bucket::open(&BucketUrl::parse("memory:").unwrap(), []).unwrap();
    bucket.found(false, soon()).unwrap();
    let refused = bucket.found(true, soon()).unwrap_err();
    assert!(matches!(refused, BucketError::NotWriteOnce), "{refused}");
    let read = bucket.identity(soon()).unwrap().unwrap();
    assert!(read.agreeing(true).is_err() && read.agreeing(false).is_ok());
}

#[test]
fn hosts_that_come_at_once_agree() {
    let directory = tempfile::tempdir().unwrap();
    let url = BucketUrl::parse(&format!("file://{}", directory.path().display())).unwrap();
    let ids: Vec<_> = thread::scope(|scope| {
        let host = || {
            let bucket = Bucket::open(&url, []).unwrap();
            scope.spawn(move || bucket.found(false, soon()).unwrap().id)
        };
        let hosts: Vec<_> = (0..6).map(|_| host()).collect();
        hosts.into_iter().map(|host| host.join().unwrap()).collect()
    });
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
}

#[test]
fn a_store_that_ignores_conditions_is_found_out() {
    let server = TestServer::start();
    let bucket = server.bucket();
    let mark = server.file("ctxfs.json");
    let forgets = move |seen: &Seen| {
        if seen.is_conditional {
            // Without the mark, the server has no object to which the condition could apply.
            fs::remove_file(&mark).ok();
        }
        InjectedFault::Pass
    };
    server.set(forgets);
    check_without_conditions(&bucket);
}

#[test]
fn a_store_that_refuses_conditions_is_found_out() {
    let server = TestServer::start();
    let bucket = server.bucket();
    for status in [501, 403] {
        server.set(move |seen| {
            if seen.is_conditional { InjectedFault::Status(status) } else { InjectedFault::Pass }
        });
        check_without_conditions(&bucket);
    }
}

fn check_without_conditions(bucket: &Bucket) {
    let identity = bucket.found(false, soon()).unwrap();
    assert!(!identity.conditional);
    assert_eq!(bucket.identity(soon()).unwrap(), Some(identity));
}

#[test]
fn a_mark_of_another_is_refused() {
    for text in [
        "",
        "{}",
        "[1]",
        "not json",
        r#"{"format":"1"}"#,
        r#"{"format":0,"id":"00000000000000000000000000000001","write_once":false}"#,
        r#"{"format":1,"id":"1","write_once":false}"#,
        r#"{"format":1,"id":"0000000000000000000000000000000G","write_once":false}"#,
        r#"{"format":1,"id":"+0000000000000000000000000000001","write_once":false}"#,
        r#"{"format":1,"id":"00000000000000000000000000000001"}"#,
    ] {
        let error = read_mark(text.as_bytes()).unwrap_err();
        assert!(matches!(error, BucketError::NotCtxfs { .. }), "{text}: {error}");
    }
}

#[test]
fn a_mark_that_is_empty_or_too_large_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let open = |url: &str| Bucket::open(&BucketUrl::parse(url).unwrap(), []).unwrap();
    let file = format!("file://{}", directory.path().display());
    let server = TestServer::start();
    for bucket in [open(&file), server.bucket()] {
        bucket.create("ctxfs.json", &Bytes::new(), soon()).unwrap();
        let errors =
            [bucket.identity(soon()).unwrap_err(), bucket.found(false, soon()).unwrap_err()];
        for error in errors {
            assert!(matches!(error, BucketError::NotCtxfs { .. }), "{error}");
            assert!(error.to_string().contains("delete that object"), "{error}");
        }
    }
    let bucket = open("memory:");
    bucket.create("ctxfs.json", &vec![b' '; 65 << 10].into(), soon()).unwrap();
    let error = bucket.identity(soon()).unwrap_err();
    assert!(matches!(error, BucketError::TooLarge { .. }), "{error}");
}

#[test]
fn a_newer_bucket_is_told() {
    let bucket = Bucket::open(&BucketUrl::parse("memory:").unwrap(), []).unwrap();
    let newer = Bytes::from_static(br#"{"format":2,"id":{"new":true}}"#);
    bucket.create("ctxfs.json", &newer, soon()).unwrap();
    for error in [bucket.identity(soon()).unwrap_err(), bucket.found(false, soon()).unwrap_err()] {
        assert!(matches!(error, BucketError::Newer { format: 2 }), "{error}");
    }
}

#[test]
fn what_a_later_version_adds_is_ignored() {
    let text = r#"{"format":1,"id":"000000000000000000000000000000ff","write_once":true,"x":1}"#;
    let identity = read_mark(text.as_bytes()).unwrap();
    assert!(identity.write_once && identity.id.to_string().ends_with("ff"));
}
