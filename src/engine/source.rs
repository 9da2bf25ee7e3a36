//! The sources of views: files and directories as a door represents them, and snapshots of files.
//!
//! A door has more information about a file than the disk, such as its writers and the state of its
//! analysis. It therefore passes the engine a [`SourceFile`] or a [`SourceDir`].

use std::fs::File;
use std::hash::{BuildHasher as _, DefaultHasher, Hash as _, Hasher as _, RandomState};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::{Arc, LazyLock, Weak};

use rustix::fs::OFlags;

use crate::sync::DashMap;
use crate::workers::QUICK_INPUT;
use crate::{Engine, FileId, Identity, OpenFile, Result, RewriteCount, Tracker};
use ctxfs_core::model::{Component, Content as _, Place, Record, RelPath};
use ctxfs_store::{Artifact, Dir, FileType, Stat, stat_file};

/// The version of a source. Equal versions of one source give equal bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Version {
    /// The number of changes that this process has seen, plus the number of views that ran out of
    /// time. A computed file does not change, so its number counts only the latter.
    pub changes: u64,
    /// The length in bytes.
    pub size: u64,
    /// The last modification, in nanoseconds since the epoch.
    pub modified: i64,
    /// The last change of content, names or attributes, in nanoseconds since the epoch. For a copy
    /// that replaced a sealed file, this is the value of the replaced file.
    pub changed: i64,
    /// A hash of all facts other than the bytes, such as the record in the manifest.
    pub facts: u64,
    /// A number that identifies the bytes while they may change without a change of the times.
    /// Otherwise 0.
    pub bytes: u64,
}

impl Version {
    /// Returns the version of a file with the attributes `stat` after `changes` changes. `facts` is
    /// the result of [`facts_number`], and `bytes` is 0 or the result of [`unsettled_number`].
    pub fn of_file(stat: &Stat, changes: u64, (facts, bytes): (u64, u64)) -> Self {
        Self {
            changes,
            size: stat.size,
            modified: stat.mtime.as_nanos(),
            changed: stat.ctime.as_nanos(),
            facts,
            bytes,
        }
    }
}

/// The state of a file at one moment, never in the middle of a write.
#[derive(Debug)]
pub struct Snapshot {
    /// The file, open for reading. It may grow or be overwritten while it is read.
    pub file: OpenFile,
    /// The attributes on disk.
    pub stat: Stat,
    /// The length that readers may see. A message log ends with its last whole line.
    pub length: u64,
    /// The identity of the bytes.
    pub identity: Identity,
    /// The number of changes that this process has seen.
    pub changes: u64,
    /// True if a writer has the file open.
    pub is_written: bool,
    /// The record, without updates from extended attributes.
    pub record: Record,
    /// The place, as seen by readers.
    pub place: Place,
}

/// A regular file of a conversation, as represented by a door.
///
/// The engine may call every method from any thread. Methods that open the file or read its place
/// fail with [`crate::EngineError::Stale`] once the name leads to another file or nowhere.
pub trait SourceFile: Send + Sync {
    /// Takes a snapshot of the file.
    fn snapshot(&self, engine: &Engine) -> Result<Snapshot>;

    /// Returns the version of the file at the time of `snapshot`.
    fn version(&self, engine: &Engine, snapshot: &Snapshot) -> Result<Version>;

    /// Returns the conversation of the file, or `None` once the file has lost its name.
    fn conversation(&self) -> Option<Component>;

    /// Returns true for the log of a terminal. Views of such a log show its text, without escape
    /// sequences.
    fn is_log(&self) -> bool;

    /// Returns true for the message log of a conversation. Readers see only its whole lines.
    fn is_message_log(&self) -> bool;

    /// Opens the file by its name.
    fn open_by_name(&self, flags: OFlags) -> Result<File>;

    /// Returns true if the bytes are not on this disk. Reading them may then wait for the network.
    fn is_far(&self) -> bool {
        false
    }

    /// Opens the file for reading, whether it is local or remote.
    fn opened(&self, _engine: &Engine) -> Result<OpenFile> {
        Ok(OpenFile::Here(Arc::new(self.open_by_name(OFlags::RDONLY)?)))
    }

    /// Returns the number of changes that this process has seen.
    fn changes(&self) -> u64;

    /// Counts one more change after a view ran out of time, so that the next look-up finds a new
    /// version.
    fn note_change(&self);

    /// Records that this process repaired the last line of this message log. The log now has the
    /// attributes `stat`.
    fn note_repair(&self, stat: &Stat);

    /// Detects changes by other processes to the file, which is open as `file`. Returns the number
    /// of times that the bytes were rewritten, and the attributes of the file.
    fn rewrites(&self, engine: &Engine, file: &File) -> Result<(RewriteCount, Stat)>;

    /// Returns the number of times that this process rewrote the bytes.
    fn own_rewrites(&self) -> u64 {
        0
    }

    /// Returns the state of the analysis.
    fn tracker(&self) -> &Tracker;
}

/// A change of a file that may need room on disk: a write, or a change of the length.
pub trait FileChange {
    /// Returns true if the file is the log of a terminal.
    fn is_terminal(&self) -> bool;

    /// Returns the conversation whose quota the file counts against. A file without a name still
    /// counts against its last conversation.
    fn charged_to(&self) -> Option<Component>;

    /// Returns the length of the file before the change.
    fn size(&self) -> Result<u64>;

    /// Returns the offset at which the change ends.
    fn end(&self) -> Result<u64>;

    /// Returns the number of bytes written.
    fn length(&self) -> u64;

    /// Returns an upper bound of the growth on disk, in bytes.
    fn growth(&self) -> Result<u64>;
}

/// The place of a directory in the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DirPlace {
    /// The directory of all conversations.
    Root,
    /// The directory of a conversation.
    Conversation(Component),
    /// A directory inside a conversation, with its path there.
    Below(Component, RelPath),
}

impl DirPlace {
    /// Returns the conversation of the directory.
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

    /// Returns true if the directory may hold artifacts.
    pub fn holds_artifacts(&self) -> bool {
        let path = self.path().map_or(&[][..], |path| path.as_os_str().as_bytes());
        path == b"artifacts" || path.starts_with(b"artifacts/")
    }
}

/// A directory of the tree, as represented by a door.
pub trait SourceDir: Send + Sync {
    /// Returns the current place of the directory.
    fn place(&self) -> Result<DirPlace>;

    /// Returns true for the directory of all conversations.
    fn is_root(&self) -> bool;

    /// Returns the number of names from the conversation to this directory. Returns 0 for the
    /// conversation itself and for the root.
    fn depth(&self) -> Result<usize>;

    /// Returns the open directory on disk.
    fn dir(&self) -> Result<Arc<Dir>>;
}

/// The files that a door has open for writing. A search reads their lengths here, so that it sees
/// only whole writes.
#[derive(Default)]
pub struct LiveFiles(DashMap<FileId, Weak<dyn SourceFile>>);

impl LiveFiles {
    /// Adds a file that has got its first writer.
    pub fn insert(&self, id: FileId, file: &Arc<dyn SourceFile>) {
        self.0.insert(id, Arc::downgrade(file));
    }

    /// Removes a file that has lost its last writer.
    pub fn remove(&self, id: FileId) {
        self.0.remove(&id);
    }

    /// Returns the file `id` as represented by the door that writes it. `None` if no door has the
    /// file open for writing.
    pub(crate) fn get(&self, id: FileId) -> Option<Arc<dyn SourceFile>> {
        self.0.get(&id)?.upgrade()
    }

    /// Returns the length of `file` at a moment when no write is in progress. `None` if no door has
    /// the file open for writing.
    pub(crate) fn length(&self, engine: &Engine, file: &File) -> io::Result<Option<u64>> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let Some(live) = self.get(FileId::of(&stat_file(file)?)) else { return Ok(None) };
        let (_, stat) = live.rewrites(engine, file)?;
        Ok(Some(stat.size))
    }
}

impl std::fmt::Debug for LiveFiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LiveFiles").field("files", &self.0.len()).finish_non_exhaustive()
    }
}

/// Returns a number that identifies everything that views show besides the bytes of a file. This is
/// its place, the shown parts of its `record`, and the names of other outputs that were written
/// under the same name.
pub fn facts_number(place: &(Component, RelPath), record: &Record, same_name: &[String]) -> u64 {
    let mut hasher = DefaultHasher::new();
    place.hash(&mut hasher);
    record.generation.hash(&mut hasher);
    record.incomplete().hash(&mut hasher);
    serde_json::to_string(&record.provenance).unwrap_or_default().hash(&mut hasher);
    // Older records hold a hash of this number as the basis of their view sizes, computed without
    // this list. An empty list is not hashed, so that these view sizes stay valid.
    if !same_name.is_empty() {
        same_name.hash(&mut hasher);
    }
    hasher.finish()
}

/// Hash keys. They are random, so that a writer cannot choose bytes that have the same hash as
/// other bytes.
static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// Returns 0 if each later change of the file is certain to change its times, which are in `stat`.
/// Otherwise returns a hash of its bytes, which are read through `open`. For a large file, returns
/// a number that no other state of the file has.
pub fn unsettled_number(
    engine: &Engine,
    stat: &Stat,
    open: impl FnOnce() -> Result<Arc<File>>,
) -> Result<u64> {
    // Remote bytes do not change.
    if stat.is_far() || !engine.store.clock().is_recent(stat) {
        return Ok(0);
    }
    if stat.size > QUICK_INPUT {
        return Ok(engine.watches.next_number());
    }
    let bytes = Artifact::new(open()?, stat.size).bytes(0, stat.size as usize)?;
    Ok(KEYS.hash_one(&*bytes).max(1))
}

/// Mode bits of a class of users: `READ` reads a file, `READ_AND_SEARCH` reads and enters a
/// directory.
const READ: u32 = 0o4;
const READ_AND_SEARCH: u32 = 0o5;

/// The reader of a text that is made from many files. On a mount that several users may access, the
/// text contains only what the reader may read, and states how much is left out.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Reader {
    /// The user who serves the store, or root. File modes do not restrict this reader.
    Server,
    /// Any other user.
    User(Arc<User>),
}

/// A user, with the groups of the process that reads.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct User {
    /// The user id.
    pub uid: u32,
    /// The group id.
    pub gid: u32,
    /// The supplementary group ids.
    pub groups: Vec<u32>,
}

impl Reader {
    /// Returns true if the mode of the file that `stat` describes lets the reader read the file.
    /// For a directory, the reader must be able to read and to enter it. Calls `stat` only if the
    /// mode matters.
    ///
    /// Capabilities are ignored, because their effect depends on user namespaces.
    pub(crate) fn may_read<E>(
        &self,
        stat: impl FnOnce() -> std::result::Result<Stat, E>,
    ) -> std::result::Result<bool, E> {
        let Self::User(user) = self else { return Ok(true) };
        let stat = stat()?;
        let wanted = if stat.kind() == FileType::Directory { READ_AND_SEARCH } else { READ };
        let shift = if stat.uid == user.uid {
            6
        } else if stat.gid == user.gid || user.groups.contains(&stat.gid) {
            3
        } else {
            0
        };
        Ok(stat.mode >> shift & wanted == wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(mode: u32, uid: u32, gid: u32) -> Stat {
        Stat { mode, uid, gid, ..Stat::imagined() }
    }

    #[test]
    fn the_first_class_that_fits_decides() {
        let user = User { uid: 7, gid: 70, groups: vec![71, 72] };
        let reader = Reader::User(Arc::new(user));
        let may = |stat| reader.may_read(|| Ok::<_, ()>(stat)).unwrap();
        for (mode, uid, gid, want) in [
            (0o100_400, 7, 1, true),
            (0o100_044, 7, 1, false),
            (0o100_040, 8, 70, true),
            (0o100_040, 8, 72, true),
            (0o100_404, 8, 72, false),
            (0o100_004, 8, 1, true),
            (0o100_440, 8, 1, false),
            (0o100_222, 7, 70, false),
            (0o040_700, 7, 1, true),
            (0o040_600, 7, 1, false),
            (0o040_055, 8, 71, true),
            (0o040_041, 8, 71, false),
        ] {
            assert_eq!(may(stat(mode, uid, gid)), want, "{mode:o} {uid} {gid}");
        }
        let nobody = || -> std::result::Result<Stat, ()> { panic!("the mode was asked for") };
        assert!(Reader::Server.may_read(nobody).unwrap());
    }
}
