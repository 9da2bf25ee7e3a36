//! The thread that closed a file, and how it ended: a writer that is killed leaves its output
//! incomplete.
//!
//! The kernel sends FLUSH for a process that is being killed, too, without giving the reason. The
//! handler of FLUSH must not look it up: a process in the middle of execve(2) waits for the answer
//! with its `exec_update_lock` held, and reading its `/proc/<pid>/stat` waits for that lock. So
//! FLUSH only looks if the thread has given up its memory, as one does that exits before it closes
//! its files, and opens a pidfd of such a thread. The sealing thread, which nobody waits for, looks
//! up how it ended. A process that closes a file and is killed later has left it complete.

use std::fmt::Debug;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::{Arc, Weak};
use std::{fs, io};

use quick_cache::sync::Cache;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags};

use ctxfs_engine::Share;

/// The threads that are known again when they close the next file.
const RECENT: usize = 64;

/// Access to the state of other processes, which a confined process does not have itself.
pub trait Processes: Debug + Send + Sync {
    /// Returns the content of `/proc/<pid>/stat`.
    fn stat(&self, pid: u32) -> io::Result<String>;
}

/// Access for a process that is not confined: reads `/proc` directly.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProcFs;

impl Processes for ProcFs {
    fn stat(&self, pid: u32) -> io::Result<String> {
        fs::read_to_string(format!("/proc/{pid}/stat"))
    }
}

/// The threads that closed files, as far as it is not looked up yet how they ended.
pub(crate) struct ClosingThreads(Cache<u32, Weak<HeldThread>>);

/// The thread that closed a file.
#[derive(Debug)]
pub(crate) enum ClosingThread {
    /// It went on after that.
    Lives,
    /// It was exiting.
    Exits {
        pid: u32,
        /// `None` before Linux 6.9, or if the client has no descriptors left for it.
        held: Option<Arc<HeldThread>>,
    },
}

/// A thread by its pidfd, which tells how it ended even after it was reaped. One that closes many
/// files has one for all.
#[derive(Debug)]
pub(crate) struct HeldThread {
    pidfd: OwnedFd,
    _share: Share,
}

impl Default for ClosingThreads {
    fn default() -> Self {
        Self(Cache::new(RECENT))
    }
}

impl ClosingThreads {
    /// Returns the thread `pid`, which waits for the answer to its FLUSH. One that exits is held by
    /// a pidfd that counts as the descriptor of `share`. Does not look up yet how it ends.
    pub(crate) fn of(&self, pid: u32, share: impl FnOnce() -> Option<Share>) -> ClosingThread {
        if is_exiting(pid) { self.exiting(pid, share) } else { ClosingThread::Lives }
    }

    fn exiting(&self, pid: u32, share: impl FnOnce() -> Option<Share>) -> ClosingThread {
        let known = self.0.get(&pid).and_then(|known| known.upgrade());
        let held = known.filter(|known| known.lives()).or_else(|| {
            let held = Arc::new(HeldThread { pidfd: pidfd(pid)?, _share: share()? });
            self.0.insert(pid, Arc::downgrade(&held));
            Some(held)
        });
        ClosingThread::Exits { pid, held }
    }
}

impl HeldThread {
    /// Returns true if the thread has not exited, so that no other one has its number.
    fn lives(&self) -> bool {
        let mut exited = [PollFd::new(&self.pidfd, PollFlags::IN)];
        poll(&mut exited, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) == Ok(0)
    }
}

/// Returns false for a thread that has memory: it does not exit. See `proc_pid_statm(5)`; unlike
/// `stat`, that takes no lock.
fn is_exiting(pid: u32) -> bool {
    let memory = fs::read(format!("/proc/{pid}/statm"));
    memory.map_or(true, |memory| memory.starts_with(b"0 "))
}

/// Opens a pidfd of a thread. `None` before Linux 6.9.
fn pidfd(pid: u32) -> Option<OwnedFd> {
    /// `PIDFD_THREAD`, which is `O_EXCL`: any thread, not only the first of a process.
    const THREAD: PidfdFlags = PidfdFlags::from_bits_retain(libc::O_EXCL as u32);
    let thread = i32::try_from(pid).ok().and_then(Pid::from_raw)?;
    rustix::process::pidfd_open(thread, THREAD).ok()
}

impl ClosingThread {
    /// Returns the signal that was killing the thread. Returns `None` if it lived, or ended by
    /// itself.
    ///
    /// Asks `processes` only about threads that a signal may have ended.
    pub(crate) fn killed_by(&self, processes: &dyn Processes) -> Option<i32> {
        let Self::Exits { pid, held } = self else { return None };
        let seen = match ProcFs.stat(*pid) {
            Ok(stat) if !may_be_killed(&stat)? => return None,
            Ok(_) => processes.stat(*pid),
            Err(gone) => Err(gone),
        };
        let code = match seen {
            Ok(stat) => exit_code_when_exiting(&stat)?,
            Err(_) => exit_code_when_reaped(&held.as_ref()?.pidfd)?,
        };
        // As wait(2) gives it: the low seven bits are the signal.
        Some(code & 0x7f).filter(|signal| *signal != 0)
    }
}

/// Returns true if a thread, by its `/proc/<pid>/stat`, is exiting because of a signal, or because
/// another thread of its process ends all of them. The flags do not tell the two apart; the exit
/// code does, but not every process may see it.
pub(super) fn may_be_killed(stat: &str) -> Option<bool> {
    const PF_SIGNALED: u64 = 0x400;
    Some(flags(stat)? & (PF_EXITING | PF_SIGNALED) == PF_EXITING | PF_SIGNALED)
}

/// Returns the exit code of an exiting thread. See `proc_pid_stat(5)`: field 9 holds `PF_EXITING`,
/// field 52 the exit code.
fn exit_code_when_exiting(stat: &str) -> Option<i32> {
    let code = field(stat, 52)?.parse().ok()?;
    (flags(stat)? & PF_EXITING != 0).then_some(code)
}

const PF_EXITING: u64 = 0x4;

fn flags(stat: &str) -> Option<u64> {
    field(stat, 9)?.parse().ok()
}

/// Returns a field, counted from 1 as in the manual.
fn field(stat: &str, number: usize) -> Option<&str> {
    // The name, field 2, is in parentheses and may hold anything.
    let (_, after) = stat.rsplit_once(')')?;
    after.split_ascii_whitespace().nth(number - 3)
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

/// Returns the exit code of a thread that was reaped. `None` before Linux 6.15.
#[expect(unsafe_code, reason = "no safe wrapper has PIDFD_GET_INFO")]
fn exit_code_when_reaped(held: &OwnedFd) -> Option<i32> {
    /// `_IOWR(0xFF, 11, struct pidfd_info)`, with the size of the first version, 64 bytes.
    const PIDFD_GET_INFO: libc::Ioctl = 0xc040_ff0b_u32 as libc::Ioctl;
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
    use ctxfs_engine::{Client, Shares};

    fn of(pid: u32) -> ClosingThread {
        ClosingThreads::default().exiting(pid, || Shares::new(2).claim(Client::default(), 1))
    }

    #[test]
    fn a_process_that_runs_does_not_exit() {
        assert!(!is_exiting(std::process::id()));
        let mut child = Command::new("true").spawn().unwrap();
        let pid = Pid::from_child(&child);
        let options =
            rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT;
        rustix::process::waitid(rustix::process::WaitId::Pid(pid), options).unwrap();
        assert!(is_exiting(child.id()));
        child.wait().unwrap();
    }

    #[test]
    fn a_process_that_lives_was_not_killed() {
        assert_eq!(of(std::process::id()).killed_by(&ProcFs), None);
    }

    #[test]
    fn how_a_process_ended_is_known_before_and_after_it_is_reaped() {
        for (kill, signal) in [(true, Some(libc::SIGKILL)), (false, None)] {
            let mut child = Command::new("sleep").arg("100").spawn().unwrap();
            let thread = of(child.id());
            let pid = Pid::from_child(&child);
            let end =
                if kill { rustix::process::Signal::KILL } else { rustix::process::Signal::TERM };
            let expected = signal.or(Some(libc::SIGTERM));
            rustix::process::kill_process(pid, end).unwrap();
            let options =
                rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT;
            rustix::process::waitid(rustix::process::WaitId::Pid(pid), options).unwrap();
            assert_eq!(thread.killed_by(&ProcFs), expected);
            child.wait().unwrap();
            assert!([expected, None].contains(&thread.killed_by(&ProcFs)));
        }
    }

    #[test]
    fn a_process_that_ends_by_itself_was_not_killed() {
        let mut child = Command::new("false").spawn().unwrap();
        let thread = of(child.id());
        child.wait().unwrap();
        assert_eq!(thread.killed_by(&ProcFs), None);
    }
}
