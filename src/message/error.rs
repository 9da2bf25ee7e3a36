//! Why a message is refused, or could not be kept.

use std::io;

use crate::message::LONGEST;
use crate::store::StoreError;

/// Why nothing was appended.
#[derive(Debug, thiserror::Error)]
pub enum MessageError {
    /// A line is no message; the text says why.
    #[error(
        "not a message: {0}; a message is a JSON object on one line, with a `role` of system, \
         developer, user, assistant, tool or function"
    )]
    NotAMessage(String),
    /// A line that would not end.
    #[error("a line of the log has at most {LONGEST} bytes: store the output with `ctxfs put`")]
    TooLong,
    /// The store refused.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The disk refused.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl MessageError {
    /// The errno for whoever wrote it.
    pub fn raw_os_error(&self) -> i32 {
        match self {
            Self::NotAMessage(_) => libc::EINVAL,
            Self::TooLong => libc::EFBIG,
            Self::Store(error) => error.raw_os_error().unwrap_or(libc::EIO),
            Self::Io(error) => error.raw_os_error().unwrap_or(libc::EIO),
        }
    }
}
