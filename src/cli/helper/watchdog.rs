//! The watchdogs: two small child processes of every server. They clear the mount if the server
//! dies, even by `kill -9`. They also perform operations that a confined server must not perform.
//!
//! ```text
//! server  <- socket pair ->  watchdog     clears the mount; unmounts, reads /proc/<pid>/stat, and
//!   |                           |         starts the process that accesses the bucket
//!   |                           | each restarts the other if it is lost
//!   +----  <- socket pair ->  spare       does the same, but clears a moment later
//! ```
//!
//! Each side notices the death of the other side by the end of the stream. A watchdog that receives
//! a signal tells the server, which then stops. The watchdog itself ends only after the server.
//!
//! A confined process can start only confined processes. Therefore the server does not restart a
//! watchdog that was killed, but asks the other watchdog to do so. If both are lost at once, the
//! server continues without them, and leaves a dead mount when it ends.
//!
//! A watchdog is a child of the server, and not its parent. So the process that the caller starts
//! is the server itself, and `mount --foreground` is watched too.

use std::ffi::OsString;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::{
    fs, io,
    os::unix::net::UnixStream,
    path::Path,
    process::Child,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::helper::{Children, Role, Watch, starter_socket};
use ctxfs_fuse::kernel::mount::{self, MountError, MountState};
use ctxfs_sync::channel::{Channel, receive, send};

const REPLACEMENTS: usize = 20;
const BEFORE_REPLACING: Duration = Duration::from_secs(1);
// Unmounting takes less time, even with a helper program that has to be read from disk.
const PATIENCE: Duration = Duration::from_secs(10);

/// The server's connections to its two watchdogs. A request is sent to the first watchdog, or to
/// the spare one if the first is lost. A lost watchdog is replaced.
#[derive(Debug)]
pub(crate) struct Watchdogs {
    watch: Watch,
    links: Mutex<[Option<WatchdogLink>; 2]>,
}

// `process` is set for a watchdog that the server has started itself.
#[derive(Debug)]
struct WatchdogLink {
    stream: Arc<UnixStream>,
    process: Option<Child>,
}

impl Watchdogs {
    /// Starts both watchdogs. Must be called before the server is confined and starts threads.
    /// `bucket` is the bucket for which the watchdogs may start a process.
    pub(crate) fn start(target: &Path, bucket: Option<&str>) -> io::Result<Arc<Self>> {
        let (target, bucket) = (target.to_owned(), bucket.map(str::to_owned));
        let watch = Watch { target, bucket, spare: false };
        let spare = Watch { spare: true, ..watch.clone() };
        let links = [Some(WatchdogLink::start(&watch)?), Some(WatchdogLink::start(&spare)?)];
        Ok(Arc::new(Self { watch, links: Mutex::new(links) }))
    }

    /// Starts a thread for each watchdog. The thread listens to the watchdog, and replaces it when
    /// it is lost.
    pub(crate) fn listen(self: &Arc<Self>, stop: &StopRequests) -> io::Result<()> {
        for place in [0, 1] {
            let (all, stop) = (Arc::clone(self), stop.clone());
            thread::Builder::new()
                .name("watchdog".to_owned())
                .spawn(move || all.keep(place, &stop))?;
        }
        Ok(())
    }

    pub(crate) fn unmount(&self) -> io::Result<()> {
        self.ask(WatchdogRequest::Unmount, None).map(drop)
    }

    /// Starts the process that accesses the bucket, with `socket` as its standard input.
    pub(crate) fn start_remote(&self, socket: BorrowedFd<'_>) -> io::Result<()> {
        self.ask(WatchdogRequest::Remote, Some(socket)).map(drop)
    }

    fn ask(&self, request: WatchdogRequest, passed: Option<BorrowedFd<'_>>) -> io::Result<String> {
        ask_either(&*self.links.lock(), request, passed)
    }

    fn keep(&self, place: usize, stop: &StopRequests) {
        for _ in 0..REPLACEMENTS {
            self.hear(place, stop);
            let target = self.watch.target.display();
            tracing::warn!("a watchdog of `{target}` is gone; starting another");
            thread::sleep(BEFORE_REPLACING);
            if let Err(error) = self.replace(place) {
                return tracing::error!("a watchdog is missing: {error}");
            }
        }
        tracing::error!("a watchdog is missing: it ended {REPLACEMENTS} times");
    }

    // Ends when the watchdog ends.
    fn hear(&self, place: usize, stop: &StopRequests) {
        let link = |link: &mut WatchdogLink| (Arc::clone(&link.stream), link.process.take());
        let Some((stream, process)) = self.links.lock()[place].as_mut().map(link) else { return };
        while let Ok(Some(((), _))) = receive(&stream) {
            stop.ask(SIGTERM);
        }
        if let Some(mut process) = process {
            drop(process.wait());
        }
        self.links.lock()[place] = None;
    }

    fn replace(&self, place: usize) -> io::Result<()> {
        let (stream, theirs) = UnixStream::pair()?;
        // The lock is held until the new link is stored, so that no other thread misses the link.
        let mut links = self.links.lock();
        if let Err(error) = ask_either(&*links, WatchdogRequest::Another, Some(theirs.as_fd())) {
            // The other watchdog may have started the new one and died before it could reply. If it
            // did not start the new one, the new link ends as soon as its thread reads from it.
            tracing::warn!("no watchdog confirms that it started another: {error}");
        }
        links[place] = Some(WatchdogLink { stream: Arc::new(stream), process: None });
        Ok(())
    }
}

fn ask_either(
    links: &[Option<WatchdogLink>],
    request: WatchdogRequest,
    passed: Option<BorrowedFd<'_>>,
) -> io::Result<String> {
    let mut last = io::Error::from(io::ErrorKind::NotConnected);
    for link in links.iter().flatten() {
        match ask(&link.stream, request, passed) {
            Ok(reply) => return reply.map_err(io::Error::other),
            Err(error) => last = error,
        }
    }
    Err(last)
}

// A request has its own socket, so nothing on the stream of the watchdog can be taken for the
// reply.
fn ask(
    watchdog: &UnixStream,
    request: WatchdogRequest,
    passed: Option<BorrowedFd<'_>>,
) -> io::Result<WatchdogReply> {
    let (socket, theirs) = UnixStream::pair()?;
    send(watchdog, &(), Some(theirs.as_fd()))?;
    drop(theirs);
    send(&socket, &request, passed)?;
    Channel::new(&socket, Instant::now() + PATIENCE).read_document()
}

impl ctxfs_fuse::Processes for Watchdogs {
    fn stat(&self, pid: u32) -> io::Result<String> {
        self.ask(WatchdogRequest::Stat(pid), None)
    }

    fn name_in_mkdir(&self, tid: u32) -> io::Result<Option<OsString>> {
        let name = self.ask(WatchdogRequest::Mkdir(tid), None)?;
        Ok((!name.is_empty()).then(|| name.into()))
    }
}

impl WatchdogLink {
    fn start(watch: &Watch) -> io::Result<Self> {
        let (stream, theirs) = UnixStream::pair()?;
        let process = Some(Role::WatchMount(watch.clone()).start(theirs.into())?);
        Ok(Self { stream: Arc::new(stream), process })
    }
}

// A dying server closes its socket before the kernel ends the mount, so the mount is checked
// repeatedly.
const LOOKS: usize = 100;
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);
const AFTER_THE_OTHER: Duration = Duration::from_secs(1);

/// Answers the requests of the server until the server ends. Then clears the mount if the server
/// has left a dead one.
pub(crate) fn run(watch: &Watch) -> anyhow::Result<()> {
    let server = starter_socket()?;
    let (mut signals, told) = (Signals::new(STOP_SIGNALS)?, server.try_clone()?);
    thread::Builder::new().spawn(move || {
        for _ in &mut signals {
            // Fails once the server has ended.
            drop(send(&told, &(), None));
        }
    })?;
    let mut children = Children::default();
    serve(&server, |request, passed| reply(watch, request, passed, &mut children));
    let cleared = end(watch);
    children.finish();
    cleared
}

fn serve(
    server: &UnixStream,
    mut reply: impl FnMut(WatchdogRequest, Option<OwnedFd>) -> anyhow::Result<String>,
) {
    while let Ok(Some(((), socket))) = receive(server) {
        let Some(socket) = socket.map(UnixStream::from) else { continue };
        // The other end of this socket may outlive the server.
        let limit = Some(PATIENCE);
        let is_limited = socket.set_read_timeout(limit).and(socket.set_write_timeout(limit));
        if is_limited.is_ok()
            && let Ok(Some((request, passed))) = receive(&socket)
        {
            let reply: WatchdogReply = reply(request, passed).map_err(|error| error.to_string());
            // Fails if the server does not wait for the reply.
            drop(send(&socket, &reply, None));
        }
    }
}

fn end(watch: &Watch) -> anyhow::Result<()> {
    if mount::is_inherited_fd(&watch.target) {
        return Ok(());
    }
    if watch.spare {
        thread::sleep(AFTER_THE_OTHER);
    }
    clear(&watch.target)
}

fn reply(
    watch: &Watch,
    request: WatchdogRequest,
    passed: Option<OwnedFd>,
    children: &mut Children,
) -> anyhow::Result<String> {
    let socket = || passed.ok_or_else(|| io::Error::other("the socket was lost"));
    match request {
        WatchdogRequest::Unmount => match mount::unmount(&watch.target) {
            Ok(()) | Err(MountError::NotMounted { .. }) => {}
            Err(error) => return Err(error.into()),
        },
        WatchdogRequest::Stat(pid) => return Ok(fs::read_to_string(format!("/proc/{pid}/stat"))?),
        WatchdogRequest::Mkdir(tid) => {
            let name =
                ctxfs_fuse::Processes::name_in_mkdir(&ctxfs_fuse::ProcFs, tid)?.unwrap_or_default();
            return Ok(name.into_string().unwrap_or_default());
        }
        WatchdogRequest::Another => {
            let other = Watch { spare: !watch.spare, ..watch.clone() };
            let mut started = Role::WatchMount(other).start(socket()?)?;
            thread::Builder::new().spawn(move || started.wait())?;
        }
        // The URL was passed when this process started, so a server cannot name another bucket.
        WatchdogRequest::Remote => {
            let url = watch.bucket.clone();
            let url = url.ok_or_else(|| io::Error::other("no bucket is set"))?;
            let socket = socket()?;
            let end = socket.try_clone()?;
            children.add(Role::AskBucket { url, read_only: false }.start(socket)?, end)?;
        }
    }
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

/// A request that the server of the mount sends to a watchdog.
///
/// - `Unmount`: unmount the mount of the server
/// - `Stat`: return the content of `/proc/<pid>/stat`
/// - `Mkdir`: return the name of the directory that a thread is about to make
/// - `Another`: start another watchdog
/// - `Remote`: start the process that accesses the bucket
///
/// With `Another` and `Remote`, the server also passes a socket. It becomes the standard input of
/// the new process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum WatchdogRequest {
    Unmount,
    Stat(u32),
    Mkdir(u32),
    Another,
    Remote,
}

type WatchdogReply = Result<String, String>;

pub(crate) const STOP_SIGNALS: [i32; 3] = [SIGTERM, SIGINT, SIGHUP];

/// The events that a server waits for. `Stop` is a request to stop. `Left` means that the kernel
/// has closed the connection, because the mount no longer exists. `Ended` means that all outputs
/// are sealed and the sharing with other hosts has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServerEvent {
    Stop,
    Left,
    Ended,
}

/// Requests to stop. The first request unmounts cleanly. The second request ends the process at
/// once, by the default action of the signal, and leaves the mount to the watchdog.
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

    pub(crate) fn listen(&self, mut signals: Signals) -> io::Result<()> {
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

    use super::*;

    fn link(stream: UnixStream) -> WatchdogLink {
        WatchdogLink { stream: Arc::new(stream), process: None }
    }

    #[test]
    fn requests_arrive_and_are_answered() {
        let (server, watchdog) = UnixStream::pair().unwrap();
        let file = File::open("/dev/null").unwrap();
        thread::spawn(move || {
            serve(&watchdog, |request, passed| match request {
                WatchdogRequest::Stat(pid) => Ok(format!("{pid} (X) S\n")),
                WatchdogRequest::Unmount => anyhow::bail!("no\nway"),
                other => Ok(format!("{other:?} {}", passed.is_some())),
            });
        });
        let links = [None, Some(link(server))];
        let stat = ask_either(&links, WatchdogRequest::Stat(17), None);
        assert_eq!(stat.unwrap(), "17 (X) S\n");
        for request in [WatchdogRequest::Another, WatchdogRequest::Remote] {
            let reply = ask_either(&links, request, Some(file.as_fd())).unwrap();
            assert_eq!(reply, format!("{request:?} true"));
        }
        let refused = ask_either(&links, WatchdogRequest::Unmount, None).unwrap_err();
        assert_eq!(refused.to_string(), "no\nway");
    }

    #[test]
    fn a_request_that_is_none_is_not_answered_and_the_next_one_is() {
        let (server, watchdog) = UnixStream::pair().unwrap();
        thread::spawn(move || serve(&watchdog, |_, _| Ok(String::new())));
        let (socket, theirs) = UnixStream::pair().unwrap();
        send(&server, &(), Some(theirs.as_fd())).unwrap();
        drop(theirs);
        send(&socket, &"stat x", None).unwrap();
        assert!(receive::<WatchdogReply>(&socket).unwrap().is_none());
        assert_eq!(ask(&server, WatchdogRequest::Unmount, None).unwrap(), Ok(String::new()));
    }

    #[test]
    fn signals_come_between_replies() {
        let (server, watchdog) = UnixStream::pair().unwrap();
        let told = watchdog.try_clone().unwrap();
        thread::scope(|scope| {
            scope.spawn(|| (0..50).for_each(|_| send(&told, &(), None).unwrap()));
            scope.spawn(|| serve(&watchdog, |request, _| Ok(format!("{request:?}"))));
            scope.spawn(|| {
                for _ in 0..50 {
                    assert!(matches!(receive(&server), Ok(Some(((), None)))));
                }
                server.shutdown(std::net::Shutdown::Both).unwrap();
            });
            for pid in 0..50 {
                // Fails once all signals have come.
                match ask(&server, WatchdogRequest::Stat(pid), None) {
                    Ok(reply) => assert_eq!(reply, Ok(format!("Stat({pid})"))),
                    Err(_) => break,
                }
            }
        });
    }

    #[test]
    fn a_watchdog_that_has_ended_is_passed_over() {
        let ((server, watchdog), (other, gone)) =
            (UnixStream::pair().unwrap(), UnixStream::pair().unwrap());
        drop(gone);
        thread::spawn(move || serve(&watchdog, |_, _| Ok("done".to_owned())));
        let links = [Some(link(other)), Some(link(server))];
        assert_eq!(ask_either(&links, WatchdogRequest::Unmount, None).unwrap(), "done");
        let error = ask_either(&[None, None], WatchdogRequest::Unmount, None).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotConnected);
    }
}
