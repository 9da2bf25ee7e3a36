//! The watchdogs: two tiny children of every server that clear the mount if the server dies in any
//! way, `kill -9` too, and that do for it what a confined process may not.
//!
//! ```text
//! server  <- socket pair ->  watchdog     clears the mount; unmounts, and looks at processes
//!   |                           | starts the other one again, where it is lost
//!   +----  <- socket pair ->  spare       the same, and clears a moment later
//! ```
//!
//! Each end learns of the other's end by the end of the stream. A signal that reaches a watchdog is
//! written to the socket by the signal handler, and so asks the server to stop; a watchdog itself
//! goes only after the server. Whoever is confined can start nobody who is not, so a watchdog that is
//! killed is started again by the other one. Where both are lost at once, the server serves on
//! without, and its mount is left dead when it ends.
//!
//! Children rather than a parent, so that `mount --foreground` is watched too, and the process that
//! the caller started is the one that serves.

mod outside;
mod words;

use std::io;
use std::os::fd::AsFd as _;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::path::PathBuf;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::PoisonError;
use std::sync::mpsc;
use std::sync::mpsc::Receiver;
use std::sync::mpsc::Sender;
use std::thread;
use std::time::Duration;

use signal_hook::consts::SIGTERM;

pub(super) use outside::run;

use crate::cli::env;
use crate::cli::stop::Stop;
use crate::cli::watchdog::words::Answer;
use crate::cli::watchdog::words::Ask;
use crate::cli::watchdog::words::Said;
use crate::cli::watchdog::words::Words;
use crate::fs::Processes;

/// How often a lost watchdog is replaced before the server goes on without.
const REPLACEMENTS: usize = 20;
const BEFORE_REPLACING: Duration = Duration::from_secs(1);
/// Longer than unmounting takes, with a helper that asks the disk for its program.
const PATIENCE: Duration = Duration::from_secs(10);

/// The server's ends.
#[derive(Debug)]
pub(super) struct Watchdogs {
    target: PathBuf,
    /// Of the watchdog and of the spare; none, while one is lost.
    lines: Mutex<[Option<Line>; 2]>,
}

/// The way to one of them.
#[derive(Debug)]
struct Line {
    stream: UnixStream,
    answers: Receiver<Answer>,
    heard: Option<Heard>,
}

/// What the thread that listens to one has.
#[derive(Debug)]
struct Heard {
    stream: UnixStream,
    answers: Sender<Answer>,
    process: Option<Child>,
}

impl Watchdogs {
    /// Starts both. To be called before the server is confined, and has other threads.
    pub(super) fn start(target: &Path) -> io::Result<Arc<Self>> {
        let lines = [Some(Line::start(target, false)?), Some(Line::start(target, true)?)];
        Ok(Arc::new(Self { target: target.to_owned(), lines: Mutex::new(lines) }))
    }

    /// Listens to them from now on, on a thread for each.
    pub(super) fn listen(self: &Arc<Self>, stop: &Stop) -> io::Result<()> {
        for (place, line) in self.lines().iter_mut().enumerate() {
            let Some(heard) = line.as_mut().and_then(|line| line.heard.take()) else { continue };
            let (all, stop) = (Arc::clone(self), stop.clone());
            thread::Builder::new()
                .name("watchdog".to_owned())
                .spawn(move || all.keep(place, heard, &stop))?;
        }
        Ok(())
    }

    /// Takes the mount out of the tree, lazily; one that is not there any more is none.
    pub(super) fn unmount(&self) -> io::Result<()> {
        self.ask(&Ask::Unmount).map(drop)
    }

    fn ask(&self, what: &Ask<'_>) -> io::Result<String> {
        ask_either(&*self.lines(), what)
    }

    fn keep(&self, place: usize, mut heard: Heard, stop: &Stop) {
        for _ in 0..REPLACEMENTS {
            heard.listen(stop);
            self.lines()[place] = None;
            tracing::warn!("a watchdog of `{}` is gone; starting another", self.target.display());
            thread::sleep(BEFORE_REPLACING);
            heard = match self.replace(place) {
                Ok(next) => next,
                Err(error) => return tracing::error!("a watchdog is missing: {error}"),
            };
        }
        tracing::error!("a watchdog is missing: it ended {REPLACEMENTS} times");
    }

    fn replace(&self, place: usize) -> io::Result<Heard> {
        let (stream, theirs) = UnixStream::pair()?;
        // Nobody looks for the new one before it can be found.
        let mut lines = self.lines();
        if let Err(error) = ask_either(&*lines, &Ask::Another(theirs.as_fd())) {
            // Whoever was asked may have started it, and been lost before it could say so. If not,
            // the new line ends as soon as somebody listens.
            tracing::warn!("nobody says that a watchdog was started: {error}");
        }
        drop(theirs);
        let mut line = Line::new(stream, None)?;
        let heard = line.heard.take().ok_or(io::ErrorKind::Other)?;
        lines[place] = Some(line);
        Ok(heard)
    }

    fn lines(&self) -> MutexGuard<'_, [Option<Line>; 2]> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Asks one, and the other where the first is lost.
fn ask_either(lines: &[Option<Line>], what: &Ask<'_>) -> io::Result<String> {
    let mut last = io::Error::from(io::ErrorKind::NotConnected);
    for line in lines.iter().flatten() {
        match line.ask(what) {
            Ok(answer) => return answer.map_err(io::Error::other),
            Err(error) => last = error,
        }
    }
    Err(last)
}

impl Processes for Watchdogs {
    fn stat(&self, pid: u32) -> io::Result<String> {
        self.ask(&Ask::Stat(pid))
    }
}

impl Line {
    fn start(target: &Path, spare: bool) -> io::Result<Self> {
        let (stream, theirs) = UnixStream::pair()?;
        let process = spawn(target, spare, theirs.into())?;
        Self::new(stream, Some(process))
    }

    fn new(stream: UnixStream, process: Option<Child>) -> io::Result<Self> {
        let (send, answers) = mpsc::channel();
        let heard = Heard { stream: stream.try_clone()?, answers: send, process };
        Ok(Self { stream, answers, heard: Some(heard) })
    }

    fn ask(&self, what: &Ask<'_>) -> io::Result<Answer> {
        if self.heard.is_some() {
            return Err(io::Error::other("nobody listens to the watchdog yet"));
        }
        // What came too late for the one who asked before.
        while self.answers.try_recv().is_ok() {}
        what.send(&self.stream)?;
        self.answers.recv_timeout(PATIENCE).map_err(io::Error::other)
    }
}

impl Heard {
    /// Passes on what the watchdog says and every signal that it gets, until it ends. Who waits for an
    /// answer then, learns of it.
    fn listen(self, stop: &Stop) {
        for said in Words::new(&self.stream) {
            match said {
                Said::Signal => stop.ask(SIGTERM),
                // Nobody waits for it only where it came too late.
                Said::Answer(answer) => drop(self.answers.send(answer)),
            }
        }
        drop(self.answers);
        if let Some(mut process) = self.process {
            drop(process.wait());
        }
    }
}

/// In a process group of its own, so that an interrupt from the terminal passes it by.
fn spawn(target: &Path, spare: bool, socket: OwnedFd) -> io::Result<Child> {
    Command::new("/proc/self/exe")
        .arg0("ctxfs")
        .arg("watch-mount")
        .args(spare.then_some("--spare"))
        .arg("--")
        .arg(target)
        .env_remove(env::NOTIFY_SOCKET)
        .current_dir("/")
        .process_group(0)
        .stdin(socket)
        .stdout(Stdio::null())
        .spawn()
}
