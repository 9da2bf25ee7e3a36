//! Mounting by `fusermount3`, the setuid program for users who may not mount.
//!
//! It is started with one end of a socket pair as its standard input, named by `_FUSE_COMMFD`, and
//! sends the open `/dev/fuse` through it. Its messages go to standard error.

use std::ffi::OsString;
use std::io;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SocketFlags, SocketType,
};

use crate::kernel::mount::{MountError, MountOptions};

/// The names of the helper in libfuse 3 and 2. Both have the same protocol.
const NAMES: [&str; 2] = ["fusermount3", "fusermount"];

/// Returns the name of the first helper that is installed, and the output of its `--version`.
pub fn find() -> Option<(&'static str, String)> {
    NAMES.into_iter().find_map(|name| {
        let output = Command::new(name).arg("--version").stdin(Stdio::null()).output().ok()?;
        Some((name, String::from_utf8_lossy(&output.stdout).trim().to_owned()))
    })
}

pub(super) fn mount(target: &Path, options: &MountOptions) -> Result<OwnedFd, MountError> {
    let pair = rustix::net::socketpair(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    );
    let (ours, theirs) = pair.map_err(|errno| MountError::HelperLost { cause: errno.into() })?;
    let child = start(theirs, &[OsString::from("-o"), mount_options(options).into()], target)?;
    let received = receive(&ours);
    let ended = finish(child)?;
    match (received, ended) {
        (Ok(Some(fd)), Ok(_)) => Ok(fd),
        (_, Err(message)) | (Ok(None), Ok(message)) => Err(MountError::helper(target, message)),
        (Err(cause), Ok(_)) => Err(MountError::HelperLost { cause }),
    }
}

/// Unmounts lazily.
pub(super) fn unmount(target: &Path) -> Result<(), MountError> {
    let options = [OsString::from("-u"), OsString::from("-z")];
    let child = start(Stdio::null(), &options, target)?;
    finish(child)?.map(drop).map_err(|message| MountError::helper(target, message))
}

/// Starts the helper. The child's end of the socket is closed in this process when this returns, so
/// that the stream ends if the helper dies.
fn start(
    stdin: impl Into<Stdio>,
    options: &[OsString],
    target: &Path,
) -> Result<Child, MountError> {
    let (name, _) = find().ok_or(MountError::NoHelper)?;
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

/// Waits for the helper and returns its messages: `Ok` if it succeeded, `Err` if not.
fn finish(child: Child) -> Result<Result<String, String>, MountError> {
    let output = child.wait_with_output().map_err(|cause| MountError::HelperLost { cause })?;
    let messages = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Ok(if output.status.success() { Ok(messages) } else { Err(messages) })
}

fn mount_options(options: &MountOptions) -> String {
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

/// Escapes a value of an option: a comma would begin another one.
fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace(',', "\\,")
}

/// Receives a descriptor from the socket, or none if the other end was closed without sending one.
fn receive(socket: &OwnedFd) -> io::Result<Option<OwnedFd>> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn options(source: &str, enabled: bool) -> String {
        let source = source.to_owned();
        mount_options(&MountOptions { source, allow_other: enabled, noexec: enabled })
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
}
