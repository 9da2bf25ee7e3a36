//! Messages over a socket to another process of ctxfs, which may carry a descriptor.

use std::io;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};

/// Sends some bytes, at least one, and a descriptor with them.
pub(super) fn send(
    to: &UnixStream,
    bytes: &[u8],
    passed: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let passed = passed.map(|passed| [passed]);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if let Some(passed) = &passed {
        control.push(SendAncillaryMessage::ScmRights(passed));
    }
    rustix::net::sendmsg(to, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Waits for bytes and for the descriptor that comes with them. Returns the number of bytes, 0 at
/// the end of the stream.
pub(super) fn receive(from: &UnixStream, bytes: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut buffers = [IoSliceMut::new(bytes)];
    let received = rustix::io::retry_on_intr(|| {
        rustix::net::recvmsg(from, &mut buffers, &mut control, RecvFlags::CMSG_CLOEXEC)
    })?;
    let passed = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    Ok((received.bytes, passed))
}
