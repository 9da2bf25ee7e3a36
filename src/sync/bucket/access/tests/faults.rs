//! Requests with injected faults.

use std::time::{Duration, Instant};

use super::{bytes, soon};
use crate::bucket::access::{Bucket, Created, Deadline};
use crate::bucket::error::BucketError;
use crate::bucket::objects::Objects as _;
use crate::bucket::tests::{InjectedFault, KEY_ID, SECRET, Seen, TestServer};
use crate::bucket::url::BucketUrl;

/// Returns a function that injects `fault` into the first `count` requests and lets later ones
/// pass.
fn first(count: usize, fault: InjectedFault) -> impl Fn(&Seen) -> InjectedFault {
    move |seen| if seen.count < count { fault } else { InjectedFault::Pass }
}

fn server_with(key: &str, text: &str) -> (TestServer, Bucket) {
    let server = TestServer::start();
    let bucket = server.bucket();
    bucket.create(key, &bytes(text), soon()).unwrap();
    server.log();
    (server, bucket)
}

#[test]
fn throttling_passes() {
    let (server, bucket) = server_with("k/a", "text");
    for status in [429, 500, 503] {
        server.log();
        server.set(first(3, InjectedFault::Status(status)));
        assert_eq!(bucket.get("k/a", None, soon()).unwrap(), "text");
        assert_eq!(server.log().len(), 4);
        server.set(first(2, InjectedFault::Status(status)));
        assert_eq!(bucket.list("k", soon()).unwrap().len(), 1);
        server.log();
        let key = format!("k/{status}");
        assert_eq!(bucket.create(&key, &bytes("x"), soon()).unwrap(), Created::New);
        let outcomes = bucket.delete(vec![key], soon());
        assert!(outcomes[0].1.is_ok(), "{outcomes:?}");
        server.log();
    }
}

#[test]
fn a_refusal_is_told_at_once_and_without_keys() {
    let (server, bucket) = server_with("k/a", "text");
    server.set(|_| InjectedFault::Status(403));
    let errors = [
        bucket.get("k/a", None, soon()).unwrap_err(),
        bucket.create("k/b", &bytes("x"), soon()).unwrap_err(),
        bucket.list("k", soon()).unwrap_err(),
        bucket.list_dirs("k", 1, soon()).unwrap_err(),
        bucket.modified("k/a", soon()).unwrap_err(),
        bucket.upload("k/c", &mut &b"x"[..], 1, soon()).unwrap_err(),
        bucket.delete(vec!["k/a".to_owned()], soon()).remove(0).1.unwrap_err(),
    ];
    for error in &errors {
        assert!(matches!(error, BucketError::Refused { .. }), "{error:?}");
        assert!(!error.to_string().contains(KEY_ID), "{error}");
    }
    assert!(errors[0].to_string().contains("AccessDenied: fault"), "{}", errors[0]);
    assert_eq!(server.log().len(), errors.len());
}

#[test]
fn wrong_keys_are_a_refusal() {
    let server = TestServer::start();
    let bucket = server.bucket_with("WRONGSECRET");
    for error in [
        bucket.create("k", &bytes("x"), soon()).unwrap_err(),
        bucket.get("k", None, soon()).unwrap_err(),
        bucket.list("", soon()).unwrap_err(),
    ] {
        let text = format!("{error} {error:?}");
        assert!(matches!(error, BucketError::Refused { .. }), "{text}");
        assert!(!text.contains("WRONGSECRET") && !text.contains(KEY_ID), "{text}");
    }
}

#[test]
fn half_a_body_is_asked_for_again() {
    let text = "0123456789".repeat(50_000);
    let (server, bucket) = server_with("k", &text);
    server.set(first(2, InjectedFault::Cut));
    assert!(bucket.get("k", None, soon()).unwrap() == text);
    assert_eq!(server.log().len(), 3);
    server.set(first(2, InjectedFault::Cut));
    assert!(bucket.get("k", Some(10..400_000), soon()).unwrap() == text[10..400_000]);
    assert_eq!(server.log().len(), 3);
    server.set(first(2, InjectedFault::Cut));
    assert_eq!(bucket.list("", soon()).unwrap().len(), 1);
    assert_eq!(server.log().len(), 3);
    assert_eq!(bucket.requests().get.requests, 6);
}

#[test]
fn a_lost_answer_to_create_is_told_as_exists() {
    let (server, bucket) = server_with("other", "x");
    server.set(first(1, InjectedFault::Lost));
    assert_eq!(bucket.create("k", &bytes("mine"), soon()).unwrap(), Created::Exists);
    assert_eq!(bucket.get("k", None, soon()).unwrap(), "mine");
    server.log();
    server.set(first(1, InjectedFault::Lost));
    assert_eq!(bucket.upload("u", &mut &b"mine"[..], 4, soon()).unwrap(), 4);
}

#[test]
fn the_deadline_holds() {
    let (server, bucket) = server_with("k", "text");
    let time = Duration::from_millis(1500);
    for fault in [
        InjectedFault::Late(Duration::from_secs(30)),
        InjectedFault::Status(503),
        InjectedFault::Lost,
    ] {
        server.set(move |_| fault);
        let checks: [&dyn Fn(Deadline) -> BucketError; 5] = [
            &|deadline| bucket.get("k", None, deadline).unwrap_err(),
            &|deadline| bucket.create("l", &bytes("x"), deadline).unwrap_err(),
            &|deadline| bucket.list("", deadline).unwrap_err(),
            &|deadline| bucket.delete(vec!["k".to_owned()], deadline).remove(0).1.unwrap_err(),
            &|deadline| bucket.get_many(&[("k".to_owned(), None)], deadline).remove(0).unwrap_err(),
        ];
        for check in checks {
            let start = Instant::now();
            let error = check(Deadline::after(time));
            // If the response was lost, the effect of the request may be visible.
            let is_told = matches!(error, BucketError::Away { .. } | BucketError::Absent { .. });
            assert!(is_told, "{fault:?}: {error}");
            assert!(start.elapsed() < time * 2, "{fault:?}: {:?}", start.elapsed());
        }
        server.set(|_| InjectedFault::Pass);
        bucket.create("k", &bytes("text"), soon()).unwrap();
        drop(bucket.delete(vec!["l".to_owned()], soon()));
    }
}

#[test]
fn a_deadline_that_is_past_sends_nothing_more() {
    let (server, bucket) = server_with("k", "text");
    server.set(|_| InjectedFault::Late(Duration::from_secs(30)));
    let start = Instant::now();
    let error = bucket.get("k", None, Deadline(start)).unwrap_err();
    assert!(error.may_pass(), "{error}");
    assert!(start.elapsed() < Duration::from_secs(1));
    assert!(server.log().len() <= 1);
}

#[test]
fn nobody_who_listens_is_away() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let environment = [
        ("AWS_ENDPOINT_URL".to_owned(), format!("http://{address}")),
        ("AWS_REGION".to_owned(), "r".to_owned()),
        ("AWS_ACCESS_KEY_ID".to_owned(), "KEYID".to_owned()),
        ("AWS_SECRET_ACCESS_KEY".to_owned(), "SECRET".to_owned()),
    ];
    let bucket = Bucket::open(&BucketUrl::parse("s3://bkt").unwrap(), environment).unwrap();
    let error = bucket.get("k", None, Deadline::after(Duration::from_millis(500))).unwrap_err();
    assert!(error.may_pass() && error.to_string().contains("refused"), "{error}");
}

#[test]
fn a_bucket_that_is_missing_is_not_an_absent_object() {
    let server = TestServer::start();
    let bucket = server.bucket();
    std::fs::remove_dir_all(server.file("").ancestors().nth(2).unwrap()).unwrap();
    let start = Instant::now();
    for error in
        [bucket.list("", soon()).unwrap_err(), bucket.list_dirs("", 5, soon()).unwrap_err()]
    {
        assert!(error.to_string().contains("no such bucket"), "{error}");
    }
    assert!(start.elapsed() < Duration::from_secs(10));
}

#[test]
fn a_part_that_fails_is_sent_again() {
    let (server, bucket) = server_with("other", "x");
    let is_second = |seen: &Seen| seen.path.contains("partNumber=2");
    let failed = std::sync::atomic::AtomicUsize::new(0);
    server.set(move |seen| {
        let is_failing =
            is_second(seen) && failed.fetch_add(1, std::sync::atomic::Ordering::Relaxed) < 2;
        if is_failing { InjectedFault::Status(503) } else { InjectedFault::Pass }
    });
    let content = vec![5u8; 20 << 20];
    bucket.upload("u", &mut content.as_slice(), 0, soon()).unwrap();
    assert!(bucket.get("u", None, soon()).unwrap() == content);
    let puts = server.log().iter().filter(|seen| seen.method != "GET").count();
    assert_eq!(puts, 1 + 3 + 2 + 1);
}

#[test]
fn an_upload_that_is_refused_gives_its_parts_up() {
    let (server, bucket) = server_with("other", "x");
    server.set(|seen| {
        if seen.path.contains("partNumber=2") {
            InjectedFault::Status(403)
        } else {
            InjectedFault::Pass
        }
    });
    let content = vec![5u8; 20 << 20];
    let error = bucket.upload("u", &mut content.as_slice(), 0, soon()).unwrap_err();
    assert!(matches!(error, BucketError::Refused { .. }), "{error}");
    // A part in flight may still reach the server after the abort.
    let log = server.log();
    let gives_up = |seen: &Seen| seen.method == "DELETE" && seen.path.contains("uploadId=");
    assert!(log.iter().any(gives_up), "{log:?}");
    assert!(bucket.get("u", None, soon()).unwrap_err().is_absent());
}

#[test]
fn a_lost_answer_to_complete_is_no_failure() {
    let (server, bucket) = server_with("other", "x");
    let is_lost = std::sync::atomic::AtomicBool::new(false);
    server.set(move |seen| {
        let is_complete = seen.method == "POST" && seen.path.contains("uploadId=");
        let is_first = is_complete && !is_lost.swap(true, std::sync::atomic::Ordering::Relaxed);
        if is_first { InjectedFault::Lost } else { InjectedFault::Pass }
    });
    let content = vec![5u8; 9 << 20];
    assert_eq!(bucket.upload("u", &mut content.as_slice(), 0, soon()).unwrap(), 9 << 20);
    assert!(bucket.get("u", None, soon()).unwrap() == content);
}

#[test]
fn a_page_that_fails_costs_that_page_alone() {
    let server = TestServer::start();
    let directory = server.file("log");
    std::fs::create_dir_all(&directory).unwrap();
    for number in 0..1500 {
        std::fs::write(directory.join(format!("{number:06}")), "x").unwrap();
    }
    server
        .set(|seen| if seen.count == 1 { InjectedFault::Status(503) } else { InjectedFault::Pass });
    let bucket = server.bucket();
    assert_eq!(bucket.list("log", soon()).unwrap().len(), 1500);
    assert_eq!(server.log().len(), 3);
}

#[test]
fn an_answer_that_is_no_list_is_asked_for_again() {
    let (server, bucket) = server_with("log/a", "x");
    // Some proxies report an error with a success status.
    server
        .set(|seen| if seen.count == 0 { InjectedFault::Status(200) } else { InjectedFault::Pass });
    assert_eq!(bucket.list("log", soon()).unwrap().len(), 1);
    server.set(|_| InjectedFault::Status(200));
    let deadline = Deadline::after(Duration::from_millis(50));
    assert!(bucket.list("log", deadline).is_err());
    assert!(bucket.list_dirs("", 10, deadline).is_err());
}

#[test]
fn a_store_without_conditions_is_asked_first() {
    let server = TestServer::start();
    let bucket = server.bucket();
    server.set(
        |seen| if seen.is_conditional { InjectedFault::Status(501) } else { InjectedFault::Pass },
    );
    assert_eq!(bucket.create("k", &bytes("one"), soon()).unwrap(), Created::New);
    assert_eq!(bucket.create("k", &bytes("two"), soon()).unwrap(), Created::Exists);
    assert_eq!(bucket.get("k", None, soon()).unwrap(), "one");
}

fn with_checksum(log: &[Seen]) -> usize {
    log.iter().filter(|seen| seen.has_checksum).count()
}

fn refuse_checksums(seen: &Seen) -> InjectedFault {
    if seen.has_checksum { InjectedFault::Status(400) } else { InjectedFault::Pass }
}

#[test]
fn a_store_that_refuses_checksums_gets_none() {
    let (server, bucket) = server_with("k/a", "text");
    server.set(refuse_checksums);
    assert_eq!(bucket.create("k/b", &bytes("x"), soon()).unwrap(), Created::New);
    assert_eq!(with_checksum(&server.log()), 1);
    assert_eq!(bucket.create("k/b", &bytes("y"), soon()).unwrap(), Created::Exists);
    let content = vec![5u8; 9 << 20];
    assert_eq!(bucket.upload("k/c", &mut content.as_slice(), 0, soon()).unwrap(), 9 << 20);
    let keys = ["k/a", "k/b", "k/c"].map(str::to_owned).to_vec();
    assert!(bucket.delete(keys, soon()).iter().all(|(_, outcome)| outcome.is_ok()));
    assert!(bucket.list("k", soon()).unwrap().is_empty());
    assert_eq!(with_checksum(&server.log()), 0);
    // The first request may be the beginning of an upload.
    let other = server.bucket();
    assert_eq!(other.upload("k/d", &mut content.as_slice(), 0, soon()).unwrap(), 9 << 20);
    assert_eq!(with_checksum(&server.log()), 1);
}

#[test]
fn another_refusal_is_told_and_leaves_the_checksums() {
    let (server, bucket) = server_with("k/a", "text");
    server.set(|_| InjectedFault::Status(400));
    let error = bucket.create("k/b", &bytes("x"), soon()).unwrap_err();
    assert!(error.to_string().contains("it answers 400 Odd: fault"), "{error}");
    let log = server.log();
    assert_eq!((with_checksum(&log), log.len()), (1, 2));
    server.set(|_| InjectedFault::Pass);
    bucket.create("k/b", &bytes("x"), soon()).unwrap();
    assert_eq!(with_checksum(&server.log()), 1);
}

#[test]
fn settings_choose_the_checksum() {
    let server = TestServer::start();
    for (number, (name, value, count)) in [
        ("AWS_REQUEST_CHECKSUM_CALCULATION", "WHEN_REQUIRED", 0),
        ("AWS_REQUEST_CHECKSUM_CALCULATION", "when_supported", 2),
        ("AWS_CHECKSUM_ALGORITHM", "none", 0),
        ("AWS_CHECKSUM_ALGORITHM", "sha256", 2),
    ]
    .into_iter()
    .enumerate()
    {
        let bucket = server.bucket_in(SECRET, [(name, value)]);
        let key = format!("k/{number}");
        bucket.create(&key, &bytes("x"), soon()).unwrap();
        assert!(bucket.delete(vec![key], soon())[0].1.is_ok());
        assert_eq!(with_checksum(&server.log()), count, "{name}={value}");
    }
    server.set(refuse_checksums);
    let bucket = server.bucket_in(SECRET, [("AWS_CHECKSUM_ALGORITHM", "sha256")]);
    assert!(bucket.create("k/x", &bytes("x"), soon()).is_err(), "a setting is not changed");
}

#[test]
fn a_web_page_is_no_answer() {
    let (server, bucket) = server_with("k/a", "text");
    server.set(|_| InjectedFault::Page);
    let errors = [
        bucket.get("k/a", None, soon()).unwrap_err(),
        bucket.create("k/b", &bytes("x"), soon()).unwrap_err(),
        bucket.list("k", soon()).unwrap_err(),
        bucket.modified("k/a", soon()).unwrap_err(),
        bucket.identity(soon()).unwrap_err(),
        bucket.delete(vec!["k/a".to_owned()], soon()).remove(0).1.unwrap_err(),
    ];
    for error in &errors {
        assert!(error.to_string().contains("captive portal"), "{error}");
        assert!(error.may_pass(), "{error}");
    }
    assert_eq!(server.log().len(), errors.len());
}
