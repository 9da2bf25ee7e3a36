//! The errors of appending messages.

use std::error::Error;
use std::io;

use crate::StoreError;
use crate::message::LONGEST;

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
    /// The host refused.
    #[error("{error}")]
    Host {
        /// The errno of the refusal.
        errno: i32,
        /// The refusal itself.
        error: Box<dyn Error + Send + Sync>,
    },
}

impl MessageError {
    /// Returns the errno for the writer.
    pub fn raw_os_error(&self) -> i32 {
        match self {
            Self::NotAMessage(_) => libc::EINVAL,
            Self::TooLong => libc::EFBIG,
            Self::Store(error) => error.raw_os_error().unwrap_or(libc::EIO),
            Self::Io(error) => error.raw_os_error().unwrap_or(libc::EIO),
            Self::Host { errno, .. } => *errno,
        }
    }
}
