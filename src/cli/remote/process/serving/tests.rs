use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::*;
use ctxfs_sync::bucket::Deadline;
use ctxfs_sync::remote::{Line, ProcessObjects, answer_request};

/// A line to a process that is a thread.
struct Threaded(UnixStream);

impl Line for Threaded {
    fn connect(&self) -> Result<UnixStream, String> {
        let (ours, theirs) = UnixStream::pair().unwrap();
        passing::send(&self.0, b"q", Some(theirs.as_fd())).map_err(|error| error.to_string())?;
        Ok(ours)
    }

    fn heard(&self) {}

    fn missed(&self, _: Instant) {}

    fn trouble(&self) -> Option<String> {
        None
    }
}

fn soon() -> Deadline {
    Deadline::after(Duration::from_mins(1))
}

#[test]
fn it_answers_many_at_a_time_until_the_end() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let url = BucketUrl::parse("memory:").unwrap();
    let bucket = Bucket::open(&url, []);
    let serving =
        thread::spawn(move || serve(&theirs, bucket, &Directory::of(&url), answer_request));
    let objects = ProcessObjects::new(Arc::new(Threaded(ours)));
    thread::scope(|scope| {
        for number in 0..200 {
            let objects = &objects;
            scope.spawn(move || {
                let (key, bytes) = (format!("a/{number}"), Bytes::from(number.to_string()));
                objects.create(&key, &bytes, soon()).unwrap();
                assert_eq!(objects.get(&key, None, soon()).unwrap(), bytes);
            });
        }
    });
    drop(objects);
    serving.join().unwrap().unwrap();
}

#[test]
fn it_ends_when_its_directory_is_another_one() {
    let shared = tempfile::tempdir().unwrap();
    let path = shared.path().join("bucket");
    std::fs::create_dir(&path).unwrap();
    let url = BucketUrl::parse(&format!("file://{}", path.display())).unwrap();
    let bucket = Bucket::open(&url, []);
    let directory = Directory::of(&url);
    let (ours, theirs) = UnixStream::pair().unwrap();
    let serving = thread::spawn(move || serve(&theirs, bucket, &directory, answer_request));
    let objects = ProcessObjects::new(Arc::new(Threaded(ours)));
    objects.create("x", &Bytes::from_static(b"text"), soon()).unwrap();
    std::fs::rename(&path, shared.path().join("old")).unwrap();
    std::fs::create_dir(&path).unwrap();
    assert!(objects.get("x", None, soon()).unwrap_err().may_pass());
    serving.join().unwrap().unwrap();
}
