//! The supplementary groups of a caller: a request has only its user and group.

use std::fs;

use crate::Caller;

/// Returns the supplementary groups of the thread that waits for an answer, sorted. None where they
/// cannot be told: the thread is in another PID namespace, or acts for another user than its own.
///
/// The thread cannot end before it is answered, so its number stands for no other. Unlike
/// `/proc/<pid>/stat`, this file does not wait for a thread that is in the middle of execve(2).
pub(super) fn groups(caller: Caller) -> Vec<u32> {
    let status = match caller.pid {
        0 => return Vec::new(),
        pid => fs::read_to_string(format!("/proc/{pid}/status")),
    };
    status.ok().and_then(|status| of_status(&status, caller)).unwrap_or_default()
}

/// Returns the groups in a `/proc/<pid>/status`, if that is of the user and group of `caller`; see
/// `proc_pid_status(5)`.
fn of_status(status: &str, caller: Caller) -> Option<Vec<u32>> {
    let numbers = |field: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(field))?;
        line.split_ascii_whitespace().map(|number| number.parse().ok()).collect::<Option<Vec<_>>>()
    };
    // The fourth is the one that counts for files.
    let (user, group) = (numbers("Uid:")?.get(3).copied(), numbers("Gid:")?.get(3).copied());
    let mut groups = numbers("Groups:")?;
    groups.sort_unstable();
    groups.dedup();
    ((user, group) == (Some(caller.uid), Some(caller.gid))).then_some(groups)
}

#[cfg(test)]
mod tests {
    use super::*;

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

    /// The test runs as some user, with some groups, which the kernel knows too.
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
