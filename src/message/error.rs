//! The errors of appending messages.

use std::io;

use crate::message::LONGEST;
use crate::store::StoreError;

/// A reason why nothing was appended.
#[derive(Debug, thiserror::Error)]
pub enum MessageError {
    /// A line is not a message. The text says why.
    #[error(
        "not a message: {0}; a message is a JSON object on one line, with a `role` of system, \
         developer, user, assistant, tool or function"
    )]
    NotAMessage(String),
    /// A line is longer than [`LONGEST`].
    #[error("a line of the log has at most {LONGEST} bytes: store the output with `ctxfs put`")]
    TooLong,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The disk failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl MessageError {
    /// Returns the errno for the writer.
    pub fn raw_os_error(&self) -> i32 {
        match self {
            Self::NotAMessage(_) => libc::EINVAL,
            Self::TooLong => libc::EFBIG,
            Self::Store(error) => error.raw_os_error().unwrap_or(libc::EIO),
            Self::Io(error) => error.raw_os_error().unwrap_or_else(|| errno_of(error.kind())),
        }
    }
}

/// Returns the errno of a limit that a [`crate::message::Host`] reports: such an error has a source
/// of its own in place of an errno.
fn errno_of(kind: io::ErrorKind) -> i32 {
    match kind {
        io::ErrorKind::FileTooLarge => libc::EFBIG,
        io::ErrorKind::QuotaExceeded => libc::EDQUOT,
        io::ErrorKind::StorageFull => libc::ENOSPC,
        _ => libc::EIO,
    }
}
