//! The files and directories of the store, for doors without inodes. Such a door finds a file or
//! directory by its name.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;

use rustix::fs::OFlags;

use crate::{
    ByteHistory, DirPlace, DoorFile, EngineError, FileId, FilePlace, Result, SourceDir, SourceState,
};
use ctxfs_core::model::{Component, RelPath};
use ctxfs_store::{Dir, Stat};

/// A directory of the store, found by its names.
///
/// - `names`: the conversation and the names below it. Empty for the directory of all
///   conversations.
/// - `is_top`: true for the root of the tree
pub(crate) struct StoredDir {
    dir: Arc<Dir>,
    names: Vec<OsString>,
    pub(crate) is_top: bool,
}

impl StoredDir {
    /// Returns the root of a tree. `dir` holds all conversations, or is the directory of the
    /// conversation `only`.
    pub(crate) fn top(dir: Dir, only: Option<&Component>) -> Self {
        let names = only.map(|id| id.as_os_str().to_owned()).into_iter().collect();
        Self { dir: Arc::new(dir), names, is_top: true }
    }

    pub(crate) fn open(&self, name: &OsStr) -> Result<Self> {
        let dir = Arc::new(self.dir.open_dir(name)?);
        let mut names = self.names.clone();
        names.push(name.to_owned());
        Ok(Self { dir, names, is_top: false })
    }

    fn conversation(&self) -> Option<Component> {
        Component::new(self.names.first()?).ok()
    }
}

fn joined(names: &[&OsStr]) -> Option<RelPath> {
    RelPath::new(names.join(OsStr::from_bytes(b"/"))).ok()
}

impl SourceDir for StoredDir {
    fn place(&self) -> Result<DirPlace> {
        match self.names.split_last() {
            None => Ok(DirPlace::Root),
            Some((id, [])) => Ok(DirPlace::Conversation(Component::new(id)?)),
            Some((_, [_, ..])) => {
                let below: Vec<_> = self.names[1..].iter().map(|name| &**name).collect();
                let place = self.conversation().zip(joined(&below));
                place.map(|(id, path)| DirPlace::Below(id, path)).ok_or(EngineError::Stale)
            }
        }
    }

    fn is_root(&self) -> bool {
        self.names.is_empty()
    }

    fn depth(&self) -> Result<usize> {
        Ok(self.names.len().saturating_sub(1))
    }

    fn dir(&self) -> Result<Arc<Dir>> {
        Ok(Arc::clone(&self.dir))
    }
}

/// A file that no door has open for writing. It is found by its name in a directory.
///
/// Every look-up creates a new `StoredFile`, so the state has no record of earlier changes.
pub(crate) struct StoredFile {
    dir: Arc<StoredDir>,
    name: OsString,
    id: FileId,
    state: SourceState<ByteHistory>,
}

impl StoredFile {
    /// Creates the file `name` in `dir`, with the attributes `stat`. Opens nothing.
    pub(crate) fn new(dir: &Arc<StoredDir>, name: &OsStr, stat: &Stat) -> Self {
        Self {
            dir: Arc::clone(dir),
            name: name.to_owned(),
            id: FileId::of(stat),
            state: SourceState::new(ByteHistory::new(stat)),
        }
    }
}

impl DoorFile for StoredFile {
    fn place(&self) -> Option<FilePlace> {
        let (_, above) = self.dir.names.split_first()?;
        let names: Vec<_> = above.iter().map(|above| &**above).chain([&*self.name]).collect();
        Some((self.dir.conversation()?, joined(&names)?))
    }

    fn reader(&self) -> Result<Arc<File>> {
        let opened = self.dir.dir.open_file(&self.name, OFlags::RDONLY);
        Ok(Arc::new(self.id.check(opened)?))
    }

    fn was(&self, stat: &Stat) -> bool {
        FileId::of(stat) == self.id
    }

    fn state(&self) -> &SourceState {
        &self.state
    }
}
