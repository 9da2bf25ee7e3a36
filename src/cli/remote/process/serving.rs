//! The work of the process: it answers requests, each in a thread.

use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{io, thread};

use parking_lot::{Condvar, Mutex};

use crate::passing;
use ctxfs_sync::bucket::{Bucket, BucketError, BucketUrl};
use ctxfs_sync::remote::Objects;

/// The requests at a time. More wait in the socket, which takes some hundred; after that the server
/// is told at once.
const MOST: usize = 64;

/// A directory that hosts share, as it was when this process confined itself to it.
pub(super) struct Directory(Option<(PathBuf, Option<FileNumber>)>);

/// The device and number of a file.
type FileNumber = (u64, u64);

impl Directory {
    /// Returns the directory of `url`, if it is one.
    pub(super) fn of(url: &BucketUrl) -> Self {
        Self(url.local_directory().map(|path| (path.to_owned(), number(path))))
    }

    /// Returns true if another directory has its place, as when a shared disk was mounted anew.
    /// This process may not enter that one.
    fn was_replaced(&self) -> bool {
        self.0.as_ref().is_some_and(|(path, before)| number(path) != *before)
    }
}

fn number(path: &Path) -> Option<FileNumber> {
    let found = std::fs::metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

/// Answers the request on a socket.
type Answer = fn(Result<&dyn Objects, &BucketError>, &UnixStream) -> io::Result<()>;

/// Answers by `answer` what comes over `control`, until that ends or the directory is another one:
/// the next process may enter it.
pub(super) fn serve(
    control: &UnixStream,
    bucket: Result<Bucket, BucketError>,
    directory: &Directory,
    answer: Answer,
) -> io::Result<()> {
    let goes_on = || {
        let was_replaced = directory.was_replaced();
        if was_replaced {
            tracing::warn!("the directory of the bucket was replaced: starting anew");
        }
        !was_replaced
    };
    answer_each(control, goes_on, move |socket| {
        let objects = bucket.as_ref().map(|bucket| bucket as &dyn Objects);
        answer(objects, socket)
    })
}

/// Has `answer` answer what comes over `control`, each request in a thread, until that ends, or
/// `goes_on` says no.
pub(crate) fn answer_each(
    control: &UnixStream,
    goes_on: impl Fn() -> bool,
    answer: impl Fn(&UnixStream) -> io::Result<()> + Send + Sync + 'static,
) -> io::Result<()> {
    let (answer, places) = (Arc::new(answer), Arc::new(Places::default()));
    while let (1.., socket) = passing::receive(control, &mut [0])? {
        if !goes_on() {
            break;
        }
        // Without descriptors the socket is lost, and the server sees the end of its own.
        let Some(socket) = socket.map(UnixStream::from) else { continue };
        let (answer, place) = (Arc::clone(&answer), Places::take(&places));
        let work = move || {
            if let Err(error) = answer(&socket) {
                tracing::debug!(%error, "a request of the server broke off");
            }
            drop(place);
        };
        thread::Builder::new().name("request".to_owned()).spawn(work)?;
    }
    Ok(())
}

/// The places for requests.
#[derive(Default)]
struct Places {
    taken: Mutex<usize>,
    left: Condvar,
}

/// A place that is taken until it is dropped.
struct Place(Arc<Places>);

impl Places {
    /// Waits for a place.
    fn take(places: &Arc<Self>) -> Place {
        let mut taken = places.taken.lock();
        while *taken == MOST {
            places.left.wait(&mut taken);
        }
        *taken += 1;
        Place(Arc::clone(places))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        *self.0.taken.lock() -= 1;
        self.0.left.notify_one();
    }
}

#[cfg(test)]
mod tests;
