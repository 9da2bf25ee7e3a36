//! What is sent between the two processes.

use std::io;
use std::io::IoSlice;
use std::io::IoSliceMut;
use std::io::Read as _;
use std::io::Write as _;
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::event::PollFd;
use rustix::event::PollFlags;
use rustix::event::Timespec;
use rustix::event::poll;
use rustix::net::RecvAncillaryBuffer;
use rustix::net::RecvAncillaryMessage;
use rustix::net::RecvFlags;
use rustix::net::SendAncillaryBuffer;
use rustix::net::SendAncillaryMessage;
use rustix::net::SendFlags;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The longest document. A request fills the context of a model at most.
const LONGEST: u64 = 64 << 20;
/// The time of one wait.
const MOMENT: Duration = Duration::from_millis(20);

/// Sends a document.
pub(super) fn write(mut to: &UnixStream, value: &impl Serialize) -> io::Result<()> {
    let mut bytes = vec![0; 4];
    serde_json::to_writer(&mut bytes, value)?;
    let length = u32::try_from(bytes.len() - 4).map_err(|_| io::ErrorKind::FileTooLarge)?;
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    to.write_all(&bytes)
}

/// Waits for a document.
pub(super) fn read<T: DeserializeOwned>(mut from: &UnixStream) -> io::Result<T> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let length = u64::from(u32::from_le_bytes(length));
    if length > LONGEST {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let mut bytes = Vec::new();
    if from.take(length).read_to_end(&mut bytes)? as u64 != length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(serde_json::from_slice(&bytes)?)
}

/// Waits a moment for something to read. Returns true if there is, or at the end.
pub(super) fn is_ready(from: &UnixStream) -> io::Result<bool> {
    is_ready_within(from, MOMENT)
}

/// Returns true if there is something to read, or the end. Waits for nothing.
pub(super) fn is_waiting(from: &UnixStream) -> bool {
    is_ready_within(from, Duration::ZERO).unwrap_or(true)
}

fn is_ready_within(from: &UnixStream, time: Duration) -> io::Result<bool> {
    let mut waited = [PollFd::new(from, PollFlags::IN)];
    let time = Timespec { tv_sec: 0, tv_nsec: time.subsec_nanos().into() };
    match poll(&mut waited, Some(&time)) {
        Ok(count) => Ok(count > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Sends a socket.
pub(super) fn pass(to: &UnixStream, socket: BorrowedFd<'_>) -> io::Result<()> {
    let passed = [socket];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&passed));
    rustix::net::sendmsg(to, &[IoSlice::new(b"q")], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Waits for a socket. `None` at the end.
pub(super) fn receive(from: &UnixStream) -> io::Result<Option<OwnedFd>> {
    let mut byte = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut buffers = [IoSliceMut::new(&mut byte)];
    let received = rustix::io::retry_on_intr(|| {
        rustix::net::recvmsg(from, &mut buffers, &mut control, RecvFlags::CMSG_CLOEXEC)
    })?;
    if received.bytes == 0 {
        return Ok(None);
    }
    let passed = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut sockets) => sockets.next(),
        _ => None,
    });
    passed.map(Some).ok_or_else(|| io::ErrorKind::InvalidData.into())
}
