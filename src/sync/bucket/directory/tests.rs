//! Directories that contain links from other programs, and names that ctxfs never creates.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::time::Duration;

use bytes::Bytes;
use rustix::fs::CWD;
use tempfile::TempDir;

use crate::bucket::objects::Objects as _;
use crate::bucket::{
    Bucket, BucketError, BucketUrl, CONVERSATIONS, Created, Deadline, FormatError,
};

const LOG: &str = "conversations/c7/log/";

fn soon() -> Deadline {
    Deadline::after(Duration::from_mins(1))
}

fn at(directory: &TempDir) -> Bucket {
    let url = format!("file://{}", directory.path().display());
    Bucket::open(&BucketUrl::parse(&url).unwrap(), []).unwrap()
}

fn bytes() -> Bytes {
    Bytes::from_static(b"text")
}

/// Returns a bucket in which `conversations/c7/log` has the object `x`.
fn filled() -> (TempDir, Bucket) {
    let directory = tempfile::tempdir().unwrap();
    let bucket = at(&directory);
    bucket.create(&format!("{LOG}x"), &bytes(), soon()).unwrap();
    (directory, bucket)
}

fn names(bucket: &Bucket, prefix: &str) -> Vec<String> {
    let listed = bucket.list(prefix, soon()).unwrap();
    listed.into_iter().map(|each| each.name).collect()
}

#[track_caller]
fn assert_odd<T: std::fmt::Debug>(outcome: Result<T, BucketError>) {
    let error = outcome.unwrap_err();
    let is_odd = matches!(error, BucketError::Format(FormatError::Damaged { .. }));
    assert!(is_odd && error.is_of_key(), "{error}");
}

#[test]
fn only_whoever_marks_the_bucket_makes_its_directory() {
    let parent = tempfile::tempdir().unwrap();
    let shared = parent.path().join("shared");
    let url = BucketUrl::parse(&format!("file://{}", shared.display())).unwrap();
    let bucket = Bucket::open(&url, []).unwrap();
    assert_eq!(bucket.identity(soon()).unwrap(), None);
    assert!(bucket.get("x", None, soon()).unwrap_err().may_pass());
    assert!(bucket.list(CONVERSATIONS, soon()).unwrap_err().may_pass());
    assert!(bucket.create("x", &bytes(), soon()).unwrap_err().may_pass());
    assert!(!shared.exists());
    bucket.found(false, soon()).unwrap();
    assert_eq!(fs::metadata(&shared).unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(bucket.create("x", &bytes(), soon()).unwrap(), Created::New);
}

#[test]
fn a_link_leads_nowhere() {
    let (directory, bucket) = filled();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("x"), "another's").unwrap();
    let conversations = directory.path().join("conversations");
    fs::create_dir(conversations.join("c8")).unwrap();
    symlink(outside.path(), conversations.join("c8/log")).unwrap();
    symlink(outside.path(), conversations.join("c9")).unwrap();
    symlink(outside.path().join("x"), conversations.join("c7/log/y")).unwrap();
    symlink("nothing", conversations.join("c7/log/z")).unwrap();
    let large = vec![0_u8; 20 << 20];
    for key in ["c8/log/x", "c9/x", "c7/log/y", "c7/log/z"] {
        let key = format!("{CONVERSATIONS}{key}");
        assert_odd(bucket.get(&key, None, soon()));
        assert_odd(bucket.modified(&key, soon()));
        assert_odd(bucket.create(&key, &bytes(), soon()));
        assert_odd(bucket.upload(&key, &mut &large[..], 20 << 20, soon()));
        assert_odd(bucket.delete(vec![key], soon()).pop().unwrap().1);
    }
    assert_odd(bucket.create(&format!("{CONVERSATIONS}c8/log/new"), &bytes(), soon()));
    assert_odd(bucket.list(&format!("{CONVERSATIONS}c8/log/"), soon()));
    assert_eq!(names(&bucket, LOG), ["x"]);
    assert_eq!(bucket.list_dirs(CONVERSATIONS, 10, soon()).unwrap(), ["c7", "c8"]);
    assert_eq!(bucket.list_odd(CONVERSATIONS).unwrap(), ["c9"]);
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
    assert_eq!(fs::read(outside.path().join("x")).unwrap(), b"another's");
}

#[test]
fn the_directory_itself_may_be_a_link() {
    let (directory, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let link = directory.path().join("link");
    symlink(outside.path(), &link).unwrap();
    let url = BucketUrl::parse(&format!("file://{}", link.display())).unwrap();
    let bucket = Bucket::open(&url, []).unwrap();
    bucket.create(&format!("{LOG}x"), &bytes(), soon()).unwrap();
    assert_eq!(names(&bucket, LOG), ["x"]);
    assert_eq!(bucket.get(&format!("{LOG}x"), None, soon()).unwrap(), bytes());
}

#[test]
fn an_odd_name_holds_up_no_other() {
    let (directory, bucket) = filled();
    let log = directory.path().join(LOG);
    let conversations = directory.path().join("conversations");
    let no_text = OsStr::from_bytes(b"a\xffb");
    for top in [&log, &conversations] {
        fs::create_dir(top.join(no_text)).unwrap();
        fs::create_dir(top.join("a\nb")).unwrap();
        symlink(".", top.join("loop")).unwrap();
    }
    fs::write(log.join("a\u{1}b"), "").unwrap();
    fs::write(log.join("x#1"), "half").unwrap();
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(CWD, log.join("pipe"), rustix::fs::FileType::Fifo, mode, 0).unwrap();
    assert_eq!(names(&bucket, LOG), ["a\u{1}b", "x"]);
    assert_odd(bucket.get(&format!("{LOG}pipe"), None, soon()));
    assert_eq!(bucket.list_dirs(CONVERSATIONS, 10, soon()).unwrap(), ["a\nb", "c7"]);
    let odd = |prefix: &str| {
        let mut odd = bucket.list_odd(prefix).unwrap();
        odd.sort_unstable();
        odd
    };
    assert_eq!(odd(LOG), ["a\u{fffd}b", "loop", "pipe"]);
    assert_eq!(odd(CONVERSATIONS), ["a\u{fffd}b", "loop"]);
    assert_eq!(odd("conversations/none/log/"), [""; 0]);
}
