//! Local state about one conversation of a bucket.
//!
//! ```text
//! agreement.jsonl         agreement of host and bucket, one change per line; see `agreement`
//! intent.json             segment that is being sent
//! intent.tar.zst          bytes of that segment
//! log/<segment>.tar.zst   local segments; large ones end after their records
//! log/<segment>.refused   reason why a segment was refused
//! purging.json            unfinished purge
//! untidy.json             when this host removed or merged something, and when it tidied
//! looked                  empty; its modification time is the time of the last look
//! settled                 fingerprint of bucket and conversation at the last look without changes
//! over                    empty; present if the conversation was empty at the last look
//! shown.json              segments and local log of the messages that were shown last
//! ```
//!
//! Only the holder of the push lock writes to this directory.

mod agreement;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::{fmt, io};

use bytes::Bytes;
use parking_lot::Mutex;
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use crate::bucket::{
    BucketError, FormatError, Line, ObjectName, Parts, Place, SEGMENT_BYTES, SegmentHead,
    segment_of, unpack_member,
};
use crate::remote::blocks::BLOCKS;
use crate::remote::disk::StateDir;
use crate::remote::{Limits, Moment, RemoteError, blocks, disk};
use crate::replica::{Accepted, Covered, Covers, Origin, SegmentDigest, SegmentId, Stamp};
use ctxfs_core::model::Component;
use ctxfs_store::{FileMark, Time};

pub use agreement::Agreement;
pub(crate) use agreement::{AgreementCache, WriterProgress, append_sent};

const LOG: &str = "log";
const LOOKED: &str = "looked";
const SETTLED: &str = "settled";
const MOST_SETTLED: u64 = 1024;
const OVER: &str = "over";
const SHOWN: &str = "shown.json";
const MOST_SHOWN: u64 = 64 << 20;
const UNTIDY: &str = "untidy.json";
const MOST_UNTIDY: u64 = 4096;

/// Local state about one conversation of a bucket. Only the holder of the push lock writes it. Each
/// file is either replaced atomically or extended by whole lines, so a crash leaves the old or the
/// new state.
pub struct Notes {
    conversation: Component,
    home: Arc<StateDir>,
    dir: StateDir,
    log: StateDir,
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
        f.debug_tuple("Notes").field(&self.dir.path).finish()
    }
}

impl Notes {
    pub(super) fn open(
        conversation: Component,
        (home, limits): (Arc<StateDir>, Limits),
        dir: StateDir,
    ) -> Result<Self, RemoteError> {
        let log = dir.subdirectory(LOG.as_ref())?;
        Ok(Self { conversation, home, dir, log, limits, covers: Mutex::default() })
    }

    pub(crate) fn conversation(&self) -> &Component {
        &self.conversation
    }

    /// Returns the time of the last look, by the clock of the disk. Returns `None` if there was no
    /// look.
    pub(crate) fn looked(&self) -> Result<Option<Time>, RemoteError> {
        Ok(self.dir.stat(LOOKED)?.map(|stat| stat.mtime))
    }

    pub(super) fn keep_look(&self) -> Result<(), RemoteError> {
        let flags = OFlags::WRONLY | OFlags::TRUNC;
        let file = self.dir.dir.create_file(LOOKED.as_ref(), flags, disk::FILE_MODE);
        let written = file.and_then(|file| file.set_modified(std::time::SystemTime::now()));
        written.map_err(self.dir.failed("write", LOOKED))
    }

    /// Returns true if `state` is the fingerprint of bucket and conversation from the last look
    /// that found no changes.
    pub(super) fn is_settled(&self, state: &str) -> Result<bool, RemoteError> {
        Ok(self.dir.read(SETTLED, MOST_SETTLED)?.as_deref() == Some(state.as_bytes()))
    }

    pub(super) fn keep_settled(&self, state: &str) -> Result<(), RemoteError> {
        self.dir.write(SETTLED, state.as_bytes())
    }

    pub(super) fn shown(&self) -> Result<Option<ShownMessages>, RemoteError> {
        let text = self.dir.read(SHOWN, MOST_SHOWN)?;
        Ok(text.and_then(|text| serde_json::from_slice(&text).ok()))
    }

    /// Stores which messages of other hosts are shown. `None` removes the file.
    pub(super) fn keep_shown(&self, shown: Option<&ShownMessages>) -> Result<(), RemoteError> {
        match shown {
            Some(shown) if self.shown()?.as_ref() == Some(shown) => Ok(()),
            Some(shown) => self.dir.write_json(SHOWN, shown),
            None => self.dir.remove(SHOWN),
        }
    }

    pub(super) fn is_over(&self) -> Result<bool, RemoteError> {
        Ok(self.dir.stat(OVER)?.is_some())
    }

    /// Records whether the conversation was empty at the last look.
    pub fn keep_over(&self, is_over: bool) -> Result<(), RemoteError> {
        let dir = &self.dir.dir;
        let kept = match (self.is_over()?, is_over) {
            (false, true) => disk::write(dir, OVER, b""),
            (true, false) => disk::remove(dir, OVER),
            (false, false) | (true, true) => Ok(()),
        };
        kept.map_err(self.dir.failed("write", OVER))
    }

    /// Returns what this host removed or merged lately. A file that cannot be understood counts as
    /// none.
    pub(super) fn untidy(&self) -> Result<Option<Untidy>, RemoteError> {
        let text = self.dir.read(UNTIDY, MOST_UNTIDY)?;
        Ok(text.and_then(|text| serde_json::from_slice(&text).ok()))
    }

    pub(super) fn keep_untidy(&self, untidy: Option<&Untidy>) -> Result<(), RemoteError> {
        match untidy {
            Some(untidy) => self.dir.write_json(UNTIDY, untidy),
            None => self.dir.remove(UNTIDY),
        }
    }

    pub(super) fn forget_objects(&self, objects: &BTreeSet<ObjectName>) -> Result<(), RemoteError> {
        if objects.is_empty() {
            return Ok(());
        }
        let forgotten = match self.home.dir.open_dir(BLOCKS.as_ref()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            blocks => blocks.and_then(|blocks| blocks::forget_objects(&blocks, objects)),
        };
        forgotten.map_err(RemoteError::at("remove blocks for", &self.dir.path))
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
    pub since: Moment,
    pub digest: String,
}

impl Notes {
    /// Returns the intent and its segment. Ignores an intent that a crash left incomplete, because
    /// its segment was never sent.
    pub(crate) fn intent(&self) -> Result<Option<(Intent, Vec<u8>)>, RemoteError> {
        let Some(text) = self.dir.read(INTENT, MOST_INTENT)? else { return Ok(None) };
        let Ok(intent) = serde_json::from_slice::<Intent>(&text) else { return Ok(None) };
        let bytes = self.dir.read(BYTES, SEGMENT_BYTES)?.unwrap_or_default();
        let is_its = blake3::hash(&bytes).to_hex().as_str() == intent.digest;
        Ok(is_its.then_some((intent, bytes)))
    }

    /// Saves an intent. Writes the segment before the intent that refers to it.
    pub(crate) fn keep_intent(&self, intent: &Intent, bytes: &[u8]) -> Result<(), RemoteError> {
        self.dir.write(BYTES, bytes)?;
        self.dir.write_json(INTENT, intent)
    }

    pub(crate) fn drop_intent(&self) -> Result<(), RemoteError> {
        self.dir.remove(INTENT)?;
        self.dir.remove(BYTES)
    }
}

const PURGING: &str = "purging.json";
const MOST_PURGING: u64 = 64 << 20;

/// The times at which this host last removed something from a conversation, last merged segments of
/// it, and last tidied it. At the first removal, nothing is to be tidied yet.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Untidy {
    #[serde(default)]
    pub(super) removed: Option<Moment>,
    #[serde(default)]
    pub(super) merged: Option<Moment>,
    pub(super) tidied: Moment,
}

impl Untidy {
    pub(super) fn new(tidied: Moment) -> Self {
        Self { removed: None, merged: None, tidied }
    }
}

/// Artifacts and messages that an unfinished purge removes. The list is saved before the purge
/// deletes anything, so that the next purge can continue it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Purging {
    pub origins: BTreeSet<Origin>,
    #[serde(default)]
    pub messages: BTreeSet<Origin>,
    /// Objects of `origins`, and of other removed artifacts in the same segments. No record names
    /// these objects once the segments are deleted.
    pub objects: BTreeSet<ObjectName>,
}

impl Notes {
    pub(crate) fn purging(&self) -> Result<Purging, RemoteError> {
        let Some(text) = self.dir.read(PURGING, MOST_PURGING)? else {
            return Ok(Purging::default());
        };
        serde_json::from_slice(&text).map_err(|error| RemoteError::Damaged {
            path: self.dir.path.join(PURGING),
            why: error.to_string(),
        })
    }

    /// Stores the unfinished purge. `None` removes it, once it is finished.
    pub(crate) fn keep_purging(&self, purging: Option<&Purging>) -> Result<(), RemoteError> {
        match purging {
            Some(purging) => self.dir.write_json(PURGING, purging),
            None => self.dir.remove(PURGING),
        }
    }
}

const REFUSED: &str = ".refused";
const REASON: u64 = 4 << 10;
/// Number of bytes to read for the head of a segment in the first attempt, and the factor for each
/// further attempt.
const FIRST: u64 = 4 << 10;
const MORE: u64 = 16;
const TOGETHER: usize = 64;

/// A local segment. The file of a large segment is truncated after the records. Otherwise it also
/// has the bytes of small artifacts. Missing bytes are read from the bucket.
#[derive(Debug)]
pub(crate) struct StoredSegment {
    pub head: SegmentHead,
    pub records: Vec<u8>,
    file: SegmentFile,
}

#[derive(Debug)]
struct SegmentFile {
    id: SegmentId,
    held: SegmentBytes,
    length: u64,
}

#[derive(Debug)]
enum SegmentBytes {
    File(File, std::path::PathBuf),
    Memory(Bytes),
}

impl Notes {
    /// Returns the names of the local segments, sorted.
    pub fn segments(&self) -> Result<Vec<SegmentId>, RemoteError> {
        ids_in(&self.log, segment_of)
    }

    /// Returns the names of the refused segments, sorted.
    pub fn refused(&self) -> Result<Vec<SegmentId>, RemoteError> {
        ids_in(&self.log, |name| name.strip_suffix(REFUSED)?.parse().ok())
    }

    pub(crate) fn open_segment(&self, id: SegmentId) -> Result<StoredSegment, RemoteError> {
        StoredSegment::read(self.opened(id)?)
    }

    pub(crate) fn head(&self, id: SegmentId) -> Result<SegmentHead, RemoteError> {
        self.opened(id)?.head()
    }

    pub(crate) fn digest(&self, id: SegmentId) -> Result<SegmentDigest, RemoteError> {
        let file = self.opened(id)?;
        let head = file.head()?;
        let digest = head.digest(&file.read(0..head.records_end)?);
        digest.ok_or_else(|| file.damaged("it is cut off"))
    }

    /// Returns all segments that local segments cover. An unreadable segment covers nothing.
    ///
    /// The heads are cached, because each push of a segment calls this.
    pub(crate) fn covered(&self) -> Result<Covered, RemoteError> {
        self.with_covers(|covers| covers.values().collect())
    }

    /// Calls `read` with the segments that each local segment covers. An unreadable segment covers
    /// nothing.
    pub(crate) fn with_covers<T>(
        &self,
        read: impl FnOnce(&BTreeMap<SegmentId, Covers>) -> T,
    ) -> Result<T, RemoteError> {
        let here = self.segments()?;
        let mut known = self.covers.lock();
        known.retain(|id, _| here.binary_search(id).is_ok());
        for id in here {
            if let Entry::Vacant(place) = known.entry(id) {
                place.insert(match self.head(id) {
                    Ok(head) => head.covers,
                    Err(RemoteError::Segment { .. }) => Covers::new(),
                    Err(error) => return Err(error),
                });
            }
        }
        Ok(read(&known))
    }

    pub(crate) fn segment_bytes(&self, id: SegmentId) -> Result<Vec<u8>, RemoteError> {
        let file = self.opened(id)?;
        file.read(0..SEGMENT_BYTES)
    }

    /// Stores a segment locally. `bytes` contains at least its head and its records.
    pub(crate) fn keep_segment(&self, id: SegmentId, bytes: &[u8]) -> Result<(), RemoteError> {
        self.covers.lock().remove(&id);
        self.log.write(&file_name(id), bytes)
    }

    /// Fails with [`RemoteError::NoRoom`] if the segments exceed the limits of downloads.
    pub(crate) fn check_room(&self, segments: &[(SegmentId, Bytes)]) -> Result<(), RemoteError> {
        let Some((first, _)) = segments.first() else { return Ok(()) };
        let needed = segments.iter().map(|(_, bytes)| bytes.len() as u64).sum();
        let disk = self.log.dir.space();
        let disk = disk.map_err(RemoteError::at("measure", &self.log.path))?;
        self.limits.check_disk(&disk, needed).map_err(|shortage| RemoteError::NoRoom {
            why: format!("segment `{first}` and those with it have no room: {shortage}"),
        })
    }

    pub(crate) fn keep_segments(&self, segments: &[(SegmentId, Bytes)]) -> Result<(), RemoteError> {
        for some in segments.chunks(TOGETHER) {
            let mut covers = self.covers.lock();
            for (id, _) in some {
                covers.remove(id);
            }
            drop(covers);
            let files = some.iter().map(|(id, bytes)| (file_name(*id), &bytes[..]));
            self.log.write_all(&files.collect::<Vec<_>>())?;
        }
        Ok(())
    }

    pub(crate) fn refuse_segment(&self, id: SegmentId, why: &str) -> Result<(), RemoteError> {
        self.log.write(&format!("{id}{REFUSED}"), why.as_bytes())
    }

    pub(crate) fn refusal(&self, id: SegmentId) -> Result<String, RemoteError> {
        let text = self.log.read(&format!("{id}{REFUSED}"), REASON)?;
        Ok(String::from_utf8_lossy(&text.unwrap_or_default()).into_owned())
    }

    pub(crate) fn forget_segment(&self, id: SegmentId) -> Result<(), RemoteError> {
        self.log.remove(&file_name(id))?;
        self.log.remove(&format!("{id}{REFUSED}"))
    }

    /// Deletes the records of refusals, so that the next look fetches the refused segments again.
    pub(crate) fn forget_refusals(&self) -> Result<(), RemoteError> {
        self.refused()?.into_iter().try_for_each(|id| self.forget_segment(id))
    }

    fn opened(&self, id: SegmentId) -> Result<SegmentFile, RemoteError> {
        let path = self.log.path.join(file_name(id));
        let file = self.log.dir.open_file(file_name(id).as_ref(), OFlags::RDONLY);
        let opened = file.and_then(|file| Ok((file.metadata()?.len().min(SEGMENT_BYTES), file)));
        let (length, file) = opened.map_err(RemoteError::at("open", &path))?;
        Ok(SegmentFile { id, held: SegmentBytes::File(file, path), length })
    }
}

impl StoredSegment {
    pub(crate) fn of(id: SegmentId, bytes: Bytes) -> Result<Self, RemoteError> {
        let length = bytes.len() as u64;
        Self::read(SegmentFile { id, held: SegmentBytes::Memory(bytes), length })
    }

    fn read(file: SegmentFile) -> Result<Self, RemoteError> {
        let head = file.head()?;
        let frame = file.read(head.records_start..head.records_end)?;
        let records = head.records(&frame).map_err(RemoteError::of(file.id))?;
        Ok(Self { head, records, file })
    }

    pub(crate) fn id(&self) -> SegmentId {
        self.file.id
    }

    pub(crate) fn line(&self, range: &Range<u32>) -> Result<Line, RemoteError> {
        let line = self.records.get(range.start as usize..range.end as usize);
        let none = || FormatError::damaged("there is no such line");
        line.ok_or_else(none).and_then(Line::parse).map_err(RemoteError::of(self.id()))
    }

    /// Returns the frame of a small artifact. Returns `None` if it is not stored locally.
    pub(crate) fn frame(&self, place: &Place) -> Result<Option<Vec<u8>>, RemoteError> {
        let range = self.head.range_of(place).map_err(RemoteError::of(self.id()))?;
        let here = range.filter(|range| range.end <= self.file.length);
        here.map(|range| self.file.read(range)).transpose()
    }

    /// Returns the frame of the parts of a larger artifact. Returns `None` if it is not stored
    /// locally.
    pub(crate) fn parts_frame(&self, parts: &Parts) -> Result<Option<Vec<u8>>, RemoteError> {
        let range = self.head.range(parts.at, parts.packed).map_err(RemoteError::of(self.id()))?;
        (range.end <= self.file.length).then(|| self.file.read(range)).transpose()
    }

    /// Returns the bytes of a small artifact. Returns `None` if they are not stored locally.
    pub(crate) fn bytes(&self, place: &Place) -> Result<Option<Vec<u8>>, RemoteError> {
        let Some(frame) = self.frame(place)? else { return Ok(None) };
        unpack_member(&frame, place.size()).map(Some).map_err(RemoteError::of(self.id()))
    }

    /// Returns the bytes of a small artifact. If they are not stored locally, calls `fetch` with
    /// their range in the segment.
    pub(crate) fn bytes_or(
        &self,
        place: &Place,
        fetch: impl FnOnce(Option<Range<u64>>) -> Result<Bytes, BucketError>,
    ) -> Result<Vec<u8>, RemoteError> {
        if let Some(bytes) = self.bytes(place)? {
            return Ok(bytes);
        }
        let range = self.head.range_of(place).map_err(RemoteError::of(self.id()))?;
        unpack_member(&fetch(range)?, place.size()).map_err(RemoteError::of(self.id()))
    }
}

impl SegmentFile {
    fn head(&self) -> Result<SegmentHead, RemoteError> {
        let mut wanted = FIRST;
        loop {
            let bytes = self.read(0..wanted)?;
            if let Some(head) = SegmentHead::read(&bytes).map_err(RemoteError::of(self.id))? {
                return self.checked(head);
            }
            if wanted >= self.length {
                return Err(self.damaged("it is cut off"));
            }
            wanted = wanted.saturating_mul(MORE);
        }
    }

    fn checked(&self, head: SegmentHead) -> Result<SegmentHead, RemoteError> {
        if head.id == self.id { Ok(head) } else { Err(self.damaged("it says another name")) }
    }

    fn read(&self, range: Range<u64>) -> Result<Vec<u8>, RemoteError> {
        let end = range.end.min(self.length);
        let length = end.saturating_sub(range.start) as usize;
        match &self.held {
            SegmentBytes::Memory(bytes) => Ok(bytes[end as usize - length..end as usize].to_vec()),
            SegmentBytes::File(file, path) => {
                let mut bytes = vec![0; length];
                let read = file.read_exact_at(&mut bytes, range.start);
                read.map_err(RemoteError::at("read", path))?;
                Ok(bytes)
            }
        }
    }

    fn damaged(&self, what: &str) -> RemoteError {
        RemoteError::of(self.id)(FormatError::damaged(what))
    }
}

fn ids_in(
    log: &StateDir,
    id: impl Fn(&str) -> Option<SegmentId>,
) -> Result<Vec<SegmentId>, RemoteError> {
    let entries = log.dir.entries().map_err(RemoteError::at("list", &log.path))?;
    let ids: BTreeSet<_> = entries.iter().filter_map(|entry| id(entry.name.to_str()?)).collect();
    Ok(ids.into_iter().collect())
}

fn file_name(id: SegmentId) -> String {
    format!("{id}.tar.zst")
}

#[cfg(test)]
mod tests;
