//! Artifacts whose bytes are not on this disk, as those who read them see them.

use std::ffi::OsString;
use std::fmt::Debug;
use std::sync::Arc;
use std::{fmt, io};

use crate::model::{Component, Content, Record};

/// Where the bytes are of artifacts that are not on this disk.
pub trait FarStore: Debug + Send + Sync {
    /// Opens the artifact of a conversation that has this record. May wait for the network, as
    /// reads of its content may, but not longer than until a deadline.
    fn open(&self, conversation: &Component, record: &Record) -> io::Result<FarFile>;
}

/// An artifact whose bytes are not on this disk, open for reading.
#[derive(Clone)]
pub struct FarFile {
    /// Its bytes. They are those of its digest, or a read fails.
    pub content: Arc<dyn Content>,
    /// Its attributes `user.*`.
    pub attributes: Vec<(OsString, Vec<u8>)>,
}

impl Debug for FarFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FarFile").field("length", &self.content.len()).finish_non_exhaustive()
    }
}
