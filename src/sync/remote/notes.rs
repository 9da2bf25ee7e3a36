//! Local state about one conversation of a bucket.
//!
//! ```text
//! agreement.jsonl         agreement of host and bucket, one change per line; see `agreement`
//! intent.json             segment that is being sent
//! intent.tar.zst          bytes of that segment
//! log/<segment>.tar.zst   local segments; large ones end after their records
//! log/<segment>.refused   reason why a segment was refused
//! purging.json            unfinished purge
//! looked                  empty; its modification time is the time of the last look
//! settled                 fingerprint of bucket and conversation at the last look without changes
//! over                    empty; present if the conversation was empty at the last look
//! shown.json              segments and local log of the messages that were shown last
//! ```
//!
//! Only the holder of the push lock writes to this directory.

mod agreement;
mod log;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;
use std::{fmt, io};

use parking_lot::Mutex;
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use crate::bucket::{ObjectName, SEGMENT_BYTES};
use crate::remote::blocks::BLOCKS;
use crate::remote::{Limits, Moment, RemoteError, blocks, disk};
use crate::replica::{Accepted, Covers, Origin, SegmentId, Stamp};
use ctxfs_core::model::Component;
use ctxfs_store::{Dir, FileMark, Time};

pub use agreement::Agreement;
pub(crate) use agreement::{AgreementCache, WriterProgress};
pub(crate) use log::StoredSegment;

const LOG: &str = "log";
const LOOKED: &str = "looked";
const SETTLED: &str = "settled";
const MOST_SETTLED: u64 = 1024;
const OVER: &str = "over";
const SHOWN: &str = "shown.json";
const MOST_SHOWN: u64 = 64 << 20;

/// Local state about one conversation of a bucket. Only the holder of the push lock writes it. Each
/// file is either replaced atomically or extended by whole lines, so a crash leaves the old or the
/// new state.
pub struct Notes {
    conversation: Component,
    path: PathBuf,
    home: Arc<Dir>,
    dir: Dir,
    log: Dir,
    limits: Limits,
    covers: Mutex<BTreeMap<SegmentId, Covers>>,
}

/// A position in the local message log. The file is identified by its inode and its birth time in
/// nanoseconds. `offset` is the number of bytes before the position. If `inode` is 0, nothing has
/// been published.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "described above")]
pub struct LogPosition {
    pub inode: u64,
    pub born: i64,
    pub offset: u64,
    /// Hash chain of the lines before the position. It identifies the position in a copy of the
    /// log.
    #[serde(default)]
    pub chain: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ShownMessages {
    pub(super) inode: u64,
    pub(super) born: i64,
    pub(super) segments: BTreeSet<SegmentId>,
}

impl LogPosition {
    pub(super) fn is_in(&self, mark: &FileMark) -> bool {
        (self.inode, self.born) == (mark.ino, mark.born) && self.offset <= mark.size
    }

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
    pub(super) fn open(
        conversation: Component,
        (home, limits): (Arc<Dir>, Limits),
        (dir, path): (Dir, PathBuf),
    ) -> Result<Self, RemoteError> {
        let log = disk::directory(&dir, LOG.as_ref());
        let log = log.map_err(RemoteError::at("open", &path.join(LOG)))?;
        Ok(Self { conversation, path, home, dir, log, limits, covers: Mutex::default() })
    }

    pub(crate) fn conversation(&self) -> &Component {
        &self.conversation
    }

    /// Returns the time of the last look, by the clock of the disk. Returns `None` if there was no
    /// look.
    pub(crate) fn looked(&self) -> Result<Option<Time>, RemoteError> {
        match self.dir.stat(LOOKED.as_ref()) {
            Ok(stat) => Ok(Some(stat.mtime)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(RemoteError::at("look at", &self.path.join(LOOKED))(error)),
        }
    }

    pub(super) fn keep_look(&self) -> Result<(), RemoteError> {
        let flags = OFlags::WRONLY | OFlags::TRUNC;
        let file = self.dir.create_file(LOOKED.as_ref(), flags, disk::FILE_MODE);
        let written = file.and_then(|file| file.set_modified(SystemTime::now()));
        written.map_err(RemoteError::at("write", &self.path.join(LOOKED)))
    }

    /// Returns true if `state` is the fingerprint of bucket and conversation from the last look
    /// that had nothing to do.
    pub(super) fn is_settled(&self, state: &str) -> Result<bool, RemoteError> {
        let text = disk::read(&self.dir, SETTLED, MOST_SETTLED);
        let text = text.map_err(RemoteError::at("read", &self.path.join(SETTLED)))?;
        Ok(text.as_deref() == Some(state.as_bytes()))
    }

    pub(super) fn keep_settled(&self, state: &str) -> Result<(), RemoteError> {
        let written = disk::write(&self.dir, SETTLED, state.as_bytes());
        written.map_err(RemoteError::at("write", &self.path.join(SETTLED)))
    }

    pub(super) fn shown(&self) -> Result<Option<ShownMessages>, RemoteError> {
        let text = disk::read(&self.dir, SHOWN, MOST_SHOWN);
        let text = text.map_err(RemoteError::at("read", &self.path.join(SHOWN)))?;
        Ok(text.and_then(|text| serde_json::from_slice(&text).ok()))
    }

    pub(super) fn keep_shown(&self, shown: &ShownMessages) -> Result<(), RemoteError> {
        if self.shown()?.as_ref() == Some(shown) {
            return Ok(());
        }
        let text = serde_json::to_vec(shown).expect("names can be JSON");
        let written = disk::write(&self.dir, SHOWN, &text);
        written.map_err(RemoteError::at("write", &self.path.join(SHOWN)))
    }

    pub(super) fn forget_shown(&self) -> Result<(), RemoteError> {
        let removed = disk::remove(&self.dir, SHOWN);
        removed.map_err(RemoteError::at("remove", &self.path.join(SHOWN)))
    }

    pub(super) fn is_over(&self) -> Result<bool, RemoteError> {
        match self.dir.stat(OVER.as_ref()) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(RemoteError::at("look at", &self.path.join(OVER))(error)),
        }
    }

    /// Records whether the conversation was empty at the last look.
    pub fn keep_over(&self, is_over: bool) -> Result<(), RemoteError> {
        if self.is_over()? == is_over {
            return Ok(());
        }
        let kept =
            if is_over { disk::write(&self.dir, OVER, b"") } else { disk::remove(&self.dir, OVER) };
        kept.map_err(RemoteError::at("write", &self.path.join(OVER)))
    }

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
}

const INTENT: &str = "intent.json";
const BYTES: &str = "intent.tar.zst";
const MOST_INTENT: u64 = 512 << 20;

/// A segment that is being sent, and its effects on the agreement. It is saved to disk before the
/// first request, so that an interrupted push can be continued.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Intent {
    pub segment: SegmentId,
    pub accepted: Accepted,
    /// Position in the message log after the last message of the segment. `None` if the segment has
    /// no messages.
    pub messages: Option<LogPosition>,
    pub stamp: Stamp,
    /// Time at which the segment or the first of its objects was created.
    pub since: Moment,
    /// BLAKE3 digest of the segment, in lower-case hexadecimal.
    pub digest: String,
}

impl Notes {
    /// Returns the intent and its segment. Ignores an intent that a crash left incomplete, because
    /// its segment was never sent.
    pub(crate) fn intent(&self) -> Result<Option<(Intent, Vec<u8>)>, RemoteError> {
        let read = |name, most| {
            let bytes = disk::read(&self.dir, name, most);
            bytes.map_err(RemoteError::at("read", &self.path.join(name)))
        };
        let Some(text) = read(INTENT, MOST_INTENT)? else { return Ok(None) };
        let Ok(intent) = serde_json::from_slice::<Intent>(&text) else { return Ok(None) };
        let bytes = read(BYTES, SEGMENT_BYTES)?.unwrap_or_default();
        let is_its = blake3::hash(&bytes).to_hex().as_str() == intent.digest;
        Ok(is_its.then_some((intent, bytes)))
    }

    /// Saves an intent. Writes the segment before the intent that refers to it.
    pub(crate) fn keep_intent(&self, intent: &Intent, bytes: &[u8]) -> Result<(), RemoteError> {
        let write = |name, bytes: &[u8]| {
            let written = disk::write(&self.dir, name, bytes);
            written.map_err(RemoteError::at("write", &self.path.join(name)))
        };
        let text = serde_json::to_vec(intent).expect("an intent can be JSON");
        write(BYTES, bytes)?;
        write(INTENT, &text)
    }

    pub(crate) fn drop_intent(&self) -> Result<(), RemoteError> {
        for name in [INTENT, BYTES] {
            let removed = disk::remove(&self.dir, name);
            removed.map_err(RemoteError::at("remove", &self.path.join(name)))?;
        }
        Ok(())
    }
}

const PURGING: &str = "purging.json";
const MOST_PURGING: u64 = 64 << 20;

/// Artifacts and messages that an unfinished purge removes. They are saved before the purge deletes
/// anything, so that the next purge can continue it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Purging {
    pub origins: BTreeSet<Origin>,
    #[serde(default)]
    pub messages: BTreeSet<Origin>,
    /// Objects of these artifacts. Also includes objects of other removed artifacts that no record
    /// names once the segments are deleted.
    pub objects: BTreeSet<ObjectName>,
}

impl Notes {
    pub(crate) fn purging(&self) -> Result<Purging, RemoteError> {
        let path = self.path.join(PURGING);
        let text = disk::read(&self.dir, PURGING, MOST_PURGING);
        let Some(text) = text.map_err(RemoteError::at("read", &path))? else {
            return Ok(Purging::default());
        };
        let damaged = |error: serde_json::Error| RemoteError::Damaged {
            path: path.clone(),
            why: error.to_string(),
        };
        serde_json::from_slice(&text).map_err(damaged)
    }

    pub(crate) fn keep_purging(&self, purging: &Purging) -> Result<(), RemoteError> {
        let text = serde_json::to_vec(purging).expect("a purge can be JSON");
        let written = disk::write(&self.dir, PURGING, &text);
        written.map_err(RemoteError::at("write", &self.path.join(PURGING)))
    }

    pub(crate) fn drop_purging(&self) -> Result<(), RemoteError> {
        let removed = disk::remove(&self.dir, PURGING);
        removed.map_err(RemoteError::at("remove", &self.path.join(PURGING)))
    }
}

#[cfg(test)]
mod tests;
