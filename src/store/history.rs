//! The logs beside the messages of a conversation.

use std::io;

use crate::conversation::Conversation;
use crate::dir::Dir;
use crate::error::StoreError;
use crate::layout;
use crate::locked_lines::LockedLines;

impl Conversation {
    /// Opens the directory of the messages, which is created if it is missing.
    pub(super) fn ensured_history(&self) -> io::Result<Dir> {
        ensured(self.dir(), layout::HISTORY)
    }

    /// Appends whole lines to the log of this name.
    pub(super) fn append_to_history(&self, name: &str, lines: &[u8]) -> Result<(), StoreError> {
        let history = self.ensured_history();
        let appended = history.and_then(|dir| LockedLines::wait(&dir, name)?.append(lines));
        appended.map(drop).map_err(|error| self.history_error("append to", name, error))
    }

    /// Wraps an error about something of this name in the directory of the messages.
    pub(super) fn history_error(
        &self,
        action: &'static str,
        name: &str,
        error: io::Error,
    ) -> StoreError {
        StoreError::io(action, &self.path().join(layout::HISTORY).join(name), error)
    }
}

/// Opens the directory `name` in `dir`, which is created if it is missing.
pub(super) fn ensured(dir: &Dir, name: &str) -> io::Result<Dir> {
    dir.ensure_synced_dir(name.as_ref(), layout::DIRECTORY_MODE)?;
    dir.open_dir(name.as_ref())
}
