//! System calls: inherited signals and file descriptors, limits, memory, and sockets to listen on.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::{io, mem::MaybeUninit, net::TcpListener, ptr};

use crate::Failure;

// What this process has inherited: a bit for each standard descriptor that was closed, and one for
// SIGPIPE that was ignored.
static START: AtomicU8 = AtomicU8::new(0);
const WITHOUT_SIGPIPE: u8 = 1 << 3;

// Runs before Rust's runtime, which ignores SIGPIPE, and opens `/dev/null` in place of standard
// descriptors that are closed.
#[used]
#[expect(unsafe_code, reason = "only the loader calls functions before the runtime")]
// SAFETY: the loader calls the functions in this section, which need not take arguments.
#[unsafe(link_section = ".init_array")]
static NOTE_START: extern "C" fn() = note_start;

#[expect(unsafe_code, reason = "no safe wrapper takes a descriptor that may be closed")]
extern "C" fn note_start() {
    // SAFETY: F_GETFD only reads flags, or fails.
    let is_closed = |fd: &libc::c_int| unsafe { libc::fcntl(*fd, libc::F_GETFD) } == -1;
    let closed = (0..3).filter(is_closed).fold(0, |bits, fd| bits | 1 << fd);
    let signal = if is_ignored(libc::SIGPIPE) { WITHOUT_SIGPIPE } else { 0 };
    START.store(closed | signal, Relaxed);
}

/// Returns true if this process was started with SIGPIPE ignored.
pub(crate) fn began_without_sigpipe() -> bool {
    START.load(Relaxed) & WITHOUT_SIGPIPE != 0
}

/// Returns the standard descriptors that were closed when this process started.
pub(crate) fn closed_at_start() -> impl Iterator<Item = libc::c_int> {
    let start = START.load(Relaxed);
    (0..3).filter(move |fd| start >> fd & 1 == 1)
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

/// Returns true if this process ignores a signal. Programs that it becomes or starts inherit that.
#[expect(unsafe_code, reason = "no safe wrapper asks for the action of a signal")]
pub(crate) fn is_ignored(signal: libc::c_int) -> bool {
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
/// Large allocations bypass the arena, because small allocations after a large one would keep the
/// arena from shrinking.
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
    use super::*;

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
