//! `mount(2)` and `umount2(2)`.

use std::ffi::CString;
use std::fs::OpenOptions;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};

use crate::kernel::mount::{DEVICE, FSTYPE, MountError, MountOptions};

pub(super) fn mount(target: &Path, options: &MountOptions) -> Result<OwnedFd, MountError> {
    // The standard library opens close-on-exec.
    let device = OpenOptions::new()
        .read(true)
        .write(true)
        .open(DEVICE)
        .map_err(|cause| MountError::device(&cause))?;
    let flags = flags(options);
    let source = CString::new(options.source.replace('\0', "")).unwrap_or_default();
    let data = data(&device, options);
    rustix::mount::mount(source, target, FSTYPE, flags, &*data)
        .map_err(|errno| MountError::mount(target, errno))?;
    Ok(device.into())
}

/// Detaches the mount at `target` without waiting for its users.
pub(super) fn unmount(target: &Path) -> Result<(), MountError> {
    let flags = UnmountFlags::DETACH | UnmountFlags::NOFOLLOW;
    rustix::mount::unmount(target, flags).map_err(|errno| match errno {
        Errno::INVAL | Errno::NOENT => MountError::NotMounted { target: target.to_owned() },
        errno => MountError::mount(target, errno),
    })
}

/// Returns the mount flags. Setuid programs and devices never take effect: a writer to the store
/// could have created some.
fn flags(options: &MountOptions) -> MountFlags {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOATIME;
    if options.noexec { flags | MountFlags::NOEXEC } else { flags }
}

/// Returns the mount data of FUSE. The source is a separate argument and needs no escaping.
fn data(device: &impl AsRawFd, options: &MountOptions) -> CString {
    let user = rustix::process::getuid();
    let group = rustix::process::getgid();
    let mut data = format!(
        "fd={},rootmode=40000,user_id={user},group_id={group},default_permissions",
        device.as_raw_fd(),
    );
    if options.allow_other {
        data.push_str(",allow_other");
    }
    CString::new(data).unwrap_or_default()
}
