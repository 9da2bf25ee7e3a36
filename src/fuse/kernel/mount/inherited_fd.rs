//! A mount that another process made and whose descriptor this one inherited (`/dev/fd/N`), as from
//! a privileged sidecar of a container.

use std::fs;
use std::os::fd::{FromRawFd as _, OwnedFd, RawFd};
use std::path::Path;

use rustix::io::FdFlags;

use crate::kernel::mount::{DEVICE, MountError};

/// Returns the `N` of `/dev/fd/N`.
pub(super) fn number(target: &Path) -> Option<RawFd> {
    let number = target.strip_prefix("/dev/fd").ok()?;
    number.to_str()?.parse().ok().filter(|number| *number >= 0)
}

/// Takes ownership of descriptor `number`, after checking that it is an open `/dev/fuse`.
pub(super) fn take(number: RawFd) -> Result<OwnedFd, MountError> {
    let open = fs::read_link(format!("/proc/self/fd/{number}"));
    if !open.is_ok_and(|file| file == Path::new(DEVICE)) {
        return Err(MountError::NotADescriptor { number });
    }
    let fd = own(number);
    rustix::io::fcntl_setfd(&fd, FdFlags::CLOEXEC)
        .map_err(|_| MountError::NotADescriptor { number })?;
    Ok(fd)
}

#[expect(unsafe_code, reason = "an inherited descriptor is known only by its number")]
fn own(number: RawFd) -> OwnedFd {
    // SAFETY: the descriptor is open, as `take` has checked, and nothing in this process opened it:
    // it belongs to a mount that this process did not make. Only the command line names its number,
    // once, so nothing else closes it.
    unsafe { OwnedFd::from_raw_fd(number) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_told_from_directories() {
        assert_eq!(number(Path::new("/dev/fd/7")), Some(7));
        for directory in ["/dev/fd", "/dev/fd/x", "/dev/fd/-1", "/ctx", "dev/fd/7"] {
            assert_eq!(number(Path::new(directory)), None, "{directory}");
        }
    }

    #[test]
    fn descriptors_of_other_files_are_refused() {
        assert!(matches!(take(987_654), Err(MountError::NotADescriptor { number: 987_654 })));
        assert!(matches!(take(0), Err(MountError::NotADescriptor { number: 0 })));
    }
}
