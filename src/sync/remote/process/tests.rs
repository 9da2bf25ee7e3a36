mod odd;

use std::collections::BTreeSet;
use std::io::{Read, Write as _};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{io, thread};

use bytes::Bytes;

use odd::Odd;

use super::{Line, ProcessObjects, answer_request};
use crate::bucket::{Bucket, BucketError, BucketUrl, Created, Deadline, RequestCounts, Tally};
use crate::remote::Objects;

/// Function that runs at the other end of the socket of a request.
type OtherEnd = Arc<dyn Fn(UnixStream) + Send + Sync>;

/// A line that calls a function with the other end of the socket, in one thread per request.
struct TestLine {
    end: OtherEnd,
    missed: AtomicUsize,
}

impl Line for TestLine {
    fn connect(&self) -> Result<UnixStream, String> {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let end = Arc::clone(&self.end);
        thread::spawn(move || end(theirs));
        Ok(ours)
    }

    fn heard(&self) {
        self.missed.store(0, Ordering::SeqCst);
    }

    fn missed(&self, _: Instant) {
        self.missed.fetch_add(1, Ordering::SeqCst);
    }

    fn trouble(&self) -> Option<String> {
        None
    }
}

fn line(end: impl Fn(UnixStream) + Send + Sync + 'static) -> Arc<TestLine> {
    Arc::new(TestLine { end: Arc::new(end), missed: AtomicUsize::new(0) })
}

/// Returns a client whose requests reach `objects` over sockets.
fn apart(objects: impl Objects + Send + 'static) -> ProcessObjects {
    ProcessObjects::new(line(move |socket| drop(answer_request(Ok(&objects), &socket, false))))
}

/// Returns a client whose server sends these bytes and then closes the socket.
fn saying(bytes: Vec<u8>) -> ProcessObjects {
    ProcessObjects::new(line(move |mut socket| {
        let mut asked = [0; 4];
        socket.read_exact(&mut asked).unwrap();
        let mut asked = vec![0; u32::from_le_bytes(asked) as usize];
        socket.read_exact(&mut asked).unwrap();
        drop(socket.write_all(&bytes));
    }))
}

/// Returns a document in the form in which it is sent.
fn document(text: &str) -> Vec<u8> {
    [&(text.len() as u32).to_le_bytes()[..], text.as_bytes()].concat()
}

/// Returns a reply with this outcome.
fn reply(outcome: &str) -> Vec<u8> {
    let counts = serde_json::to_string(&RequestCounts::default()).unwrap();
    document(&format!(r#"{{"process":1,"requests":{counts},"outcome":{outcome}}}"#))
}

fn memory() -> Bucket {
    Bucket::open(&BucketUrl::parse("memory:").unwrap(), []).unwrap()
}

fn soon() -> Deadline {
    Deadline::after(Duration::from_mins(1))
}

fn why(error: &BucketError) -> String {
    assert!(error.may_pass(), "{error}");
    error.to_string()
}

#[test]
fn each_request_does_what_it_does_without_a_process() {
    let (bucket, bytes) = (memory(), Bytes::from_static(b"some bytes"));
    let objects = apart(bucket.clone());
    assert_eq!(objects.create("a/x", &bytes, soon()).unwrap(), Created::New);
    assert_eq!(objects.create("a/x", &bytes, soon()).unwrap(), Created::Exists);
    assert_eq!(objects.create("a/empty", &Bytes::new(), soon()).unwrap(), Created::New);
    assert_eq!(objects.get("a/x", None, soon()).unwrap(), bytes);
    assert_eq!(objects.get("a/x", Some(5..100), soon()).unwrap(), "bytes");
    assert!(objects.get("a/empty", None, soon()).unwrap().is_empty());
    assert!(objects.get("a/y", None, soon()).unwrap_err().is_absent());
    let key = |place: usize| if place.is_multiple_of(2) { "a/x" } else { "a/y" };
    let wanted: Vec<_> = (0..150).map(|place| (key(place).to_owned(), None)).collect();
    for (place, got) in objects.get_many(&wanted, soon()).into_iter().enumerate() {
        assert_eq!(got.is_ok_and(|got| got == bytes), place % 2 == 0, "{place}");
    }
    assert_eq!(objects.list("a", soon()).unwrap(), bucket.list("a", soon()).unwrap());
    assert_eq!(objects.list_dirs("", 10, soon()).unwrap(), ["a"]);
    assert_eq!(objects.modified("a/x", soon()).unwrap(), bucket.modified("a/x", soon()).unwrap());
    assert_eq!(objects.identity(soon()).unwrap(), None);
    assert_eq!(objects.met(true, soon()).unwrap(), None);
    let identity = objects.found(true, soon()).unwrap();
    assert_eq!(objects.met(true, soon()).unwrap(), Some(identity));
    assert!(identity.write_once && identity.conditional);
    assert_eq!(objects.identity(soon()).unwrap().unwrap().id, identity.id);
    assert_eq!(objects.requests(), bucket.requests());
    let deleted = objects.delete(vec!["a/x".to_owned(), "a/y".to_owned()], soon());
    assert!(deleted.iter().all(|(_, outcome)| outcome.is_ok()) && deleted.len() == 2);
    assert!(objects.get("a/x", None, soon()).unwrap_err().is_absent());
}

#[test]
fn what_was_cut_off_in_a_directory_is_seen_and_deleted() {
    let directory = tempfile::tempdir().unwrap();
    let left = directory.path().join("ctxfs.json#1");
    std::fs::write(&left, "half").unwrap();
    let url = format!("file://{}", directory.path().display());
    let bucket = Bucket::open(&BucketUrl::parse(&url).unwrap(), []).unwrap();
    let (objects, top) = (apart(bucket.clone()), [String::new()]);
    let listed = objects.list_staged(&top, soon()).unwrap();
    assert_eq!(listed, bucket.list_staged(&top, soon()).unwrap());
    assert_eq!(listed[0].name, "ctxfs.json#1");
    assert!(objects.delete(vec!["ctxfs.json#1".to_owned()], soon())[0].1.is_ok());
    assert!(!left.exists());
}

#[test]
fn lists_of_any_length_come_whole() {
    let bucket = memory();
    for number in 0..2500 {
        bucket.create(&format!("a/{number:04}"), &Bytes::new(), soon()).unwrap();
    }
    let objects = apart(bucket.clone());
    assert_eq!(objects.list("a", soon()).unwrap(), bucket.list("a", soon()).unwrap());
    let keys: Vec<String> = (0..2500).map(|number| format!("a/{number:04}")).collect();
    let deleted = objects.delete(keys.clone(), soon());
    assert!(deleted.iter().map(|(key, _)| key).eq(&keys));
    assert!(objects.list("a", soon()).unwrap().is_empty());
}

#[test]
fn what_is_large_is_read_as_it_is_sent() {
    let bytes: Vec<u8> = (0..20_000_000u32).map(|at| (at % 251) as u8).collect();
    let objects = apart(memory());
    let size = objects.upload("x", &mut &bytes[..], bytes.len() as u64, soon()).unwrap();
    assert_eq!(size, bytes.len() as u64);
    assert_eq!(objects.get("x", None, soon()).unwrap(), bytes);
}

#[test]
fn a_source_that_fails_leaves_no_object_and_its_own_error() {
    struct Torn(u64);
    impl Read for Torn {
        fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
            if self.0 == 0 {
                return Err(io::Error::from_raw_os_error(libc::EIO));
            }
            let count = bytes.len().min(self.0 as usize);
            self.0 -= count as u64;
            Ok(count)
        }
    }
    let bucket = memory();
    let objects = apart(bucket.clone());
    for size in [0, 1, 20 << 20] {
        let error = objects.upload("x", &mut Torn(size), size, soon()).unwrap_err();
        let BucketError::Source { source, .. } = error else { panic!("{error}") };
        assert_eq!(source.raw_os_error(), Some(libc::EIO));
    }
    assert!(bucket.get("x", None, soon()).unwrap_err().is_absent());
}

#[test]
fn an_upload_that_is_refused_at_once_says_so() {
    let objects = apart(Odd(memory()));
    let error = objects.upload("refused", &mut io::repeat(7), 1 << 40, soon()).unwrap_err();
    assert!(matches!(error, BucketError::Refused { .. }), "{error}");
}

#[test]
fn errors_keep_their_kind_and_text() {
    let there = Odd(memory());
    let objects = apart(Odd(memory()));
    let keys = ["absent", "exists", "refused", "newer", "mark", "large", "many", "url", "source"];
    let mut kinds = BTreeSet::new();
    for key in keys {
        let (far, near) = (objects.get(key, None, soon()), there.get(key, None, soon()));
        let (far, near) = (far.unwrap_err(), near.unwrap_err());
        assert_eq!(far.to_string(), near.to_string());
        assert_eq!(std::mem::discriminant(&far), std::mem::discriminant(&near));
        assert!(!far.may_pass());
        kinds.insert(format!("{far:?}").split(' ').next().unwrap().to_owned());
    }
    assert_eq!(kinds.len(), keys.len());
    let deleted = objects.delete(vec!["x".to_owned(), "refused".to_owned()], soon());
    assert!(deleted[0].1.is_ok());
    assert!(matches!(deleted[1].1, Err(BucketError::Refused { .. })));
}

#[test]
fn a_bucket_that_cannot_be_opened_is_the_error_of_each_request() {
    let objects = ProcessObjects::new(line(|socket| {
        let error = BucketError::Url { url: "s3://b".into(), why: "no region".into() };
        drop(answer_request(Err(&error), &socket, false));
    }));
    let error = objects.list("a", soon()).unwrap_err();
    assert_eq!(error.to_string(), "cannot use the remote `s3://b`: no region");
    let error = objects.create("a", &Bytes::from(vec![0; 10 << 20]), soon()).unwrap_err();
    assert!(matches!(error, BucketError::Url { .. }), "{error}");
}

#[test]
fn a_slow_request_holds_up_no_other() {
    let objects = apart(Odd(memory()));
    objects.create("x", &Bytes::from_static(b"text"), soon()).unwrap();
    let until = Deadline::after(Duration::from_secs(2));
    thread::scope(|scope| {
        let slow: Vec<_> =
            (0..20).map(|_| scope.spawn(|| objects.get("slow", None, until))).collect();
        for _ in 0..100 {
            assert_eq!(objects.get("x", None, soon()).unwrap(), "text");
        }
        assert!(!until.is_past(), "a busy machine");
        for slow in slow {
            // The server ends the request shortly before its deadline, so its own error arrives.
            assert!(why(&slow.join().unwrap().unwrap_err()).contains("it is slow"));
        }
    });
}

#[test]
fn nobody_waits_after_a_deadline() {
    let line = line(|socket| drop(answer_request(Ok(&Odd(memory())), &socket, false)));
    let objects = ProcessObjects::new(Arc::clone(&line) as _);
    let begun = Instant::now();
    let error = objects.get("stuck", None, Deadline::after(Duration::from_secs(1))).unwrap_err();
    assert!(begun.elapsed() < Duration::from_secs(4));
    assert!(why(&error).contains("did not answer in time"));
    assert_eq!(line.missed.load(Ordering::SeqCst), 1);
    let error = objects.get("stuck", None, Deadline::after(Duration::ZERO)).unwrap_err();
    assert!(why(&error).contains("no time"));
    // The client does not wait either if the server never reads what the client sends.
    let objects = ProcessObjects::new(self::line(|socket| {
        thread::sleep(Duration::from_secs(5));
        drop(socket);
    }));
    let begun = Instant::now();
    let until = Deadline::after(Duration::from_secs(1));
    let error = objects.upload("x", &mut io::repeat(7), 1 << 40, until).unwrap_err();
    assert!(begun.elapsed() < Duration::from_secs(4));
    assert!(why(&error).contains("did not answer in time"));
}

#[test]
fn a_process_that_dies_is_named() {
    let ends: [fn(UnixStream); 2] =
        [drop, |socket| drop(answer_request(Ok(&Odd(memory())), &socket, false))];
    for end in ends {
        let error = ProcessObjects::new(line(end)).get("panic", None, soon()).unwrap_err();
        assert!(why(&error).contains("`ctxfs-remote` ended meanwhile"));
    }
}

#[test]
fn rubbish_is_refused() {
    let ranged = Some(0..4);
    let too_long = [reply(r#"{"Ok":{"Got":[{"Ok":5}]}}"#), b"12345".to_vec()].concat();
    let rubbish = [
        u32::MAX.to_le_bytes().to_vec(),
        b"HTTP/1.1 200 OK\r\n\r\n".to_vec(),
        document("{}"),
        document("no JSON"),
        reply(r#"{"Ok":{"Got":[]}}"#),
        reply(r#"{"Ok":{"Got":[{"Ok":1},{"Ok":1}]}}"#),
        reply(r#"{"Ok":{"Got":[{"Ok":18446744073709551615}]}}"#),
        reply(r#"{"Ok":{"Modified":7}}"#),
        too_long,
    ];
    for bytes in rubbish {
        let told = String::from_utf8_lossy(&bytes).into_owned();
        let error = saying(bytes).get("x", ranged.clone(), soon()).unwrap_err();
        assert!(why(&error).contains("nonsense"), "{told}: {error}");
    }
    // Truncate the response in the length, in the document and in the bytes.
    let whole = [reply(r#"{"Ok":{"Got":[{"Ok":4}]}}"#), b"1234".to_vec()].concat();
    for length in [0, 2, 20, whole.len() - 4, whole.len() - 1] {
        let error = saying(whole[..length].to_vec()).get("x", ranged.clone(), soon()).unwrap_err();
        assert!(why(&error).contains("ended meanwhile"), "{length}: {error}");
    }
    assert_eq!(saying(whole).get("x", ranged, soon()).unwrap(), "1234");
}

#[test]
fn lists_that_are_no_lists_are_refused() {
    let names = |count: usize| document(&format!("[{}]", vec![r#"["a",1,2]"#; count].join(",")));
    let listed = |count: usize| reply(&format!(r#"{{"Ok":{{"Listed":{count}}}}}"#));
    let lists = [
        listed(1_000_001),
        [listed(2), names(1)].concat(),
        [listed(2), names(3)].concat(),
        [listed(2), names(0)].concat(),
        reply(r#"{"Ok":{"Created":true}}"#),
    ];
    for bytes in lists {
        let error = saying(bytes).list("a", soon()).unwrap_err();
        assert!(why(&error).contains("nonsense"), "{error}");
    }
    assert_eq!(saying([listed(2), names(2)].concat()).list("a", soon()).unwrap().len(), 2);
    let error = saying([listed(3), names(3)].concat()).list_dirs("a", 2, soon()).unwrap_err();
    assert!(why(&error).contains("nonsense"), "{error}");
    let deleted = saying(reply(r#"{"Ok":{"Deleted":[]}}"#)).delete(vec!["x".to_owned()], soon());
    assert!(deleted.len() == 1 && deleted[0].1.is_err());
}

/// Invalid requests have no effect on the server.
#[test]
fn a_request_that_is_none_writes_nothing() {
    let bucket = memory();
    let asked = |request: &str| {
        document(&format!(r#"{{"left":{{"secs":60,"nanos":0}},"request":{request}}}"#))
    };
    let create = || asked(r#"{"Create":{"key":"x"}}"#);
    let upload = || asked(r#"{"Upload":{"key":"x","expected":3}}"#);
    let piece = |length: u32, bytes: &[u8]| [&length.to_le_bytes()[..], bytes].concat();
    let requests = [
        Vec::new(),
        u32::MAX.to_le_bytes().to_vec(),
        asked(r#""Everything""#),
        create(),
        [create(), piece(3, b"ab")].concat(),
        [create(), piece(3, b"abc")].concat(),
        [create(), piece(u32::MAX, b"abc")].concat(),
        [upload(), piece(3, b"abc")].concat(),
        [upload(), piece(3, b"abc"), piece(1, b"")].concat(),
    ];
    for bytes in requests {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        ours.write_all(&bytes).unwrap();
        ours.shutdown(std::net::Shutdown::Write).unwrap();
        drop(answer_request(Ok(&bucket), &theirs, false));
        assert!(bucket.get("x", None, soon()).unwrap_err().is_absent());
    }
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    ours.write_all(&[upload(), piece(3, b"abc"), piece(0, b"")].concat()).unwrap();
    answer_request(Ok(&bucket), &theirs, false).unwrap();
    assert_eq!(bucket.get("x", None, soon()).unwrap(), "abc");
}

#[test]
fn requests_are_counted_across_processes() {
    let counts = |gets: u64| RequestCounts {
        get: Tally { requests: gets, bytes: 10 * gets },
        ..RequestCounts::default()
    };
    let objects = ProcessObjects::new(line(drop));
    for (process, gets) in [(7, 1), (7, 3), (7, 2), (8, 1), (8, 4)] {
        objects.count(process, counts(gets));
    }
    assert_eq!(objects.requests(), counts(7));
}

#[test]
fn one_that_only_reads_changes_nothing() {
    let bucket = memory();
    let kept = Bytes::from_static(b"text");
    bucket.create("a/x", &kept, soon()).unwrap();
    let other_end = bucket.clone();
    let line = line(move |socket| drop(answer_request(Ok(&other_end), &socket, true)));
    let objects = ProcessObjects::new(line);
    assert_eq!(objects.get("a/x", None, soon()).unwrap(), kept);
    assert_eq!(objects.list("a", soon()).unwrap().len(), 1);
    let outcomes = [
        objects.create("a/y", &Bytes::from_static(b"more"), soon()).map(drop),
        objects.upload("a/z", &mut &b"more"[..], 4, soon()).map(drop),
        objects.delete(vec!["a/x".to_owned()], soon()).remove(0).1,
        objects.found(false, soon()).map(drop),
        objects.met(false, soon()).map(drop),
    ];
    for outcome in outcomes {
        assert!(matches!(outcome, Err(BucketError::Refused { .. })), "{outcome:?}");
    }
    assert_eq!(bucket.list("a", soon()).unwrap().len(), 1);
}
