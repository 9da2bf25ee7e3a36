//! A socket that is of use until some moment; documents and bodies on it.

use std::io;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The longest document. Those with many names are cut into several.
const LONGEST: usize = 8 << 20;
/// The bytes of a document's length, and of a piece's.
const LENGTH: usize = 4;
/// The largest piece of a body.
const PIECE: usize = 256 << 10;

/// A socket whose reads and writes fail with `TimedOut` after some moment.
#[derive(Debug)]
pub(super) struct Channel<'a> {
    socket: &'a UnixStream,
    until: Instant,
}

impl<'a> Channel<'a> {
    pub(super) fn new(socket: &'a UnixStream, until: Instant) -> Self {
        Self { socket, until }
    }

    /// Moves the moment.
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

    /// Reads as many bytes. Memory is taken as they come.
    pub(super) fn read_bytes(&mut self, count: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(count.min(PIECE as u64) as usize);
        self.take(count).read_to_end(&mut bytes)?;
        if bytes.len() as u64 == count {
            Ok(bytes)
        } else {
            Err(io::ErrorKind::UnexpectedEof.into())
        }
    }

    /// Sends all that `source` has, and its end.
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

    /// Returns what `write_body` sends.
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

/// The kernel says `WouldBlock` where time is up.
fn late(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::WouldBlock { io::ErrorKind::TimedOut.into() } else { error }
}

/// A reason why a body was not sent.
#[derive(Debug)]
pub(super) enum BodyError {
    /// It cannot be read.
    Source(io::Error),
    /// The other end takes no more.
    Socket(io::Error),
}

/// The bytes of a body. One that is cut off ends with an error.
#[derive(Debug)]
pub(super) struct Body<'a, 'b> {
    channel: &'a mut Channel<'b>,
    /// What is left of the piece.
    left: usize,
    has_ended: bool,
}

impl Body<'_, '_> {
    /// Begins the next piece.
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
