//! `fusermount3`, the setuid program that mounts for those who may not.
//!
//! It is started with one end of a socket pair as its standard input, which `_FUSE_COMMFD` names;
//! through it comes the open `/dev/fuse`. What it has to say, it says on standard error.

use std::ffi::OsString;
use std::io;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Child;
use std::process::Command;
use std::process::Stdio;

use rustix::net::AddressFamily;
use rustix::net::RecvAncillaryBuffer;
use rustix::net::RecvAncillaryMessage;
use rustix::net::RecvFlags;
use rustix::net::SocketFlags;
use rustix::net::SocketType;

use crate::fuse::mount::MountError;
use crate::fuse::mount::MountOptions;

/// The helper's names, of libfuse 3 and 2; both speak the same protocol.
const NAMES: [&str; 2] = ["fusermount3", "fusermount"];

/// The helper that would be used, by name, and what it says of its version.
pub fn find() -> Option<(&'static str, String)> {
    NAMES.into_iter().find_map(|name| {
        let said = Command::new(name).arg("--version").stdin(Stdio::null()).output().ok()?;
        Some((name, String::from_utf8_lossy(&said.stdout).trim().to_owned()))
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
    let said = finish(child)?;
    match (received, said) {
        (Ok(Some(fd)), Ok(_)) => Ok(fd),
        (_, Err(said)) | (Ok(None), Ok(said)) => Err(MountError::helper(target, said)),
        (Err(cause), Ok(_)) => Err(MountError::HelperLost { cause }),
    }
}

/// Unmounts lazily.
pub(super) fn unmount(target: &Path) -> Result<(), MountError> {
    let options = [OsString::from("-u"), OsString::from("-z")];
    let child = start(Stdio::null(), &options, target)?;
    finish(child)?.map(drop).map_err(|said| MountError::helper(target, said))
}

/// Starts the first helper there is. The child's end of the socket is closed here when this
/// returns, so that a helper that dies is seen as the end of the stream.
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

/// What the helper said: `Ok` if it succeeded, `Err` if not.
fn finish(child: Child) -> Result<Result<String, String>, MountError> {
    let output = child.wait_with_output().map_err(|cause| MountError::HelperLost { cause })?;
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Ok(if output.status.success() { Ok(said) } else { Err(said) })
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

/// A comma would begin another option.
fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace(',', "\\,")
}

/// One descriptor from the socket; none if the other end closed without sending it.
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

    fn options(source: &str, asked: bool) -> String {
        let source = source.to_owned();
        mount_options(&MountOptions { source, allow_other: asked, noexec: asked })
    }

    #[test]
    fn a_source_cannot_add_options() {
        assert!(options("/a,suid\\b", false).ends_with(r"fsname=/a\,suid\\b"));
    }

    #[test]
    fn setuid_programs_and_devices_never_count() {
        assert!(options("/a", false).starts_with("rw,nosuid,nodev,"));
    }

    #[test]
    fn programs_are_kept_from_running_on_request_alone() {
        assert!(!options("/a", false).contains("noexec"));
        assert!(options("/a", true).contains(",noexec,"));
    }

    #[test]
    fn others_are_let_in_on_request_alone() {
        assert!(!options("/a", false).contains("allow_other"));
        assert!(options("/a", true).contains(",allow_other,"));
    }
}
