//! The files that a door has open for writing, so that searches see whole writes only.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::Weak;

use crate::engine::FileId;
use crate::engine::SourceFile;
use crate::engine::sync::DashMap;
use crate::store::stat_file;

/// The files that are open for writing.
#[derive(Default)]
pub(crate) struct LiveFiles(DashMap<FileId, Weak<dyn SourceFile>>);

impl LiveFiles {
    /// Adds a file that got its first writer.
    pub(crate) fn insert(&self, id: FileId, file: &Arc<dyn SourceFile>) {
        self.0.insert(id, Arc::downgrade(file));
    }

    /// Removes a file that lost its last writer.
    pub(crate) fn remove(&self, id: FileId) {
        self.0.remove(&id);
    }

    /// Returns the length of `file` between two writes. `None` if it is not open for writing.
    pub(super) fn length(&self, file: &File) -> io::Result<Option<u64>> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let live = self.0.get(&FileId::of(&stat_file(file)?)).and_then(|live| live.upgrade());
        let Some(live) = live else { return Ok(None) };
        let (_, stat) = live.rewrites(file)?;
        Ok(Some(stat.size))
    }
}

impl std::fmt::Debug for LiveFiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LiveFiles").field("files", &self.0.len()).finish_non_exhaustive()
    }
}
