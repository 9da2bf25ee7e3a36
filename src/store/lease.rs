//! Whether anybody still writes to a file.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::fd::RawFd;

/// What a lease says of a file's writers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lease {
    /// Nobody has it open for writing, nor mapped so.
    Free,
    /// Somebody has.
    Held,
    /// This disk has no leases, or the file belongs to somebody else.
    Unknown,
}

/// `fcntl` command, absent from the `libc` crate for this platform.
const F_SETSIG: libc::c_int = 10;

/// Whether any process still has `file` open for writing, or a writable mapping of it.
///
/// `file` must be a descriptor opened read-only for this question alone: the answer counts every
/// open file description, the caller's own writers too. It asks for a read lease, which the kernel
/// grants only where there is no writer, and gives it back at once. In between, a writer's `open`
/// waits (or, with `O_NONBLOCK`, is told EWOULDBLOCK).
pub fn lease_is_free(file: &File) -> Lease {
    let fd = file.as_raw_fd();
    // A writer that comes while the lease is held makes the kernel signal this process: with
    // SIGIO, which ends it, unless another signal is chosen. SIGURG is ignored by default.
    if fcntl(fd, F_SETSIG, libc::SIGURG).is_err() {
        return Lease::Unknown;
    }
    match fcntl(fd, libc::F_SETLEASE, libc::F_RDLCK) {
        Ok(()) => release(fd),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Lease::Held,
        Err(_) => Lease::Unknown,
    }
}

fn release(fd: RawFd) -> Lease {
    // Should this fail, closing the descriptor gives the lease back.
    let _released = fcntl(fd, libc::F_SETLEASE, libc::F_UNLCK);
    Lease::Free
}

#[expect(unsafe_code, reason = "no safe wrapper has F_SETLEASE and F_SETSIG")]
fn fcntl(fd: RawFd, command: libc::c_int, argument: libc::c_int) -> io::Result<()> {
    // SAFETY: both commands take an integer and touch no memory of this process; `fd` is open,
    // since the caller borrows its `File`.
    let answer = unsafe { libc::fcntl(fd, command, argument) };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
