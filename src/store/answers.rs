//! The answers that language models gave about outputs, and the log of what was asked.
//!
//! The answers about an output are the lines of `history/answers/<digest>.jsonl`, so that they are
//! about its bytes, wherever these lie, and go with the conversation. They go with the output, too.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::io::BufRead as _;
use std::io::BufReader;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;

use rustix::fs::OFlags;

use crate::model::Record;
use crate::store::conversation::Conversation;
use crate::store::dir::Dir;
use crate::store::error::StoreError;
use crate::store::layout;
use crate::store::locked_lines::LockedLines;

/// The most bytes of answers about one output that are read.
const MOST_ANSWERS: u64 = 16 << 20;
/// The longest line of the log that is read, in bytes.
const MOST_LINE: u64 = 1 << 20;
/// The digits of a digest.
const DIGITS: usize = 64;
const SUFFIX: &str = ".jsonl";

impl Conversation {
    /// Returns the lines with answers about the output with this BLAKE3, oldest first.
    pub fn answers(&self, digest: &str) -> Result<Vec<u8>, StoreError> {
        let read = || {
            let file = answers_dir(self)?.open_file(&file_name(digest)?, OFlags::RDONLY)?;
            let mut lines = Vec::new();
            file.take(MOST_ANSWERS).read_to_end(&mut lines)?;
            Ok(lines)
        };
        absent_is(Vec::new(), read()).map_err(|error| self.answers_error("read", error))
    }

    /// Appends a line with an answer about the output with this BLAKE3. Removes the answers about
    /// outputs that are not in the conversation any more.
    pub fn append_answer(&self, digest: &str, line: &[u8]) -> Result<(), StoreError> {
        let append = || {
            let dir = ensured(&history(self)?, layout::ANSWERS)?;
            let name = file_name(digest)?;
            LockedLines::wait(&dir, &name.to_string_lossy())?.append(line)
        };
        append().map_err(|error| self.answers_error("append to", error))?;
        self.remove_stale_answers(digest)
    }

    /// Appends a line to the log of questions.
    pub fn append_extraction(&self, line: &[u8]) -> Result<(), StoreError> {
        let append = || LockedLines::wait(&history(self)?, layout::EXTRACTIONS_LOG)?.append(line);
        append().map(drop).map_err(|error| self.extractions_error("append to", error))
    }

    /// Passes each line of the log of questions to `take`, oldest first.
    pub fn each_extraction(&self, mut take: impl FnMut(&[u8])) -> Result<(), StoreError> {
        let mut read = || {
            let dir = self.dir().open_dir(layout::HISTORY.as_ref())?;
            let file = dir.open_file(layout::EXTRACTIONS_LOG.as_ref(), OFlags::RDONLY)?;
            each_line(file, &mut take)
        };
        absent_is((), read()).map_err(|error| self.extractions_error("read", error))
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
            .map_err(|error| self.answers_error("list", error))?
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
                removed.map_err(|error| self.answers_error("remove", error))?;
            }
        }
        Ok(())
    }

    fn answers_error(&self, action: &'static str, error: io::Error) -> StoreError {
        StoreError::io(action, &self.path().join(layout::HISTORY).join(layout::ANSWERS), error)
    }

    fn extractions_error(&self, action: &'static str, error: io::Error) -> StoreError {
        let path = self.path().join(layout::HISTORY).join(layout::EXTRACTIONS_LOG);
        StoreError::io(action, &path, error)
    }
}

fn history(conversation: &Conversation) -> io::Result<Dir> {
    ensured(conversation.dir(), layout::HISTORY)
}

fn ensured(dir: &Dir, name: &str) -> io::Result<Dir> {
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

/// Returns the digest in the name of a file with answers.
fn digest_of(name: &OsStr) -> Option<&str> {
    let digest = std::str::from_utf8(name.as_bytes()).ok()?.strip_suffix(SUFFIX)?;
    file_name(digest).is_ok().then_some(digest)
}

fn absent_is<T>(absent: T, read: io::Result<T>) -> io::Result<T> {
    match read {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(absent),
        read => read,
    }
}

fn each_line(file: File, take: &mut impl FnMut(&[u8])) -> io::Result<()> {
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    while io::Read::take(&mut reader, MOST_LINE).read_until(b'\n', &mut line)? > 0 {
        take(&line);
        line.clear();
    }
    Ok(())
}
