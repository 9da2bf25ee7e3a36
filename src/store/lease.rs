//! Whether anybody still writes to a file.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::fd::RawFd;
use std::thread;
use std::time::Duration;

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

/// How often `settled` asks, and how much longer it waits each time: 30 ms in all.
const ATTEMPTS: u32 = 4;
const MOMENT: Duration = Duration::from_millis(5);

/// `fcntl` command, absent from the `libc` crate for this platform.
const F_SETSIG: libc::c_int = 10;

/// Whether any process still has `file` open for writing, or a writable mapping of it.
///
/// `file` must be a descriptor opened read-only for this question alone: the answer counts every
/// open file description, the caller's own writers too. It asks for a read lease, which the kernel
/// grants only where there is no writer, and gives it back at once. In between, a writer's `open`
/// waits (or, with `O_NONBLOCK`, is told EWOULDBLOCK).
pub fn lease_of(file: &File) -> Lease {
    match take(file) {
        Lease::Free => release(file.as_raw_fd()),
        lease => lease,
    }
}

/// As `lease_of`, but where the answer is `Free` the lease is kept until `file` is closed: who
/// opens the file for writing meanwhile waits for that.
pub(super) fn take(file: &File) -> Lease {
    let fd = file.as_raw_fd();
    // A writer that comes while the lease is held makes the kernel signal this process: with
    // SIGIO, which ends it, unless another signal is chosen. SIGURG is ignored by default.
    if fcntl(fd, F_SETSIG, libc::SIGURG).is_err() {
        return Lease::Unknown;
    }
    match fcntl(fd, libc::F_SETLEASE, libc::F_RDLCK) {
        Ok(()) => Lease::Free,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Lease::Held,
        Err(_) => Lease::Unknown,
    }
}

/// As `lease_of`, but says `Held` only of a writer that is still there a moment later.
///
/// A process that is being started has copies of the descriptors of the one that starts it, until
/// it runs its program. Such a copy is no writer.
pub(super) fn settled(file: &File) -> Lease {
    for attempt in 1..ATTEMPTS {
        match lease_of(file) {
            Lease::Held => thread::sleep(MOMENT * attempt),
            lease => return lease,
        }
    }
    lease_of(file)
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

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::sync::atomic::AtomicBool;
    use std::sync::atomic::Ordering;

    use super::*;

    #[test]
    fn a_writer_is_seen_until_it_closes() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.into_temp_path();
        let probe = || lease_of(&File::open(&path).unwrap());
        assert_eq!(settled(&File::open(&path).unwrap()), Lease::Free);
        let _reader = File::open(&path).unwrap();
        assert_eq!(settled(&File::open(&path).unwrap()), Lease::Free);
        let writer = OpenOptions::new().append(true).open(&path).unwrap();
        let second = writer.try_clone().unwrap();
        assert_eq!(probe(), Lease::Held);
        drop(writer);
        assert_eq!(probe(), Lease::Held);
        drop(second);
        assert_eq!(settled(&File::open(&path).unwrap()), Lease::Free);
    }

    #[test]
    fn a_descriptor_that_can_write_cannot_ask() {
        let file = tempfile::tempfile().unwrap();
        assert_eq!(lease_of(&file), Lease::Held);
    }

    /// With the signal that the kernel sends by default, this ends the test process.
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
}
