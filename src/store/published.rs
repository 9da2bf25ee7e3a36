//! The messages of a conversation that several hosts have published.

use std::ffi::OsString;
use std::fs::File;
use std::io;

use rustix::fs::OFlags;

use crate::{Store, layout};
use ctxfs_core::model::{Component, RelPath};

impl Store {
    /// Opens what hosts have published of the messages of a conversation; `None` if this host's log
    /// is all there is. One system call then.
    pub fn published_messages(&self, id: &Component) -> io::Result<Option<File>> {
        let mut path = OsString::from(format!("{}/{}/", layout::REMOTE, layout::REMOTE_MESSAGES));
        path.push(id.as_os_str());
        path.push(format!("/{}", layout::PUBLISHED));
        let path = RelPath::new(path).map_err(io::Error::other)?;
        match self.dir().open_file_at(&path, OFlags::RDONLY) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            file => file.map(Some),
        }
    }
}
