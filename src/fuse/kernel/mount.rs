//! Mounting and unmounting.
//!
//! There are three methods of mounting, chosen here:
//!
//! | target | user | method |
//! |---|---|---|
//! | `/dev/fd/N` | any | the inherited descriptor is already mounted, and is served |
//! | a directory | root, also of a user namespace | `mount(2)` on an opened `/dev/fuse` |
//! | a directory | any other | the setuid program `fusermount3` mounts and sends the descriptor |
//!
//! The descriptor is always close-on-exec: if a child kept it, the mount of a dead server would
//! hang instead of failing. When the last descriptor is closed, the mount stays in the tree, dead
//! (`ENOTCONN`); [`unmount`] removes it, dead or alive.

mod direct;
mod error;
mod helper;
mod inherited_fd;
mod table;

use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::path::{Path, PathBuf};

pub use error::MountError;
pub use helper::find as find_helper;
pub use table::{MountEntry, MountState, mounts, state};

/// The device through which the kernel talks to a filesystem. Check its presence by `stat`: an open
/// descriptor of it may by itself hold up a mount.
pub const DEVICE: &str = "/dev/fuse";

/// The filesystem type in the mount table.
pub const FSTYPE: &str = "fuse.ctxfs";

/// The method by which a directory was mounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MountMethod {
    /// Another process mounted it, and this one inherited the descriptor.
    InheritedFd(RawFd),
    /// By `mount(2)`, as root.
    Direct,
    /// By `fusermount3`.
    Helper,
}

/// The options of a mount.
#[derive(Debug, Clone)]
pub struct MountOptions {
    /// The source in the mount table: the store's path.
    pub source: String,
    /// True to let users other than the mounting one, including root, access the mount.
    pub allow_other: bool,
    /// True to mount with `noexec`.
    pub noexec: bool,
}

/// A mount that waits for its server: the kernel's first request has not been answered.
#[derive(Debug)]
pub struct Mounted {
    /// The open `/dev/fuse`, close-on-exec.
    pub fd: OwnedFd,
    /// The method of mounting.
    pub method: MountMethod,
    /// The directory, absolute and without links, or as given if the descriptor was inherited.
    pub target: PathBuf,
}

/// Mounts `target`, after removing dead ctxfs mounts from it.
///
/// Refuses a target on which a live ctxfs is mounted. The files of the directory are hidden while
/// it is mounted, and do not change.
pub fn mount(target: &Path, options: &MountOptions) -> Result<Mounted, MountError> {
    if let Some(number) = inherited_fd::number(target) {
        let fd = inherited_fd::take(number)?;
        return Ok(Mounted {
            fd,
            method: MountMethod::InheritedFd(number),
            target: target.to_owned(),
        });
    }
    let target = table::resolve(target);
    heal(&target)?;
    check_directory(&target)?;
    device_is_there()?;
    let (fd, method) = attach(&target, options)?;
    Ok(Mounted { fd, method, target })
}

/// Returns true if `target` is an inherited descriptor (`/dev/fd/N`) rather than a directory.
pub fn is_inherited_fd(target: &Path) -> bool {
    inherited_fd::number(target).is_some()
}

/// Removes a ctxfs mount, live or dead, from the tree at once.
///
/// The unmount is lazy: open files stay readable while their server lives. A target without a
/// mount, or with one of another type, is an error and is left as it is. The server is not
/// involved, so a hanging one does not block this.
pub fn unmount(target: &Path) -> Result<(), MountError> {
    let target = table::resolve(target);
    match table::top(&target) {
        None => Err(MountError::NotMounted { target }),
        Some(entry) if !entry.is_ctxfs() => {
            Err(MountError::Foreign { target, fstype: entry.fstype })
        }
        Some(_) => detach(&target),
    }
}

/// Removes dead mounts, of which there may be several on top of each other.
fn heal(target: &Path) -> Result<(), MountError> {
    loop {
        match state(target) {
            MountState::Dead { .. } => detach(target)?,
            MountState::Alive { source } => {
                let target = target.to_owned();
                return Err(MountError::AlreadyMounted { target, store: source });
            }
            MountState::NotMounted | MountState::Foreign { .. } => return Ok(()),
        }
    }
}

fn check_directory(target: &Path) -> Result<(), MountError> {
    let failed = |cause| MountError::Target { target: target.to_owned(), cause };
    match std::fs::metadata(target) {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => Err(failed(io::Error::from(io::ErrorKind::NotADirectory))),
        Err(cause) => Err(failed(cause)),
    }
}

fn device_is_there() -> Result<(), MountError> {
    match std::fs::metadata(DEVICE) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Err(MountError::NoDevice),
        _ => Ok(()),
    }
}

/// Mounts directly as root. If that is not permitted (a container, a closed device), and for other
/// users, runs the helper. If both fail, root gets the error of the direct attempt.
fn attach(target: &Path, options: &MountOptions) -> Result<(OwnedFd, MountMethod), MountError> {
    if !rustix::process::geteuid().is_root() {
        return Ok((helper::mount(target, options)?, MountMethod::Helper));
    }
    match direct::mount(target, options) {
        Ok(fd) => Ok((fd, MountMethod::Direct)),
        Err(own) if own.may_differ_for_helper() => match helper::mount(target, options) {
            Ok(fd) => Ok((fd, MountMethod::Helper)),
            Err(_) => Err(own),
        },
        Err(own) => Err(own),
    }
}

fn detach(target: &Path) -> Result<(), MountError> {
    match direct::unmount(target) {
        Err(MountError::Denied { .. }) => helper::unmount(target),
        other => other,
    }
}
