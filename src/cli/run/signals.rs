//! The signals that come while a command runs.

use std::io;
use std::os::fd::AsFd;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;

use rustix::process::Pid;
use rustix::process::getpgid;
use signal_hook::consts::SIGCHLD;
use signal_hook::consts::SIGCONT;
use signal_hook::consts::SIGHUP;
use signal_hook::consts::SIGINT;
use signal_hook::consts::SIGQUIT;
use signal_hook::consts::SIGTERM;
use signal_hook::consts::SIGTSTP;
use signal_hook::consts::SIGUSR1;
use signal_hook::consts::SIGUSR2;
use signal_hook::consts::SIGWINCH;
use signal_hook::iterator::backend::SignalDelivery;
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::low_level::siginfo::Cause;
use signal_hook::low_level::siginfo::Origin;

/// Those that are passed on, and the one that tells of the command's end.
const CAUGHT: [i32; 10] =
    [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT, SIGWINCH, SIGCHLD];

/// A signal that has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CaughtSignal {
    pub(super) number: i32,
    /// Whether the processes of this group have had it too: the terminal sends to all of them, and
    /// what one of them sends is meant for all.
    pub(super) shared: bool,
}

impl CaughtSignal {
    /// Whether it asks the command to end.
    pub(super) fn is_ending(self) -> bool {
        [SIGINT, SIGTERM, SIGHUP, SIGQUIT].contains(&self.number)
    }
}

/// Catches signals, until the process ends.
pub(super) struct Signals(SignalDelivery<UnixStream, WithOrigin>);

impl Signals {
    /// From now on.
    pub(super) fn catch() -> io::Result<Self> {
        let (read, write) = UnixStream::pair()?;
        read.set_nonblocking(true)?;
        write.set_nonblocking(true)?;
        Ok(Self(SignalDelivery::with_pipe(read, write, WithOrigin::default(), CAUGHT)?))
    }

    /// Those that have come, one of a kind.
    pub(super) fn pending(&mut self) -> Vec<CaughtSignal> {
        self.0.pending().map(|origin| caught(&origin)).collect()
    }
}

impl AsFd for Signals {
    /// Can be read when some have come.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.get_read().as_fd()
    }
}

fn caught(origin: &Origin) -> CaughtSignal {
    let from_group = origin.process.as_ref().is_some_and(|sender| {
        let group = Pid::from_raw(sender.pid).and_then(|pid| getpgid(Some(pid)).ok());
        group.is_some() && group == getpgid(None).ok()
    });
    CaughtSignal { number: origin.signal, shared: origin.cause == Cause::Kernel || from_group }
}
