//! The documents that the two processes send each other: a length of four bytes, the lowest first,
//! and as much JSON.

use std::io;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use ctxfs_models::extract::{ModelRequest, TargetSettings};

/// The longest document. A request fills the context of a model at most.
const LONGEST: u64 = 64 << 20;
/// The time of one wait.
const MOMENT: Duration = Duration::from_millis(20);

/// The first document.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Introduction {
    pub(super) targets: Vec<TargetSettings>,
    /// The time of one attempt.
    pub(super) timeout: Duration,
}

/// A request to one of its models.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Asked {
    /// See [`ModelProfile::target`](ctxfs_models::extract::ModelProfile::target).
    pub(super) target: String,
    pub(super) request: ModelRequest,
}

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
