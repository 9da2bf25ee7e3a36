//! The files that a door has open for writing, so that searches see whole writes only.

use std::fs::File;
use std::io;
use std::sync::{Arc, Weak};

use crate::sync::DashMap;
use crate::{Engine, FileId, SourceFile};
use ctxfs_store::stat_file;

/// The files that are open for writing.
#[derive(Default)]
pub struct LiveFiles(DashMap<FileId, Weak<dyn SourceFile>>);

impl LiveFiles {
    /// Adds a file that got its first writer.
    pub fn insert(&self, id: FileId, file: &Arc<dyn SourceFile>) {
        self.0.insert(id, Arc::downgrade(file));
    }

    /// Removes a file that lost its last writer.
    pub fn remove(&self, id: FileId) {
        self.0.remove(&id);
    }

    /// Returns the file `id` as the door that writes it knows it; none, where it is not being
    /// written.
    pub(super) fn get(&self, id: FileId) -> Option<Arc<dyn SourceFile>> {
        self.0.get(&id)?.upgrade()
    }

    /// Returns the length of `file` between two writes; none, where it is not being written.
    pub(super) fn length(&self, engine: &Engine, file: &File) -> io::Result<Option<u64>> {
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
