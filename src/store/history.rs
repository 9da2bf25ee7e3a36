//! The files below `history` of a conversation, beside the rules of `message`: the message log, the
//! logs of decisions and questions, and the answers of language models.
//!
//! The answers about an output are the lines of `history/answers/<digest>.jsonl`: they belong to its
//! bytes, whatever its name. They are removed with the output.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;

use rustix::fs::OFlags;

use crate::file_lock::{LockedLines, each_line};
use crate::writer::open_folder;
use crate::{Conversation, Dir, StoreError, layout};
use ctxfs_core::model::{Folder, Record};

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

/// The longest line that is read, in bytes.
const MOST_LINE: u64 = 1 << 20;
/// The digits of a digest.
const DIGITS: usize = 64;
const SUFFIX: &str = ".jsonl";

impl Conversation {
    /// Passes each line with an answer about the output with this BLAKE3 to `take`, oldest first.
    pub fn each_answer(&self, digest: &str, take: impl FnMut(&[u8])) -> Result<(), StoreError> {
        let opened =
            answers_dir(self).and_then(|dir| dir.open_file(&file_name(digest)?, OFlags::RDONLY));
        let read = each_line_if_there(opened, take);
        read.map_err(|error| self.history_error("read", layout::ANSWERS, error))
    }

    /// Appends a line with an answer about the output with this BLAKE3. Removes the answers about
    /// outputs that are not in the conversation any more.
    pub fn append_answer(&self, digest: &str, line: &[u8]) -> Result<(), StoreError> {
        let append = || {
            let dir = ensured(&self.ensured_history()?, layout::ANSWERS)?;
            let name = file_name(digest)?;
            LockedLines::wait(&dir, &name.to_string_lossy())?.append(line)
        };
        append().map_err(|error| self.history_error("append to", layout::ANSWERS, error))?;
        self.remove_stale_answers(digest)
    }

    /// Appends a line to the log of questions.
    pub fn append_extraction(&self, line: &[u8]) -> Result<(), StoreError> {
        self.append_to_history(layout::EXTRACTIONS_LOG, line)
    }

    /// Passes each line of the log of questions to `take`, oldest first.
    pub fn each_extraction(&self, take: impl FnMut(&[u8])) -> Result<(), StoreError> {
        let name = layout::EXTRACTIONS_LOG;
        let history = self.dir().open_dir(layout::HISTORY.as_ref());
        let opened = history.and_then(|dir| dir.open_file(name.as_ref(), OFlags::RDONLY));
        let read = each_line_if_there(opened, take);
        read.map_err(|error| self.history_error("read", name, error))
    }

    /// Removes the answers about the output that `record` describes: it is gone. What cannot be
    /// removed goes with the next answer.
    pub(super) fn forget_answers(&self, record: &Record) {
        let Some(analysis) = &record.analysis else { return };
        let removed = answers_dir(self)
            .and_then(|dir| Ok((file_name(&analysis.digest)?, dir)))
            .and_then(|(name, dir)| dir.unlink(&name));
        if removed.is_ok() {
            // Fails while there are others.
            let history = self.dir().open_dir(layout::HISTORY.as_ref());
            let _is_left = history.and_then(|dir| dir.rmdir(layout::ANSWERS.as_ref()));
        }
    }

    /// Removes the answers about outputs that no record has any more, except `kept`.
    fn remove_stale_answers(&self, kept: &str) -> Result<(), StoreError> {
        let names = answers_dir(self).and_then(|dir| dir.entries());
        let names: Vec<OsString> = names
            .map_err(|error| self.history_error("list", layout::ANSWERS, error))?
            .into_iter()
            .map(|entry| entry.name)
            .filter(|name| digest_of(name).is_some_and(|digest| digest != kept))
            .collect();
        if names.is_empty() {
            return Ok(());
        }
        let mut present = HashSet::new();
        for record in self.records()? {
            let record = record?;
            present
                .extend(record.analysis.filter(|_| record.removed.is_none()).map(|of| of.digest));
        }
        for name in names {
            if digest_of(&name).is_some_and(|digest| !present.contains(digest)) {
                let removed = answers_dir(self).and_then(|dir| dir.unlink(&name));
                removed.map_err(|error| self.history_error("remove", layout::ANSWERS, error))?;
            }
        }
        Ok(())
    }
}

fn answers_dir(conversation: &Conversation) -> io::Result<Dir> {
    conversation.dir().open_dir(layout::HISTORY.as_ref())?.open_dir(layout::ANSWERS.as_ref())
}

fn file_name(digest: &str) -> io::Result<OsString> {
    let is_one = digest.len() == DIGITS && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
    let name = is_one.then(|| OsString::from(format!("{digest}{SUFFIX}")));
    name.ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

/// Returns the digest in the name of a file with answers.
fn digest_of(name: &OsStr) -> Option<&str> {
    let digest = std::str::from_utf8(name.as_bytes()).ok()?.strip_suffix(SUFFIX)?;
    file_name(digest).is_ok().then_some(digest)
}

/// Passes each line of a file to `take`. A file that is not there has none.
fn each_line_if_there(opened: io::Result<File>, take: impl FnMut(&[u8])) -> io::Result<()> {
    match opened {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        opened => each_line(opened?, MOST_LINE, take),
    }
}
