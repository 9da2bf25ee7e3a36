//! Who closed a file, and how it ended: a writer that is killed did not close its output itself.
//!
//! The kernel sends FLUSH also for a process that is being killed, and no word of why. FLUSH itself
//! must not ask: a process that is in the middle of execve(2) waits there for the answer with its
//! `exec_update_lock` held, and reading its `/proc/<pid>/stat` waits for that lock. So FLUSH only
//! takes hold of the thread, and the sealing thread asks, which nobody waits for.

use std::fs;
use std::os::fd::AsRawFd as _;
use std::os::fd::OwnedFd;

use rustix::process::Pid;
use rustix::process::PidfdFlags;

/// The thread that closed a file.
#[derive(Debug)]
pub(crate) struct Closer {
    pid: u32,
    /// Tells how it ended even when it has been reaped; none before Linux 6.9.
    held: Option<OwnedFd>,
}

impl Closer {
    /// Takes hold of the thread `pid`. Asks nothing of it.
    pub(crate) fn of(pid: u32) -> Self {
        /// `PIDFD_THREAD`, which is `O_EXCL`: any thread, not only the first of a process.
        const THREAD: PidfdFlags = PidfdFlags::from_bits_retain(libc::O_EXCL as u32);
        let thread = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let held = thread.and_then(|thread| rustix::process::pidfd_open(thread, THREAD).ok());
        Self { pid, held }
    }

    /// The signal that has killed or is killing it; none, where it lives, or ended by itself.
    pub(crate) fn killed_by(&self) -> Option<i32> {
        let code = match fs::read_to_string(format!("/proc/{}/stat", self.pid)) {
            Ok(stat) => exit_code_when_exiting(&stat)?,
            Err(_) => exit_code_when_reaped(self.held.as_ref()?)?,
        };
        // As wait(2) gives it: the low seven bits are the signal.
        Some(code & 0x7f).filter(|signal| *signal != 0)
    }
}

/// From `proc_pid_stat(5)`: field 9 holds `PF_EXITING`, field 52 the exit code.
fn exit_code_when_exiting(stat: &str) -> Option<i32> {
    const PF_EXITING: u64 = 0x4;
    // The name, field 2, is in parentheses and may hold anything.
    let (_, after) = stat.rsplit_once(')')?;
    let field = |number: usize| after.split_ascii_whitespace().nth(number - 3);
    let flags: u64 = field(9)?.parse().ok()?;
    let code = field(52)?.parse().ok()?;
    (flags & PF_EXITING != 0).then_some(code)
}

/// `struct pidfd_info` of linux/pidfd.h, in its first version.
#[repr(C)]
#[derive(Default)]
struct PidfdInfo {
    mask: u64,
    cgroup: u64,
    ids: [u32; 11],
    exit_code: i32,
}

/// Before Linux 6.15 nobody can say.
#[expect(unsafe_code, reason = "no safe wrapper has PIDFD_GET_INFO")]
fn exit_code_when_reaped(held: &OwnedFd) -> Option<i32> {
    /// `_IOWR(0xFF, 11, struct pidfd_info)`, with the size of the first version, 64 bytes.
    const PIDFD_GET_INFO: libc::c_ulong = 0xc040_ff0b;
    const PIDFD_INFO_EXIT: u64 = 1 << 3;
    let mut info = PidfdInfo { mask: PIDFD_INFO_EXIT, ..PidfdInfo::default() };
    // SAFETY: the request names the size of `info`, and the kernel writes no more than that.
    let answer = unsafe { libc::ioctl(held.as_raw_fd(), PIDFD_GET_INFO, &raw mut info) };
    (answer == 0 && info.mask & PIDFD_INFO_EXIT != 0).then_some(info.exit_code)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_process_that_lives_was_not_killed() {
        assert_eq!(Closer::of(std::process::id()).killed_by(), None);
    }

    #[test]
    fn how_a_process_ended_is_known_before_and_after_it_is_reaped() {
        for (kill, signal) in [(true, Some(libc::SIGKILL)), (false, None)] {
            let mut child = Command::new("sleep").arg("100").spawn().unwrap();
            let closer = Closer::of(child.id());
            let pid = Pid::from_child(&child);
            let end =
                if kill { rustix::process::Signal::KILL } else { rustix::process::Signal::TERM };
            let expected = signal.or(Some(libc::SIGTERM));
            rustix::process::kill_process(pid, end).unwrap();
            let options =
                rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT;
            rustix::process::waitid(rustix::process::WaitId::Pid(pid), options).unwrap();
            assert_eq!(closer.killed_by(), expected);
            child.wait().unwrap();
            assert!([expected, None].contains(&closer.killed_by()));
        }
    }

    #[test]
    fn a_process_that_ends_by_itself_was_not_killed() {
        let mut child = Command::new("false").spawn().unwrap();
        let closer = Closer::of(child.id());
        child.wait().unwrap();
        assert_eq!(closer.killed_by(), None);
    }
}
