//! Facts from `/proc` about client threads: how the thread that closed a file ended, whether a
//! waiting client is told to end, and its supplementary groups.
//!
//! A writer that is killed leaves its output incomplete. The kernel sends FLUSH for a process that
//! is being killed, too, without the reason. The handler of FLUSH must not look it up: a process in
//! the middle of execve(2) waits for the answer with its `exec_update_lock` held, and reading its
//! `/proc/<pid>/stat` waits for that lock. So FLUSH only checks whether the thread has given up its
//! memory, as an exiting thread does before it closes its files, and opens a pidfd of such a
//! thread. The sealing thread looks up later how it ended. A process that closes a file and is
//! killed later has left it complete.
//!
//! The kernel would send INTERRUPT for a signal, but `fuser` answers the first one with ENOSYS, and
//! the kernel then sends no more. A client whose request was read cannot even be killed before it
//! is answered. So the signals of waiting clients are looked up in `/proc`.
//!
//! A thread that waits for an answer cannot end before it is answered, so its number stands for no
//! other thread.

use std::fmt::Debug;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::{Arc, Weak};
use std::{fs, io};

use quick_cache::sync::Cache;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags};

use crate::Caller;
use ctxfs_engine::Share;

/// Threads that are recognised when they close their next file.
const RECENT: usize = 64;

/// Access to the state of other processes, which a confined process does not have.
pub trait Processes: Debug + Send + Sync {
    fn stat(&self, pid: u32) -> io::Result<String>;
}

/// Reads `/proc` directly, for a process that is not confined.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProcFs;

impl Processes for ProcFs {
    fn stat(&self, pid: u32) -> io::Result<String> {
        fs::read_to_string(format!("/proc/{pid}/stat"))
    }
}

/// Exiting threads that closed files, until it is looked up how they ended.
pub(crate) struct ClosingThreads(Cache<u32, Weak<PidfdThread>>);

#[derive(Debug)]
pub(crate) enum ClosingThread {
    Running,
    Exiting {
        pid: u32,
        /// `None` before Linux 6.9, or if the client has no descriptor left for it.
        held: Option<Arc<PidfdThread>>,
    },
}

/// A pidfd of a thread, which tells how the thread ended even after it was reaped. A thread that
/// closes many files has one for all.
#[derive(Debug)]
pub(crate) struct PidfdThread {
    pidfd: OwnedFd,
    _share: Share,
}

impl Default for ClosingThreads {
    fn default() -> Self {
        Self(Cache::new(RECENT))
    }
}

impl ClosingThreads {
    /// Returns the thread `pid`, which waits for the answer to its FLUSH. An exiting thread is held
    /// by a pidfd that counts as the descriptor of `share`. How it ends is not looked up yet.
    pub(crate) fn of(&self, pid: u32, share: impl FnOnce() -> Option<Share>) -> ClosingThread {
        if is_exiting(pid) { self.exiting(pid, share) } else { ClosingThread::Running }
    }

    fn exiting(&self, pid: u32, share: impl FnOnce() -> Option<Share>) -> ClosingThread {
        let known = self.0.get(&pid).and_then(|known| known.upgrade());
        let held = known.filter(|known| known.is_running()).or_else(|| {
            let held = Arc::new(PidfdThread { pidfd: pidfd(pid)?, _share: share()? });
            self.0.insert(pid, Arc::downgrade(&held));
            Some(held)
        });
        ClosingThread::Exiting { pid, held }
    }
}

impl PidfdThread {
    /// Returns true if the thread has not exited, so that no other one has its number.
    fn is_running(&self) -> bool {
        let mut exited = [PollFd::new(&self.pidfd, PollFlags::IN)];
        poll(&mut exited, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) == Ok(0)
    }
}

/// Returns false for a thread that has memory. See `proc_pid_statm(5)`; unlike `stat`, that takes
/// no lock.
fn is_exiting(pid: u32) -> bool {
    let memory = fs::read(format!("/proc/{pid}/statm"));
    memory.map_or(true, |memory| memory.starts_with(b"0 "))
}

fn pidfd(pid: u32) -> Option<OwnedFd> {
    /// `PIDFD_THREAD`, which is `O_EXCL`: any thread, not only the first of a process.
    const THREAD: PidfdFlags = PidfdFlags::from_bits_retain(libc::O_EXCL as u32);
    let thread = i32::try_from(pid).ok().and_then(Pid::from_raw)?;
    rustix::process::pidfd_open(thread, THREAD).ok()
}

impl ClosingThread {
    /// Returns the signal that was killing the thread; `None` if it went on, or ended by itself.
    ///
    /// Asks `processes` only about threads that a signal may have ended.
    pub(crate) fn killed_by(&self, processes: &dyn Processes) -> Option<i32> {
        let Self::Exiting { pid, held } = self else { return None };
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
/// another thread of its process ends them all. The flags do not tell the two apart. The exit code
/// does, but only some processes may read it.
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

/// Signals that ask a process to end, even one with a handler, which runs once the request is
/// answered.
const ASK_TO_END: u64 =
    bit(libc::SIGHUP) | bit(libc::SIGINT) | bit(libc::SIGQUIT) | bit(libc::SIGTERM);
/// Signals that do not end a process without a handler.
const HARMLESS: u64 = bit(libc::SIGCHLD)
    | bit(libc::SIGCONT)
    | bit(libc::SIGURG)
    | bit(libc::SIGWINCH)
    | bit(libc::SIGSTOP)
    | bit(libc::SIGTSTP)
    | bit(libc::SIGTTIN)
    | bit(libc::SIGTTOU);

const fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

/// Returns true if the thread `tid`, which waits for an answer, is killed or asked to end. False
/// for 0, a thread of another PID namespace. Never waits for another process.
pub(super) fn is_told_to_end(tid: u32) -> bool {
    if tid == 0 {
        return false;
    }
    let Ok(status) = fs::read_to_string(format!("/proc/{tid}/status")) else { return false };
    has_ending_signal(&status) || has_no_memory(&status) && was_killed(tid)
}

/// Returns true if a `/proc/<tid>/status` has a pending signal that ends the process, or asks it to
/// end. Other signals with a handler do not interrupt a request, as they do not on a disk.
fn has_ending_signal(status: &str) -> bool {
    let set = |field: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(field));
        line.and_then(|line| u64::from_str_radix(line.trim(), 16).ok()).unwrap_or(0)
    };
    let pending = set("SigPnd:") | set("ShdPnd:");
    let kept_back = (set("SigBlk:") | set("SigIgn:")) & !bit(libc::SIGKILL);
    let handled = set("SigCgt:");
    pending & !kept_back & ((!handled & !HARMLESS) | ASK_TO_END) != 0
}

/// Returns true if the thread has given up its memory, as an exiting one does before it closes its
/// files. A signal that has killed it is no longer pending.
fn has_no_memory(status: &str) -> bool {
    !status.lines().any(|line| line.starts_with("VmSize:"))
}

/// Returns true if an exiting thread was killed, or another thread has ended its process.
///
/// Must not be called for a thread that may be in the middle of execve(2): this would wait for it.
fn was_killed(tid: u32) -> bool {
    ProcFs.stat(tid).is_ok_and(|stat| may_be_killed(&stat).unwrap_or(false))
}

/// Returns the supplementary groups of the client's thread, sorted. Empty where they cannot be
/// known: the thread is in another PID namespace, or acts for another user than its own.
///
/// Unlike `/proc/<pid>/stat`, this file does not wait for a thread in the middle of execve(2).
pub(super) fn groups(caller: Caller) -> Vec<u32> {
    let status = match caller.pid {
        0 => return Vec::new(),
        pid => fs::read_to_string(format!("/proc/{pid}/status")),
    };
    status.ok().and_then(|status| of_status(&status, caller)).unwrap_or_default()
}

/// Returns the groups in a `/proc/<pid>/status` if its user and group match `caller`; see
/// `proc_pid_status(5)`.
fn of_status(status: &str, caller: Caller) -> Option<Vec<u32>> {
    let numbers = |field: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(field))?;
        line.split_ascii_whitespace().map(|number| number.parse().ok()).collect::<Option<Vec<_>>>()
    };
    // The fourth number is the one for filesystems.
    let (user, group) = (numbers("Uid:")?.get(3).copied(), numbers("Gid:")?.get(3).copied());
    let mut groups = numbers("Groups:")?;
    groups.sort_unstable();
    groups.dedup();
    ((user, group) == (Some(caller.uid), Some(caller.gid))).then_some(groups)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use ctxfs_engine::{Client, Shares};

    use super::*;

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

    fn status(sets: &[(&str, u64)]) -> String {
        let line = |(field, set): &(&str, u64)| format!("{field}:\t{set:016x}\n");
        "Name:\tcp\nVmSize:\t1 kB\n".to_owned() + &sets.iter().map(line).collect::<String>()
    }

    #[test]
    fn signals_that_end_a_process_count() {
        let of = |sets: &[(&str, u64)]| has_ending_signal(&status(sets));
        let (kill, interrupt) = (bit(libc::SIGKILL), bit(libc::SIGINT));
        assert!(!of(&[]) && !of(&[("SigPnd", 0), ("ShdPnd", 0)]));
        for pending in ["SigPnd", "ShdPnd"] {
            assert!(of(&[(pending, kill)]) && of(&[(pending, interrupt)]));
            assert!(of(&[(pending, bit(libc::SIGUSR1))]), "nothing handles it");
            assert!(of(&[(pending, interrupt), ("SigCgt", interrupt)]), "a handler for Ctrl-C");
        }
    }

    #[test]
    fn signals_that_a_process_lives_through_do_not_count() {
        let of = |sets: &[(&str, u64)]| has_ending_signal(&status(sets));
        let interrupt = bit(libc::SIGINT);
        assert!(!of(&[("ShdPnd", interrupt), ("SigBlk", interrupt)]));
        assert!(!of(&[("ShdPnd", interrupt), ("SigIgn", interrupt)]));
        for signal in [libc::SIGCHLD, libc::SIGURG, libc::SIGWINCH, libc::SIGTSTP] {
            assert!(!of(&[("ShdPnd", bit(signal))]));
        }
        let alarm = bit(libc::SIGALRM);
        assert!(!of(&[("ShdPnd", alarm), ("SigCgt", alarm)]), "it handles that");
    }

    #[test]
    fn a_thread_that_lives_is_not_told_to_end() {
        let status = fs::read_to_string("/proc/thread-self/status").unwrap();
        assert!(!has_no_memory(&status));
        assert!(!is_told_to_end(rustix::thread::gettid().as_raw_nonzero().get() as u32));
        assert!(!is_told_to_end(0) && !is_told_to_end(u32::MAX));
    }

    const STATUS: &str = "Name:\tcat\nUmask:\t0022\nState:\tS (sleeping)\nUid:\t7\t7\t7\t8\n\
                          Gid:\t70\t70\t70\t80\nFDSize:\t64\nGroups:\t24 4 24 \nNStgid:\t1\n";

    #[test]
    fn they_are_those_of_the_caller_or_none() {
        let of = |uid, gid| of_status(STATUS, Caller { uid, gid, pid: 1 });
        assert_eq!(of(8, 80), Some(vec![4, 24]));
        assert_eq!((of(7, 80), of(8, 70)), (None, None));
        let none = STATUS.replace("24 4 24 ", "");
        assert_eq!(of_status(&none, Caller { uid: 8, gid: 80, pid: 1 }), Some(Vec::new()));
        assert_eq!(of_status("Uid:\tx\n", Caller { uid: 8, gid: 80, pid: 1 }), None);
        assert!(groups(Caller { uid: 0, gid: 0, pid: 0 }).is_empty());
    }

    #[test]
    fn they_are_those_that_the_kernel_knows() {
        let caller = Caller {
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            pid: rustix::thread::gettid().as_raw_nonzero().get() as u32,
        };
        let known = rustix::process::getgroups().unwrap();
        let mut known: Vec<u32> = known.into_iter().map(rustix::process::Gid::as_raw).collect();
        known.sort_unstable();
        known.dedup();
        assert_eq!(groups(caller), known);
    }
}
