//! Requests to all kinds of stores.

mod faults;

use std::fs;
use std::io::Read as _;
use std::time::Duration;

use bytes::Bytes;
use tempfile::TempDir;

use super::{Bucket, Created, Deadline};
use crate::bucket::error::BucketError;
use crate::bucket::objects::Objects as _;
use crate::bucket::tests::TestServer;
use crate::bucket::url::BucketUrl;

/// A deadline that no test reaches.
fn soon() -> Deadline {
    Deadline::after(Duration::from_mins(1))
}

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

/// One store of each kind, and the resources that keep them alive.
struct Stores {
    server: TestServer,
    directory: TempDir,
}

impl Stores {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("shared")).unwrap();
        Self { server: TestServer::start(), directory }
    }

    fn all(&self) -> [(&'static str, Bucket); 3] {
        let open = |url: &str| Bucket::open(&BucketUrl::parse(url).unwrap(), []).unwrap();
        let directory = format!("file://{}/shared", self.directory.path().display());
        [("memory", open("memory:")), ("file", open(&directory)), ("s3", self.server.bucket())]
    }
}

#[test]
fn an_object_is_created_once_and_read() {
    let stores = Stores::new();
    for (store, bucket) in stores.all() {
        let key = "conversations/c/log/one.tar.zst";
        assert!(bucket.get(key, None, soon()).unwrap_err().is_absent(), "{store}");
        assert!(bucket.modified(key, soon()).unwrap_err().is_absent(), "{store}");
        let create = |text: &str| bucket.create(key, &bytes(text), soon()).unwrap();
        assert_eq!(create("0123456789"), Created::New, "{store}");
        assert_eq!(create("other"), Created::Exists, "{store}");
        assert_eq!(bucket.get(key, None, soon()).unwrap(), "0123456789", "{store}");
        assert_eq!(bucket.get(key, Some(2..5), soon()).unwrap(), "234", "{store}");
        assert_eq!(bucket.get(key, Some(8..50), soon()).unwrap(), "89", "{store}");
        assert!(bucket.get(key, Some(10..11), soon()).is_err(), "{store}");
        assert!(bucket.modified(key, soon()).unwrap().written_ms > 1_600_000_000_000, "{store}");
    }
}

#[test]
fn a_name_that_a_directory_cannot_have_concerns_its_key() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().display().to_string();
    let bucket = Bucket::open(&BucketUrl::parse(&format!("file://{root}")).unwrap(), []).unwrap();
    // No file system accepts a name of this length.
    let key = format!("conversations/{}", "x".repeat(300));
    fs::create_dir(directory.path().join("conversations")).unwrap();
    let read = bucket.get(&key, None, soon()).unwrap_err();
    let written = bucket.create(&key, &bytes("x"), soon()).unwrap_err();
    for error in [read, written] {
        let told = error.to_string();
        assert!(matches!(error, BucketError::Unfit { .. }) && !error.may_pass(), "{told}");
        assert!(error.is_of_key() && told.contains(&root), "{told}");
    }
}

#[test]
fn an_empty_object_is_an_object() {
    let stores = Stores::new();
    for (store, bucket) in stores.all() {
        assert_eq!(bucket.create("e", &Bytes::new(), soon()).unwrap(), Created::New, "{store}");
        assert_eq!(bucket.get("e", None, soon()).unwrap(), "", "{store}");
        assert_eq!(bucket.upload("f", &mut &b""[..], 0, soon()).unwrap(), 0, "{store}");
        assert_eq!(bucket.get("f", None, soon()).unwrap(), "", "{store}");
    }
}

#[test]
fn many_are_read_in_their_order() {
    let stores = Stores::new();
    for (store, bucket) in stores.all() {
        let mut wanted = Vec::new();
        for number in 0..40 {
            let key = format!("k/{number}");
            if number != 7 {
                bucket.create(&key, &bytes(&format!("bytes {number}")), soon()).unwrap();
            }
            wanted.push((key, (number % 2 == 0).then_some(6..8)));
        }
        let got = bucket.get_many(&wanted, soon());
        assert_eq!(got.len(), 40, "{store}");
        for (number, got) in got.into_iter().enumerate() {
            match got {
                Ok(got) if number % 2 == 0 => assert_eq!(got, format!("{number}"), "{store}"),
                Ok(got) => assert_eq!(got, format!("bytes {number}"), "{store}"),
                Err(error) => assert!(number == 7 && error.is_absent(), "{store}: {error}"),
            }
        }
    }
}

#[test]
fn lists_have_all_names_in_order() {
    let stores = Stores::new();
    for (store, bucket) in stores.all() {
        let keys = ["c/x/log/b", "c/x/log/a", "c/x/log/c", "c/x/logs", "c/xy/log/a", "c/y/log/d/e"];
        for key in keys {
            bucket.create(key, &bytes(key), soon()).unwrap();
        }
        let names = |prefix: &str| -> Vec<String> {
            let listed = bucket.list(prefix, soon()).unwrap();
            assert!(listed.iter().all(|object| object.size > 6 && object.modified_ms > 0));
            listed.into_iter().map(|object| object.name).collect()
        };
        assert_eq!(names("c/x/log/"), ["a", "b", "c"], "{store}");
        assert_eq!(names("c/x/log"), ["a", "b", "c"], "{store}");
        assert_eq!(names("c/y"), ["log/d/e"], "{store}");
        assert!(names("no/such/").is_empty(), "{store}");
        assert_eq!(names("").len(), keys.len(), "{store}");
        assert_eq!(bucket.list_dirs("c/", 10, soon()).unwrap(), ["x", "xy", "y"], "{store}");
        assert_eq!(bucket.list_dirs("c", 2, soon()).unwrap(), ["x", "xy"], "{store}");
        assert!(bucket.list_dirs("no/such", 2, soon()).unwrap().is_empty(), "{store}");
    }
}

#[test]
fn names_of_conversations_stay_as_they_are() {
    let stores = Stores::new();
    for (store, bucket) in stores.all() {
        let ids = ["%252F", "%C3%A9", "...", "a%20b", "a%2Fb", "a.b-c_d", "a~b+c=d&e"];
        for id in ids {
            let key = format!("conversations/{id}/log/0-1.tar.zst");
            bucket.create(&key, &bytes(id), soon()).unwrap();
            assert_eq!(bucket.get(&key, None, soon()).unwrap(), id, "{store}");
            let listed = bucket.list(&format!("conversations/{id}/log/"), soon()).unwrap();
            assert_eq!(listed[0].name, "0-1.tar.zst", "{store}: {id}");
        }
        let mut found = bucket.list_dirs("conversations", 100, soon()).unwrap();
        found.sort();
        assert_eq!(found, ids, "{store}");
        for key in ["a/../b", "a//b", "a/./b", "a\nb"] {
            assert!(bucket.create(key, &bytes("x"), soon()).is_err(), "{store}: {key}");
        }
    }
}

#[test]
fn what_is_deleted_is_gone() {
    let stores = Stores::new();
    for (store, bucket) in stores.all() {
        for key in ["d/a", "d/b", "d/c"] {
            bucket.create(key, &bytes("x"), soon()).unwrap();
        }
        let keys = ["d/a", "d/none", "d/c", "d//x"].map(str::to_owned).to_vec();
        let outcomes = bucket.delete(keys.clone(), soon());
        let told: Vec<(String, bool)> =
            outcomes.into_iter().map(|(key, outcome)| (key, outcome.is_ok())).collect();
        let wanted = keys.into_iter().zip([true, true, true, false]).collect::<Vec<_>>();
        assert_eq!(told, wanted, "{store}");
        let left = bucket.list("d", soon()).unwrap();
        assert_eq!(left.len(), 1, "{store}");
        assert_eq!(left[0].name, "b", "{store}");
        assert!(bucket.delete(Vec::new(), soon()).is_empty(), "{store}");
    }
}

#[test]
fn a_large_object_goes_in_parts() {
    let stores = Stores::new();
    let content: Vec<u8> = (0..20u32 << 20).map(|at| (at >> 8) as u8 ^ at as u8).collect();
    for (store, bucket) in stores.all() {
        for (key, size) in [("p/8", 8 << 20), ("p/16", 16 << 20), ("p/20", content.len())] {
            let before = bucket.requests().put.requests;
            let mut source = &content[..size];
            let sent = bucket.upload(key, &mut source, size as u64, soon()).unwrap();
            assert_eq!(sent, size as u64, "{store}");
            assert!(bucket.get(key, None, soon()).unwrap() == content[..size], "{store}: {key}");
            let puts = bucket.requests().put.requests - before;
            let parts = size.div_ceil(8 << 20) as u64;
            assert!(puts <= if parts == 1 { 1 } else { parts + 2 }, "{store}: {puts}");
        }
    }
}

#[test]
fn an_upload_that_was_sent_before_is_sent() {
    let stores = Stores::new();
    for (store, bucket) in stores.all() {
        let upload =
            |text: &str| bucket.upload("u", &mut text.as_bytes(), text.len() as u64, soon());
        assert_eq!(upload("abc").unwrap(), 3, "{store}");
        assert_eq!(upload("abc").unwrap(), 3, "{store}");
        let other = upload("abcd");
        assert!(matches!(other, Err(BucketError::Exists { .. })), "{store}: {other:?}");
        assert_eq!(bucket.get("u", None, soon()).unwrap(), "abc", "{store}");
    }
}

#[test]
fn an_upload_whose_source_fails_leaves_nothing() {
    struct Failing(u64);
    impl std::io::Read for Failing {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            self.0 = self.0.saturating_sub(buffer.len() as u64);
            if self.0 == 0 { Err(std::io::ErrorKind::InvalidData.into()) } else { Ok(buffer.len()) }
        }
    }
    let stores = Stores::new();
    for (store, bucket) in stores.all() {
        for size in [1000, 20 << 20] {
            let failed = bucket.upload("u", &mut Failing(size), 20 << 20, soon());
            assert!(matches!(failed, Err(BucketError::Source { .. })), "{store}: {failed:?}");
            assert!(bucket.get("u", None, soon()).unwrap_err().is_absent(), "{store}");
        }
    }
    let left = fs::read_dir(stores.directory.path().join("shared")).unwrap().count();
    assert_eq!(left, 0, "parts that were sent are given up");
}

#[test]
fn a_list_has_more_than_a_page() {
    let server = TestServer::start();
    let directory = server.file("c/x/log");
    fs::create_dir_all(&directory).unwrap();
    for number in 0..2345 {
        fs::write(directory.join(format!("{number:012}")), "x").unwrap();
    }
    let bucket = server.bucket();
    let listed = bucket.list("c/x/log/", soon()).unwrap();
    assert_eq!(listed.len(), 2345);
    assert!(listed.is_sorted());
    assert_eq!(bucket.requests().list.requests, 3);
}

#[test]
fn every_request_is_counted() {
    let server = TestServer::start();
    let bucket = server.bucket();
    bucket.create("a", &bytes("12345"), soon()).unwrap();
    bucket.create("a", &bytes("12345"), soon()).unwrap();
    drop(bucket.get("a", None, soon()).unwrap());
    bucket.get("b", None, soon()).unwrap_err();
    bucket.modified("a", soon()).unwrap();
    bucket.list("", soon()).unwrap();
    bucket.list_dirs("", 5, soon()).unwrap();
    bucket.upload("c", &mut std::io::repeat(7).take(17 << 20), 0, soon()).unwrap();
    drop(bucket.delete((0..1500).map(|number| format!("d/{number}")).collect(), soon()));
    let log = server.log();
    let counts = bucket.clone().requests();
    assert_eq!(counts.total(), log.len() as u64, "{log:#?}");
    assert_eq!((counts.get.requests, counts.get.bytes), (2, 5));
    assert_eq!((counts.put.requests, counts.put.bytes), (2 + 5, 10 + (17 << 20)));
    assert_eq!((counts.list.requests, counts.delete.requests), (2, 2));
    assert_eq!(counts.head.requests, 1);
    assert!(log[0].is_conditional && log[0].method == "PUT", "{:?}", log[0]);
}

#[test]
fn what_is_larger_than_a_reader_takes_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let url = BucketUrl::parse(&format!("file://{}", directory.path().display())).unwrap();
    let file = fs::File::create(directory.path().join("huge")).unwrap();
    file.set_len((128 << 20) + 1).unwrap();
    let bucket = Bucket::open(&url, []).unwrap();
    let refused = bucket.get("huge", None, soon());
    assert!(matches!(refused, Err(BucketError::TooLarge { .. })), "{refused:?}");
    assert_eq!(bucket.get("huge", Some(0..10), soon()).unwrap().len(), 10);
}
