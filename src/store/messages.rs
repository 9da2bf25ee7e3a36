//! Where the message log of a conversation is, and what belongs to it.

use std::ffi::OsStr;
use std::fs::File;
use std::hash::BuildHasher as _;
use std::hash::RandomState;
use std::io;
use std::sync::Arc;

use rustix::fs::OFlags;

use crate::model::Folder;
use crate::store::conversation::Conversation;
use crate::store::dir::Dir;
use crate::store::error::StoreError;
use crate::store::layout;
use crate::store::writer::open_folder;

impl Conversation {
    /// The log, open for reading, if there is one.
    pub fn log_file(&self) -> Result<Option<Arc<File>>, StoreError> {
        let open = self.dir().open_dir(layout::HISTORY.as_ref());
        match open.and_then(|dir| dir.open_file(layout::MESSAGES.as_ref(), OFlags::RDONLY)) {
            Ok(file) => Ok(Some(Arc::new(file))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.log_fault("open", error)),
        }
    }

    /// The file for what stood in the log and is no message, open for appending.
    pub fn set_aside_file(&self) -> Result<File, StoreError> {
        let (history, name) = (OsStr::new(layout::HISTORY), OsStr::new(layout::SET_ASIDE));
        let opened = self.dir().ensure_dir(history, layout::DIRECTORY_MODE).and_then(|()| {
            let flags = OFlags::WRONLY | OFlags::APPEND;
            self.dir().open_dir(history)?.create_file(name, flags, layout::FILE_MODE)
        });
        opened.map_err(|error| self.history_fault("open", layout::SET_ASIDE, error))
    }

    /// A new file that has no name: it is gone when it is closed.
    pub fn nameless_file(&self) -> Result<File, StoreError> {
        let unique = RandomState::new().hash_one(std::process::id());
        let name = layout::temporary(unique);
        let (name, flags) = (OsStr::new(&name), OFlags::RDWR | OFlags::EXCL);
        let made = self.dir().create_file(name, flags, layout::FILE_MODE);
        let made = made.and_then(|file| self.dir().unlink(name).map(|()| file));
        made.map_err(|error| self.log_fault("make a file for", error))
    }

    /// The directory of a kind of artifact, made where it has been removed.
    pub fn folder(&self, folder: Folder) -> Result<Dir, StoreError> {
        open_folder(self.dir(), folder).map_err(|error| self.listing_fault(error))
    }

    /// `error` of doing `action` to the log.
    pub fn log_fault(&self, action: &'static str, error: io::Error) -> StoreError {
        self.history_fault(action, layout::MESSAGES, error)
    }

    fn history_fault(&self, action: &'static str, name: &str, error: io::Error) -> StoreError {
        StoreError::io(action, &self.history_path(name), error)
    }
}
