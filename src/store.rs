//! The disk: layout, manifest, artifacts, recovery.
//!
//! Everything that ctxfs keeps goes through here, and nothing here looks at what a file says.
//! Several processes share a store (`layout` has the tree and the crash rules): they meet on disk,
//! so every answer is as fresh as one `stat`.

mod archive;
mod artifact;
mod artifacts;
mod atomic;
mod attributes;
mod cache;
mod conversation;
mod counts;
mod dir;
mod error;
mod layout;
mod lease;
mod manifest;
mod messages;
mod naming;
mod owner;
mod removal;
mod resolve;
mod stat;
mod tool_output;
mod watch;
mod writer;

use std::collections::HashMap;
use std::fs::DirBuilder;
use std::fs::File;
use std::io;
use std::io::Read as _;
use std::os::fd::AsFd;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::Weak;

use rustix::fs::OFlags;

use crate::model::Component;

pub use archive::ArchiveError;
pub use archive::Exported;
pub use archive::Flaw;
pub use archive::ImportOptions;
pub use archive::Imported;
pub use artifact::Artifact;
pub use artifact::append_all;
pub use artifact::read_full_at;
pub use artifacts::Artifacts;
pub use artifacts::Used;
pub use attributes::attribute;
pub use attributes::attributes;
pub use attributes::parse_attribute;
pub use attributes::remove_attribute;
pub use attributes::provenance_of;
pub use attributes::set_attribute;
pub use attributes::set_provenance;
pub use cache::Cache;
pub use cache::CacheKey;
pub use cache::Draft;
pub use conversation::Conversation;
pub use dir::Dir;
pub use dir::DirEntry;
pub use error::StoreError;
pub use layout::HISTORY;
pub use layout::MESSAGES;
pub use layout::SETTINGS;
pub use layout::conversation_at;
pub use layout::conversation_path;
pub use layout::is_bookkeeping;
pub use lease::Lease;
pub use lease::lease_is_free;
pub use manifest::Held;
pub use manifest::Position;
pub use naming::call_stem;
pub use owner::this_process;
pub use removal::Doomed;
pub use removal::Fate;
pub use removal::Sweeping;
pub use stat::Kind;
pub use stat::Stat;
pub use stat::Time;
pub use stat::stat_file;
pub use tool_output::ToolOutputDir;
pub use watch::Watch;
pub use writer::ArtifactWriter;

/// A store, open. Cheap to clone: all clones are the same store.
#[derive(Debug, Clone)]
pub struct Store(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    root: PathBuf,
    dir: Dir,
    context: Dir,
    /// The conversations in use, so that each has one index of its manifest.
    open: Mutex<HashMap<Component, Weak<Conversation>>>,
}

impl Store {
    /// Opens the store at `root`, and makes it where it is missing. Reads one small file, and removes
    /// what an import left behind that was stopped.
    pub fn open(root: &Path) -> Result<Self, StoreError> {
        let mut make = DirBuilder::new();
        make.recursive(true).mode(layout::DIRECTORY_MODE);
        make.create(root).map_err(|error| StoreError::io("make", root, error))?;
        let dir = Dir::open(root).map_err(|error| StoreError::io("open", root, error))?;
        check_version(&dir, root)?;
        // What cannot be removed is in nobody's way.
        archive::clean_staging(&dir).ok();
        let path = root.join(layout::CONTEXT);
        let context = dir
            .ensure_dir(layout::CONTEXT.as_ref(), layout::DIRECTORY_MODE)
            .and_then(|()| dir.open_dir(layout::CONTEXT.as_ref()))
            .map_err(|error| StoreError::io("open", &path, error))?;
        let inner = Inner { root: root.to_owned(), dir, context, open: Mutex::default() };
        Ok(Self(Arc::new(inner)))
    }

    /// Where it is, as it was opened.
    pub fn root(&self) -> &Path {
        &self.0.root
    }

    /// The directory of all conversations.
    pub fn context(&self) -> &Dir {
        &self.0.context
    }

    /// The results that are kept of views, of at most `bound` bytes.
    pub fn cache(&self, bound: u64) -> Cache {
        Cache::new(self.clone(), bound)
    }

    /// The ids of all conversations, sorted.
    pub fn conversations(&self) -> Result<Vec<Component>, StoreError> {
        let path = self.0.root.join(layout::CONTEXT);
        let entries = self.0.context.entries();
        let entries = entries.map_err(|error| StoreError::io("list", &path, error))?;
        let directories = entries.into_iter().filter(|entry| entry.kind == Kind::Directory);
        let mut ids: Vec<_> = directories.filter_map(|e| Component::new(e.name).ok()).collect();
        ids.sort_unstable();
        Ok(ids)
    }

    /// The conversation `id`, if there is one. While somebody holds it, everybody gets the same
    /// one; removed and made anew, or renamed, it is another.
    pub fn conversation(&self, id: &Component) -> Result<Option<Arc<Conversation>>, StoreError> {
        let path = self.path_of(id);
        let mut open = self.0.open.lock().unwrap_or_else(PoisonError::into_inner);
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
        // Now and then, so that closing costs nothing and opening hardly more.
        if open.len().is_power_of_two() {
            open.retain(|_, conversation| conversation.strong_count() > 0);
        }
        open.insert(id.clone(), Arc::downgrade(&opened));
        Ok(Some(opened))
    }

    /// Makes the conversation `id` with its directories; one that exists gets those it lacks.
    pub fn create_conversation(&self, id: &Component) -> Result<Arc<Conversation>, StoreError> {
        let path = self.path_of(id);
        let made = self.0.context.ensure_dir(id.as_os_str(), layout::DIRECTORY_MODE);
        made.map_err(|error| StoreError::io("make", &path, error))?;
        let conversation = self.conversation(id)?.ok_or_else(|| {
            StoreError::io("open", &path, io::Error::from(io::ErrorKind::NotFound))
        })?;
        conversation.make_skeleton().map_err(|error| StoreError::io("make", &path, error))?;
        Ok(conversation)
    }

    /// Removes a conversation in which nothing is left but the store's own files; ENOTEMPTY
    /// otherwise. This is `rmdir`, as a reader of the tree means it.
    pub fn remove_conversation(&self, id: &Component) -> Result<(), StoreError> {
        let path = self.path_of(id);
        let removed = self.0.context.open_dir(id.as_os_str()).and_then(|dir| {
            conversation::remove_bookkeeping(&dir)?;
            self.0.context.rmdir(id.as_os_str()).or_else(|_| {
                // A record or a count may have been added in between.
                conversation::remove_bookkeeping(&dir)?;
                self.0.context.rmdir(id.as_os_str())
            })
        });
        removed.map_err(|error| StoreError::io("remove", &path, error))
    }

    /// Removes all results that are kept of views.
    pub fn clear_cache(&self) -> Result<(), StoreError> {
        let path = self.0.root.join(layout::CACHE);
        self.cache(0).clear().map_err(|error| StoreError::io("clear", &path, error))
    }

    /// Waits until no other process sweeps the store, and keeps others from it until the answer is
    /// dropped.
    pub fn sweeping(&self) -> Result<Sweeping, StoreError> {
        let path = self.0.root.join(layout::CONTEXT);
        Sweeping::wait(&self.0.context).map_err(|error| StoreError::io("lock", &path, error))
    }

    /// Some regular file of the store, to try what the kernel allows with it.
    pub fn probe_file(&self) -> Result<File, StoreError> {
        let path = self.0.root.join(layout::VERSION);
        let file = self.0.dir.open_file(layout::VERSION.as_ref(), OFlags::RDONLY);
        file.map_err(|error| StoreError::io("open", &path, error))
    }

    /// Whether it lies on overlayfs, which is a stack of filesystems itself.
    pub fn is_stacked(&self) -> bool {
        /// `OVERLAYFS_SUPER_MAGIC` of linux/magic.h.
        const OVERLAYFS: i64 = 0x794c_7630;
        rustix::fs::fstatfs(&self.0.context).is_ok_and(|disk| disk.f_type == OVERLAYFS)
    }

    /// The room on its disk.
    pub fn space(&self) -> Result<rustix::fs::StatVfs, StoreError> {
        let space = self.0.context.space();
        space.map_err(|error| StoreError::io("measure the disk of", &self.0.root, error))
    }

    fn dir(&self) -> &Dir {
        &self.0.dir
    }

    fn path_of(&self, id: &Component) -> PathBuf {
        layout::conversation_path(&self.0.root, id)
    }
}

/// The directory that it is.
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
    // A number is short; of something else, so much is enough to see that it is none.
    file.take(64).read_to_string(&mut text)?;
    Ok(Some(text))
}

#[cfg(test)]
mod tests;
