//! Messages between the processes of ctxfs, over Unix stream sockets.
//!
//! A document is JSON text, preceded by its length in bytes. A body is a series of chunks, each
//! preceded by its length in bytes. A chunk of length 0 ends the body. A body without this end was
//! interrupted. Lengths have four bytes, little-endian.
//!
//! [`Channel`] transfers the documents and bodies of one request, with a deadline. [`send`] and
//! [`receive`] transfer short documents over a socket that stays open. A file descriptor may
//! accompany such a document.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::io::retry_on_intr;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Maximum bytes of a document. Long lists are split into several documents.
const LONGEST: usize = 8 << 20;
/// Maximum bytes of a document that [`receive`] accepts.
const LONGEST_MESSAGE: usize = 64 << 10;
const LENGTH: usize = 4;
/// Maximum bytes of a chunk of a body.
const PIECE: usize = 256 << 10;

/// Sends a document, together with the file descriptor `passed`, if any.
///
/// A short document is sent in one piece, so several threads may send over the same socket. Fails
/// with `WouldBlock` if the socket is non-blocking and full.
pub fn send(
    to: &UnixStream,
    value: &impl Serialize,
    passed: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let bytes = document(value, LONGEST_MESSAGE)?;
    let passed = passed.map(|passed| [passed]);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if let Some(passed) = &passed {
        control.push(SendAncillaryMessage::ScmRights(passed));
    }
    let buffers = [IoSlice::new(&bytes)];
    let sent = retry_on_intr(|| sendmsg(to, &buffers, &mut control, SendFlags::NOSIGNAL))?;
    let mut to = to;
    to.write_all(&bytes[sent..])
}

/// Waits for a document and for a file descriptor that is sent with it. Returns `None` at the end
/// of the stream.
///
/// If this process has reached its limit of open files, the document arrives without the file
/// descriptor.
pub fn receive<T: DeserializeOwned>(
    mut from: &UnixStream,
) -> io::Result<Option<(T, Option<OwnedFd>)>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut length = [0; LENGTH];
    let mut buffers = [IoSliceMut::new(&mut length)];
    let received =
        retry_on_intr(|| recvmsg(from, &mut buffers, &mut control, RecvFlags::CMSG_CLOEXEC))?;
    let passed = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    if received.bytes == 0 {
        return Ok(None);
    }
    from.read_exact(&mut length[received.bytes..])?;
    let length = u32::from_le_bytes(length) as usize;
    if length > LONGEST_MESSAGE {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let mut text = vec![0; length];
    from.read_exact(&mut text)?;
    Ok(Some((serde_json::from_slice(&text)?, passed)))
}

fn document(value: &impl Serialize, most: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; LENGTH];
    serde_json::to_writer(&mut bytes, value)?;
    let length = bytes.len() - LENGTH;
    if length > most {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    bytes[..LENGTH].copy_from_slice(&(length as u32).to_le_bytes());
    Ok(bytes)
}

/// Channel for one request and its reply. Each request has its own socket.
///
/// Reads and writes fail with `TimedOut` at the deadline, even if the peer hangs or is stopped. A
/// document that is longer than the limit is refused before it is read.
#[derive(Debug)]
pub struct Channel<'a> {
    socket: &'a UnixStream,
    until: Option<Instant>,
    most: usize,
}

impl<'a> Channel<'a> {
    /// Creates a channel for documents of at most 8 MiB.
    pub fn new(socket: &'a UnixStream, until: Instant) -> Self {
        Self { socket, until: Some(until), most: LONGEST }
    }

    /// Creates a channel without a deadline for documents of at most `most` bytes.
    pub fn without_deadline(socket: &'a UnixStream, most: usize) -> Self {
        Self { socket, until: None, most }
    }

    /// Replaces the deadline.
    pub fn extend(&mut self, until: Instant) {
        self.until = Some(until);
    }

    /// Writes `value` as a document.
    pub fn write_document(&mut self, value: &impl Serialize) -> io::Result<()> {
        self.write_all(&document(value, self.most)?)
    }

    /// Reads a document. Fails with `UnexpectedEof` if the stream ends before the document does.
    pub fn read_document<T: DeserializeOwned>(&mut self) -> io::Result<T> {
        let length = self.read_length()?;
        if length > self.most {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(serde_json::from_slice(&self.read_bytes(length as u64)?)?)
    }

    pub(crate) fn read_bytes(&mut self, count: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(count.min(PIECE as u64) as usize);
        self.take(count).read_to_end(&mut bytes)?;
        if bytes.len() as u64 == count {
            Ok(bytes)
        } else {
            Err(io::ErrorKind::UnexpectedEof.into())
        }
    }

    pub(crate) fn write_body(&mut self, source: &mut dyn Read) -> Result<(), BodyError> {
        let mut piece = vec![0; LENGTH + PIECE];
        loop {
            let count = match source.read(&mut piece[LENGTH..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read.map_err(BodyError::Source)?,
            };
            piece[..LENGTH].copy_from_slice(&(count as u32).to_le_bytes());
            self.write_all(&piece[..LENGTH + count]).map_err(BodyError::Socket)?;
            if count == 0 {
                return Ok(());
            }
        }
    }

    pub(crate) fn body(&mut self) -> Body<'_, 'a> {
        Body { channel: self, left: 0, has_ended: false }
    }

    fn read_length(&mut self) -> io::Result<usize> {
        let mut length = [0; LENGTH];
        self.read_exact(&mut length)?;
        Ok(u32::from_le_bytes(length) as usize)
    }

    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.until.map(|until| until.saturating_duration_since(Instant::now()));
        if left == Some(Duration::ZERO) { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
    }
}

impl Read for Channel<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.socket.set_read_timeout(self.left()?)?;
        self.socket.read(bytes).map_err(late)
    }
}

impl Write for Channel<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.set_write_timeout(self.left()?)?;
        self.socket.write(bytes).map_err(late)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn late(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::WouldBlock { io::ErrorKind::TimedOut.into() } else { error }
}

#[derive(Debug)]
pub(crate) enum BodyError {
    Source(io::Error),
    Socket(io::Error),
}

#[derive(Debug)]
pub(crate) struct Body<'a, 'b> {
    channel: &'a mut Channel<'b>,
    left: usize,
    has_ended: bool,
}

impl Body<'_, '_> {
    fn begin(&mut self) -> io::Result<()> {
        self.left = self.channel.read_length()?;
        self.has_ended = self.left == 0;
        if self.left > PIECE { Err(io::ErrorKind::InvalidData.into()) } else { Ok(()) }
    }
}

impl Read for Body<'_, '_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 && !self.has_ended {
            self.begin()?;
        }
        let most = bytes.len().min(self.left);
        if most == 0 {
            return Ok(0);
        }
        match self.channel.read(&mut bytes[..most])? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            count => {
                self.left -= count;
                Ok(count)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd as _;

    use super::*;

    #[test]
    fn each_document_has_its_own_descriptor() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let file = File::open("/dev/null").unwrap();
        for number in 0..20 {
            send(&ours, &number, (number % 2 == 0).then_some(file.as_fd())).unwrap();
        }
        for number in 0..20 {
            let (received, passed) = receive::<u32>(&theirs).unwrap().unwrap();
            assert_eq!((received, passed.is_some()), (number, number % 2 == 0));
        }
        drop(ours);
        assert!(receive::<u32>(&theirs).unwrap().is_none());
    }

    #[test]
    fn a_message_that_is_cut_off_or_too_long_or_no_document_is_an_error() {
        let long = (LONGEST_MESSAGE as u32 + 1).to_le_bytes();
        for sent in [&b"\x01\0"[..], b"\x04\0\0\0nul", b"\x01\0\0\0x", &long] {
            let (mut ours, theirs) = UnixStream::pair().unwrap();
            ours.write_all(sent).unwrap();
            drop(ours);
            assert!(receive::<()>(&theirs).is_err(), "{sent:?}");
        }
        let (ours, _theirs) = UnixStream::pair().unwrap();
        assert!(send(&ours, &"x".repeat(LONGEST_MESSAGE), None).is_err());
    }

    #[test]
    fn nobody_waits_for_a_full_socket_that_does_not_block() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let mut sent = 0;
        let error = loop {
            match send(&ours, &sent, None) {
                Ok(()) => sent += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        drop(ours);
        for number in 0..sent {
            assert_eq!(receive::<i32>(&theirs).unwrap().unwrap().0, number);
        }
        assert!(receive::<i32>(&theirs).unwrap().is_none());
    }
}
