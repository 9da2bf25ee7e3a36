//! Mounting and unmounting: how a directory gets its `/dev/fuse` descriptor, and how it is let go.
//!
//! There are three ways to mount, chosen here:
//!
//! | target | who may | way |
//! |---|---|---|
//! | `/dev/fd/N` | anyone who was handed a descriptor | it is mounted already: serve that descriptor |
//! | a directory | root, also of a user namespace | `mount(2)` on an opened `/dev/fuse` |
//! | a directory | everyone else | the setuid program `fusermount3` mounts and sends the descriptor |
//!
//! The descriptor is close-on-exec in every case: a child that kept it would keep the mount of a
//! dead server hanging, where it should fail. Whoever closes it last ends the mount's service, but
//! leaves the mount in the tree, dead (`ENOTCONN`); [`unmount`] takes it out, dead or alive.

mod direct;
mod error;
mod helper;
mod inherited_fd;
mod table;

use std::io;
use std::os::fd::OwnedFd;
use std::os::fd::RawFd;
use std::path::Path;
use std::path::PathBuf;

pub use error::MountError;
pub use helper::find as find_helper;
pub use table::MountEntry;
pub use table::MountState;
pub use table::mounts;
pub use table::state;

/// The device through which the kernel speaks to a filesystem. Its presence is told by `stat`: an
/// open descriptor of it may by itself hold up a mount.
pub const DEVICE: &str = "/dev/fuse";

/// The type of filesystem that the mount table shows.
pub const FSTYPE: &str = "fuse.ctxfs";

/// How a directory was mounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MountMethod {
    /// Somebody else mounted it and handed down this descriptor.
    InheritedFd(RawFd),
    /// By `mount(2)`, as root.
    Direct,
    /// By `fusermount3`.
    Helper,
}

/// What to mount, and for whom.
#[derive(Debug, Clone)]
pub struct MountOptions {
    /// What the mount table names as the source: the store's path.
    pub source: String,
    /// Whether users other than the mounting one, root among them, may enter.
    pub allow_other: bool,
    /// Whether programs in the mount cannot be run.
    pub noexec: bool,
}

/// A mount that waits for its server: the kernel has not yet been answered.
#[derive(Debug)]
pub struct Mounted {
    /// The open `/dev/fuse`, close-on-exec.
    pub fd: OwnedFd,
    /// How it came to be.
    pub method: MountMethod,
    /// The directory, absolute and without links; as given where the descriptor was inherited.
    pub target: PathBuf,
}

/// Mounts `target`, healing a dead ctxfs mount that lies there.
///
/// Refuses a target on which a living ctxfs is mounted. What the directory holds is hidden while
/// the mount lasts; nothing in it changes.
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

/// Whether `target` is a descriptor handed down (`/dev/fd/N`) rather than a directory.
pub fn is_inherited_fd(target: &Path) -> bool {
    inherited_fd::number(target).is_some()
}

/// Takes the ctxfs mount, living or dead, out of the tree at once.
///
/// It is lazy: files that are open stay readable while their server lives. A target without a
/// mount, or with one of another kind, is an error and stays as it is. Asks nothing of the server,
/// so a server that hangs does not hang this.
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

/// Dead mounts may lie one on another, where servers died in turn.
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

/// Root mounts by itself; where that is not allowed (a container, a closed device), and for
/// everyone else, the helper is asked. If both fail, root hears of its own attempt.
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
