//! What this host keeps about one conversation of a bucket.
//!
//! ```text
//! agreement.jsonl         what host and bucket agreed upon, a change a line; see `agreement`
//! intent.json             what is about to be sent, and since when; see `intent`
//! intent.tar.zst          its bytes
//! log/<segment>.tar.zst   segments as they came; large ones are cut after their records
//! log/<segment>.refused   why a segment was not kept
//! purging.json            what a purge that was cut off is to remove yet
//! looked                  empty; its time is that of the last look
//! settled                 bucket and conversation when there was last nothing to do here
//! over                    empty; there if nothing of the conversation lived at the last look
//! shown.json              whose messages readers saw last, and with which log of this host
//! ```
//!
//! One process at a time writes here: the one that has the lock of the home.

mod agreement;
mod intent;
mod log;
mod purging;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;
use std::{fmt, io};

use parking_lot::Mutex;
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use crate::bucket::ObjectName;
use crate::remote::blocks::BLOCKS;
use crate::remote::{Limits, RemoteError, blocks, whole_file};
use crate::replica::{Covers, SegmentId};
use ctxfs_core::model::Component;
use ctxfs_store::{Dir, FileMark, Time};

pub use agreement::Agreement;
pub(crate) use agreement::{Derived, Progress};
pub use intent::Intent;
pub use log::StoredSegment;
pub use purging::Purging;

const LOG: &str = "log";
const LOOKED: &str = "looked";
const SETTLED: &str = "settled";
/// The most bytes of it that are read.
const MOST_SETTLED: u64 = 1024;
const OVER: &str = "over";
const SHOWN: &str = "shown.json";
/// The most bytes of it that are read.
const MOST_SHOWN: u64 = 64 << 20;

/// What this host keeps about one conversation.
pub struct Notes {
    conversation: Component,
    path: PathBuf,
    /// The directory of all that is kept about the bucket.
    home: Arc<Dir>,
    dir: Dir,
    log: Dir,
    limits: Limits,
    /// What segments here cover, as far as their heads were read.
    covers: Mutex<BTreeMap<SegmentId, Covers>>,
}

/// A place in the message log of this host: which file, and how far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessagesAt {
    /// Its inode; 0 if nothing was published yet.
    pub inode: u64,
    /// Its time of birth, in nanoseconds since the epoch.
    pub born: i64,
    /// The bytes before the place.
    pub offset: u64,
    /// A number of the lines before the place, by which they are known in another file.
    #[serde(default)]
    pub chain: u64,
}

/// The messages that readers saw last.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Shown {
    /// The log of this host: its inode, and its time of birth.
    pub(super) inode: u64,
    pub(super) born: i64,
    /// The segments that were known.
    pub(super) segments: BTreeSet<SegmentId>,
}

impl MessagesAt {
    /// Returns true if it is a place in the file that has this mark.
    pub(super) fn is_in(&self, mark: &FileMark) -> bool {
        (self.inode, self.born) == (mark.ino, mark.born) && self.offset <= mark.size
    }

    /// Returns the bytes before it in the file that has this mark; 0 if that is another one.
    pub(super) fn bytes_in(&self, mark: &FileMark) -> u64 {
        if self.is_in(mark) { self.offset } else { 0 }
    }
}

impl fmt::Debug for Notes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Notes").field(&self.path).finish()
    }
}

impl Notes {
    /// Opens what is in a directory below `home`, whose path is for error messages.
    pub(super) fn open(
        conversation: Component,
        (home, limits): (Arc<Dir>, Limits),
        (dir, path): (Dir, PathBuf),
    ) -> Result<Self, RemoteError> {
        let log = whole_file::directory(&dir, LOG.as_ref());
        let log = log.map_err(RemoteError::at("open", &path.join(LOG)))?;
        Ok(Self { conversation, path, home, dir, log, limits, covers: Mutex::default() })
    }

    /// Returns the conversation.
    pub fn conversation(&self) -> &Component {
        &self.conversation
    }

    /// Returns when the last look was, by the clock of the disk. `None` if there was none.
    pub fn looked(&self) -> Result<Option<Time>, RemoteError> {
        match self.dir.stat(LOOKED.as_ref()) {
            Ok(stat) => Ok(Some(stat.mtime)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(RemoteError::at("look at", &self.path_of(LOOKED))(error)),
        }
    }

    /// Notes that a look was made now.
    pub(super) fn keep_look(&self) -> Result<(), RemoteError> {
        let flags = OFlags::WRONLY | OFlags::TRUNC;
        let file = self.dir.create_file(LOOKED.as_ref(), flags, whole_file::FILE_MODE);
        let written = file.and_then(|file| file.set_modified(SystemTime::now()));
        written.map_err(RemoteError::at("write", &self.path_of(LOOKED)))
    }

    /// Returns true if there was nothing to do here when bucket and conversation were last as
    /// `state` says.
    pub(super) fn is_settled(&self, state: &str) -> Result<bool, RemoteError> {
        let text = whole_file::read(&self.dir, SETTLED, MOST_SETTLED);
        let text = text.map_err(RemoteError::at("read", &self.path_of(SETTLED)))?;
        Ok(text.as_deref() == Some(state.as_bytes()))
    }

    /// Notes that there is nothing to do here while both are so.
    pub(super) fn keep_settled(&self, state: &str) -> Result<(), RemoteError> {
        let written = whole_file::write(&self.dir, SETTLED, state.as_bytes());
        written.map_err(RemoteError::at("write", &self.path_of(SETTLED)))
    }

    /// Returns whose messages readers saw last. `None` if that is not known.
    pub(super) fn shown(&self) -> Result<Option<Shown>, RemoteError> {
        let text = whole_file::read(&self.dir, SHOWN, MOST_SHOWN);
        let text = text.map_err(RemoteError::at("read", &self.path_of(SHOWN)))?;
        Ok(text.and_then(|text| serde_json::from_slice(&text).ok()))
    }

    /// Notes whose messages readers see from now on.
    pub(super) fn keep_shown(&self, shown: &Shown) -> Result<(), RemoteError> {
        if self.shown()?.as_ref() == Some(shown) {
            return Ok(());
        }
        let text = serde_json::to_vec(shown).expect("names can be JSON");
        let written = whole_file::write(&self.dir, SHOWN, &text);
        written.map_err(RemoteError::at("write", &self.path_of(SHOWN)))
    }

    /// Forgets whose messages readers saw.
    pub(super) fn forget_shown(&self) -> Result<(), RemoteError> {
        let removed = whole_file::remove(&self.dir, SHOWN);
        removed.map_err(RemoteError::at("remove", &self.path_of(SHOWN)))
    }

    /// Returns true if nothing of the conversation lived at the last look.
    pub(super) fn is_over(&self) -> Result<bool, RemoteError> {
        match self.dir.stat(OVER.as_ref()) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(RemoteError::at("look at", &self.path_of(OVER))(error)),
        }
    }

    /// Notes whether something lives.
    pub fn keep_over(&self, is_over: bool) -> Result<(), RemoteError> {
        if self.is_over()? == is_over {
            return Ok(());
        }
        let kept = if is_over {
            whole_file::write(&self.dir, OVER, b"")
        } else {
            whole_file::remove(&self.dir, OVER)
        };
        kept.map_err(RemoteError::at("write", &self.path_of(OVER)))
    }

    /// Removes what was fetched of objects, which no artifact has any more.
    pub(super) fn forget_objects(&self, objects: &BTreeSet<ObjectName>) -> Result<(), RemoteError> {
        if objects.is_empty() {
            return Ok(());
        }
        let forgotten = match self.home.open_dir(BLOCKS.as_ref()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            blocks => blocks.and_then(|blocks| blocks::forget_objects(&blocks, objects)),
        };
        forgotten.map_err(RemoteError::at("remove blocks for", &self.path))
    }

    fn path_of(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

#[cfg(test)]
mod tests;
