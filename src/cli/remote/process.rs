//! `ctxfs-remote`: the process that accesses the bucket for a server. It has access to the network
//! and the keys, or to the directory that hosts share, and to no file of the store.
//!
//! ```text
//! server (confined)               watchdog                    ctxfs-remote
//!   the first request
//!     the end of a socket   ->     starts it with the socket -> confines itself
//!     a socket for a request  ------------------------------>   a thread for it
//!     the request (`remote::ProcessObjects`)  ------------->    answers it
//! ```
//!
//! The first request starts the process. After the process has died, the first request after a
//! pause starts it again. It ends when the server ends. The command line of the watchdog determines
//! the bucket. It was set before the server read the first byte of an output.

use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{io, thread};

use parking_lot::{Condvar, Mutex};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::args::AskBucketArgs;
use crate::remote::opened;
use crate::{SettingKey, Settings, confine, env, logging, system};
use ctxfs_store::Store;
use ctxfs_sync::bucket::{Bucket, BucketError, BucketUrl};
use ctxfs_sync::remote::{
    Line, Objects, ProcessObjects, answer_read_request, answer_request, known_bucket,
};

// A terminal or systemd sends these signals to all processes of a mount. This process ignores them,
// because the server may still have something to send before it ends.
const LEFT_TO_THE_SERVER: [i32; 3] = [SIGHUP, SIGINT, SIGTERM];

pub(crate) const NAME: &str = "ctxfs-remote";

pub(crate) type SharedObjects = Arc<dyn Objects + Send>;

/// Returns the URL of the bucket if the settings name one. Fails if the URL cannot be used.
pub(crate) fn url(settings: &Settings) -> anyhow::Result<Option<&str>> {
    let text = settings.text(SettingKey::RemoteUrl);
    if text.is_some() {
        opened::url(settings)?;
    }
    Ok(text)
}

/// Returns the bucket of the settings. The process that accesses it is started by `starter` at the
/// first request. Returns `None` if no bucket is set.
///
/// If the bucket is a directory, the process is confined to it and cannot create it. Therefore the
/// directory is created here if this store may be the first to use it.
pub(crate) fn start(
    settings: &Settings,
    store: &Store,
    starter: Starter,
) -> anyhow::Result<Option<SharedObjects>> {
    if url(settings)?.is_none() {
        return Ok(None);
    }
    let url = opened::url(settings)?.to_string();
    if settings.text(SettingKey::RemotePush) == Some("sealed")
        && known_bucket(store, &url)?.is_none()
    {
        let made = opened::bucket(settings).and_then(|bucket| Ok(bucket.make_directory()?));
        made.unwrap_or_else(|error| tracing::warn!("{error:#}"));
    }
    let line = Arc::new(SupervisedProcess::new(NAME, starter));
    Ok(Some(Arc::new(ProcessObjects::new(line))))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BucketRights {
    All,
    Reading,
}

/// Starts the process in its own process group. It inherits only the environment variables that it
/// needs, and of the file descriptors only standard error.
pub(crate) fn spawn(url: &str, may: BucketRights, socket: OwnedFd) -> io::Result<Child> {
    system::helper(NAME, "ask-bucket", socket)
        .args((may == BucketRights::Reading).then_some("--read-only"))
        .args(["--", url])
        .env_clear()
        .envs(env::of_remote_process())
        .process_group(0)
        .stdout(Stdio::null())
        .spawn()
}

/// Accesses the bucket for the process at the other end of standard input, until that process ends.
pub(crate) fn run(args: &AskBucketArgs) -> anyhow::Result<()> {
    let _ = rustix::thread::set_name(c"ctxfs-remote");
    system::close_inherited()?;
    ignore_terminal_signals()?;
    logging::start("warn", false)?;
    let url = BucketUrl::parse(&args.url)?;
    // Reads the key files that are needed only once, because a confined process cannot open them.
    let bucket = Bucket::open(&url, env::of_object_stores());
    confine::bucket(url.local_directory(), &env::key_directories())?;
    let control = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let answer = if args.read_only { answer_read_request } else { answer_request };
    Ok(serve(&control, bucket, &SharedDirectory::of(&url), answer)?)
}

pub(crate) fn ignore_terminal_signals() -> io::Result<()> {
    for signal in LEFT_TO_THE_SERVER {
        signal_hook::flag::register(signal, Arc::new(std::sync::atomic::AtomicBool::new(false)))?;
    }
    Ok(())
}

// Maximum number of simultaneous requests. Further requests wait in the socket, which has room for
// some hundred. When it is full, the server gets an error immediately.
const MOST: usize = 64;

pub(crate) struct SharedDirectory(Option<(PathBuf, Option<FileNumber>)>);

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
    let found = std::fs::metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

type AnswerRequest = fn(Result<&dyn Objects, &BucketError>, &UnixStream) -> io::Result<()>;

/// Answers requests that arrive over `control`, until its other end is closed or the shared
/// directory is replaced. The next process can access the new directory.
pub(crate) fn serve(
    control: &UnixStream,
    bucket: Result<Bucket, BucketError>,
    directory: &SharedDirectory,
    answer: AnswerRequest,
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

/// Answers each request that arrives over `control` in its own thread, until the other end is
/// closed or `goes_on` returns false.
pub(crate) fn answer_each(
    control: &UnixStream,
    goes_on: impl Fn() -> bool,
    answer: impl Fn(&UnixStream) -> io::Result<()> + Send + Sync + 'static,
) -> io::Result<()> {
    let (answer, slots) = (Arc::new(answer), Arc::new(RequestSlots::default()));
    while let (1.., socket) = system::receive_message(control, &mut [0])? {
        if !goes_on() {
            break;
        }
        // If this process has no free file descriptors, the socket is lost, and the server sees the
        // end of its own socket.
        let Some(socket) = socket.map(UnixStream::from) else { continue };
        let (answer, slot) = (Arc::clone(&answer), RequestSlots::take(&slots));
        let work = move || {
            if let Err(error) = answer(&socket) {
                tracing::debug!(%error, "a request of the server broke off");
            }
            drop(slot);
        };
        thread::Builder::new().name("request".to_owned()).spawn(work)?;
    }
    Ok(())
}

#[derive(Default)]
struct RequestSlots {
    used: Mutex<usize>,
    released: Condvar,
}

struct RequestSlot(Arc<RequestSlots>);

impl RequestSlots {
    fn take(slots: &Arc<Self>) -> RequestSlot {
        let mut used = slots.used.lock();
        while *used == MOST {
            slots.released.wait(&mut used);
        }
        *used += 1;
        RequestSlot(Arc::clone(slots))
    }
}

impl Drop for RequestSlot {
    fn drop(&mut self) {
        *self.0.used.lock() -= 1;
        self.0.released.notify_one();
    }
}

// The pause doubles from the first to the longest value. It is reset after a process that ran for
// at least the longest pause.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_mins(1);
// If requests pass their deadlines and the process answers nothing for this long, it is considered
// lost.
const SILENT: Duration = Duration::from_secs(10);
const REQUEST: &[u8] = b"q";

/// Starts the process with a socket as its standard input (see `spawn`). Called on a separate
/// thread.
pub(crate) type Starter = Box<dyn Fn(OwnedFd) -> io::Result<()> + Send + Sync>;

/// The connection to a process that is started by the first request. If the process ends or hangs,
/// the next request after a pause starts it again. Requests during the pause fail immediately.
pub(crate) struct SupervisedProcess(Arc<Supervisor>);

struct Supervisor {
    starter: Starter,
    state: Mutex<ProcessState>,
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
        Self(Arc::new(Supervisor { starter, state: Mutex::new(state) }))
    }

    fn name(&self) -> &'static str {
        self.0.state.lock().name
    }

    fn control(&self) -> Result<Arc<UnixStream>, String> {
        let mut state = self.0.state.lock();
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
        let (control, supervised) = (Arc::new(control), Arc::clone(&self.0));
        let started = Arc::clone(&control);
        let start = move || {
            if let Err(error) = (supervised.starter)(theirs.into()) {
                supervised.fail(&started, format!("it cannot be started: {error}"));
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
        match system::send_message(&control, REQUEST, Some(theirs.as_fd())) {
            Ok(()) => Ok(ours),
            Err(error) if is_end(&error) => {
                self.0.disconnect(&control, "it ended");
                Err(self.0.state.lock().description())
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                Err(format!("the process `{}` has too many requests", self.name()))
            }
            Err(error) => Err(format!("the process `{}` is out of reach: {error}", self.name())),
        }
    }

    fn heard(&self) {
        let mut state = self.0.state.lock();
        (state.heard, state.silent_since) = (Instant::now(), None);
    }

    fn missed(&self, since: Instant) {
        let mut state = self.0.state.lock();
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
        let mut state = self.0.state.lock();
        if state.control.as_ref().is_some_and(has_ended) {
            state.disconnect("it ended");
        }
        (state.control.is_none() && state.ended > 0).then(|| state.description())
    }
}

impl Supervisor {
    fn disconnect(&self, control: &Arc<UnixStream>, why: &str) {
        let mut state = self.state.lock();
        if state.control.as_ref().is_some_and(|now| Arc::ptr_eq(now, control)) {
            state.disconnect(why);
        }
    }

    fn fail(&self, control: &Arc<UnixStream>, why: String) {
        self.disconnect(control, &why);
        let mut state = self.state.lock();
        if state.control.is_none() {
            state.why = why;
        }
    }
}

impl ProcessState {
    fn begin(&mut self, control: &Arc<UnixStream>) {
        let now = Instant::now();
        self.control = Some(Arc::clone(control));
        (self.started, self.heard, self.silent_since) = (now, now, None);
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
