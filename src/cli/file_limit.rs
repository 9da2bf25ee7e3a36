//! The limit of a process on the length of files (`ulimit -f`, `LimitFSIZE=`), met like any other.

use std::mem::MaybeUninit;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Has a write beyond the limit fail with EFBIG, and no more: the kernel also sends SIGXFSZ, which
/// would end this process.
///
/// The signal is caught rather than ignored, so that programs which this process starts have it as
/// this process was given it: exec takes a handler away, but leaves a signal ignored.
pub(super) fn survive() {
    if !is_ignored(libc::SIGXFSZ) {
        let caught = Arc::new(AtomicBool::new(false));
        // Where no handler can be set, the signal ends this process, as it would any other.
        drop(signal_hook::flag::register(libc::SIGXFSZ, caught));
    }
}

/// Returns true if whoever started this process has it ignore `signal`.
#[expect(unsafe_code, reason = "no safe wrapper asks for the action of a signal")]
fn is_ignored(signal: libc::c_int) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: without a new action, `sigaction` only writes the present one to `action`, which has
    // room for it.
    let asked = unsafe { libc::sigaction(signal, ptr::null(), action.as_mut_ptr()) };
    // SAFETY: the call succeeded, so `action` is written.
    asked == 0 && unsafe { action.assume_init() }.sa_sigaction == libc::SIG_IGN
}
