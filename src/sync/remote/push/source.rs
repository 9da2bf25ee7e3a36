
use std::collections::BTreeMap;
use std::fs::File;

use crate::remote::{MessagesAt, RemoteError};
use crate::replica::{FileKey, FileVersion};
use ctxfs_core::model::Record;

///+ A file to publish.
#[derive(Debug)]
pub struct Opened {
    ///+ Open for reading, at its start.
    pub file: File,
    ///+ Record with an analysis. The caller sets path, size and time.
    pub record: Record,
    pub mode: u32,
    pub attributes: BTreeMap<String, String>,
}

///+ A line of the local message log, without its newline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnLine {
    pub offset: u64,
    pub length: u64,
    ///+ `None` if the line is too long for any segment.
    pub text: Option<Vec<u8>>,
}

///+ Files and messages of a conversation on this host.
pub trait Source {
    ///+ Opens the file at `path`, if it has this key and version and no process writes to it.
    fn open(
        &self,
        path: &str,
        key: FileKey,
        version: FileVersion,
    ) -> Result<Option<Opened>, RemoteError>;

    ///+ Returns messages after a position of the log, about 4 MiB at most, and the position after
    ///+ them. Starts from the beginning if the log is another file.
    fn message_lines(&self, from: &MessagesAt) -> Result<(Vec<OwnLine>, MessagesAt), RemoteError>;
}

///+ Source without files, for pushes of merges and removals.
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
