//! The descriptors that a process inherits.

use std::io;

/// Closes all but the standard descriptors, which whoever started the parent had open and did not
/// mean for this process. Must be called before the process opens any itself.
#[expect(unsafe_code, reason = "no safe wrapper closes a range of descriptors")]
pub(super) fn close_others() -> io::Result<()> {
    const FIRST: libc::c_uint = 3;
    // SAFETY: the caller calls it first, so nothing in the process has a descriptor beside the
    // standard ones.
    let done = unsafe { libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, 0) };
    let error = io::Error::last_os_error();
    // A kernel before 5.9 has no such call.
    if done == 0 || error.raw_os_error() == Some(libc::ENOSYS) { Ok(()) } else { Err(error) }
}
