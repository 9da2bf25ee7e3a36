//! The watchdog: a tiny child of every server that clears the mount if the server dies in any way,
//! `kill -9` too.
//!
//! The two hold the ends of a socket pair, and each learns of the other's end by the end of the
//! stream. A signal that reaches the watchdog is written to the socket by the signal handler, and
//! so asks the server to stop; the watchdog itself goes only after the server. If the watchdog is
//! killed the server keeps serving and starts another one.
//!
//! A child rather than a parent, so that `mount --foreground` is watched too, and the process that
//! the caller started is the one that serves. It has one thread and no log.

use std::io;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use rustix::fd::AsFd as _;
use signal_hook::consts::SIGTERM;
use signal_hook::low_level::pipe;

use crate::cli::args::TargetArgs;
use crate::cli::env;
use crate::cli::stop::SIGNALS;
use crate::cli::stop::Stop;
use crate::fuse::mount;
use crate::fuse::mount::MountState;

/// How often a lost watchdog is replaced before the server goes on without.
const REPLACEMENTS: usize = 20;
const BEFORE_REPLACING: Duration = Duration::from_secs(1);
/// A dying server closes its end before the kernel has ended the mount.
const LOOKS: usize = 100;
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

/// Starts the watchdog of the mount at `target`, and a thread that replaces it when it is lost.
pub(super) fn start(target: &Path, stop: Stop) -> anyhow::Result<()> {
    let first = Watchdog::spawn(target)?;
    let target = target.to_owned();
    thread::Builder::new()
        .name("watchdog".to_owned())
        .spawn(move || keep(first, &target, &stop))?;
    Ok(())
}

fn keep(mut watchdog: Watchdog, target: &Path, stop: &Stop) {
    for _ in 0..REPLACEMENTS {
        watchdog.listen(stop);
        tracing::warn!("the watchdog of `{}` is gone; starting another", target.display());
        thread::sleep(BEFORE_REPLACING);
        watchdog = match Watchdog::spawn(target) {
            Ok(next) => next,
            Err(error) => return tracing::error!("no watchdog any more: {error}"),
        };
    }
    tracing::error!("no watchdog any more: it ended {REPLACEMENTS} times");
}

/// The server's end.
#[derive(Debug)]
struct Watchdog {
    process: Child,
    stream: UnixStream,
}

impl Watchdog {
    /// In a process group of its own, so that an interrupt from the terminal passes it by.
    fn spawn(target: &Path) -> io::Result<Self> {
        let (stream, theirs) = UnixStream::pair()?;
        let process = Command::new("/proc/self/exe")
            .arg0("ctxfs")
            .arg("watch-mount")
            .arg("--")
            .arg(target)
            .env_remove(env::NOTIFY_SOCKET)
            .current_dir("/")
            .process_group(0)
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::null())
            .spawn()?;
        Ok(Self { process, stream })
    }

    /// Passes on every signal that the watchdog gets, until it ends.
    fn listen(mut self, stop: &Stop) {
        let mut byte = [0];
        while matches!(self.stream.read(&mut byte), Ok(1)) {
            stop.ask(SIGTERM);
        }
        drop(self.process.wait());
    }
}

/// The watchdog's own process; the server's socket is its standard input.
pub(super) fn run(args: &TargetArgs) -> anyhow::Result<()> {
    let _ = rustix::thread::set_name(c"ctxfs-watch");
    let mut server = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    for signal in SIGNALS {
        pipe::register(signal, server.try_clone()?)?;
    }
    io::copy(&mut server, &mut io::sink())?;
    clear(&args.target)
}

/// Unmounts what the server left dead. A mount that lives is another server's.
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
