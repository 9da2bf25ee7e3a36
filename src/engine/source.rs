//! Files and directories in the form in which a door passes them to the engine, and the changes of
//! a file that this process has seen.
//!
//! A door has more information about a file than the disk, such as its writers. The door therefore
//! passes a [`DoorFile`] or a [`SourceDir`].

use std::fs::File;
use std::hash::{BuildHasher as _, DefaultHasher, Hash, Hasher as _, RandomState};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::{Arc, LazyLock, Weak};

use crate::sync::{DashMap, Mutex};
use crate::{FileId, Result, RewriteCount, Tracker};
use ctxfs_core::model::{Component, Provenance, Record, RelPath, ViewSizes};
use ctxfs_store::{
    Conversation, Dir, FileClock, HISTORY, MESSAGES, ManifestLock, Stat, Time, stat_file,
};
use ctxfs_view::View;

/// A regular file of a conversation, as a door passes it to the engine.
///
/// The engine may call every method from any thread. With the place of the file, the engine finds
/// everything else that views need: the record, remote bytes, and a copy that replaced the file.
pub trait DoorFile: Send + Sync {
    /// Returns the conversation of the file and its path there, or `None` once the file has lost
    /// its name.
    fn place(&self) -> Option<FilePlace>;

    /// Opens the local file for reading. Fails with [`crate::EngineError::Stale`] if its name leads
    /// to another file or nowhere, and no handle has it open.
    fn reader(&self) -> Result<Arc<File>>;

    /// Returns true if `stat` has the identity of this file. A copy that replaced the file on disk
    /// does not change the identity.
    fn was(&self, stat: &Stat) -> bool;

    fn state(&self) -> &SourceState;

    /// Returns the conversation whose quota the file counts against. A file that has lost its name
    /// still counts against its last conversation.
    fn charged_to(&self) -> Option<Component> {
        self.place().map(|(id, _)| id)
    }

    /// Returns true if the bytes are not on this disk. Reading them may then wait for the network.
    fn is_far(&self) -> bool {
        false
    }
}

/// The conversation of a file, and its path there.
pub type FilePlace = (Component, RelPath);

/// The state of a file in this process: its analysis, the facts known about it, and its
/// [`FileLife`].
///
/// A door creates the state with its own `FileLife`, and locks `life` while it writes. A length
/// that the engine reads under the lock is therefore never in the middle of a write.
pub struct SourceState<L: ?Sized = dyn FileLife> {
    pub(crate) tracker: Tracker,
    pub(crate) facts: KnownFacts,
    /// Locked while the door writes.
    pub life: Mutex<L>,
}

impl<L: ?Sized> std::fmt::Debug for SourceState<L> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SourceState").field("tracker", &self.tracker).finish_non_exhaustive()
    }
}

/// The writers of a file, as its door counts them, with the history of its bytes.
pub trait FileLife: Send {
    fn bytes(&mut self) -> &mut ByteHistory;

    /// Detects changes by other processes. Must be called before the door changes the file, and
    /// before it relies on the bytes. A change is assumed if the length or the time differs from
    /// the last one seen, or if the `clock` of the disk is too coarse to show a difference.
    ///
    /// All bytes count as changed: a file that only grew may still have been rewritten from its
    /// start.
    fn noticed(&mut self, stat: &Stat, clock: FileClock) {
        let is_written = self.has_writers();
        self.bytes().notice(stat, clock, is_written);
    }

    fn has_writers(&self) -> bool {
        false
    }

    /// Returns true if this process writes or wrote the file, and the file is not sealed yet. The
    /// manifest then lacks facts about the file.
    fn is_unsealed(&self) -> bool {
        false
    }

    /// Returns true if the manifest and the extended attributes have every fact about the file.
    fn is_at_rest(&self) -> bool {
        true
    }

    /// Records that the file was sealed.
    fn sealed(&mut self) {}

    /// Returns the number of sealed bytes that are not counted yet, and counts from 0 again.
    fn take_uncounted(&mut self) -> u64 {
        0
    }

    /// Returns `record` with the facts that the manifest lacks. `recorded` is true if the manifest
    /// has a record of the file.
    fn bring_up(&self, record: Record, recorded: bool) -> Record {
        let _ = recorded;
        record
    }

    /// Returns the record of the file at `path`, which has the attributes `stat`, as it is now.
    /// Does not include the facts in its extended attributes.
    ///
    /// If the record is marked as live but this process is not the writer, the writer has died. The
    /// artifact is then recovered first. A caller that holds the `manifest` lock passes it.
    fn present_record(
        &self,
        conversation: &Conversation,
        path: &RelPath,
        stat: &Stat,
        manifest: Option<&ManifestLock>,
    ) -> Result<Record> {
        let known = if self.is_unsealed() {
            conversation.record(path)?
        } else {
            conversation.current_record(path, manifest)?
        };
        let recorded = known.is_some();
        let record = known.unwrap_or_else(|| Conversation::fresh_record(path, stat));
        Ok(self.bring_up(record, recorded))
    }
}

impl<L: FileLife> SourceState<L> {
    pub fn new(life: L) -> Self {
        let (tracker, facts) = (Tracker::default(), KnownFacts::default());
        Self { tracker, facts, life: Mutex::new(life) }
    }
}

impl<L: FileLife + ?Sized> SourceState<L> {
    pub(crate) fn view_size(&self, view: &View, version: &Version) -> Option<u64> {
        let known = self.facts.0.lock();
        let known = known.as_ref().filter(|known| known.version == sized_by(version))?;
        let (summary, tail) = known.sizes.filter(|_| version.bytes == 0)?;
        match view {
            View::Summary => Some(summary),
            View::Tail => Some(tail),
            _ => None,
        }
    }

    /// Counts one more change after a view ran out of time, so that the next look-up finds a new
    /// version.
    pub(crate) fn note_change(&self) {
        self.life.lock().bytes().changes += 1;
    }

    /// Detects changes by other processes to the file, which is open as `file`. Returns the number
    /// of times that the bytes were rewritten, and the attributes of the file.
    pub(crate) fn rewrites(
        &self,
        file: &File,
        clock: FileClock,
    ) -> io::Result<(RewriteCount, Stat)> {
        let mut life = self.life.lock();
        let stat = stat_file(file)?;
        life.noticed(&stat, clock);
        Ok((life.bytes().rewrites(), stat))
    }
}

#[cfg(any(test, feature = "testing"))]
impl<L> SourceState<L> {
    pub fn analysed(&self) -> u64 {
        self.tracker.read(ctxfs_core::materialize::Analyzer::seen)
    }
}

/// The changes of a file's bytes that this process has seen. Changes by other processes are
/// detected by comparison with the attributes seen last.
///
/// - `changes`: number of changes by this process, plus the number of views that ran out of time.
///   Both make a new version.
/// - `own_rewrites`: number of times that this process rewrote existing bytes
/// - `redacted`: length of the prefix that contains no secrets, if stored bytes are redacted
/// - `is_recent`: true if the bytes may have changed since they were last seen without a change of
///   the length or the time
#[derive(Debug, Default)]
pub struct ByteHistory {
    pub changes: u64,
    pub(crate) own_rewrites: u64,
    pub size: u64,
    pub redacted: u64,
    modified: Time,
    is_recent: bool,
    others: u64,
}

impl ByteHistory {
    /// Creates the history of a file that has the attributes `stat` and was not seen before.
    pub fn new(stat: &Stat) -> Self {
        let mut seen = Self::default();
        seen.left_as(stat);
        seen
    }

    /// Detects a change by another process. Returns true if the length or the modification time
    /// differs from the last one seen, or if the resolution of the disk's `clock` may hide a
    /// change.
    ///
    /// While `is_written` is true, a recent time alone does not count as a change, because each
    /// write by this process makes the time recent. A change by another process that keeps the
    /// length and the time is then detected one clock step later.
    fn notice(&mut self, stat: &Stat, clock: FileClock, is_written: bool) -> bool {
        let is_recent = clock.is_recent(stat);
        let hidden = self.is_recent && clock != FileClock::FINE && !(is_recent && is_written);
        let changed = hidden || (stat.size, stat.mtime) != (self.size, self.modified);
        if changed {
            self.left_as(stat);
            self.is_recent = is_recent;
            self.others += 1;
            self.redacted = 0;
        }
        self.is_recent |= is_recent;
        changed
    }

    /// Records the attributes of the file after a change by this process.
    pub fn left_as(&mut self, stat: &Stat) {
        (self.size, self.modified, self.is_recent) = (stat.size, stat.mtime, true);
    }

    /// Records that bytes were written at `offset`, or that the file was truncated there. `stat` has
    /// the attributes after the change.
    pub fn written(&mut self, offset: u64, stat: &Stat) {
        self.changes += 1;
        self.own_rewrites += u64::from(offset < self.size);
        self.redacted = self.redacted.min(offset);
        self.left_as(stat);
    }

    /// Records that any of the bytes may have been rewritten by this process.
    pub fn rewritten(&mut self) {
        self.changes += 1;
        self.own_rewrites += 1;
        self.redacted = 0;
    }

    /// Records that the first `bytes` bytes contain no secret. `changed` has the new attributes if
    /// secrets were overwritten with masks.
    pub fn masked(&mut self, bytes: u64, changed: Option<&Stat>) {
        if let Some(stat) = changed {
            self.rewritten();
            self.left_as(stat);
        }
        self.redacted = bytes;
    }

    /// Returns the number of rewrites, by this process and by others.
    pub fn rewrites(&self) -> RewriteCount {
        RewriteCount { own: self.own_rewrites, others: self.others }
    }
}

impl FileLife for ByteHistory {
    fn bytes(&mut self) -> &mut ByteHistory {
        self
    }
}

/// The version of a source. Equal versions of one source give equal bytes.
///
/// - `changes`: the number of changes that this process has seen, plus the number of views that ran
///   out of time. A computed file does not change, so only such views count.
/// - `modified`: the last modification, in nanoseconds since the epoch
/// - `changed`: the last change of content, names or attributes, in nanoseconds since the epoch.
///   For a copy that replaced a sealed file, this is the value of the replaced file.
/// - `facts`: a hash of all facts other than the bytes, such as the record in the manifest
/// - `bytes`: a number that identifies the bytes while they may change without a change of the
///   times. Otherwise 0.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Version {
    pub changes: u64,
    pub size: u64,
    pub modified: i64,
    pub changed: i64,
    pub facts: u64,
    pub bytes: u64,
}

impl Version {
    /// Returns this version of a file for a view that also depends on another file, which is at the
    /// version `other`. The size is that of both. The default version changes nothing.
    #[must_use]
    pub fn with(self, other: &Self) -> Self {
        let size = self.size.saturating_add(other.size);
        Self { facts: self.facts ^ other.facts, size, ..self }
    }
}

/// The facts version of a file at rest, and the recorded sizes of its views. With these, another
/// look-up of the views neither opens nor parses the file.
#[derive(Debug, Default)]
pub(crate) struct KnownFacts(Mutex<Option<FactsAt>>);

#[derive(Debug)]
struct FactsAt {
    basis: u64,
    facts: u64,
    version: u64,
    sizes: Option<(u64, u64)>,
}

impl KnownFacts {
    /// Returns the facts version that was stored with this `basis`. The basis is a hash of
    /// everything that the facts depend on.
    pub(crate) fn version(&self, basis: u64) -> Option<u64> {
        let known = self.0.lock();
        known.as_ref().filter(|known| known.basis == basis).map(|known| known.facts)
    }

    /// Stores the facts version of `version`. The file's last change must not be recent by the
    /// clock of its disk.
    pub(crate) fn keep(&self, basis: u64, version: &Version, sizes: Option<&ViewSizes>) {
        let sizes = sizes.map(|sizes| (sizes.summary, sizes.tail));
        let (facts, version) = (version.facts, sized_by(version));
        *self.0.lock() = Some(FactsAt { basis, facts, version, sizes });
    }
}

fn sized_by(version: &Version) -> u64 {
    keyed_hash((version.facts, version.changes, version.size, version.modified))
}

/// Returns the hash of `value` under a random key of this process. The random key keeps clients
/// from choosing values whose hashes collide.
pub(crate) fn keyed_hash(value: impl Hash) -> u64 {
    static KEY: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    KEY.hash_one(value)
}

/// Returns a hash of everything that views show besides the bytes of a file: its place, the shown
/// parts of its `record`, and the names of other outputs that were written under the same name.
pub(crate) fn facts_number(place: &FilePlace, record: &Record, same_name: &[String]) -> u64 {
    let mut hasher = DefaultHasher::new();
    place.hash(&mut hasher);
    record.generation.hash(&mut hasher);
    record.incomplete().hash(&mut hasher);
    let provenance = Provenance { run: None, ..record.provenance.clone() };
    serde_json::to_string(&provenance).unwrap_or_default().hash(&mut hasher);
    if let Some(since) = &record.since {
        format!("{since:?}").hash(&mut hasher);
    }
    // The view sizes of older records have a basis that was computed without this list. An empty
    // list is not hashed, so that these sizes stay valid.
    if !same_name.is_empty() {
        same_name.hash(&mut hasher);
    }
    hasher.finish()
}

/// The place of a directory in the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DirPlace {
    Root,
    Conversation(Component),
    Below(Component, RelPath),
}

impl DirPlace {
    pub fn conversation(&self) -> Option<&Component> {
        match self {
            Self::Root => None,
            Self::Conversation(id) | Self::Below(id, _) => Some(id),
        }
    }

    /// Returns the path in the conversation. `None` for the root and for the conversation's own
    /// directory.
    pub fn path(&self) -> Option<&RelPath> {
        match self {
            Self::Root | Self::Conversation(_) => None,
            Self::Below(_, path) => Some(path),
        }
    }

    /// Returns true if the directory holds the messages of a conversation.
    pub fn is_history(&self) -> bool {
        self.path().is_some_and(|path| path.as_os_str() == HISTORY)
    }

    /// Returns true if files in this directory may be artifacts.
    pub fn holds_artifacts(&self) -> bool {
        let Some(path) = self.path() else { return false };
        let bytes = path.as_os_str().as_bytes();
        (bytes == b"artifacts" || bytes.starts_with(b"artifacts/")) && !path.is_hidden()
    }
}

/// A directory of the tree, as represented by a door.
pub trait SourceDir: Send + Sync {
    fn place(&self) -> Result<DirPlace>;

    fn is_root(&self) -> bool;

    /// Returns the number of names from the conversation to this directory. Returns 0 for the
    /// conversation itself and for the root.
    fn depth(&self) -> Result<usize>;

    fn dir(&self) -> Result<Arc<Dir>>;
}

pub(crate) fn is_message_log(path: &RelPath) -> bool {
    let name = path.as_os_str().as_bytes().strip_prefix(HISTORY.as_bytes());
    name.is_some_and(|name| name.strip_prefix(b"/") == Some(MESSAGES.as_bytes()))
}

/// The files that a door has open for writing. A search reads their lengths here, so that it sees
/// only whole writes.
#[derive(Default)]
pub(crate) struct LiveFiles(pub(crate) DashMap<FileId, Weak<dyn DoorFile>>);

impl LiveFiles {
    /// Returns the door's file with the identity `id`. `None` if no door has the file open for
    /// writing.
    pub(crate) fn get(&self, id: FileId) -> Option<Arc<dyn DoorFile>> {
        self.0.get(&id)?.upgrade()
    }

    /// Returns the length of `file` at a moment when no write is in progress. `None` if no door has
    /// the file open for writing.
    pub(crate) fn length(&self, file: &File, clock: FileClock) -> io::Result<Option<u64>> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let Some(live) = self.get(FileId::of(&stat_file(file)?)) else { return Ok(None) };
        Ok(Some(live.state().rewrites(file, clock)?.1.size))
    }
}

impl std::fmt::Debug for dyn DoorFile + '_ {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DoorFile")
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;

    fn stat(size: u64, seconds: i64) -> Stat {
        let time = Time { seconds, nanos: 0 };
        Stat { size, mtime: time, ctime: time, ..Stat::imagined() }
    }

    fn now() -> Stat {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        stat(10, now.as_secs().cast_signed())
    }

    #[test]
    fn another_length_or_time_is_a_change() {
        let mut seen = ByteHistory::new(&stat(10, 1));
        assert!(!seen.notice(&stat(10, 1), FileClock::FINE, false));
        assert!(seen.notice(&stat(11, 1), FileClock::FINE, false));
        assert!(seen.notice(&stat(11, 2), FileClock::FINE, true));
        seen.left_as(&stat(12, 3));
        assert!(!seen.notice(&stat(12, 3), FileClock::FINE, false));
        assert_eq!((seen.rewrites().others, seen.size), (2, 12));
    }

    /// A change may be hidden until the clock of the disk has advanced since the file was last
    /// seen.
    #[test]
    fn where_a_change_could_hide_there_may_have_been_one() {
        let clock = FileClock::of_steps(Duration::from_hours(1));
        let (past, recent) = (stat(10, 1), now());
        let mut seen = ByteHistory::new(&recent);
        assert!(seen.notice(&recent, clock, false));
        assert!(seen.notice(&recent, clock, false), "each look may be at other bytes");
        assert!(seen.notice(&past, clock, false));
        assert!(!seen.notice(&past, clock, false), "it has settled");
        seen.left_as(&recent);
        assert!(!seen.notice(&recent, clock, true), "this process writes it");
        assert!(seen.notice(&recent, clock, false));
    }

    /// The attributes may have changed a moment ago, and the bytes after them.
    #[test]
    fn a_file_that_became_recent_may_change_from_then_on() {
        let clock = FileClock::of_steps(Duration::from_hours(1));
        let mut seen = ByteHistory::new(&stat(10, 1));
        assert!(seen.notice(&stat(10, 1), clock, false), "it was just seen for the first time");
        let chmod = Stat { ctime: now().ctime, ..stat(10, 1) };
        assert!(!seen.notice(&chmod, clock, false));
        assert!(seen.notice(&chmod, clock, false));
    }
}
