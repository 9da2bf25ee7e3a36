//! Processes that do something for another one, and end with it.

use std::os::fd::{AsFd as _, OwnedFd};
use std::process::Child;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use std::{io, thread};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// The time in which a process ends by itself once nobody asks it any more.
const GRACE: Duration = Duration::from_secs(1);
/// The pause before the end of processes is looked for again.
const AGAIN: Duration = Duration::from_millis(5);

/// Processes that this one started, each for the other end of a socket.
#[derive(Default)]
pub(super) struct Kept(Vec<JoinHandle<()>>);

impl Kept {
    /// Has a thread wait for `child`, which ends when the other end of `socket`, its standard
    /// input, is closed. One that lives on a second after that is killed: it hangs, or is stopped.
    ///
    /// A kernel before 5.3 has no pidfd, and such a process is left.
    pub(super) fn add(&mut self, child: Child, socket: OwnedFd) -> io::Result<()> {
        self.add_thread(move || wait(child, socket))
    }

    /// Starts a thread that ends when a process does.
    pub(super) fn add_thread(&mut self, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
        self.0.retain(|thread| !thread.is_finished());
        self.0.push(thread::Builder::new().name("keep".to_owned()).spawn(work)?);
        Ok(())
    }

    /// Waits until all have ended, for a few seconds at most: one that waits for a disk cannot even
    /// be killed.
    pub(super) fn finish(self) {
        let end = Instant::now() + GRACE * 4;
        while self.0.iter().any(|thread| !thread.is_finished()) && Instant::now() < end {
            thread::sleep(AGAIN);
        }
    }
}

fn wait(mut child: Child, socket: OwnedFd) {
    let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::empty());
    if let Ok(pidfd) = pidfd
        && is_left(&pidfd, &socket)
    {
        tracing::warn!(process = child.id(), "a process did not end by itself, and is killed");
        drop(child.kill());
    }
    // Whoever asks sees the end of the process by the end of the socket.
    drop(socket);
    drop(child.wait());
}

/// Waits until the process ends, or the other end of `socket` does. Returns true if it lives on
/// then.
fn is_left(pidfd: &OwnedFd, socket: &OwnedFd) -> bool {
    let ended = || PollFd::from_borrowed_fd(pidfd.as_fd(), PollFlags::IN);
    // The end of a socket is reported also where nothing is asked for.
    let mut either = [ended(), PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::empty())];
    let waited = rustix::io::retry_on_intr(|| poll(&mut either, None));
    if waited.is_err() || !either[0].revents().is_empty() {
        return false;
    }
    let grace = Timespec { tv_sec: GRACE.as_secs().cast_signed(), tv_nsec: 0 };
    let count = rustix::io::retry_on_intr(|| poll(&mut [ended()], Some(&grace)));
    count == Ok(0)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::{Command, Stdio};

    use rustix::process::{Signal, kill_process};

    use super::*;

    /// Starts a process, which is to be kept for the other end of the socket.
    fn start(program: &str, args: &[&str]) -> (Child, UnixStream, OwnedFd) {
        let (asker, theirs) = UnixStream::pair().unwrap();
        let theirs = OwnedFd::from(theirs);
        let kept = theirs.try_clone().unwrap();
        let child = Command::new(program).args(args).stdin(theirs).stdout(Stdio::null()).spawn();
        (child.unwrap(), asker, kept)
    }

    #[test]
    fn one_that_is_stopped_is_killed_once_nobody_asks_it() {
        let (child, asker, socket) = start("cat", &[]);
        let pid = Pid::from_child(&child);
        kill_process(pid, Signal::STOP).unwrap();
        let mut kept = Kept::default();
        kept.add(child, socket).unwrap();
        thread::sleep(GRACE * 2);
        kill_process(pid, Signal::STOP).unwrap();
        drop(asker);
        kept.finish();
        assert!(kill_process(pid, Signal::STOP).is_err(), "it lives on");
    }

    #[test]
    fn one_that_ends_by_itself_is_not_killed() {
        let (mut child, asker, socket) = start("cat", &[]);
        drop(asker);
        let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).unwrap();
        assert!(!is_left(&pidfd, &socket));
        assert_eq!(child.wait().unwrap().signal(), None);
    }

    #[test]
    fn whoever_asks_sees_the_end_of_a_process() {
        let (child, asker, socket) = start("sleep", &["1000"]);
        let pid = Pid::from_child(&child);
        let mut kept = Kept::default();
        kept.add(child, socket).unwrap();
        let killed = Instant::now();
        kill_process(pid, Signal::KILL).unwrap();
        assert_eq!(io::Read::read(&mut &asker, &mut [0]).unwrap(), 0);
        assert!(killed.elapsed() < GRACE * 10);
        kept.finish();
    }
}
