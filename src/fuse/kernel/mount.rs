//! Mounting and unmounting.
//!
//! There are three ways to mount. This module chooses one of them:
//!
//! | target | user | method |
//! |---|---|---|
//! | `/dev/fd/N` | any | the inherited descriptor is already mounted, and is served |
//! | a directory | root, also of a user namespace | `mount(2)` on an opened `/dev/fuse` |
//! | a directory | any other | the setuid program `fusermount3` mounts and sends the descriptor |
//!
//! The descriptor is always close-on-exec. If a child process kept it, the mount of a dead server
//! would hang instead of failing. When the last descriptor is closed, the mount stays in the tree
//! as a dead mount (`ENOTCONN`). [`unmount`] removes live and dead mounts.

mod error;
mod table;

use std::ffi::{CString, OsString};
use std::fs::OpenOptions;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd as _, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::{fs, io};

use rustix::io::{Errno, FdFlags};
use rustix::mount::{MountFlags, UnmountFlags};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType,
};

pub use error::MountError;
pub use table::{FSTYPE, MountEntry, MountState, mounts, state};

/// The device through which the kernel talks to a filesystem. To check its presence, call `stat`
/// rather than opening it.
pub const DEVICE: &str = "/dev/fuse";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MountMethod {
    InheritedFd(RawFd),
    Direct,
    Helper,
}

/// The options of a mount. `source` is the path of the store, which the mount table shows as the
/// source of the mount.
#[derive(Debug, Clone)]
pub struct MountOptions {
    pub source: String,
    pub allow_other: bool,
    pub noexec: bool,
}

/// A mount whose server has not yet answered the kernel's first request. `fd` is the open
/// `/dev/fuse`, close-on-exec.
#[derive(Debug)]
pub struct Mounted {
    pub fd: OwnedFd,
    pub method: MountMethod,
    /// The mounted directory, absolute and without symbolic links. If the descriptor was inherited,
    /// this is the target as given.
    pub target: PathBuf,
}

/// Mounts the filesystem on `target`, after removing dead ctxfs mounts from it.
///
/// Fails if a live ctxfs is mounted there. The mount hides the files of the directory and does not
/// change them.
pub fn mount(target: &Path, options: &MountOptions) -> Result<Mounted, MountError> {
    if let Some(number) = inherited_number(target) {
        let fd = take_inherited(number)?;
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

pub fn is_inherited_fd(target: &Path) -> bool {
    inherited_number(target).is_some()
}

/// Removes a ctxfs mount, live or dead, from the tree at once.
///
/// The unmount is lazy: open files stay readable as long as their server runs. Fails without a
/// change if nothing is mounted on the target, or if the mount has another type. The server takes
/// no part, so a hanging server does not block the call.
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

/// Removes the dead mounts from `target`; several may be stacked. Fails if a live ctxfs mount is on
/// top.
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

/// Mounts directly if the user is root. Runs the helper for other users, and for root where the
/// direct mount is not permitted (in a container, or with a closed device). If both attempts fail,
/// root gets the error of the direct attempt.
fn attach(target: &Path, options: &MountOptions) -> Result<(OwnedFd, MountMethod), MountError> {
    if !rustix::process::geteuid().is_root() {
        return Ok((mount_by_helper(target, options)?, MountMethod::Helper));
    }
    match mount_directly(target, options) {
        Ok(fd) => Ok((fd, MountMethod::Direct)),
        Err(own) if own.may_differ_for_helper() => match mount_by_helper(target, options) {
            Ok(fd) => Ok((fd, MountMethod::Helper)),
            Err(_) => Err(own),
        },
        Err(own) => Err(own),
    }
}

fn detach(target: &Path) -> Result<(), MountError> {
    match unmount_directly(target) {
        Err(MountError::Denied { .. }) => unmount_by_helper(target),
        other => other,
    }
}

fn mount_directly(target: &Path, options: &MountOptions) -> Result<OwnedFd, MountError> {
    // The standard library sets close-on-exec.
    let device = OpenOptions::new()
        .read(true)
        .write(true)
        .open(DEVICE)
        .map_err(|cause| MountError::device(&cause))?;
    let flags = mount_flags(options);
    let source = CString::new(options.source.replace('\0', "")).unwrap_or_default();
    let data = mount_data(&device, options);
    rustix::mount::mount(source, target, FSTYPE, flags, &*data)
        .map_err(|errno| MountError::mount(target, errno))?;
    Ok(device.into())
}

fn unmount_directly(target: &Path) -> Result<(), MountError> {
    let flags = UnmountFlags::DETACH | UnmountFlags::NOFOLLOW;
    rustix::mount::unmount(target, flags).map_err(|errno| match errno {
        Errno::INVAL | Errno::NOENT => MountError::NotMounted { target: target.to_owned() },
        errno => MountError::mount(target, errno),
    })
}

/// Returns the mount flags, which disable set-uid programs and devices. Any writer to the store
/// could create such files.
fn mount_flags(options: &MountOptions) -> MountFlags {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOATIME;
    if options.noexec { flags | MountFlags::NOEXEC } else { flags }
}

/// Returns the FUSE mount data. The source is a separate argument, so it needs no escaping.
fn mount_data(device: &impl AsRawFd, options: &MountOptions) -> CString {
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

/// The names of the helper in libfuse 3 and in libfuse 2. Both versions use the same protocol.
const HELPERS: [&str; 2] = ["fusermount3", "fusermount"];

/// Returns the name of the installed helper, and its answer to `--version`. Returns `None` if no
/// helper is installed.
pub fn find_helper() -> Option<(&'static str, String)> {
    HELPERS.into_iter().find_map(|name| {
        let output = Command::new(name).arg("--version").stdin(Stdio::null()).output().ok()?;
        Some((name, String::from_utf8_lossy(&output.stdout).trim().to_owned()))
    })
}

/// Mounts through the helper. The standard input of the helper is one end of a socket pair, and
/// `_FUSE_COMMFD` holds the number of that descriptor. The helper sends the open `/dev/fuse`
/// through the socket.
fn mount_by_helper(target: &Path, options: &MountOptions) -> Result<OwnedFd, MountError> {
    let pair = rustix::net::socketpair(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    );
    let (ours, theirs) = pair.map_err(|errno| MountError::HelperLost { cause: errno.into() })?;
    let child =
        start_helper(theirs, &[OsString::from("-o"), helper_options(options).into()], target)?;
    let received = receive_fd(&ours);
    let ended = finish_helper(child)?;
    match (received, ended) {
        (Ok(Some(fd)), Ok(_)) => Ok(fd),
        (_, Err(message)) | (Ok(None), Ok(message)) => Err(MountError::helper(target, message)),
        (Err(cause), Ok(_)) => Err(MountError::HelperLost { cause }),
    }
}

fn unmount_by_helper(target: &Path) -> Result<(), MountError> {
    let options = [OsString::from("-u"), OsString::from("-z")];
    let child = start_helper(Stdio::null(), &options, target)?;
    finish_helper(child)?.map(drop).map_err(|message| MountError::helper(target, message))
}

/// Starts the helper. When this returns, the child's end of the socket is closed in this process,
/// so that the stream ends if the helper dies.
fn start_helper(
    stdin: impl Into<Stdio>,
    options: &[OsString],
    target: &Path,
) -> Result<Child, MountError> {
    let (name, _) = find_helper().ok_or(MountError::NoHelper)?;
    Command::new(name)
        .args(options)
        .arg("--")
        .arg(target)
        .env("_FUSE_COMMFD", "0")
        .env("LC_ALL", "C")
        .stdin(stdin)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|cause| MountError::HelperLost { cause })
}

/// Waits for the helper and returns its messages: in `Ok` if it succeeded, in `Err` if it failed.
fn finish_helper(child: Child) -> Result<Result<String, String>, MountError> {
    let output = child.wait_with_output().map_err(|cause| MountError::HelperLost { cause })?;
    let messages = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Ok(if output.status.success() { Ok(messages) } else { Err(messages) })
}

fn helper_options(options: &MountOptions) -> String {
    let source = escape(&options.source);
    let mut text = String::from("rw,nosuid,nodev,noatime,default_permissions");
    if options.allow_other {
        text.push_str(",allow_other");
    }
    if options.noexec {
        text.push_str(",noexec");
    }
    text + ",subtype=ctxfs,fsname=" + &source
}

fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace(',', "\\,")
}

/// Receives a descriptor from the socket. Returns `None` if the helper closed the socket without
/// sending a descriptor.
fn receive_fd(socket: &OwnedFd) -> io::Result<Option<OwnedFd>> {
    let mut byte = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut buffers = [IoSliceMut::new(&mut byte)];
    rustix::io::retry_on_intr(|| {
        rustix::net::recvmsg(socket, &mut buffers, &mut control, RecvFlags::CMSG_CLOEXEC)
    })?;
    Ok(control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    }))
}

fn inherited_number(target: &Path) -> Option<RawFd> {
    let number = target.strip_prefix("/dev/fd").ok()?;
    number.to_str()?.parse().ok().filter(|number| *number >= 0)
}

fn take_inherited(number: RawFd) -> Result<OwnedFd, MountError> {
    let open = fs::read_link(format!("/proc/self/fd/{number}"));
    if !open.is_ok_and(|file| file == Path::new(DEVICE)) {
        return Err(MountError::NotADescriptor { number });
    }
    let fd = own_fd(number);
    rustix::io::fcntl_setfd(&fd, FdFlags::CLOEXEC)
        .map_err(|_| MountError::NotADescriptor { number })?;
    Ok(fd)
}

#[expect(unsafe_code, reason = "an inherited descriptor is known only by its number")]
fn own_fd(number: RawFd) -> OwnedFd {
    // SAFETY: `take_inherited` has checked that the descriptor is open. Nothing in this process
    // opened it, because it belongs to a mount that this process did not make. Only the command
    // line has its number, and has it once, so nothing else closes it.
    unsafe { OwnedFd::from_raw_fd(number) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(source: &str, enabled: bool) -> String {
        let source = source.to_owned();
        helper_options(&MountOptions { source, allow_other: enabled, noexec: enabled })
    }

    #[test]
    fn a_source_cannot_add_options() {
        assert!(options("/a,suid\\b", false).ends_with(r"fsname=/a\,suid\\b"));
    }

    #[test]
    fn setuid_programs_and_devices_never_take_effect() {
        assert!(options("/a", false).starts_with("rw,nosuid,nodev,"));
    }

    #[test]
    fn noexec_is_set_only_on_request() {
        assert!(!options("/a", false).contains("noexec"));
        assert!(options("/a", true).contains(",noexec,"));
    }

    #[test]
    fn other_users_have_access_only_on_request() {
        assert!(!options("/a", false).contains("allow_other"));
        assert!(options("/a", true).contains(",allow_other,"));
    }

    #[test]
    fn descriptors_are_told_from_directories() {
        assert_eq!(inherited_number(Path::new("/dev/fd/7")), Some(7));
        for directory in ["/dev/fd", "/dev/fd/x", "/dev/fd/-1", "/ctx", "dev/fd/7"] {
            assert_eq!(inherited_number(Path::new(directory)), None, "{directory}");
        }
    }

    #[test]
    fn descriptors_of_other_files_are_refused() {
        assert!(matches!(
            take_inherited(987_654),
            Err(MountError::NotADescriptor { number: 987_654 })
        ));
        assert!(matches!(take_inherited(0), Err(MountError::NotADescriptor { number: 0 })));
    }
}
