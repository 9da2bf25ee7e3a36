//! The protocol log of a conversation: a file of messages, one JSON object a line.
//!
//! Whatever is written to it comes in pieces of any size ([`UnfinishedLine`]). Complete lines are
//! checked, long outputs in them are kept as artifacts (`offload`), and what is left of the lines is
//! appended in one step under a lock of the file ([`LockedLog`]). Order matters: an artifact is on the disk
//! before the line that refers to it, so a process that ends in between leaves an artifact, which is
//! found when the message is appended again.
//!
//! Memory is bounded whatever is written: a line is held in memory up to [`HELD`] bytes, then in a
//! file without a name, and is read in blocks.

mod array;
mod batch;
mod edited;
mod error;
mod json_string;
mod layout;
mod lines;
mod log;
mod offload;
mod span;
mod unfinished;

use std::io;
use std::io::Read;
use std::io::Write;
use std::sync::Arc;

use crate::model::Limits;
use crate::model::Record;
use crate::model::RelPath;
use crate::store::Conversation;

pub use array::array;
pub use array::check;
pub use batch::Batch;
pub use error::MessageError;
pub use lines::LogLine;
pub use lines::LogLines;
pub use lines::log_of;
pub use lines::whole;
pub use log::LockedLog;
pub use log::set_aside;
pub use unfinished::UnfinishedLine;

/// Bytes of an unfinished line that are held in memory; of a longer one, none.
pub const HELD: usize = 1 << 20;
/// Bytes that a line may have.
pub const LONGEST: u64 = 1 << 30;
/// Bytes that are read and written at once.
const BLOCK: usize = 256 << 10;

/// What messages are appended with: the conversation, and what the layers above know.
#[derive(Clone, Copy)]
pub struct AppendContext<'a> {
    /// Where they go.
    pub conversation: &'a Arc<Conversation>,
    /// For what this layer does not know.
    pub host: &'a dyn Host,
}

impl std::fmt::Debug for AppendContext<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AppendContext")
            .field("conversation", &self.conversation)
            .finish_non_exhaustive()
    }
}

/// What a log needs to know of stand-ins, settings and secrets.
pub trait Host {
    /// What fits into the output of `tool`.
    fn limits(&self, tool: Option<&str>) -> Limits;

    /// Whether `reference`, such as a path or a handle, leads to a file of the store.
    fn is_stored(&self, reference: &str) -> bool;

    /// Whether `output` is what was handed out in place of something stored, by its reference.
    fn is_stand_in(&self, output: &[u8], limits: &Limits) -> io::Result<bool>;

    /// Whether an artifact of so many bytes may be added.
    fn room(&self, bytes: u64) -> io::Result<()>;

    /// Writes `output` on as it is to be stored.
    fn store(&self, output: &mut dyn Read, sink: &mut dyn Write) -> io::Result<()>;

    /// The output that `record` is of has been stored.
    fn stored(&self, record: &Record);

    /// What stands in the log for the artifact at `path`.
    fn preview(&self, path: &RelPath, limits: &Limits) -> io::Result<Preview>;
}

/// What a message says of an output that is kept elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preview {
    /// Its first characters, and where all of it is.
    pub text: String,
    /// The path of the whole, as the reader names it.
    pub full_output_path: String,
}

#[cfg(test)]
mod tests;
