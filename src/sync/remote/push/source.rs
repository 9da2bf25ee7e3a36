//! Where what is published comes from.

use std::collections::BTreeMap;
use std::fs::File;

use crate::remote::{MessagesAt, RemoteError};
use crate::replica::{FileKey, FileVersion};
use ctxfs_core::model::Record;

/// A file that is to be published.
#[derive(Debug)]
pub struct Opened {
    /// It, open for reading at its start.
    pub file: File,
    /// Its record, with an analysis. The caller sets path, size and time.
    pub record: Record,
    /// The permission bits.
    pub mode: u32,
    /// The extended attributes `user.*`, as texts.
    pub attributes: BTreeMap<String, String>,
}

/// A line of the message log of this host, without its newline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnLine {
    /// Its place in the log.
    pub offset: u64,
    /// Its bytes.
    pub length: u64,
    /// The line; `None` if it is too long for any segment.
    pub text: Option<Vec<u8>>,
}

/// The files and messages of a conversation of this host.
pub trait Source {
    /// Opens the file at `path`, if it is still this one in this state and nobody writes it.
    fn open(
        &self,
        path: &str,
        key: FileKey,
        version: FileVersion,
    ) -> Result<Option<Opened>, RemoteError>;

    /// Returns messages that follow a place of the log, and the place after them: some 4 MiB at
    /// most, and none if there are no more. A log that is another file now is read from its start.
    fn message_lines(&self, from: &MessagesAt) -> Result<(Vec<OwnLine>, MessagesAt), RemoteError>;
}

/// A source of nothing: for what is published without a look at files, such as merges.
#[derive(Debug, Clone, Copy)]
pub struct NoSource;

impl Source for NoSource {
    fn open(
        &self,
        _path: &str,
        _key: FileKey,
        _version: FileVersion,
    ) -> Result<Option<Opened>, RemoteError> {
        Ok(None)
    }

    fn message_lines(&self, from: &MessagesAt) -> Result<(Vec<OwnLine>, MessagesAt), RemoteError> {
        Ok((Vec::new(), *from))
    }
}
