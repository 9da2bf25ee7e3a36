//! What can go wrong in mounting: what, where, and what to do next.

use std::io;
use std::os::fd::RawFd;
use std::path::Path;
use std::path::PathBuf;

use rustix::io::Errno;

/// Why a mount or an unmount failed. [`MountError::hint`] says what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum MountError {
    /// There is no `/dev/fuse`.
    #[error("this machine has no /dev/fuse")]
    NoDevice,
    /// `/dev/fuse` does not open.
    #[error("cannot open /dev/fuse: {cause}")]
    Device {
        /// What the system said.
        cause: io::Error,
    },
    /// The kernel has no FUSE.
    #[error("the kernel does not know FUSE")]
    NoKernel,
    /// There is no `fusermount3`, and this user cannot mount without it.
    #[error("mounting as an ordinary user needs `fusermount3`, which is not installed")]
    NoHelper,
    /// `fusermount3` did not start, or broke off.
    #[error("fusermount3 failed: {cause}")]
    HelperLost {
        /// What the system said.
        cause: io::Error,
    },
    /// `fusermount3` refused.
    #[error("fusermount3 refused `{}`: {said}", target.display())]
    Helper {
        /// The mountpoint.
        target: PathBuf,
        /// Its own words.
        said: String,
    },
    /// Ordinary users may not let others in.
    #[error("/etc/fuse.conf does not let ordinary users pass --allow-other")]
    AllowOther,
    /// The mountpoint is not a directory that can be used.
    #[error("cannot mount on `{}`: {cause}", target.display())]
    Target {
        /// The mountpoint.
        target: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// The system call was not permitted.
    #[error("not permitted to mount or unmount `{}`", target.display())]
    Denied {
        /// The mountpoint.
        target: PathBuf,
    },
    /// The mountpoint is in use in a way that forbids mounting.
    #[error("`{}` is busy", target.display())]
    Busy {
        /// The mountpoint.
        target: PathBuf,
    },
    /// Any other answer of the system.
    #[error("mount of `{}` failed: {cause}", target.display())]
    Failed {
        /// The mountpoint.
        target: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// A living ctxfs is there.
    #[error("`{}` is already mounted, from the store `{store}`", target.display())]
    AlreadyMounted {
        /// The mountpoint.
        target: PathBuf,
        /// The store that it shows.
        store: String,
    },
    /// Nothing is mounted there.
    #[error("nothing is mounted at `{}`", target.display())]
    NotMounted {
        /// The directory.
        target: PathBuf,
    },
    /// What is mounted there is not ctxfs.
    #[error("`{}` is a mount of type {fstype}, not of ctxfs; left as it is", target.display())]
    Foreign {
        /// The directory.
        target: PathBuf,
        /// What is there.
        fstype: String,
    },
    /// The descriptor handed down is not an open `/dev/fuse`.
    #[error("descriptor {number} is not an open /dev/fuse")]
    NotADescriptor {
        /// The `N` of `/dev/fd/N`.
        number: RawFd,
    },
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

    /// Sorts what the helper said; it has no other language than this.
    pub(super) fn helper(target: &Path, said: String) -> Self {
        if said.contains("user_allow_other") {
            Self::AllowOther
        } else if said.contains("fuse device not found") {
            Self::NoDevice
        } else {
            Self::Helper { target: target.to_owned(), said }
        }
    }

    /// Whether the helper, which runs with other rights, may succeed where this failed.
    pub(super) fn may_differ_for_helper(&self) -> bool {
        matches!(self, Self::Denied { .. } | Self::Device { .. } | Self::NoDevice)
    }

    /// What to do next, where there is something to do.
    pub fn hint(&self) -> Option<String> {
        let text = match self {
            Self::NoDevice => NO_DEVICE.to_owned(),
            Self::Device { .. } => DEVICE_CLOSED.to_owned(),
            Self::NoKernel => "load the module: `modprobe fuse`".to_owned(),
            Self::NoHelper => NO_HELPER.to_owned(),
            Self::HelperLost { .. } => "`ctxfs doctor` looks for the reason".to_owned(),
            Self::Helper { target, said } => return helper_hint(target, said),
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

fn helper_hint(target: &Path, said: &str) -> Option<String> {
    let here = target.display();
    let hint = if said.contains("no write access to mountpoint") {
        format!("choose a directory of your own, or, as root: `chown $USER {here}`")
    } else if said.contains("too many FUSE filesystems") {
        "unmount some, or raise `mount_max` in /etc/fuse.conf".to_owned()
    } else if said.contains("/dev/fuse") {
        DEVICE_CLOSED.to_owned()
    } else if said.contains("not permitted") {
        DENIED.to_owned()
    } else if said.contains("Permission denied") {
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
