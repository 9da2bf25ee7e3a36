//! Protocol between two processes: documents and bodies on a socket with a deadline.

use std::io;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;

///+ Maximum bytes of a document. Long lists are split into several.
const LONGEST: usize = 8 << 20;
///+ Bytes of the length of a document or a chunk.
const LENGTH: usize = 4;
///+ Maximum bytes of a chunk of a body.
const PIECE: usize = 256 << 10;

///+ A socket whose reads and writes fail with `TimedOut` after a deadline.
#[derive(Debug)]
pub(super) struct Channel<'a> {
    socket: &'a UnixStream,
    until: Instant,
}

impl<'a> Channel<'a> {
    pub(super) fn new(socket: &'a UnixStream, until: Instant) -> Self {
        Self { socket, until }
    }

    pub(super) fn extend(&mut self, until: Instant) {
        self.until = until;
    }

    pub(super) fn write_document(&mut self, value: &impl Serialize) -> io::Result<()> {
        let mut bytes = vec![0; LENGTH];
        serde_json::to_writer(&mut bytes, value)?;
        let length = bytes.len() - LENGTH;
        if length > LONGEST {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        bytes[..LENGTH].copy_from_slice(&(length as u32).to_le_bytes());
        self.write_all(&bytes)
    }

    pub(super) fn read_document<T: DeserializeOwned>(&mut self) -> io::Result<T> {
        let length = self.read_length()?;
        if length > LONGEST {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(serde_json::from_slice(&self.read_bytes(length as u64)?)?)
    }

    ///+ Reads `count` bytes. Allocates as they arrive.
    pub(super) fn read_bytes(&mut self, count: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(count.min(PIECE as u64) as usize);
        self.take(count).read_to_end(&mut bytes)?;
        if bytes.len() as u64 == count {
            Ok(bytes)
        } else {
            Err(io::ErrorKind::UnexpectedEof.into())
        }
    }

    ///+ Sends a body to its end.
    pub(super) fn write_body(&mut self, source: &mut dyn Read) -> Result<(), BodyError> {
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

    ///+ Returns a reader of the body that `write_body` sends.
    pub(super) fn body(&mut self) -> Body<'_, 'a> {
        Body { channel: self, left: 0, has_ended: false }
    }

    fn read_length(&mut self) -> io::Result<usize> {
        let mut length = [0; LENGTH];
        self.read_exact(&mut length)?;
        Ok(u32::from_le_bytes(length) as usize)
    }

    fn left(&self) -> io::Result<Duration> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
    }
}

impl Read for Channel<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.socket.set_read_timeout(Some(self.left()?))?;
        self.socket.read(bytes).map_err(late)
    }
}

impl Write for Channel<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.set_write_timeout(Some(self.left()?))?;
        self.socket.write(bytes).map_err(late)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

///+ The kernel reports `WouldBlock` after a timeout.
fn late(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::WouldBlock { io::ErrorKind::TimedOut.into() } else { error }
}

#[derive(Debug)]
pub(super) enum BodyError {
    /// It cannot be read.
    Source(io::Error),
    /// The other end takes no more.
    Socket(io::Error),
}

///+ Reader of a body. An interrupted body ends with an error.
#[derive(Debug)]
pub(super) struct Body<'a, 'b> {
    channel: &'a mut Channel<'b>,
    /// What is left of the piece.
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
