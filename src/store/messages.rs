//! The files of a conversation's message log.

use std::fs::File;
use std::io;
use std::sync::Arc;

use rustix::fs::OFlags;

use crate::conversation::Conversation;
use crate::dir::Dir;
use crate::error::StoreError;
use crate::layout;
use crate::writer::open_folder;
use ctxfs_core::model::Folder;

impl Conversation {
    /// Opens the log for reading, if there is one.
    pub fn log_file(&self) -> Result<Option<Arc<File>>, StoreError> {
        let open = self.dir().open_dir(layout::HISTORY.as_ref());
        match open.and_then(|dir| dir.open_file(layout::MESSAGES.as_ref(), OFlags::RDONLY)) {
            Ok(file) => Ok(Some(Arc::new(file))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.log_error("open", error)),
        }
    }

    /// Opens the log for reading and writing, and creates it if it is missing.
    pub fn writable_log_file(&self) -> Result<File, StoreError> {
        let open = self.dir().open_dir(layout::HISTORY.as_ref());
        let open = open.and_then(|dir| {
            dir.create_file(layout::MESSAGES.as_ref(), OFlags::RDWR, layout::FILE_MODE)
        });
        open.map_err(|error| self.log_error("open", error))
    }

    /// Does what [`Self::writable_log_file`] does where the directory of the log may be missing.
    pub fn ensured_log_file(&self) -> Result<File, StoreError> {
        let opened = self.ensured_history().and_then(|dir| {
            dir.create_file(layout::MESSAGES.as_ref(), OFlags::RDWR, layout::FILE_MODE)
        });
        opened.map_err(|error| self.log_error("open", error))
    }

    /// Opens the file for lines of the log that are not messages, for appending.
    pub fn set_aside_file(&self) -> Result<File, StoreError> {
        let flags = OFlags::WRONLY | OFlags::APPEND;
        let opened = self
            .ensured_history()
            .and_then(|dir| dir.create_file(layout::SET_ASIDE.as_ref(), flags, layout::FILE_MODE));
        opened.map_err(|error| self.history_error("open", layout::SET_ASIDE, error))
    }

    /// Creates a file without a name, which is gone when it is closed.
    pub fn nameless_file(&self) -> Result<File, StoreError> {
        self.dir().nameless_file().map_err(|error| self.log_error("make a file for", error))
    }

    /// Opens the directory of `folder`. Creates it if it has been removed.
    pub fn folder(&self, folder: Folder) -> Result<Dir, StoreError> {
        open_folder(self.dir(), folder).map_err(|error| self.listing_error(error))
    }

    /// Wraps an error about the log.
    pub fn log_error(&self, action: &'static str, error: io::Error) -> StoreError {
        self.history_error(action, layout::MESSAGES, error)
    }
}
