//! The directories that are held open: those used last.

use std::sync::Arc;

use quick_cache::sync::Cache;

use ctxfs_engine::FileId;
use ctxfs_store::Dir;

/// The directories that this mount holds open. The kernel may remember any number of directories;
/// one that is not held is opened again when it is used.
pub(crate) struct OpenDirs {
    /// The directory of all conversations, which no name leads to.
    root: Arc<Dir>,
    recent: Cache<FileId, Arc<Dir>>,
}

impl OpenDirs {
    /// Holds `root`, and at most so many others.
    pub(crate) fn new(root: Dir, most: usize) -> Self {
        Self { root: Arc::new(root), recent: Cache::new(most) }
    }

    /// Returns the directory of all conversations.
    pub(crate) fn root(&self) -> Arc<Dir> {
        Arc::clone(&self.root)
    }

    /// Returns the directory `id`, if it is held. Costs no system call.
    pub(crate) fn get(&self, id: FileId) -> Option<Arc<Dir>> {
        self.recent.get(&id)
    }

    /// Holds the directory `id`, in place of one that was used longer ago.
    pub(crate) fn hold(&self, id: FileId, dir: Dir) -> Arc<Dir> {
        let dir = Arc::new(dir);
        self.recent.insert(id, Arc::clone(&dir));
        dir
    }

    /// Lets all of them go.
    #[cfg(test)]
    pub(crate) fn close_all(&self) {
        self.recent.clear();
    }

    /// Lets the directory `id` go.
    pub(crate) fn close(&self, id: FileId) {
        self.recent.remove(&id);
    }
}
