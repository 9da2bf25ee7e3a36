//! The watchdogs: two small child processes of every server. They clear the mount if the server
//! dies, even by `kill -9`, and perform the operations that a confined server is not allowed to.
//!
//! ```text
//! server  <- socket pair ->  watchdog     clears the mount; unmounts, reads /proc/<pid>/stat, and
//!   |                           |         starts the process that accesses the bucket
//!   |                           | each restarts the other if it is lost
//!   +----  <- socket pair ->  spare       does the same, but clears a moment later
//! ```
//!
//! Each side notices the death of the other side by the end of the stream. When a watchdog receives
//! a signal, its signal handler writes to the socket, which requests the server to stop. The
//! watchdog itself ends only after the server. A confined process can start only confined
//! processes, so the other watchdog restarts a watchdog that was killed. If both are lost at once,
//! the server continues without them, and leaves a dead mount when it ends.
//!
//! Watchdogs are children of the server, and not its parent, for two reasons: `mount --foreground`
//! is watched too, and the process that the caller started is the one that serves.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;
use std::{fs, thread};

use parking_lot::Mutex;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level::pipe;

use crate::args::WatchArgs;
use crate::system::{self, Children};
use crate::{env, remote};
use ctxfs_fuse::Processes;
use ctxfs_fuse::kernel::mount::{self, MountError, MountState};

const REPLACEMENTS: usize = 20;
const BEFORE_REPLACING: Duration = Duration::from_secs(1);
// Unmounting takes less time, even with a helper program that has to be read from disk.
const PATIENCE: Duration = Duration::from_secs(10);

/// The server's connections to its two watchdogs. A request is sent to the first watchdog, or to
/// the spare one if the first is lost. A lost watchdog is replaced.
#[derive(Debug)]
pub(crate) struct Watchdogs {
    target: PathBuf,
    links: Mutex<[Option<WatchdogLink>; 2]>,
}

#[derive(Debug)]
struct WatchdogLink {
    stream: UnixStream,
    replies: Receiver<WatchdogReply>,
    listener: Option<WatchdogListener>,
}

#[derive(Debug)]
struct WatchdogListener {
    stream: UnixStream,
    replies: Sender<WatchdogReply>,
    process: Option<Child>,
}

impl Watchdogs {
    /// Starts both watchdogs. Must be called before the server is confined and starts threads.
    /// `remote` is the bucket for which the watchdogs may start a process.
    pub(crate) fn start(target: &Path, remote: Option<&str>) -> io::Result<Arc<Self>> {
        let start = |spare| WatchdogLink::start(target, spare, remote).map(Some);
        let links = [start(false)?, start(true)?];
        Ok(Arc::new(Self { target: target.to_owned(), links: Mutex::new(links) }))
    }

    /// Starts a thread for each watchdog. The thread listens to the watchdog, and replaces it when
    /// it is lost.
    pub(crate) fn listen(self: &Arc<Self>, stop: &StopRequests) -> io::Result<()> {
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

    pub(crate) fn unmount(&self) -> io::Result<()> {
        self.ask(&WatchdogRequest::Unmount).map(drop)
    }

    /// Starts the process that accesses the bucket, with `socket` as its standard input.
    #[cfg_attr(not(feature = "remote"), expect(dead_code, reason = "no bucket is ever asked"))]
    pub(crate) fn start_remote(&self, socket: BorrowedFd<'_>) -> io::Result<()> {
        self.ask(&WatchdogRequest::Remote(socket)).map(drop)
    }

    fn ask(&self, request: &WatchdogRequest<'_>) -> io::Result<String> {
        ask_either(&*self.links.lock(), request)
    }

    fn keep(&self, place: usize, mut listener: WatchdogListener, stop: &StopRequests) {
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
        // The lock is held until the new link is stored, so that no other thread misses the link.
        let mut links = self.links.lock();
        if let Err(error) = ask_either(&*links, &WatchdogRequest::Another(theirs.as_fd())) {
            // The other watchdog may have started the new one and died before it could reply. If it
            // did not start the new one, the new link ends as soon as the listener reads from it.
            tracing::warn!("no watchdog confirms that it started another: {error}");
        }
        drop(theirs);
        let mut link = WatchdogLink::new(stream, None)?;
        let listener = link.listener.take().ok_or(io::ErrorKind::Other)?;
        links[place] = Some(link);
        Ok(listener)
    }
}

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
        // Drops late replies to an earlier request.
        while self.replies.try_recv().is_ok() {}
        request.send(&self.stream)?;
        self.replies.recv_timeout(PATIENCE).map_err(io::Error::other)
    }
}

impl WatchdogListener {
    // Ends when the watchdog ends. Then the channel of replies is closed, so that a waiting request
    // fails immediately.
    fn listen(self, stop: &StopRequests) {
        for message in messages(&self.stream) {
            match message {
                WatchdogMessage::Signal => stop.ask(SIGTERM),
                // The receiver exists as long as the link.
                WatchdogMessage::Reply(reply) => drop(self.replies.send(reply)),
            }
        }
        drop(self.replies);
        if let Some(mut process) = self.process {
            drop(process.wait());
        }
    }
}

// A dying server closes its socket before the kernel ends the mount, so the mount is checked
// repeatedly.
const LOOKS: usize = 100;
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);
const AFTER_THE_OTHER: Duration = Duration::from_secs(1);

/// Starts a watchdog in its own process group, so that it does not receive an interrupt from the
/// terminal. `remote` is the bucket for which it may start a process.
pub(crate) fn spawn(
    target: &Path,
    spare: bool,
    remote: Option<&str>,
    socket: OwnedFd,
) -> io::Result<Child> {
    system::helper("ctxfs", "watch-mount", socket)
        .args(spare.then_some("--spare"))
        .args(remote.map(|url| format!("--remote={url}")))
        .arg("--")
        .arg(target)
        .env_remove(env::NOTIFY_SOCKET)
        .process_group(0)
        .stdout(Stdio::null())
        .spawn()
}

/// Answers the server until the server ends, then clears a dead mount that it left.
pub(crate) fn run(args: &WatchArgs) -> anyhow::Result<()> {
    let _ = rustix::thread::set_name(c"ctxfs-watch");
    let server = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    for signal in STOP_SIGNALS {
        pipe::register(signal, server.try_clone()?)?;
    }
    let mut children = Children::default();
    while let Ok(Some(request)) = ReceivedRequest::receive(&server) {
        let reply = reply(args, request, &mut children);
        if (&server).write_all(reply_line(&reply).as_bytes()).is_err() {
            break;
        }
    }
    let cleared = end(args);
    children.finish();
    cleared
}

fn end(args: &WatchArgs) -> anyhow::Result<()> {
    if mount::is_inherited_fd(&args.target) {
        return Ok(());
    }
    if args.spare {
        thread::sleep(AFTER_THE_OTHER);
    }
    clear(&args.target)
}

fn reply(args: &WatchArgs, request: ReceivedRequest, kept: &mut Children) -> WatchdogReply {
    match request {
        ReceivedRequest::Unmount => match mount::unmount(&args.target) {
            Ok(()) | Err(MountError::NotMounted { .. }) => Ok(String::new()),
            Err(error) => Err(error.to_string()),
        },
        ReceivedRequest::Stat(pid) => {
            fs::read_to_string(format!("/proc/{pid}/stat")).map_err(|error| error.to_string())
        }
        ReceivedRequest::Another(socket) => {
            another(args, socket).map_err(|error| error.to_string())
        }
        ReceivedRequest::Remote(socket) => {
            start_remote(args, socket, kept).map_err(|error| error.to_string())
        }
    }
}

fn another(args: &WatchArgs, socket: OwnedFd) -> io::Result<String> {
    let mut started = spawn(&args.target, !args.spare, args.remote.as_deref(), socket)?;
    thread::Builder::new().spawn(move || started.wait())?;
    Ok(String::new())
}

// The URL was passed when this process started, so a server cannot name another bucket.
fn start_remote(args: &WatchArgs, socket: OwnedFd, kept: &mut Children) -> io::Result<String> {
    let url = args.remote.as_deref().ok_or_else(|| io::Error::other("no bucket is set"))?;
    let end = socket.try_clone()?;
    kept.add(remote::spawn_process(url, remote::BucketRights::All, socket)?, end)?;
    Ok(String::new())
}

// A live mount belongs to another server and is not cleared.
fn clear(target: &Path) -> anyhow::Result<()> {
    for _ in 0..LOOKS {
        match mount::state(target) {
            MountState::Dead { .. } => return Ok(mount::unmount(target)?),
            MountState::NotMounted | MountState::Foreign { .. } => return Ok(()),
            MountState::Alive { .. } => thread::sleep(BETWEEN_LOOKS),
        }
    }
    Ok(())
}

// `signal_hook` writes this byte for a signal.
const SIGNAL: u8 = b'X';
// Maximum size in bytes. A `stat` file of /proc is shorter.
const LONGEST: u64 = 4096;

#[derive(Debug)]
enum WatchdogRequest<'a> {
    Unmount,
    Stat(u32),
    Another(BorrowedFd<'a>),
    Remote(BorrowedFd<'a>),
}

#[derive(Debug)]
enum ReceivedRequest {
    Unmount,
    Stat(u32),
    Another(OwnedFd),
    Remote(OwnedFd),
}

type WatchdogReply = Result<String, String>;

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum WatchdogMessage {
    Signal,
    Reply(WatchdogReply),
}

impl WatchdogRequest<'_> {
    fn send(&self, to: &UnixStream) -> io::Result<()> {
        let (text, passed) = match self {
            Self::Unmount => ("unmount".to_owned(), None),
            Self::Stat(pid) => (format!("stat {pid}"), None),
            Self::Another(socket) => ("another".to_owned(), Some(*socket)),
            Self::Remote(socket) => ("remote".to_owned(), Some(*socket)),
        };
        system::send_message(to, text.as_bytes(), passed)
    }
}

impl ReceivedRequest {
    /// Waits for the next request. Returns `None` at the end of the stream. The server sends one
    /// short request at a time, so one receive call returns exactly one request.
    fn receive(from: &UnixStream) -> io::Result<Option<Self>> {
        let mut text = [0; 64];
        let (length, passed) = system::receive_message(from, &mut text)?;
        match (&text[..length], passed) {
            (b"", _) => Ok(None),
            (b"unmount", _) => Ok(Some(Self::Unmount)),
            (b"another", Some(socket)) => Ok(Some(Self::Another(socket))),
            (b"remote", Some(socket)) => Ok(Some(Self::Remote(socket))),
            (text, _) => number(text).map(|pid| Some(Self::Stat(pid))),
        }
    }
}

fn number(text: &[u8]) -> io::Result<u32> {
    let pid = text.strip_prefix(b"stat ").and_then(|pid| std::str::from_utf8(pid).ok());
    pid.and_then(|pid| pid.parse().ok()).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

// A signal byte may be written before and after a reply, but not inside it.
fn reply_line(reply: &WatchdogReply) -> String {
    let (mark, text) = match reply {
        Ok(text) => ('+', text),
        Err(text) => ('-', text),
    };
    format!("{mark}{}\n", text.trim_end().replace('\n', " "))
}

pub(crate) fn messages(stream: &UnixStream) -> impl Iterator<Item = WatchdogMessage> {
    let mut stream = BufReader::new(stream);
    std::iter::from_fn(move || next_message(&mut stream))
}

fn next_message(stream: &mut BufReader<&UnixStream>) -> Option<WatchdogMessage> {
    if *stream.fill_buf().ok()?.first()? == SIGNAL {
        stream.consume(1);
        return Some(WatchdogMessage::Signal);
    }
    let mut line = String::new();
    stream.take(LONGEST).read_line(&mut line).ok()?;
    let line = line.strip_suffix('\n')?;
    let failed = || line.strip_prefix('-').map(|why| Err(why.to_owned()));
    let done = line.strip_prefix('+').map(|text| Ok(text.to_owned()));
    done.or_else(failed).map(WatchdogMessage::Reply)
}

pub(crate) const STOP_SIGNALS: [i32; 3] = [SIGTERM, SIGINT, SIGHUP];

/// The events that a server waits for: a request to stop, the end of the connection to the kernel
/// because the mount no longer exists, and the end of all work after sealing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServerEvent {
    Stop,
    Left,
    Ended,
}

/// Requests to stop. The first request unmounts cleanly. The second one ends the process by its
/// signal, and leaves the mount to the watchdog.
#[derive(Debug, Clone)]
pub(crate) struct StopRequests {
    asked: Arc<AtomicBool>,
    events: Sender<ServerEvent>,
}

impl StopRequests {
    pub(crate) fn new(events: Sender<ServerEvent>) -> Self {
        Self { asked: Arc::default(), events }
    }

    pub(crate) fn ask(&self, signal: i32) {
        if self.asked.swap(true, Ordering::Relaxed) {
            tracing::warn!("asked to stop again: ending at once");
            drop(signal_hook::low_level::emulate_default_handler(signal));
        }
        // Fails only if the server is already ending.
        let _ = self.events.send(ServerEvent::Stop);
    }

    pub(crate) fn listen(
        &self,
        mut signals: signal_hook::iterator::Signals,
    ) -> std::io::Result<()> {
        let stop = self.clone();
        thread::Builder::new().name("signals".to_owned()).spawn(move || {
            for signal in &mut signals {
                stop.ask(signal);
            }
        })?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write as _;
    use std::os::fd::AsFd as _;

    use super::*;

    #[test]
    fn requests_arrive() {
        let (server, watchdog) = UnixStream::pair().unwrap();
        let file = File::open("/dev/null").unwrap();
        WatchdogRequest::Stat(17).send(&server).unwrap();
        assert!(matches!(
            ReceivedRequest::receive(&watchdog).unwrap(),
            Some(ReceivedRequest::Stat(17))
        ));
        WatchdogRequest::Another(file.as_fd()).send(&server).unwrap();
        assert!(matches!(
            ReceivedRequest::receive(&watchdog).unwrap(),
            Some(ReceivedRequest::Another(_))
        ));
        WatchdogRequest::Remote(file.as_fd()).send(&server).unwrap();
        assert!(matches!(
            ReceivedRequest::receive(&watchdog).unwrap(),
            Some(ReceivedRequest::Remote(_))
        ));
        WatchdogRequest::Unmount.send(&server).unwrap();
        assert!(matches!(
            ReceivedRequest::receive(&watchdog).unwrap(),
            Some(ReceivedRequest::Unmount)
        ));
        (&server).write_all(b"stat x").unwrap();
        assert!(ReceivedRequest::receive(&watchdog).is_err());
        drop(server);
        assert!(ReceivedRequest::receive(&watchdog).unwrap().is_none());
    }

    #[test]
    fn signals_come_between_replies() {
        let (server, watchdog) = UnixStream::pair().unwrap();
        let replies = [Ok("1 (X) S".to_owned()), Err("no\nway".to_owned())];
        for reply in &replies {
            (&watchdog).write_all(b"XX").unwrap();
            (&watchdog).write_all(reply_line(reply).as_bytes()).unwrap();
        }
        drop(watchdog);
        let said: Vec<WatchdogMessage> = messages(&server).collect();
        let replies =
            [Ok("1 (X) S".to_owned()), Err("no way".to_owned())].map(WatchdogMessage::Reply);
        assert_eq!(said.iter().filter(|said| **said == WatchdogMessage::Signal).count(), 4);
        assert!(replies.iter().all(|reply| said.contains(reply)));
    }
}
