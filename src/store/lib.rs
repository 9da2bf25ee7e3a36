//! The disk: layout, manifest, artifacts, recovery.
//!
//! Everything that ctxfs keeps goes through here, and nothing here interprets the content of a
//! file. Several processes share a store and meet on disk, so every answer is as fresh as one
//! `stat`. The tree and the crash rules are in `layout`.

mod analysed_file;
mod answers;
mod archive;
mod arrival;
mod artifact;
mod artifacts;
mod atomic;
mod attributes;
mod cache;
mod catalog;
mod clock;
mod conversation;
mod conversation_state;
mod counts;
mod departure;
mod dir;
mod ended;
mod error;
mod eviction;
mod far;
pub mod file_lock;
mod file_mark;
mod growth;
mod held_file;
mod history;
pub mod keep;
mod layout;
mod lease;
mod local_file;
mod locked_lines;
mod made_dir;
mod manifest;
pub mod message;
mod messages;
mod name_watch;
mod naming;
mod output_lock;
mod owner;
mod path_budget;
mod permissions;
mod published;
mod recognition;
mod relocation;
mod removal;
mod resolve;
mod same_name;
mod shared_file;
mod shared_room;
mod stat;
mod tool_output;
mod unread;
mod usage;
mod walk;
mod watch;
mod writer;

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::io::Read as _;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;
use rustix::fs::OFlags;

use ctxfs_core::model::Component;

pub use analysed_file::AnalysedFile;
pub use archive::{
    ArchiveError, ExportParts, Exported, Flaw, ImportOptions, Imported, bytes_to_export, export,
    export_with,
};
pub use arrival::{Arrival, Arrived};
pub use artifact::{Artifact, append_all, read_full_at};
pub use artifacts::{Artifacts, StoredArtifacts};
pub use attributes::{
    attribute, attributes, parse_attribute, provenance_of, remove_attribute, set_attribute,
    set_provenance, user_attributes,
};
pub use cache::{Cache, CacheKey, Draft};
pub use catalog::CatalogWriter;
pub use clock::FileClock;
pub use conversation::Conversation;
pub use dir::{Dir, DirEntry};
pub use error::StoreError;
pub use eviction::FarBytes;
pub use far::{Expected, FarArtifact};
pub use file_mark::FileMark;
pub use growth::growth_of_write;
pub use layout::{
    HISTORY, MESSAGES, PUBLISHED, REMOTE, REMOTE_MESSAGES, SETTINGS, conversation_at,
    conversation_path, is_bookkeeping,
};
pub use lease::{Lease, lease_of};
pub use manifest::{Appended, Manifest, ManifestLock, RecordPosition, StoredRecords};
pub use name_watch::{NameChange, NameWatch, WatchId};
pub use naming::call_stem;
pub use output_lock::OutputLock;
pub use owner::{lives as owner_lives, this_process};
pub use permissions::LockedPermissions;
pub use relocation::{Relocation, Rename};
pub use removal::{RemovalCandidate, RemovalOutcome, SweepLock};
pub use shared_file::{SharedPlace, is_shared};
pub use shared_room::SharedRoom;
pub use stat::{FileType, Stat, Time, stat_file};
pub use tool_output::ToolOutputDir;
pub use unread::{UnreadPlace, UnreadPlaces};
pub use usage::{BLOCK, LEAST, Usage, room_of, whole_blocks};
pub use watch::Watch;
pub use writer::{ArtifactWriter, Completed};

/// An open store. Cheap to clone: all clones are the same store.
#[derive(Debug, Clone)]
pub struct Store(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    root: PathBuf,
    dir: Dir,
    context: Dir,
    clock: OnceLock<FileClock>,
    /// The conversations in use. Sharing them gives each a single index of its manifest.
    open: Mutex<HashMap<Component, Weak<Conversation>>>,
}

impl Store {
    /// Opens the store at `root`, and creates it if it is missing. Reads one small file, and
    /// removes what interrupted imports left behind.
    pub fn open(root: &Path) -> Result<Self, StoreError> {
        Self::open_with(root, |dir| dir)
    }

    /// Opens the store as [`Self::open`] does, for a server whose threads must not wait: opening a
    /// file of which another process has a lease fails with EAGAIN.
    pub fn open_to_serve(root: &Path) -> Result<Self, StoreError> {
        Self::open_with(root, Dir::never_waiting)
    }

    fn open_with(root: &Path, made: fn(Dir) -> Dir) -> Result<Self, StoreError> {
        let dir = Dir::ensure(root, layout::DIRECTORY_MODE).map(made);
        let dir = dir.map_err(|error| StoreError::io("make", root, error))?;
        check_version(&dir, root)?;
        // Leftovers that cannot be removed do no harm.
        archive::clean_staging(&dir).ok();
        let path = root.join(layout::CONTEXT);
        let context = dir
            .ensure_synced_dir(layout::CONTEXT.as_ref(), layout::DIRECTORY_MODE)
            .and_then(|()| dir.open_dir(layout::CONTEXT.as_ref()))
            .map_err(|error| StoreError::io("open", &path, error))?;
        let (root, clock, open) = (root.to_owned(), OnceLock::new(), Mutex::default());
        Ok(Self(Arc::new(Inner { root, dir, context, clock, open })))
    }

    /// Returns the path that the store was opened with.
    pub fn root(&self) -> &Path {
        &self.0.root
    }

    /// Returns its own directory.
    pub(crate) fn dir(&self) -> &Dir {
        &self.0.dir
    }

    /// Returns the directory of all conversations.
    pub fn context(&self) -> &Dir {
        &self.0.context
    }

    /// Returns the clock of the store's disk. Finds it out when it is first asked for. While that
    /// fails, as on a full disk, it is the coarsest.
    pub fn clock(&self) -> FileClock {
        if let Some(clock) = self.0.clock.get() {
            return *clock;
        }
        let found = FileClock::of_disk(&self.0.dir);
        found.map_or(FileClock::COARSEST, |clock| *self.0.clock.get_or_init(|| clock))
    }

    /// Makes `clock` that of the disk, before it is asked for.
    #[cfg(any(test, feature = "testing"))]
    pub fn date_by(&self, clock: FileClock) {
        self.0.clock.set(clock).expect("a clock that was not asked for");
    }

    /// Returns the cache of views, which holds at most `bound` bytes.
    pub fn cache(&self, bound: u64) -> Cache {
        Cache::new(self.clone(), bound)
    }

    /// Returns the ids of all conversations, sorted.
    pub fn conversations(&self) -> Result<Vec<Component>, StoreError> {
        let path = self.0.root.join(layout::CONTEXT);
        let entries = self.0.context.entries();
        let entries = entries.map_err(|error| StoreError::io("list", &path, error))?;
        let directories = entries.into_iter().filter(|entry| entry.kind == FileType::Directory);
        let mut ids: Vec<_> = directories.filter_map(|e| Component::new(e.name).ok()).collect();
        ids.sort_unstable();
        Ok(ids)
    }

    /// Returns the conversation `id`, if there is one. All callers share one instance while it is
    /// in use. A conversation that was renamed, or removed and created again, gets a new instance.
    pub fn conversation(&self, id: &Component) -> Result<Option<Arc<Conversation>>, StoreError> {
        let path = self.path_of(id);
        let mut open = self.0.open.lock();
        let stat = match self.0.context.stat(id.as_os_str()) {
            Ok(stat) => stat,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                open.remove(id);
                return Ok(None);
            }
            Err(error) => return Err(StoreError::io("look at", &path, error)),
        };
        if let Some(known) = open.get(id).and_then(Weak::upgrade).filter(|c| c.is_at(&stat)) {
            return Ok(Some(known));
        }
        let dir = self.0.context.open_dir(id.as_os_str());
        let dir = dir.map_err(|error| StoreError::io("open", &path, error))?;
        let opened = Conversation::new(id.clone(), path.clone(), dir);
        let opened = Arc::new(opened.map_err(|error| StoreError::io("open", &path, error))?);
        // Done now and then, so that closing costs nothing and opening hardly more.
        if open.len().is_power_of_two() {
            open.retain(|_, conversation| conversation.strong_count() > 0);
        }
        open.insert(id.clone(), Arc::downgrade(&opened));
        Ok(Some(opened))
    }

    /// Adds what an error is about to the places that could not be read, by its path below the
    /// directory of all conversations. Fails with the error if it is not about one place.
    pub fn pass_over(
        &self,
        error: StoreError,
        unread: &mut UnreadPlaces,
    ) -> Result<(), StoreError> {
        unread.pass_over(&self.0.root.join(layout::CONTEXT), error)
    }

    /// Returns when a record or a message of the conversation `id` was written last. `None` if it
    /// has none, or is gone.
    pub fn touched(&self, id: &Component) -> Result<Option<Time>, StoreError> {
        let look = || -> io::Result<Option<Time>> {
            let dir = self.0.context.open_dir(id.as_os_str())?;
            let manifest = dir.stat(layout::MANIFEST.as_ref()).ok();
            let history = dir.open_dir(layout::HISTORY.as_ref()).ok();
            let log = history.and_then(|history| history.stat(layout::MESSAGES.as_ref()).ok());
            Ok([manifest, log].into_iter().flatten().map(|stat| stat.mtime).max())
        };
        match look() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            found => found.map_err(|error| StoreError::io("look at", &self.path_of(id), error)),
        }
    }

    /// Creates the conversation `id` with its directories. If it exists, adds those it lacks. What
    /// is new is synced to the disk before this returns.
    pub fn create_conversation(&self, id: &Component) -> Result<Arc<Conversation>, StoreError> {
        let path = self.path_of(id);
        let fault = |error| StoreError::io("make", &path, error);
        let is_new = self.0.context.ensure_dir(id.as_os_str(), layout::DIRECTORY_MODE);
        let is_new = is_new.map_err(fault)?;
        let conversation = self.conversation(id)?.ok_or_else(|| {
            StoreError::io("open", &path, io::Error::from(io::ErrorKind::NotFound))
        })?;
        conversation.make_directories().map_err(fault)?;
        if is_new {
            self.sync_conversations()?;
        }
        Ok(conversation)
    }

    /// Syncs the names of all conversations to the disk.
    pub fn sync_conversations(&self) -> Result<(), StoreError> {
        let path = self.0.root.join(layout::CONTEXT);
        self.0.context.sync().map_err(|error| StoreError::io("sync", &path, error))
    }

    /// Removes a conversation that holds nothing but the store's own files. Fails with ENOTEMPTY
    /// otherwise. This is `rmdir` as a user of the tree understands it.
    pub fn remove_conversation(&self, id: &Component) -> Result<(), StoreError> {
        let path = self.path_of(id);
        let removed = self.0.context.open_dir(id.as_os_str()).and_then(|dir| {
            conversation::remove_bookkeeping(&dir)?;
            self.0.context.rmdir(id.as_os_str()).or_else(|_| {
                // Another process may have added a record or a count in between.
                conversation::remove_bookkeeping(&dir)?;
                self.0.context.rmdir(id.as_os_str())
            })
        });
        removed.map_err(|error| StoreError::io("remove", &path, error))
    }

    /// Removes everything from the cache of views.
    pub fn clear_cache(&self) -> Result<(), StoreError> {
        let path = self.0.root.join(layout::CACHE);
        self.cache(0).clear().map_err(|error| StoreError::io("clear", &path, error))
    }

    /// Waits until no other process sweeps the store, and keeps other sweeps out until the lock is
    /// dropped.
    pub fn lock_sweeps(&self) -> Result<SweepLock, StoreError> {
        let path = self.0.root.join(layout::SWEEP_LOCK);
        SweepLock::wait(&self.0.dir).map_err(|error| StoreError::io("lock", &path, error))
    }

    /// Opens a regular file of the store, for trying what the kernel allows with one.
    pub fn probe_file(&self) -> Result<File, StoreError> {
        let path = self.0.root.join(layout::VERSION);
        let file = self.0.dir.open_file(layout::VERSION.as_ref(), OFlags::RDONLY);
        file.map_err(|error| StoreError::io("open", &path, error))
    }

    /// Returns true if the store lies on overlayfs, which is itself a stack of filesystems.
    pub fn is_stacked(&self) -> bool {
        /// `OVERLAYFS_SUPER_MAGIC` of linux/magic.h.
        const OVERLAYFS: i64 = 0x794c_7630;
        rustix::fs::fstatfs(&self.0.context).is_ok_and(|disk| disk.f_type == OVERLAYFS)
    }

    /// Returns the sizes of the disk that holds the store.
    pub fn space(&self) -> Result<rustix::fs::StatVfs, StoreError> {
        let space = self.0.context.space();
        space.map_err(|error| StoreError::io("measure the disk of", &self.0.root, error))
    }

    fn path_of(&self, id: &Component) -> PathBuf {
        layout::conversation_path(&self.0.root, id)
    }
}

/// The descriptor of the store's directory.
impl AsFd for Store {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.dir.as_fd()
    }
}

fn check_version(dir: &Dir, root: &Path) -> Result<(), StoreError> {
    let path = root.join(layout::VERSION);
    let Some(text) = version(dir).map_err(|error| StoreError::io("read", &path, error))? else {
        let text = format!("{}\n", layout::FORMAT);
        return atomic::write(dir, layout::VERSION.as_ref(), text.as_bytes())
            .map_err(|error| StoreError::io("write", &path, error));
    };
    match text.trim().parse::<u32>() {
        Ok(1..=layout::FORMAT) => Ok(()),
        Ok(found) if found > layout::FORMAT => {
            Err(StoreError::Newer { path: root.to_owned(), found, known: layout::FORMAT })
        }
        Ok(_) | Err(_) => Err(StoreError::NotAStore { path }),
    }
}

fn version(dir: &Dir) -> io::Result<Option<String>> {
    let file = match dir.open_file(layout::VERSION.as_ref(), OFlags::RDONLY) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut text = String::new();
    // Enough for any number, and enough to see that something else is not one.
    file.take(64).read_to_string(&mut text)?;
    Ok(Some(text))
}

#[cfg(any(test, feature = "testing"))]
pub mod disk_clock;
#[cfg(any(test, feature = "testing"))]
pub mod mere_owner;
#[cfg(test)]
mod tests;
