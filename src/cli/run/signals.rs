//! The signals that arrive while a command runs.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use rustix::process::{Pid, getpgid};
use signal_hook::consts::{
    SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2, SIGWINCH,
};
use signal_hook::iterator::backend::SignalDelivery;
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::low_level::siginfo::{Cause, Origin};

/// The signals that are passed on, and SIGCHLD.
const CAUGHT: [i32; 10] =
    [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT, SIGWINCH, SIGCHLD];

/// A signal that has arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CaughtSignal {
    pub(super) number: i32,
    /// True if the other processes of the group have received the signal too. The terminal sends to
    /// the whole group, and a signal from a member is taken to be for all.
    pub(super) shared: bool,
}

/// Catches signals until the process ends.
pub(super) struct Signals(SignalDelivery<UnixStream, WithOrigin>);

impl Signals {
    /// Starts to catch signals.
    pub(super) fn catch() -> io::Result<Self> {
        let (read, write) = UnixStream::pair()?;
        read.set_nonblocking(true)?;
        write.set_nonblocking(true)?;
        Ok(Self(SignalDelivery::with_pipe(read, write, WithOrigin::default(), CAUGHT)?))
    }

    /// Returns the signals that have arrived, one of each kind.
    pub(super) fn pending(&mut self) -> Vec<CaughtSignal> {
        self.0.pending().map(|origin| caught(&origin)).collect()
    }
}

impl AsFd for Signals {
    /// Returns a descriptor that is readable when signals have arrived.
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
