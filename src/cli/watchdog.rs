//! The watchdogs: two small child processes of every server. They clear the mount if the server
//! dies, even of `kill -9`, and do what a confined server may not do itself.
//!
//! ```text
//! server  <- socket pair ->  watchdog     clears the mount; unmounts, reads /proc/<pid>/stat, and
//!   |                           |         starts the process that asks the bucket
//!   |                           | each starts the other again if that is lost
//!   +----  <- socket pair ->  spare       does the same, and clears a moment later
//! ```
//!
//! Each side notices the death of the other by the end of the stream. When a watchdog receives a
//! signal, its signal handler writes to the socket, which asks the server to stop; the watchdog
//! itself ends only after the server. A confined process can start only confined processes, so a
//! watchdog that was killed is started again by the other one. If both are lost at once, the server
//! goes on without them, and leaves a dead mount when it ends.
//!
//! Watchdogs are children of the server rather than its parent so that `mount --foreground` is
//! watched too, and so that the process that the caller started is the one that serves.

mod process;
mod protocol;

use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use std::{io, thread};

use parking_lot::Mutex;
use signal_hook::consts::SIGTERM;

pub(super) use process::run;

use crate::stop::Stop;
use crate::watchdog::process::spawn;
use crate::watchdog::protocol::{WatchdogMessage, WatchdogReply, WatchdogRequest, messages};
use ctxfs_fuse::Processes;

/// The number of times that a lost watchdog is replaced before the server goes on without it.
const REPLACEMENTS: usize = 20;
const BEFORE_REPLACING: Duration = Duration::from_secs(1);
/// The longest wait for a reply. Unmounting takes less, even with a helper program that has to be
/// read from disk.
const PATIENCE: Duration = Duration::from_secs(10);

/// The server's connections to its watchdogs.
#[derive(Debug)]
pub(super) struct Watchdogs {
    target: PathBuf,
    /// The watchdog's and the spare's; `None` while that one is lost.
    links: Mutex<[Option<WatchdogLink>; 2]>,
}

/// The connection to one watchdog.
#[derive(Debug)]
struct WatchdogLink {
    stream: UnixStream,
    replies: Receiver<WatchdogReply>,
    /// The listening half, until a thread takes it.
    listener: Option<WatchdogListener>,
}

/// The half of a connection that belongs to the listening thread.
#[derive(Debug)]
struct WatchdogListener {
    stream: UnixStream,
    replies: Sender<WatchdogReply>,
    /// The child process; `None` if the other watchdog started it.
    process: Option<Child>,
}

impl Watchdogs {
    /// Starts both watchdogs. Must be called before the server is confined and starts threads.
    /// `remote` is the bucket for which they may start a process.
    pub(super) fn start(target: &Path, remote: Option<&str>) -> io::Result<Arc<Self>> {
        let start = |spare| WatchdogLink::start(target, spare, remote).map(Some);
        let links = [start(false)?, start(true)?];
        Ok(Arc::new(Self { target: target.to_owned(), links: Mutex::new(links) }))
    }

    /// Starts a thread for each watchdog that listens to it and replaces it when it is lost.
    pub(super) fn listen(self: &Arc<Self>, stop: &Stop) -> io::Result<()> {
        for (place, link) in self.links.lock().iter_mut().enumerate() {
            let Some(listener) = link.as_mut().and_then(|link| link.listener.take()) else {
                continue;
            };
            let (all, stop) = (Arc::clone(self), stop.clone());
            thread::Builder::new()
                .name("watchdog".to_owned())
                .spawn(move || all.keep(place, listener, &stop))?;
        }
        Ok(())
    }

    /// Unmounts lazily. Succeeds if the mount is gone already.
    pub(super) fn unmount(&self) -> io::Result<()> {
        self.ask(&WatchdogRequest::Unmount).map(drop)
    }

    /// Starts the process that asks the bucket, with `socket` as its standard input.
    #[cfg_attr(not(feature = "remote"), expect(dead_code, reason = "no bucket is ever asked"))]
    pub(super) fn start_remote(&self, socket: BorrowedFd<'_>) -> io::Result<()> {
        self.ask(&WatchdogRequest::Remote(socket)).map(drop)
    }

    fn ask(&self, request: &WatchdogRequest<'_>) -> io::Result<String> {
        ask_either(&*self.links.lock(), request)
    }

    fn keep(&self, place: usize, mut listener: WatchdogListener, stop: &Stop) {
        for _ in 0..REPLACEMENTS {
            listener.listen(stop);
            self.links.lock()[place] = None;
            tracing::warn!("a watchdog of `{}` is gone; starting another", self.target.display());
            thread::sleep(BEFORE_REPLACING);
            listener = match self.replace(place) {
                Ok(next) => next,
                Err(error) => return tracing::error!("a watchdog is missing: {error}"),
            };
        }
        tracing::error!("a watchdog is missing: it ended {REPLACEMENTS} times");
    }

    fn replace(&self, place: usize) -> io::Result<WatchdogListener> {
        let (stream, theirs) = UnixStream::pair()?;
        // Locked until the new link is in its place, so that nobody misses it.
        let mut links = self.links.lock();
        if let Err(error) = ask_either(&*links, &WatchdogRequest::Another(theirs.as_fd())) {
            // The other watchdog may have started it and died before it could reply. If it did
            // not, the new link ends as soon as the listener reads from it.
            tracing::warn!("no watchdog confirms that it started another: {error}");
        }
        drop(theirs);
        let mut link = WatchdogLink::new(stream, None)?;
        let listener = link.listener.take().ok_or(io::ErrorKind::Other)?;
        links[place] = Some(link);
        Ok(listener)
    }
}

/// Asks the first watchdog, or the second if the first is lost.
fn ask_either(links: &[Option<WatchdogLink>], request: &WatchdogRequest<'_>) -> io::Result<String> {
    let mut last = io::Error::from(io::ErrorKind::NotConnected);
    for link in links.iter().flatten() {
        match link.ask(request) {
            Ok(reply) => return reply.map_err(io::Error::other),
            Err(error) => last = error,
        }
    }
    Err(last)
}

impl Processes for Watchdogs {
    fn stat(&self, pid: u32) -> io::Result<String> {
        self.ask(&WatchdogRequest::Stat(pid))
    }
}

impl WatchdogLink {
    fn start(target: &Path, spare: bool, remote: Option<&str>) -> io::Result<Self> {
        let (stream, theirs) = UnixStream::pair()?;
        let process = spawn(target, spare, remote, theirs.into())?;
        Self::new(stream, Some(process))
    }

    fn new(stream: UnixStream, process: Option<Child>) -> io::Result<Self> {
        let (send, replies) = mpsc::channel();
        let listener = WatchdogListener { stream: stream.try_clone()?, replies: send, process };
        Ok(Self { stream, replies, listener: Some(listener) })
    }

    fn ask(&self, request: &WatchdogRequest<'_>) -> io::Result<WatchdogReply> {
        if self.listener.is_some() {
            return Err(io::Error::other("nobody listens to the watchdog yet"));
        }
        // Drops replies that came too late for an earlier request.
        while self.replies.try_recv().is_ok() {}
        request.send(&self.stream)?;
        self.replies.recv_timeout(PATIENCE).map_err(io::Error::other)
    }
}

impl WatchdogListener {
    /// Passes on the watchdog's replies and signals until it ends. Closes the channel of replies
    /// then, so that a waiting request fails at once.
    fn listen(self, stop: &Stop) {
        for message in messages(&self.stream) {
            match message {
                WatchdogMessage::Signal => stop.ask(SIGTERM),
                // The receiver lives as long as the link.
                WatchdogMessage::Reply(reply) => drop(self.replies.send(reply)),
            }
        }
        drop(self.replies);
        if let Some(mut process) = self.process {
            drop(process.wait());
        }
    }
}
