use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use tempfile::TempDir;

use super::*;

const BUCKET: &str = "000102030405060708090a0b0c0d0e0f";

fn home() -> (TempDir, Store, Home) {
    let temporary = tempfile::tempdir().unwrap();
    let store = Store::open(temporary.path()).unwrap();
    let home = Home::open(&store, BUCKET.parse().unwrap()).unwrap();
    (temporary, store, home)
}

#[test]
fn it_is_private() {
    let (temporary, ..) = home();
    let path = temporary.path().join("remote").join(BUCKET).join("conversations");
    for path in path.ancestors().take(3) {
        assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o700);
    }
}

#[test]
fn one_process_pushes_for_a_store() {
    let (_temporary, store, home) = home();
    let other = Home::open(&store, "ff".repeat(16).parse().unwrap()).unwrap();
    let lock = home.lock().unwrap().unwrap();
    assert!(other.lock().unwrap().is_none(), "the lock is that of the store");
    drop(lock);
    assert!(other.lock().unwrap().is_some());
}

#[test]
fn a_writer_stays_until_there_is_a_new_one() {
    let (temporary, store, home) = home();
    let writer = home.writer().unwrap();
    assert_eq!(Home::open(&store, BUCKET.parse().unwrap()).unwrap().writer().unwrap(), writer);
    let other = home.new_writer().unwrap();
    assert!(other != writer && home.writer().unwrap() == other);
    let path = temporary.path().join("remote").join(BUCKET).join(WRITER);
    fs::write(&path, "{").unwrap();
    assert_ne!(home.writer().unwrap(), other);
    let another = Home::open(&store, "ff".repeat(16).parse().unwrap()).unwrap();
    assert_ne!(another.writer().unwrap(), home.writer().unwrap());
}

#[test]
fn it_is_known_whether_the_bucket_is_write_once() {
    let (temporary, store, home) = home();
    assert!(!home.is_write_once().unwrap(), "nobody has said so");
    home.keep_bucket("s3://x/y", true).unwrap();
    let again = Home::open(&store, BUCKET.parse().unwrap()).unwrap();
    assert!(again.is_write_once().unwrap());
    assert_eq!(known_buckets(&store).unwrap()[0].url, "s3://x/y");
    let path = temporary.path().join("remote").join(BUCKET).join("bucket.json");
    fs::write(path, r#"{"url":"s3://x/y"}"#).unwrap();
    assert!(!again.is_write_once().unwrap(), "earlier versions did not note it");
}

#[test]
fn the_bucket_that_was_used_last_is_at_a_url() {
    let (_temporary, store, first) = home();
    let id = "ff".repeat(16).parse().unwrap();
    let second = Home::open(&store, id).unwrap();
    first.keep_bucket("s3://x/y", true).unwrap();
    second.keep_bucket("s3://x/y", false).unwrap();
    assert_eq!(known_bucket(&store, "s3://x/y").unwrap(), Some(id));
    assert!(first.is_write_once().unwrap());
    first.keep_bucket("s3://x/y", true).unwrap();
    assert_eq!(known_bucket(&store, "s3://x/y").unwrap(), Some(BUCKET.parse().unwrap()));
    assert_eq!(known_bucket(&store, "s3://x").unwrap(), None);
}
