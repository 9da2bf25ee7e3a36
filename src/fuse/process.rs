//! Facts from `/proc` about client threads: whether the thread that closes a file was killed,
//! whether a signal ends a waiting client, and the supplementary groups of a client.
//!
//! If a writer is killed, its output is incomplete. The kernel sends FLUSH when a killed process
//! closes its files, but FLUSH does not contain the reason, so its handler reads it from `/proc`.
//! If a process closes a file and is killed only later, the file is complete.
//!
//! The kernel sends INTERRUPT for a signal, but `fuser` answers the first one with ENOSYS, and the
//! kernel then sends no more. A client whose request has been read cannot even be killed before the
//! reply. The server therefore reads the pending signals of waiting clients from `/proc`.
//!
//! A thread that waits for a reply cannot exit before it gets the reply, so its thread number
//! cannot be reused in the meantime.

use std::ffi::{OsStr, OsString};
use std::fmt::Debug;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::Duration;
use std::{fs, io};

use crate::Caller;
use ctxfs_engine::sync::thread;

/// Access to the state of other processes. A confined server has no such access itself.
pub trait Processes: Debug + Send + Sync {
    fn stat(&self, pid: u32) -> io::Result<String>;

    /// Returns the last name of the path for which the thread `tid` has called mkdir(2), or `None` if
    /// it is in another system call. Fails if this process may not trace the thread.
    fn name_in_mkdir(&self, tid: u32) -> io::Result<Option<OsString>>;
}

/// Reads `/proc` directly. Used by a process that is not confined.
#[derive(Debug, Clone, Copy)]
pub struct ProcFs;

impl Processes for ProcFs {
    fn stat(&self, pid: u32) -> io::Result<String> {
        fs::read_to_string(format!("/proc/{pid}/stat"))
    }

    fn name_in_mkdir(&self, tid: u32) -> io::Result<Option<OsString>> {
        for _ in 0..LOOKS {
            let state = fs::read_to_string(format!("/proc/{tid}/syscall"))?;
            if state.starts_with("running") {
                thread::sleep(BETWEEN_LOOKS);
                continue;
            }
            let Some(path) = path_in_mkdir(&state) else { return Ok(None) };
            let mut bytes = vec![0; LONGEST_PATH];
            let read = fs::File::open(format!("/proc/{tid}/mem"))?.read_at(&mut bytes, path)?;
            bytes.truncate(bytes[..read].iter().position(|byte| *byte == 0).unwrap_or(read));
            let path = Path::new(OsStr::from_bytes(&bytes));
            return Ok(path.file_name().map(OsStr::to_owned));
        }
        Ok(None)
    }
}

/// Number of times that a thread is looked at which has sent its request and does not wait yet.
const LOOKS: u32 = 50;
const BETWEEN_LOOKS: Duration = Duration::from_micros(20);
const LONGEST_PATH: usize = libc::PATH_MAX as usize;

/// Returns the address of the path from `/proc/<tid>/syscall`: the number of the system call, and
/// its arguments in hexadecimal.
fn path_in_mkdir(state: &str) -> Option<u64> {
    let mut words = state.split_ascii_whitespace();
    let argument = match words.next()?.parse().ok()? {
        libc::SYS_mkdirat => words.nth(1)?,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_mkdir => words.next()?,
        _ => return None,
    };
    u64::from_str_radix(argument.strip_prefix("0x")?, 16).ok()
}

/// Returns true if the thread `tid`, which waits for the reply to its LOOKUP of `name`, is about to
/// make a directory of that name. The request does not say so. Returns false if that is unknown:
/// the thread is in another PID namespace, or may not be traced.
pub(super) fn is_in_mkdir(tid: u32, name: &OsStr, processes: &dyn Processes) -> bool {
    tid != 0 && processes.name_in_mkdir(tid).is_ok_and(|made| made.as_deref() == Some(name))
}

/// Returns the signal that killed the thread `pid`, which waits for the reply to its FLUSH. Returns
/// `None` if the thread continues, exits by itself, or cannot be read.
///
/// Reads `stat` only if the thread has released its memory, which an exiting thread does before it
/// closes its files. For a thread in the middle of execve(2), the read would never end: it waits
/// for `exec_update_lock`, and the thread holds this lock until it gets the reply. Reads from
/// `processes` only if a signal may have ended the thread.
pub(super) fn killed_by(pid: u32, processes: &dyn Processes) -> Option<i32> {
    if !is_exiting(pid) || !may_be_killed(&ProcFs.stat(pid).ok()?)? {
        return None;
    }
    let code: i32 = field(&processes.stat(pid).ok()?, EXIT_CODE)?.parse().ok()?;
    // The exit code has the format of wait(2): the low seven bits are the signal.
    Some(code & 0x7f).filter(|signal| *signal != 0)
}

/// Returns true if a thread has released its memory. Reads `statm`, because reading it takes no
/// lock, unlike reading `stat`; see `proc_pid_statm(5)`.
fn is_exiting(pid: u32) -> bool {
    fs::read(format!("/proc/{pid}/statm")).is_ok_and(|memory| memory.starts_with(b"0 "))
}

/// Returns true if a thread, according to its `/proc/<pid>/stat`, is exiting because of a signal or
/// because another thread ends the whole process. The flags do not distinguish the two cases. The
/// exit code does, but only some processes may read it.
fn may_be_killed(stat: &str) -> Option<bool> {
    const PF_EXITING: u64 = 0x4;
    const PF_SIGNALED: u64 = 0x400;
    let flags: u64 = field(stat, FLAGS)?.parse().ok()?;
    Some(flags & (PF_EXITING | PF_SIGNALED) == PF_EXITING | PF_SIGNALED)
}

/// The fields of `/proc/<pid>/stat`; see `proc_pid_stat(5)`.
const FLAGS: usize = 9;
const EXIT_CODE: usize = 52;

fn field(stat: &str, number: usize) -> Option<&str> {
    // Field 2, the name, is in parentheses and may contain any character.
    let (_, after) = stat.rsplit_once(')')?;
    after.split_ascii_whitespace().nth(number - 3)
}

/// Signals that request the end of a process. Such a signal counts even if the process has a
/// handler for it, because the handler runs only after the request is answered.
const ASK_TO_END: u64 =
    bit(libc::SIGHUP) | bit(libc::SIGINT) | bit(libc::SIGQUIT) | bit(libc::SIGTERM);
/// Signals whose default action does not end a process.
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

/// Returns true if the thread `tid`, which waits for a reply, was killed or has a pending signal
/// that requests its end. Returns false for 0, which stands for a thread in another PID namespace.
/// Never waits for another process.
pub(super) fn is_told_to_end(tid: u32) -> bool {
    if tid == 0 {
        return false;
    }
    let Ok(status) = fs::read_to_string(format!("/proc/{tid}/status")) else { return false };
    has_ending_signal(&status) || has_no_memory(&status) && was_killed(tid)
}

/// Returns true if `status`, a `/proc/<tid>/status`, has a pending signal that ends the process or
/// requests its end. Any other signal with a handler does not interrupt a request, just as it does
/// not interrupt a disk access.
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

/// Returns true if the thread has released its memory, as an exiting thread does before it closes
/// its files. The signal that killed such a thread is no longer pending.
fn has_no_memory(status: &str) -> bool {
    !status.lines().any(|line| line.starts_with("VmSize:"))
}

/// Returns true if an exiting thread was killed, or if another thread has ended its process.
///
/// Must not be called for a thread that may be in the middle of execve(2), because it would wait
/// for that thread.
fn was_killed(tid: u32) -> bool {
    ProcFs.stat(tid).is_ok_and(|stat| may_be_killed(&stat).unwrap_or(false))
}

/// Returns the sorted supplementary groups of the client's thread. Returns none if they are
/// unknown: the thread is in another PID namespace, or acts for a different user.
///
/// Unlike `/proc/<pid>/stat`, `/proc/<pid>/status` can be read while the thread is in the middle of
/// execve(2).
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
    // The fourth number is the filesystem ID.
    let (user, group) = (numbers("Uid:")?.get(3).copied(), numbers("Gid:")?.get(3).copied());
    let mut groups = numbers("Groups:")?;
    groups.sort_unstable();
    groups.dedup();
    ((user, group) == (Some(caller.uid), Some(caller.gid))).then_some(groups)
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};

    use super::*;

    /// Waits until the process has ended, and leaves it to be reaped.
    fn await_end(child: &Child) {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        rustix::process::waitid(WaitId::Pid(Pid::from_child(child)), options).unwrap();
    }

    #[test]
    fn a_process_that_runs_does_not_exit() {
        assert!(!is_exiting(std::process::id()));
        let mut child = Command::new("true").spawn().unwrap();
        await_end(&child);
        assert!(is_exiting(child.id()));
        child.wait().unwrap();
    }

    #[test]
    fn a_process_that_lives_was_not_killed() {
        assert_eq!(killed_by(std::process::id(), &ProcFs), None);
    }

    #[test]
    fn how_a_process_ended_is_known_until_it_is_reaped() {
        for (signal, expected) in [(Signal::KILL, libc::SIGKILL), (Signal::TERM, libc::SIGTERM)] {
            let mut child = Command::new("sleep").arg("100").spawn().unwrap();
            rustix::process::kill_process(Pid::from_child(&child), signal).unwrap();
            await_end(&child);
            assert_eq!(killed_by(child.id(), &ProcFs), Some(expected));
            child.wait().unwrap();
            assert_eq!(killed_by(child.id(), &ProcFs), None);
        }
    }

    #[test]
    fn a_process_that_ends_by_itself_was_not_killed() {
        let mut child = Command::new("false").spawn().unwrap();
        await_end(&child);
        assert_eq!(killed_by(child.id(), &ProcFs), None);
        child.wait().unwrap();
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
