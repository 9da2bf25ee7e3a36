//! Tests whether a file has a writer, by a lease on the file, and whether the process that owns its
//! record is running.

use std::fs::{self, File};
use std::os::fd::{AsRawFd as _, RawFd};
use std::time::Duration;
use std::{io, thread};

use ctxfs_core::model::Owner;

const ATTEMPTS: u32 = 4;
/// First pause of [`settled_lease`]. The second pause is twice as long, and the third three times
/// as long; together they take 30 ms.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
/// The `fcntl` command, which the `libc` crate lacks for this platform.
const F_SETSIG: libc::c_int = 10;

/// The answer of the kernel to a request for a read lease on a file. The kernel grants the lease
/// only if the file has no writer.
///
/// - `Free`: no process has the file open for writing or mapped for writing.
/// - `Held`: a process has the file open or mapped for writing.
/// - `Unknown`: the disk does not support leases, or the file belongs to another user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "described above")]
pub enum Lease {
    Free,
    Held,
    Unknown,
}

/// Returns [`Lease::Held`] if any process has `file` open for writing or has a writable mapping of
/// it.
///
/// The caller must have opened `file` read-only, and only for this call. Every other open file
/// description that is writable counts as a writer, even one of the caller. This function requests
/// a read lease, which the kernel grants only if there is no writer, and releases it immediately.
/// Until then, another process that opens the file for writing waits; with `O_NONBLOCK`, its `open`
/// fails with EWOULDBLOCK.
pub fn lease_of(file: &File) -> Lease {
    match take_lease(file) {
        Lease::Free => release(file.as_raw_fd()),
        lease => lease,
    }
}

/// Requests a lease as [`lease_of`] does. If the result is `Free`, keeps the lease until `file` is
/// closed. Until then, a process that opens the file for writing waits.
pub(super) fn take_lease(file: &File) -> Lease {
    let fd = file.as_raw_fd();
    // When a writer opens the file while the lease is held, the kernel signals this process. The
    // default signal is SIGIO, which would end the process. SIGURG is ignored by default.
    if fcntl(fd, F_SETSIG, libc::SIGURG).is_err() {
        return Lease::Unknown;
    }
    match fcntl(fd, libc::F_SETLEASE, libc::F_RDLCK) {
        Ok(()) => Lease::Free,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Lease::Held,
        Err(_) => Lease::Unknown,
    }
}

/// Requests a lease as [`lease_of`] does. If a writer is found, tries again for a moment, and
/// returns `Held` only if the writer still exists.
///
/// Between `fork` and `exec`, a process has copies of the descriptors of its parent. Such a copy
/// looks like a writer for a moment.
pub(super) fn settled_lease(file: &File) -> Lease {
    for attempt in 1..ATTEMPTS {
        match lease_of(file) {
            Lease::Held => thread::sleep(FIRST_PAUSE * attempt),
            lease => return lease,
        }
    }
    lease_of(file)
}

fn release(fd: RawFd) -> Lease {
    // If this fails, closing the descriptor releases the lease.
    let _released = fcntl(fd, libc::F_SETLEASE, libc::F_UNLCK);
    Lease::Free
}

#[expect(unsafe_code, reason = "no safe wrapper has F_SETLEASE and F_SETSIG")]
fn fcntl(fd: RawFd, command: libc::c_int, argument: libc::c_int) -> io::Result<()> {
    // SAFETY: both commands take an integer and do not access memory of this process. `fd` is open,
    // because the caller borrows its `File`.
    let answer = unsafe { libc::fcntl(fd, command, argument) };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

static ME: std::sync::LazyLock<Option<Owner>> =
    std::sync::LazyLock::new(|| running_process(std::process::id()));

/// Returns the identity of this process, or `None` if /proc is not available.
pub fn this_process() -> Option<Owner> {
    *ME
}

/// Returns the identity of a process, or `None` if it does not run.
pub fn running_process(pid: u32) -> Option<Owner> {
    Some(Owner { pid, started: started(pid)? })
}

/// Returns true if `owner` is still running. A process in another pid namespace is not visible and
/// counts as ended. In that case, only a lease on a file can show whether that file has a writer.
pub fn owner_lives(owner: Owner) -> bool {
    started(owner.pid) == Some(owner.started)
}

/// Returns the start time of a process, in clock ticks since boot. Returns `None` if there is no
/// such process, or if it is a zombie.
fn started(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // Field 2, the name, is in parentheses and may contain any characters. Field 3 is the state.
    let (_, after) = stat.rsplit_once(')')?;
    let mut fields = after.split_ascii_whitespace();
    let ended = matches!(fields.next()?, "Z" | "X");
    let started = fields.nth(22 - 4)?.parse().ok()?;
    (!ended).then_some(started)
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::process::Command;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn a_writer_is_seen_until_it_closes() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.into_temp_path();
        let probe = || lease_of(&File::open(&path).unwrap());
        assert_eq!(settled_lease(&File::open(&path).unwrap()), Lease::Free);
        let _reader = File::open(&path).unwrap();
        assert_eq!(settled_lease(&File::open(&path).unwrap()), Lease::Free);
        let writer = OpenOptions::new().append(true).open(&path).unwrap();
        let second = writer.try_clone().unwrap();
        assert_eq!(probe(), Lease::Held);
        drop(writer);
        assert_eq!(probe(), Lease::Held);
        drop(second);
        assert_eq!(settled_lease(&File::open(&path).unwrap()), Lease::Free);
    }

    #[test]
    fn a_descriptor_that_can_write_cannot_ask() {
        let file = tempfile::tempfile().unwrap();
        assert_eq!(lease_of(&file), Lease::Held);
    }

    /// Checks that opening the file for writing during `lease_of` does not end this process, as the
    /// default signal of the kernel would.
    #[test]
    fn writers_that_come_while_it_asks_do_no_harm() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.into_temp_path();
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..20_000 {
                    lease_of(&File::open(&path).unwrap());
                }
                done.store(true, Ordering::Relaxed);
            });
            while !done.load(Ordering::Relaxed) {
                drop(OpenOptions::new().write(true).open(&path).unwrap());
            }
        });
    }

    #[test]
    fn a_process_lives_until_it_ends() {
        assert!(owner_lives(this_process().unwrap()));
        let mut child = Command::new("sleep").arg("100").spawn().unwrap();
        let owner = Owner { pid: child.id(), started: started(child.id()).unwrap() };
        assert!(owner_lives(owner));
        assert!(!owner_lives(Owner { started: owner.started + 1, ..owner }));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!owner_lives(owner));
    }
}
