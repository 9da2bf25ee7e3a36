//! The sources of views: files and directories as a door knows them, and snapshots of files.
//!
//! A door knows more about a file than the disk does, such as its writers and its analysis, so it
//! hands the engine a [`SourceFile`] and the engine takes snapshots of that. Inodes and handles of
//! a door are not known here.

use std::fs::File;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;

use rustix::fs::OFlags;

use crate::tracker::{RewriteCount, Tracker};
use crate::{Engine, Identity, OpenFile, Result, Version};
use ctxfs_core::model::{Component, Place, Record, RelPath};
use ctxfs_store::{Dir, Stat};

/// A file at one moment, between two writes.
#[derive(Debug)]
pub struct Snapshot {
    /// The file, open for reading. It may grow or be overwritten while it is read.
    pub file: OpenFile,
    /// Its attributes on disk.
    pub stat: Stat,
    /// The length that its readers may see: a message log ends with its last whole line.
    pub length: u64,
    /// What its bytes are known by.
    pub identity: Identity,
    /// The number of changes that this process has seen.
    pub changes: u64,
    /// True if it is open for writing.
    pub is_written: bool,
    /// Its record, without its extended attributes.
    pub record: Record,
    /// Its place, as readers name it.
    pub place: Place,
}

/// A regular file of a conversation, as a door knows it.
pub trait SourceFile: Send + Sync {
    /// Takes a snapshot of the file. Fails with [`crate::EngineError::Stale`] if it is
    /// gone.
    fn snapshot(&self, engine: &Engine) -> Result<Snapshot>;

    /// Returns the version of the file at the time of `snapshot`.
    fn version(&self, engine: &Engine, snapshot: &Snapshot) -> Result<Version>;

    /// Returns its conversation. `None` if the file has lost its name.
    fn conversation(&self) -> Option<Component>;

    /// Returns true if it is the log of a terminal. Views of a log show its text.
    fn is_log(&self) -> bool;

    /// Returns true if it is the message log of a conversation, of which readers see whole lines.
    fn is_message_log(&self) -> bool;

    /// Opens it anew. [`crate::EngineError::Stale`] where its name leads elsewhere by now,
    /// or nowhere.
    fn open_by_name(&self, flags: OFlags) -> Result<File>;

    /// Returns true if reading it may wait for the network, as its bytes are not on this disk.
    fn is_far(&self) -> bool {
        false
    }

    /// Opens it anew for reading, wherever its bytes are.
    fn opened(&self, _engine: &Engine) -> Result<OpenFile> {
        Ok(OpenFile::Here(Arc::new(self.open_by_name(OFlags::RDONLY)?)))
    }

    /// Returns the number of changes that this process has seen.
    fn changes(&self) -> u64;

    /// Counts one more change, after a view ran out of time, so that the next look-up finds another
    /// version.
    fn note_change(&self);

    /// Notes that this process repaired the last line of it, a message log, which is now as `stat`
    /// says.
    fn note_repair(&self, stat: &Stat);

    /// Takes in what other processes did to the file, which is open as `file`. Returns how often
    /// its bytes were rewritten, and its attributes.
    fn rewrites(&self, engine: &Engine, file: &File) -> Result<(RewriteCount, Stat)>;

    /// Returns the number of times that this process rewrote its bytes.
    fn own_rewrites(&self) -> u64;

    /// Returns the state of its analysis.
    fn tracker(&self) -> &Tracker;
}

/// A change of a file that may take room: a write, or one of its length.
pub trait FileChange {
    /// Returns true if the file is the log of a terminal.
    fn is_terminal(&self) -> bool;

    /// Returns the conversation whose quota the file counts against: that which it is in, or was in
    /// when it lost its name.
    fn charged_to(&self) -> Option<Component>;

    /// Returns the length of the file before the change.
    fn size(&self) -> Result<u64>;

    /// Returns where the change ends.
    fn end(&self) -> Result<u64>;

    /// Returns the bytes that are written.
    fn length(&self) -> u64;

    /// Returns the most bytes by which the room grows that the file takes on the disk.
    fn growth(&self) -> Result<u64>;
}

/// The place of a directory in the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DirPlace {
    /// The directory of all conversations.
    Root,
    /// The directory of a conversation.
    Conversation(Component),
    /// A directory below that of a conversation.
    Below(Component, RelPath),
}

impl DirPlace {
    /// Returns the conversation that it is, or lies in.
    pub fn conversation(&self) -> Option<&Component> {
        match self {
            Self::Root => None,
            Self::Conversation(id) | Self::Below(id, _) => Some(id),
        }
    }

    /// Returns its path in the conversation. `None` for the conversation itself.
    pub fn path(&self) -> Option<&RelPath> {
        match self {
            Self::Root | Self::Conversation(_) => None,
            Self::Below(_, path) => Some(path),
        }
    }

    /// Returns true if it may hold artifacts.
    pub fn holds_artifacts(&self) -> bool {
        let path = self.path().map_or(&[][..], |path| path.as_os_str().as_bytes());
        path == b"artifacts" || path.starts_with(b"artifacts/")
    }
}

/// A directory of the tree, as a door knows it.
pub trait SourceDir: Send + Sync {
    /// Returns its present place.
    fn place(&self) -> Result<DirPlace>;

    /// Returns true if it is the directory of all conversations.
    fn is_root(&self) -> bool;

    /// Returns the number of names from its conversation to it: 0 for the conversation itself, and
    /// for the directory of all conversations.
    fn depth(&self) -> Result<usize>;

    /// Returns the directory on disk, open.
    fn dir(&self) -> Result<Arc<Dir>>;
}
