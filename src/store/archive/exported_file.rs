//! A file as an export finds it.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::time::Duration;
use std::{io, thread};

use rustix::fs::OFlags;

use crate::artifact::read_full_at;
use crate::conversation::Conversation;
use crate::dir::Dir;
use crate::error::StoreError;
use crate::lease::Lease;
use crate::stat::Stat;
use crate::{attributes, lease, stat};
use ctxfs_core::model::{ArtifactState, Record, RelPath};

/// The longest time for which an export waits for writers, and its parts.
const PATIENCE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(50);

/// A file that was opened to be exported.
pub(super) struct ExportedFile {
    pub(super) file: File,
    pub(super) stat: Stat,
    /// Its attributes `user.*`.
    pub(super) attributes: Vec<(OsString, Vec<u8>)>,
}

impl ExportedFile {
    /// Opens a file, and reads a little of it: a file that cannot be read is to be known before its
    /// member begins.
    pub(super) fn open(dir: &Dir, name: &OsStr) -> io::Result<Self> {
        let file = dir.open_file(name, OFlags::RDONLY)?;
        read_full_at(&file, 0, &mut [0])?;
        let (stat, attributes) = (stat::stat_file(&file)?, attributes::user_attributes(&file)?);
        Ok(Self { file, stat, attributes })
    }

    fn has_writer(&self) -> bool {
        lease::settled(&self.file) == Lease::Held
    }
}

/// The state in which a file is found.
pub(super) struct FileState {
    pub(super) record: Record,
    /// True if it has a writer, or is not recorded as complete.
    pub(super) is_live: bool,
}

impl FileState {
    /// Returns the state of a file. Recovers an artifact that its writer left unsealed.
    pub(super) fn of(
        conversation: &Conversation,
        path: &RelPath,
        file: &ExportedFile,
    ) -> Result<Self, StoreError> {
        conversation.recover(path)?;
        let record = conversation.record_for(path, &file.stat)?;
        let is_live = record.state == ArtifactState::Live || file.has_writer();
        Ok(Self { record, is_live })
    }

    /// Returns the state of a file whose record cannot be read.
    pub(super) fn unrecorded(path: &RelPath, file: &ExportedFile) -> Self {
        let record = Conversation::fresh_record(path, &file.stat);
        Self { record, is_live: file.has_writer() }
    }
}

/// The time that an export waits for files that were closed a moment ago: a server needs a while to
/// hear of it, and to record that they are complete.
pub(super) struct Patience {
    left: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { left: PATIENCE }
    }
}

impl Patience {
    /// Waits a little. Returns false if no time is left.
    pub(super) fn pause(&mut self) -> bool {
        let Some(left) = self.left.checked_sub(PAUSE) else { return false };
        self.left = left;
        thread::sleep(PAUSE);
        true
    }
}
