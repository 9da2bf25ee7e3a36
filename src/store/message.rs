//! The message log of a conversation: a file with one message per line, each a JSON object.
//!
//! Writers send pieces of any size, from which [`UnfinishedLine`] builds lines. Complete lines are
//! checked, and long outputs in them are stored as artifacts (`offload`). Then the lines are
//! appended in one step under a lock on the file ([`LockedLog`]). An artifact is on the disk before
//! the line that refers to it. If the process dies in between, the artifact remains, and it is used
//! when the message is appended again.
//!
//! Memory is bounded for any input. A line is held in memory up to [`HELD`] bytes. A longer line is
//! in a file without a name and is read in blocks.

mod append;
mod entry;
mod layout;
mod lines;
mod offload;

use std::io::{self, Read, Write};
use std::sync::Arc;

use crate::{Conversation, StoreError};
use ctxfs_core::model::{Limits, Provenance, RelPath};

pub use append::{Batch, LockedLog, array, check, set_aside};
pub use entry::{MessageCall, MessageEntry, MessageTime};
pub use lines::{
    Log, LogLine, LogLines, OtherMessages, Published, UnfinishedLine, log_of, stored, whole,
};

/// Maximum length in bytes of an unfinished line that is held in memory. A longer line is in a
/// file.
pub const HELD: usize = 1 << 20;
/// Maximum length of a line in bytes.
pub const LONGEST: u64 = 1 << 30;
const BLOCK: usize = 256 << 10;

/// The conversation to which messages are appended, and the host: the provider of limits, stand-ins
/// and masks for secrets.
#[derive(Clone, Copy)]
#[expect(missing_docs, reason = "described above")]
pub struct AppendContext<'a> {
    pub conversation: &'a Arc<Conversation>,
    pub host: &'a dyn Host,
}

impl std::fmt::Debug for AppendContext<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AppendContext")
            .field("conversation", &self.conversation)
            .finish_non_exhaustive()
    }
}

/// The services that the layers above provide: limits, stand-ins and the masking of secrets.
/// `engine` implements this trait. Tests use a simple implementation.
pub trait Host {
    /// Returns the limits for the output of `tool`.
    fn limits(&self, tool: Option<&str>) -> Limits;

    /// Returns true if `reference`, for example a path or a handle, refers to a file of the store.
    fn is_stored(&self, reference: &str) -> bool;

    /// Returns true if `output` is a stand-in for a stored file, to judge by the reference in
    /// `output`.
    fn is_stand_in(&self, output: &[u8], limits: &Limits) -> io::Result<bool>;

    /// Returns true if secrets must be masked before output is stored.
    fn masks_stored(&self) -> bool;

    /// Copies `output` to `sink` as it is to be stored: with secrets masked, if
    /// [`Self::masks_stored`] returns true.
    fn write_stored(&self, output: &mut dyn Read, sink: &mut dyn Write) -> io::Result<()>;

    /// Called before an output is stored, because storing may take long. If this returns an error,
    /// the message is refused. The default never returns an error.
    fn allow_storing(&self) -> Result<(), MessageError> {
        Ok(())
    }

    /// Stores `output`, either completely or not at all, and returns its path.
    fn take_in(&self, output: LongOutput<'_>) -> Result<RelPath, MessageError>;

    /// Returns the text that replaces the artifact at `path` in the log.
    fn preview(&self, path: &RelPath) -> Result<Preview, MessageError>;
}

/// An output that is too long for the log. `call` is the id of the call, after which the artifact
/// is named. The other fields are the description of the call, the number of bytes, and a reader of
/// the bytes.
#[expect(missing_docs, reason = "described above")]
pub struct LongOutput<'a> {
    pub call: String,
    pub provenance: Provenance,
    pub length: u64,
    pub content: Box<dyn Read + 'a>,
}

impl std::fmt::Debug for LongOutput<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LongOutput").field("call", &self.call).finish_non_exhaustive()
    }
}

/// The text that replaces an output in a message when the output is stored as an artifact. `text`
/// is the first characters of the output. `full_output_path` is the path of the complete output, as
/// the reader sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "described above")]
pub struct Preview {
    pub text: String,
    pub full_output_path: String,
}

/// The reason why nothing was appended. The text in `NotAMessage` states why a line is not a
/// message. `Host` is a refusal by the layers above, with its errno.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the text of each error describes it")]
pub enum MessageError {
    #[error(
        "not a message: {0}; a message is a JSON object on one line, with a `role` of system, \
         developer, user, assistant, tool or function"
    )]
    NotAMessage(String),
    #[error("a line of the log has at most {LONGEST} bytes: store the output with `ctxfs put`")]
    TooLong,
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("{error}")]
    Host { errno: i32, error: Box<dyn std::error::Error + Send + Sync> },
}

impl MessageError {
    /// Returns the errno that the writer of the message gets.
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

#[cfg(test)]
mod tests;
