//! Mount errors, with advice on what to do next.

use std::io;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

/// The reason why a mount or an unmount failed. `target` is the mountpoint, and `cause` is the
/// error of the operating system. [`MountError::hint`] returns advice.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    #[error("this machine has no /dev/fuse")]
    NoDevice,
    #[error("cannot open /dev/fuse: {cause}")]
    Device { cause: io::Error },
    #[error("the kernel does not know FUSE")]
    NoKernel,
    #[error("mounting as an ordinary user needs `fusermount3`, which is not installed")]
    NoHelper,
    #[error("fusermount3 failed: {cause}")]
    HelperLost { cause: io::Error },
    #[error("fusermount3 refused `{}`: {message}", target.display())]
    Helper { target: PathBuf, message: String },
    #[error("/etc/fuse.conf does not let ordinary users pass --allow-other")]
    AllowOther,
    #[error("cannot mount on `{}`: {cause}", target.display())]
    Target { target: PathBuf, cause: io::Error },
    #[error("not permitted to mount or unmount `{}`", target.display())]
    Denied { target: PathBuf },
    #[error("`{}` is busy", target.display())]
    Busy { target: PathBuf },
    #[error("mount of `{}` failed: {cause}", target.display())]
    Failed { target: PathBuf, cause: io::Error },
    #[error("`{}` is already mounted, from the store `{store}`", target.display())]
    AlreadyMounted { target: PathBuf, store: String },
    #[error("nothing is mounted at `{}`", target.display())]
    NotMounted { target: PathBuf },
    #[error("`{}` is a mount of type {fstype}, not of ctxfs; left as it is", target.display())]
    Foreign { target: PathBuf, fstype: String },
    #[error("descriptor {number} is not an open /dev/fuse")]
    NotADescriptor { number: RawFd },
}

impl MountError {
    pub(super) fn device(cause: &io::Error) -> Self {
        match Errno::from_io_error(cause) {
            Some(Errno::NOENT) => Self::NoDevice,
            Some(Errno::NODEV | Errno::NXIO) => Self::NoKernel,
            _ => Self::Device { cause: io::Error::from(cause.kind()) },
        }
    }

    pub(super) fn mount(target: &Path, errno: Errno) -> Self {
        let target = target.to_owned();
        match errno {
            Errno::PERM | Errno::ACCESS => Self::Denied { target },
            Errno::BUSY => Self::Busy { target },
            Errno::NODEV => Self::NoKernel,
            errno => Self::Failed { target, cause: errno.into() },
        }
    }

    /// Classifies the error message of the helper. The helper's messages exist only in English.
    pub(super) fn helper(target: &Path, message: String) -> Self {
        if message.contains("user_allow_other") {
            Self::AllowOther
        } else if message.contains("fuse device not found") {
            Self::NoDevice
        } else {
            Self::Helper { target: target.to_owned(), message }
        }
    }

    pub(super) fn may_differ_for_helper(&self) -> bool {
        matches!(self, Self::Denied { .. } | Self::Device { .. } | Self::NoDevice)
    }

    /// Returns advice on what to do next. Returns `None` if there is none.
    pub fn hint(&self) -> Option<String> {
        let text = match self {
            Self::NoDevice => NO_DEVICE.to_owned(),
            Self::Device { .. } => DEVICE_CLOSED.to_owned(),
            Self::NoKernel => "load the module: `modprobe fuse`".to_owned(),
            Self::NoHelper => NO_HELPER.to_owned(),
            Self::HelperLost { .. } => "`ctxfs doctor` looks for the reason".to_owned(),
            Self::Helper { target, message } => return helper_hint(target, message),
            Self::AllowOther => ALLOW_OTHER.to_owned(),
            Self::Target { target, cause } => return target_hint(target, cause),
            Self::Denied { .. } => DENIED.to_owned(),
            Self::Busy { target } => {
                format!("see what uses it: `fuser -vm {}`; or mount elsewhere", target.display())
            }
            Self::Failed { .. } => "`dmesg | tail` may say more; so may `ctxfs doctor`".to_owned(),
            Self::AlreadyMounted { target, .. } => {
                format!("use it as it is, or first `ctxfs umount {}`", target.display())
            }
            Self::NotMounted { .. } => "`ctxfs doctor` lists what is mounted".to_owned(),
            Self::Foreign { target, .. } => {
                format!("to unmount it all the same: `umount {}`", target.display())
            }
            Self::NotADescriptor { .. } => {
                "/dev/fd/N names a mount's descriptor that the starting program holds open; for an \
                 ordinary mount, name a directory"
                    .to_owned()
            }
        };
        Some(text)
    }
}

const NO_DEVICE: &str = "load the module: `modprobe fuse`; in a container: `docker run --device \
     /dev/fuse --cap-add SYS_ADMIN`; views work without a mount: `ctxfs view`";
const DEVICE_CLOSED: &str = "the device should be open to all (`chmod 666 /dev/fuse`); in a \
     container, pass `--device /dev/fuse`";
const NO_HELPER: &str = "install it: `apt install fuse3`, `dnf install fuse3` or `apk add fuse3`; \
     or mount as root";
const ALLOW_OTHER: &str = "add the line `user_allow_other` to /etc/fuse.conf, as root: `echo \
     user_allow_other >> /etc/fuse.conf`; or mount without --allow-other";
const DENIED: &str = "in a container, mounting needs `--cap-add SYS_ADMIN --device /dev/fuse \
     --security-opt apparmor:unconfined`; another user's mount is unmounted by that user or root";
const APPARMOR: &str = "AppArmor confines fusermount3 to $HOME, /mnt, /media, /tmp and \
     $XDG_RUNTIME_DIR: mount there, or allow the place in /etc/apparmor.d/local/fusermount3";

fn helper_hint(target: &Path, message: &str) -> Option<String> {
    let here = target.display();
    let hint = if message.contains("no write access to mountpoint") {
        format!("choose a directory of your own, or, as root: `chown $USER {here}`")
    } else if message.contains("too many FUSE filesystems") {
        "unmount some, or raise `mount_max` in /etc/fuse.conf".to_owned()
    } else if message.contains("/dev/fuse") {
        DEVICE_CLOSED.to_owned()
    } else if message.contains("not permitted") {
        DENIED.to_owned()
    } else if message.contains("Permission denied") {
        APPARMOR.to_owned()
    } else {
        return None;
    };
    Some(hint)
}

fn target_hint(target: &Path, cause: &io::Error) -> Option<String> {
    let here = target.display();
    match cause.kind() {
        io::ErrorKind::NotFound => Some(format!("make it first: `mkdir -p {here}`")),
        io::ErrorKind::NotADirectory => Some("name a directory".to_owned()),
        io::ErrorKind::NotConnected => Some(format!("a dead mount is there: `umount -l {here}`")),
        _ => None,
    }
}
