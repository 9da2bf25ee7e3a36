//! `ctxfs-remote`: the process that accesses the bucket for a server. It has access to the network
//! and the keys, or to the directory that hosts share, and to no file of the store.
//!
//! ```text
//! server or page (confined)       its starter                  ctxfs-remote
//!   on the first request:
//!     one end of a socket pair  ->   starts it with this end ->  confines itself
//!   on each request:
//!     a socket for the request  ----------------------------->   starts a thread
//!     the request (`remote::ProcessObjects`)  --------------->   answers the request
//! ```
//!
//! After the process has died, the first request after a pause starts it again. The process ends
//! when the server ends. The starter names the bucket on the command line of the process. The
//! starter for a server is a watchdog. The server gives the URL of the bucket to the watchdog
//! before it reads any output, so a compromised server cannot name another bucket.

use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, io, os::unix::fs::MetadataExt as _, os::unix::net::UnixStream, sync::Arc, thread};

use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::helper::{answer_each, starter_socket};
use crate::{confine, env};
use ctxfs_sync::bucket::{Bucket, BucketError, BucketUrl};
use ctxfs_sync::channel;
use ctxfs_sync::remote::{Line, Objects, answer_request};

/// Accesses the bucket at `url` for the process at the other end of standard input, until that
/// process ends. With `read_only`, refuses requests that would change the bucket.
pub(crate) fn run(url: &str, read_only: bool) -> anyhow::Result<()> {
    let url = BucketUrl::parse(url)?;
    // Opening the bucket reads the key files that are needed only once. After the confinement, they
    // cannot be opened.
    let bucket = Bucket::open(&url, env::of_object_stores());
    confine::bucket(url.local_directory(), &env::key_directories())?;
    Ok(serve(&starter_socket()?, bucket, &SharedDirectory::of(&url), read_only)?)
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

// Answers requests that arrive over `control`, until its other end is closed or the shared
// directory is replaced. The next process can access the new directory.
fn serve(
    control: &UnixStream,
    bucket: Result<Bucket, BucketError>,
    directory: &SharedDirectory,
    read_only: bool,
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
        answer_request(objects, socket, read_only)
    })
}

// The pause doubles from the first to the longest value. It is reset after a process that ran for
// at least the longest pause.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
// If requests pass their deadlines and the process answers nothing for this long, it is considered
// lost.
const SILENT: Duration = Duration::from_secs(10);

/// A function that starts the process with the given socket as its standard input. It is called on
/// a separate thread.
pub(crate) type Starter = Arc<dyn Fn(OwnedFd) -> io::Result<()> + Send + Sync>;

/// The connection to a process that is started by the first request. If the process ends or hangs,
/// the next request after a pause starts it again. Requests during the pause fail immediately.
pub(crate) struct SupervisedProcess {
    starter: Starter,
    state: Arc<Mutex<ProcessState>>,
}

struct ProcessState {
    name: &'static str,
    control: Option<Arc<UnixStream>>,
    started: Instant,
    ended: u64,
    why: String,
    pause: Duration,
    until: Instant,
    heard: Instant,
    // The time since which requests have passed their deadlines without any answer.
    silent_since: Option<Instant>,
}

impl SupervisedProcess {
    pub(crate) fn new(name: &'static str, starter: Starter) -> Self {
        let now = Instant::now();
        let state = ProcessState {
            name,
            control: None,
            started: now,
            ended: 0,
            why: String::new(),
            pause: Duration::ZERO,
            until: now,
            heard: now,
            silent_since: None,
        };
        Self { starter, state: Arc::new(Mutex::new(state)) }
    }

    fn control(&self) -> Result<Arc<UnixStream>, String> {
        let mut state = self.state.lock();
        match &state.control {
            Some(control) if !has_ended(control) => return Ok(Arc::clone(control)),
            Some(_) => state.disconnect("it ended"),
            None => {}
        }
        if Instant::now() < state.until {
            return Err(state.description());
        }
        let control = self.start().map_err(|error| {
            state.disconnect(&format!("it cannot be started: {error}"));
            state.description()
        })?;
        state.begin(&control);
        Ok(control)
    }

    // Does not wait until the process runs, because requests wait in the socket.
    fn start(&self) -> io::Result<Arc<UnixStream>> {
        let (control, theirs) = UnixStream::pair()?;
        control.set_nonblocking(true)?;
        let control = Arc::new(control);
        let (starter, state) = (Arc::clone(&self.starter), Arc::clone(&self.state));
        let started = Arc::clone(&control);
        let start = move || {
            if let Err(error) = starter(theirs.into()) {
                let (mut state, why) = (state.lock(), format!("it cannot be started: {error}"));
                state.lose(&started, &why);
                if state.control.is_none() {
                    state.why = why;
                }
            }
        };
        thread::Builder::new().name("start-remote".to_owned()).spawn(start)?;
        Ok(control)
    }
}

impl Line for SupervisedProcess {
    fn connect(&self) -> Result<UnixStream, String> {
        let control = self.control()?;
        let (ours, theirs) = UnixStream::pair().map_err(|error| error.to_string())?;
        match channel::send(&control, &(), Some(theirs.as_fd())) {
            Ok(()) => Ok(ours),
            Err(error) if is_end(&error) => {
                let mut state = self.state.lock();
                state.lose(&control, "it ended");
                Err(state.description())
            }
            Err(error) => {
                let name = self.state.lock().name;
                Err(if error.kind() == io::ErrorKind::WouldBlock {
                    format!("the process `{name}` has too many requests")
                } else {
                    format!("the process `{name}` is out of reach: {error}")
                })
            }
        }
    }

    fn heard(&self) {
        let mut state = self.state.lock();
        (state.heard, state.silent_since) = (Instant::now(), None);
    }

    fn missed(&self, since: Instant) {
        let mut state = self.state.lock();
        if since < state.started {
            // The failed request was sent to an earlier process.
            return;
        }
        let since = since.max(state.heard);
        let since = state.silent_since.map_or(since, |earlier| earlier.min(since));
        state.silent_since = Some(since);
        if since.elapsed() >= SILENT && state.control.is_some() {
            state.disconnect("it did not answer, and is killed if it still lives");
        }
    }

    fn trouble(&self) -> Option<String> {
        let mut state = self.state.lock();
        if state.control.as_ref().is_some_and(has_ended) {
            state.disconnect("it ended");
        }
        (state.control.is_none() && state.ended > 0).then(|| state.description())
    }
}

impl ProcessState {
    fn begin(&mut self, control: &Arc<UnixStream>) {
        let now = Instant::now();
        self.control = Some(Arc::clone(control));
        (self.started, self.heard, self.silent_since) = (now, now, None);
    }

    // Disconnects from the process behind `control`, unless another one has been started meanwhile.
    fn lose(&mut self, control: &Arc<UnixStream>, why: &str) {
        if self.control.as_ref().is_some_and(|now| Arc::ptr_eq(now, control)) {
            self.disconnect(why);
        }
    }

    fn disconnect(&mut self, why: &str) {
        let now = Instant::now();
        let lived = self.control.take().map_or(Duration::ZERO, |_| now - self.started);
        let is_first = self.ended == 0 || lived >= LONGEST_PAUSE;
        self.pause = if is_first { FIRST_PAUSE } else { LONGEST_PAUSE.min(self.pause * 2) };
        let is_known = !is_first && self.why == why;
        (self.ended, self.until, self.why) = (self.ended + 1, now + self.pause, why.to_owned());
        self.silent_since = None;
        // Repeated failures for the same reason are logged only once.
        if !is_known {
            tracing::warn!("{}", self.description());
        }
    }

    fn description(&self) -> String {
        let Self { name, why, ended, .. } = self;
        let times = if *ended == 1 { "once".to_owned() } else { format!("{ended} times") };
        let next = self.until.saturating_duration_since(Instant::now()).as_secs() + 1;
        format!(
            "the process `{name}` is away: {why} ({times} so far); the first request after {next} s \
             tries again"
        )
    }
}

// The process sends nothing over this socket, so the socket becomes readable only when it ends.
fn has_ended(control: &Arc<UnixStream>) -> bool {
    let mut waited = [PollFd::new(&**control, PollFlags::IN)];
    poll(&mut waited, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|count| count > 0)
}

pub(crate) fn is_end(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, NotConnected};
    matches!(error.kind(), BrokenPipe | ConnectionReset | NotConnected)
}

#[cfg(test)]
mod tests;
