//! `ctxfs-remote`: the process that accesses the bucket for a server. It has access to the network
//! and the keys, or to the directory that hosts share, and to no file of the store.
//!
//! A watchdog of the server, or the starter of a page, starts it with a socket that the server
//! passes. Its command line determines the bucket. It was set before the server read the first byte
//! of an output.

use std::path::{Path, PathBuf};
use std::{fs, io, os::unix::fs::MetadataExt as _, os::unix::net::UnixStream};

use crate::helper::{answer_each, starter_socket};
use crate::{confine, env};
use ctxfs_sync::bucket::{Bucket, BucketError, BucketUrl};
use ctxfs_sync::remote::{Objects, answer_read_request, answer_request};

/// Accesses the bucket at `url` for the process at the other end of standard input, until that
/// process ends. With `read_only`, refuses requests that would change the bucket.
pub(crate) fn run(url: &str, read_only: bool) -> anyhow::Result<()> {
    let url = BucketUrl::parse(url)?;
    // Reads the key files that are needed only once, because a confined process cannot open them.
    let bucket = Bucket::open(&url, env::of_object_stores());
    confine::bucket(url.local_directory(), &env::key_directories())?;
    let answer = if read_only { answer_read_request } else { answer_request };
    Ok(serve(&starter_socket()?, bucket, SharedDirectory::of(&url), answer)?)
}

// Maximum number of simultaneous requests. When the socket is full too, the server gets an error
// immediately.
const MOST: usize = 64;

struct SharedDirectory(Option<(PathBuf, Option<FileNumber>)>);

type FileNumber = (u64, u64);

impl SharedDirectory {
    fn of(url: &BucketUrl) -> Self {
        Self(url.local_directory().map(|path| (path.to_owned(), file_number(path))))
    }

    // Returns true if the directory was replaced, for example because a shared disk was mounted
    // again. This process is not allowed to access the new directory.
    fn was_replaced(&self) -> bool {
        self.0.as_ref().is_some_and(|(path, before)| file_number(path) != *before)
    }
}

fn file_number(path: &Path) -> Option<FileNumber> {
    let found = fs::metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

type AnswerRequest = fn(Result<&dyn Objects, &BucketError>, &UnixStream) -> io::Result<()>;

// Answers requests that arrive over `control`, until its other end is closed or the shared
// directory is replaced. The next process can access the new directory.
fn serve(
    control: &UnixStream,
    bucket: Result<Bucket, BucketError>,
    directory: SharedDirectory,
    answer: AnswerRequest,
) -> io::Result<()> {
    let goes_on = || {
        let was_replaced = directory.was_replaced();
        if was_replaced {
            tracing::warn!("the directory of the bucket was replaced: starting anew");
        }
        !was_replaced
    };
    answer_each(control, MOST, goes_on, move |socket| {
        let objects = bucket.as_ref().map(|bucket| bucket as &dyn Objects);
        answer(objects, socket)
    })
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;
    use std::sync::Arc;
    use std::thread;
    use std::time::{Duration, Instant};

    use bytes::Bytes;

    use ctxfs_sync::bucket::Deadline;
    use ctxfs_sync::channel;
    use ctxfs_sync::remote::{Line, ProcessObjects};

    use super::*;

    /// A connection to a thread that plays the role of the process.
    struct Threaded(UnixStream);

    impl Line for Threaded {
        fn connect(&self) -> Result<UnixStream, String> {
            let (ours, theirs) = UnixStream::pair().unwrap();
            channel::send(&self.0, &(), Some(theirs.as_fd())).map_err(|error| error.to_string())?;
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
        let serving = thread::spawn(move || {
            serve(&theirs, bucket, SharedDirectory::of(&url), answer_request)
        });
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
        let directory = SharedDirectory::of(&url);
        let (ours, theirs) = UnixStream::pair().unwrap();
        let serving = thread::spawn(move || serve(&theirs, bucket, directory, answer_request));
        let objects = ProcessObjects::new(Arc::new(Threaded(ours)));
        objects.create("x", &Bytes::from_static(b"text"), soon()).unwrap();
        std::fs::rename(&path, shared.path().join("old")).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert!(objects.get("x", None, soon()).unwrap_err().may_pass());
        serving.join().unwrap().unwrap();
    }
}
