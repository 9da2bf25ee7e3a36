//! System calls: passing file descriptors, starting helper processes and waiting for them, limits,
//! memory, and sockets to listen on.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::TcpListener;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{ptr, thread};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::Failure;

/// Sends `bytes`, which must not be empty, together with the file descriptor `passed`, if any.
pub(crate) fn send_message(
    to: &UnixStream,
    bytes: &[u8],
    passed: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let passed = passed.map(|passed| [passed]);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if let Some(passed) = &passed {
        control.push(SendAncillaryMessage::ScmRights(passed));
    }
    rustix::net::sendmsg(to, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Waits for bytes and for a file descriptor that is sent with them. Returns the number of bytes,
/// which is 0 at the end of the stream.
pub(crate) fn receive_message(
    from: &UnixStream,
    bytes: &mut [u8],
) -> io::Result<(usize, Option<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut buffers = [IoSliceMut::new(bytes)];
    let received = rustix::io::retry_on_intr(|| {
        rustix::net::recvmsg(from, &mut buffers, &mut control, RecvFlags::CMSG_CLOEXEC)
    })?;
    let passed = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    Ok((received.bytes, passed))
}

// Time for a process to end by itself after its socket is closed.
const GRACE: Duration = Duration::from_secs(1);
const AGAIN: Duration = Duration::from_millis(5);

/// Returns the command that starts this program as a helper process. `name` is its name in process
/// lists. Its standard input is `socket`. The helper should end when the other end of the socket is
/// closed.
pub(crate) fn helper(name: &str, subcommand: &str, socket: impl Into<Stdio>) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg0(name).arg(subcommand).current_dir("/").stdin(socket);
    command
}

/// Child processes of this process, each of which serves the other end of a socket. A separate
/// thread waits for each of them.
#[derive(Default)]
pub(crate) struct Children(Vec<std::thread::JoinHandle<()>>);

impl Children {
    /// Waits for `child` on a separate thread. The child should end when the other end of `socket`,
    /// its standard input, is closed. If the child still runs a second later, it hangs or is
    /// stopped, and is killed.
    ///
    /// Kernels before 5.3 have no pidfd. There the child is not killed.
    pub(crate) fn add(&mut self, child: Child, socket: OwnedFd) -> io::Result<()> {
        self.add_thread(move || wait_for_child(child, socket))
    }

    pub(crate) fn add_thread(&mut self, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
        self.0.retain(|thread| !thread.is_finished());
        self.0.push(thread::Builder::new().name("keep".to_owned()).spawn(work)?);
        Ok(())
    }

    /// Waits until all children have ended, for a few seconds at most. A process that waits for a
    /// disk cannot be killed.
    pub(crate) fn finish(self) {
        let end = Instant::now() + GRACE * 4;
        while self.0.iter().any(|thread| !thread.is_finished()) && Instant::now() < end {
            thread::sleep(AGAIN);
        }
    }
}

fn wait_for_child(mut child: Child, socket: OwnedFd) {
    let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::empty());
    if let Ok(pidfd) = pidfd
        && is_left(&pidfd, &socket)
    {
        tracing::warn!(process = child.id(), "a process did not end by itself, and is killed");
        drop(child.kill());
    }
    // The process at the other end notices the end of the child by the end of the socket.
    drop(socket);
    drop(child.wait());
}

// Waits until the process ends or the other end of `socket` is closed. Returns true if the process
// still runs a grace period later.
fn is_left(pidfd: &OwnedFd, socket: &OwnedFd) -> bool {
    let ended = || PollFd::from_borrowed_fd(pidfd.as_fd(), PollFlags::IN);
    // The end of a socket is reported even if no event is requested.
    let mut either = [ended(), PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::empty())];
    let waited = rustix::io::retry_on_intr(|| poll(&mut either, None));
    if waited.is_err() || !either[0].revents().is_empty() {
        return false;
    }
    let grace = Timespec { tv_sec: GRACE.as_secs().cast_signed(), tv_nsec: 0 };
    let count = rustix::io::retry_on_intr(|| poll(&mut [ended()], Some(&grace)));
    count == Ok(0)
}

/// Closes all file descriptors that this process has inherited, except the standard ones. Must be
/// called before the process opens any file itself.
#[expect(unsafe_code, reason = "no safe wrapper closes a range of descriptors")]
pub(crate) fn close_inherited() -> io::Result<()> {
    const FIRST: libc::c_uint = 3;
    // SAFETY: the caller calls this first, so no code in the process uses a file descriptor other
    // than the standard ones.
    let done = unsafe { libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, 0) };
    let error = io::Error::last_os_error();
    // Kernels before 5.9 do not have this system call.
    if done == 0 || error.raw_os_error() == Some(libc::ENOSYS) { Ok(()) } else { Err(error) }
}

/// Makes a write beyond the limit on file sizes (`ulimit -f`, `LimitFSIZE=`) fail with EFBIG.
/// Without this, the signal SIGXFSZ ends the process.
///
/// The signal is caught rather than ignored, so that child programs start with its original action:
/// `exec` resets a handler, but leaves a signal ignored.
pub(crate) fn survive_file_limit() {
    if !is_ignored(libc::SIGXFSZ) {
        let caught = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        // If no handler can be set, SIGXFSZ ends this process as usual.
        drop(signal_hook::flag::register(libc::SIGXFSZ, caught));
    }
}

#[expect(unsafe_code, reason = "no safe wrapper asks for the action of a signal")]
fn is_ignored(signal: libc::c_int) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: without a new action, `sigaction` only writes the current one to `action`, which has
    // room for it.
    let asked = unsafe { libc::sigaction(signal, ptr::null(), action.as_mut_ptr()) };
    // SAFETY: the call succeeded, so `action` is initialized.
    asked == 0 && unsafe { action.assume_init() }.sa_sigaction == libc::SIG_IGN
}

#[cfg(target_env = "gnu")]
const LARGE: libc::c_int = 2 << 20;

/// Makes all threads allocate from the same arena. With one arena for each thread, freed memory
/// stays with its thread, and a server that has analysed some large outputs never shrinks again.
/// Large allocations bypass the arena, because small allocations behind them would keep it from
/// shrinking.
///
/// Must be called before other threads are started.
#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "no safe wrapper has mallopt")]
pub(crate) fn share_arena() {
    for (setting, value) in [(libc::M_ARENA_MAX, 1), (libc::M_MMAP_THRESHOLD, LARGE)] {
        // SAFETY: `mallopt` takes two numbers and changes a setting of the allocator.
        let is_set = unsafe { libc::mallopt(setting, value) } == 1;
        if !is_set {
            tracing::debug!(setting, "the allocator keeps more memory than it needs");
        }
    }
}

#[cfg(not(target_env = "gnu"))]
pub(crate) fn share_arena() {}

const LOOPBACK: &str = "127.0.0.1";

/// Opens a listening socket at `address`: `HOST:PORT`, `[IPV6]:PORT`, `:PORT` or `PORT`. Returns
/// the host as it was given, and the socket.
pub(crate) fn listen(address: &str) -> Result<(&str, TcpListener), Failure> {
    let (host, port) = split_address(address)?;
    let listener = TcpListener::bind((host, port)).map_err(|error| {
        let text = format!("cannot listen on `{address}`: {error}");
        Failure::usage(text, "give an address of this machine that is free, such as 127.0.0.1:0")
    })?;
    Ok((host, listener))
}

fn split_address(address: &str) -> Result<(&str, u16), Failure> {
    let (host, port) = address.rsplit_once(':').unwrap_or(("", address));
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let is_bare_ipv6 = bare.is_none() && host.contains(':');
    let port = port.parse().ok().filter(|_| !is_bare_ipv6);
    let port = port.ok_or_else(|| {
        let text = format!("`{address}` is no address");
        Failure::usage(text, "give HOST:PORT or PORT, such as 127.0.0.1:8080 or [::1]:8080")
    })?;
    let host = bare.unwrap_or(host);
    Ok((if host.is_empty() { LOOPBACK } else { host }, port))
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use rustix::process::{Signal, kill_process};

    use super::*;

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
        let mut kept = Children::default();
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
        let mut kept = Children::default();
        kept.add(child, socket).unwrap();
        let killed = Instant::now();
        kill_process(pid, Signal::KILL).unwrap();
        assert_eq!(io::Read::read(&mut &asker, &mut [0]).unwrap(), 0);
        assert!(killed.elapsed() < GRACE * 10);
        kept.finish();
    }

    #[test]
    fn an_address_is_loopback_unless_it_says_otherwise() {
        for (address, expected) in [
            ("8080", ("127.0.0.1", 8080)),
            (":8080", ("127.0.0.1", 8080)),
            ("0.0.0.0:0", ("0.0.0.0", 0)),
            ("[::1]:9", ("::1", 9)),
            ("box.example:80", ("box.example", 80)),
        ] {
            assert_eq!(split_address(address).unwrap(), expected, "{address}");
        }
        for address in ["", "box", "box:", "::1:80", "127.0.0.1", "127.0.0.1:70000", "1:2:3"] {
            assert!(split_address(address).is_err(), "{address}");
        }
    }
}
