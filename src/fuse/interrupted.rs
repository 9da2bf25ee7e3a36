//! Clients that are told to end while they wait for an answer.
//!
//! The kernel would send INTERRUPT for a signal, but takes the first answer of `fuser`, ENOSYS, to
//! mean that it never need do so again. A client whose request was read is then not even killed
//! before it is answered. So the signals of those who wait are looked up in `/proc`.

use std::fs;

use crate::Processes as _;
use crate::closing_thread::{ProcFs, may_be_killed};

/// Signals by which somebody asks a process to end, even if it has a handler for them. Its handler
/// runs once the request is answered.
const ASK_TO_END: u64 =
    bit(libc::SIGHUP) | bit(libc::SIGINT) | bit(libc::SIGQUIT) | bit(libc::SIGTERM);
/// Signals that do not end a process which has no handler for them.
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

/// Returns true if the thread `tid`, which waits for an answer, is killed or asked to end.
///
/// Returns false for 0, a thread of another PID namespace. The thread cannot end before it is
/// answered, so its number stands for no other. This waits for no other process.
pub(super) fn is_told_to_end(tid: u32) -> bool {
    if tid == 0 {
        return false;
    }
    let Ok(status) = fs::read_to_string(format!("/proc/{tid}/status")) else { return false };
    has_ending_signal(&status) || is_exiting(&status) && was_killed(tid)
}

/// Returns true if a `/proc/<tid>/status` has a signal that ends the process, or asks it to end.
/// Other signals that it handles do not interrupt it, as they do not on a disk.
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

/// Returns true if the thread has given up its memory, as one that exits has before it closes its
/// files. A signal that has killed it is not pending any more.
fn is_exiting(status: &str) -> bool {
    !status.lines().any(|line| line.starts_with("VmSize:"))
}

/// Returns true if a thread that is exiting was killed, or another thread has ended its process.
///
/// Only for a thread that is exiting: one in the middle of execve(2) would be waited for.
fn was_killed(tid: u32) -> bool {
    ProcFs.stat(tid).is_ok_and(|stat| may_be_killed(&stat).unwrap_or(false))
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert!(!is_exiting(&status));
        assert!(!is_told_to_end(rustix::thread::gettid().as_raw_nonzero().get() as u32));
        assert!(!is_told_to_end(0) && !is_told_to_end(u32::MAX));
    }
}
