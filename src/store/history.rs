//! The files below `history` of a conversation: the message log, the log of decisions about calls,
//! the log of questions to language models, and their answers. The rules of the message log are in
//! the module `message`.
//!
//! The answers about an output are the lines of `history/answers/<digest>.jsonl`. `<digest>` is the
//! BLAKE3 of the bytes of the output, whatever its name. The file is removed with the output.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;

use rustix::fs::OFlags;

use crate::file_lock::{LockedLines, each_line};
use crate::{Conversation, Dir, StoreError, if_there, layout};
use ctxfs_core::model::{Record, RelPath};

const MAX_LINE: u64 = 1 << 20;
// Names of files that are locked while a question is being asked begin with this.
const ASKING: &str = ".ctxfs-asking-";
/// The log of questions to language models.
pub const EXTRACTIONS: &str = layout::EXTRACTIONS_LOG;
/// The log of decisions about calls.
pub const PERMISSIONS: &str = layout::PERMISSIONS_LOG;
const DIGITS: usize = 64;
const SUFFIX: &str = ".jsonl";

impl Conversation {
    /// Opens the message log for reading. Returns `None` if there is no log.
    pub fn log_file(&self) -> Result<Option<Arc<File>>, StoreError> {
        let open = self.dir().open_dir(layout::HISTORY.as_ref());
        let log = open.and_then(|dir| dir.open_file(layout::MESSAGES.as_ref(), OFlags::RDONLY));
        let log = if_there(log).map_err(|error| self.log_error("open", error))?;
        Ok(log.map(Arc::new))
    }

    /// Opens the message log for reading and writing, creating it if it is missing. Fails if its
    /// directory is missing.
    pub fn writable_log_file(&self) -> Result<File, StoreError> {
        let history = self.dir().open_dir(layout::HISTORY.as_ref());
        create_log(history).map_err(|error| self.log_error("open", error))
    }

    /// Opens the message log as [`Self::writable_log_file`] does. Also creates the directory of the
    /// log if that is missing.
    pub fn ensured_log_file(&self) -> Result<File, StoreError> {
        create_log(ensured(self)).map_err(|error| self.log_error("open", error))
    }

    /// Creates a file without a name. It disappears when it is closed.
    pub fn nameless_file(&self) -> Result<File, StoreError> {
        self.dir().nameless_file().map_err(|error| self.log_error("make a file for", error))
    }

    /// Returns the time at which the message log was last changed, in milliseconds since the epoch.
    /// Returns `None` if there is no log or it is empty.
    pub fn last_message(&self) -> Option<i64> {
        let path = RelPath::new(format!("{}/{}", layout::HISTORY, layout::MESSAGES)).ok()?;
        let stat = self.dir().stat_at(&path).ok()?;
        (stat.size > 0).then(|| stat.mtime.as_millis())
    }

    /// Returns `error` as a [`StoreError`] about the message log.
    pub fn log_error(&self, action: &'static str, error: io::Error) -> StoreError {
        fault(self, action, layout::MESSAGES, error)
    }
}

pub(super) fn set_aside_file(conversation: &Conversation) -> Result<File, StoreError> {
    let flags = OFlags::WRONLY | OFlags::APPEND;
    let opened = ensured(conversation)
        .and_then(|dir| dir.create_file(layout::SET_ASIDE.as_ref(), flags, layout::FILE_MODE));
    opened.map_err(|error| fault(conversation, "open", layout::SET_ASIDE, error))
}

/// Calls `take` with each line that is an answer about the output whose BLAKE3 is `digest`, oldest
/// first.
pub fn each_answer(
    conversation: &Conversation,
    digest: &str,
    take: impl FnMut(&[u8]),
) -> Result<(), StoreError> {
    let opened = answers_dir(conversation)
        .and_then(|dir| dir.open_file(&file_name(digest)?, OFlags::RDONLY));
    let read = each_line_if_there(opened, take);
    read.map_err(|error| fault(conversation, "read", layout::ANSWERS, error))
}

/// Appends a line with an answer about the output whose BLAKE3 is `digest`. Also removes the
/// answers about outputs that the conversation no longer contains.
pub fn append_answer(
    conversation: &Conversation,
    digest: &str,
    line: &[u8],
) -> Result<(), StoreError> {
    let append = || {
        let dir = ensured_in(&ensured(conversation)?, layout::ANSWERS)?;
        LockedLines::lock(&dir, &file_name(digest)?.to_string_lossy())?.append(line)
    };
    append().map_err(|error| fault(conversation, "append to", layout::ANSWERS, error))?;
    remove_stale_answers(conversation, digest)
}

/// The turn of a question: until it is dropped, no other process asks the same question.
#[derive(Debug)]
pub struct QuestionTurn {
    dir: Dir,
    name: String,
    _lock: LockedLines,
}

/// Returns the turn of the question `key`, or `None` if the question is being asked.
pub fn question_turn(
    conversation: &Conversation,
    key: u64,
) -> Result<Option<QuestionTurn>, StoreError> {
    let name = format!("{ASKING}{key:016x}");
    let take = || {
        let dir = conversation.dir().try_clone()?;
        let lock = LockedLines::try_lock(&dir, &name)?;
        Ok(lock.map(|lock| QuestionTurn { dir, name: name.clone(), _lock: lock }))
    };
    let path = conversation.path().join(&name);
    take().map_err(|error: io::Error| StoreError::io("lock", &path, error))
}

impl Drop for QuestionTurn {
    fn drop(&mut self) {
        // Whoever waits for the turn looks for the answer first, so the file is not needed.
        self.dir.unlink(self.name.as_ref()).ok();
    }
}

/// Calls `take` with each line in the log `name`, oldest first.
pub fn each_logged(
    conversation: &Conversation,
    name: &str,
    take: impl FnMut(&[u8]),
) -> Result<(), StoreError> {
    let history = conversation.dir().open_dir(layout::HISTORY.as_ref());
    let opened = history.and_then(|dir| dir.open_file(name.as_ref(), OFlags::RDONLY));
    let read = each_line_if_there(opened, take);
    read.map_err(|error| fault(conversation, "read", name, error))
}

/// Removes the answers about the output of `record`, which has been removed. Ignores a failure,
/// because [`append_answer`] also removes such answers.
pub(super) fn forget_answers(conversation: &Conversation, record: &Record) {
    let Some(analysis) = &record.analysis else { return };
    let removed = answers_dir(conversation)
        .and_then(|dir| Ok((file_name(&analysis.digest)?, dir)))
        .and_then(|(name, dir)| dir.unlink(&name));
    if removed.is_ok() {
        // Removing the directory fails while there are answers about other outputs.
        let history = conversation.dir().open_dir(layout::HISTORY.as_ref());
        let _is_left = history.and_then(|dir| dir.rmdir(layout::ANSWERS.as_ref()));
    }
}

fn remove_stale_answers(conversation: &Conversation, kept: &str) -> Result<(), StoreError> {
    let fault = |action| move |error| fault(conversation, action, layout::ANSWERS, error);
    let entries = answers_dir(conversation).and_then(|dir| dir.entries());
    let names: Vec<OsString> = entries
        .map_err(fault("list"))?
        .into_iter()
        .map(|entry| entry.name)
        .filter(|name| digest_of(name).is_some_and(|digest| digest != kept))
        .collect();
    if names.is_empty() {
        return Ok(());
    }
    let mut present = std::collections::HashSet::new();
    for record in conversation.records()? {
        let record = record?;
        present.extend(record.analysis.filter(|_| record.removed.is_none()).map(|of| of.digest));
    }
    for name in names {
        if digest_of(&name).is_some_and(|digest| !present.contains(digest)) {
            let removed = answers_dir(conversation).and_then(|dir| dir.unlink(&name));
            removed.map_err(fault("remove"))?;
        }
    }
    Ok(())
}

/// Appends complete lines to the log `name`: [`EXTRACTIONS`] or [`PERMISSIONS`].
pub fn append(conversation: &Conversation, name: &str, lines: &[u8]) -> Result<(), StoreError> {
    let appended =
        ensured(conversation).and_then(|dir| LockedLines::lock(&dir, name)?.append(lines));
    appended.map(drop).map_err(|error| fault(conversation, "append to", name, error))
}

fn create_log(history: io::Result<Dir>) -> io::Result<File> {
    history?.create_file(layout::MESSAGES.as_ref(), OFlags::RDWR, layout::FILE_MODE)
}

fn ensured(conversation: &Conversation) -> io::Result<Dir> {
    ensured_in(conversation.dir(), layout::HISTORY)
}

fn ensured_in(dir: &Dir, name: &str) -> io::Result<Dir> {
    dir.ensure_synced_dir(name.as_ref(), layout::DIRECTORY_MODE)?;
    dir.open_dir(name.as_ref())
}

fn answers_dir(conversation: &Conversation) -> io::Result<Dir> {
    conversation.dir().open_dir(layout::HISTORY.as_ref())?.open_dir(layout::ANSWERS.as_ref())
}

fn file_name(digest: &str) -> io::Result<OsString> {
    let is_one = digest.len() == DIGITS && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
    let name = is_one.then(|| OsString::from(format!("{digest}{SUFFIX}")));
    name.ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

fn digest_of(name: &OsStr) -> Option<&str> {
    let digest = std::str::from_utf8(name.as_bytes()).ok()?.strip_suffix(SUFFIX)?;
    file_name(digest).is_ok().then_some(digest)
}

fn each_line_if_there(opened: io::Result<File>, take: impl FnMut(&[u8])) -> io::Result<()> {
    let Some(file) = if_there(opened)? else { return Ok(()) };
    each_line(file, MAX_LINE, take)
}

fn fault(
    conversation: &Conversation,
    action: &'static str,
    name: &str,
    error: io::Error,
) -> StoreError {
    StoreError::io(action, &conversation.path().join(layout::HISTORY).join(name), error)
}
