//! A directory of the store that is found by its names alone.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;

use crate::{DirPlace, EngineError, Result, SourceDir};
use ctxfs_core::model::{Component, RelPath};
use ctxfs_store::Dir;

/// A directory, held open, and the names that led to it.
pub(super) struct StoredDir {
    pub(super) dir: Arc<Dir>,
    /// The conversation and the names below it; empty for the directory of all conversations.
    names: Vec<OsString>,
    /// True for the root of the tree.
    pub(super) is_top: bool,
}

impl StoredDir {
    /// Returns the root of a tree: `dir` holds all conversations, or is that of `only`.
    pub(super) fn top(dir: Dir, only: Option<&Component>) -> Self {
        let names = only.map(|id| id.as_os_str().to_owned()).into_iter().collect();
        Self { dir: Arc::new(dir), names, is_top: true }
    }

    /// Opens the directory `name` in this one.
    pub(super) fn open(&self, name: &OsStr) -> Result<Self> {
        let dir = Arc::new(self.dir.open_dir(name)?);
        let mut names = self.names.clone();
        names.push(name.to_owned());
        Ok(Self { dir, names, is_top: false })
    }

    /// Returns the conversation that it is, or is in.
    pub(super) fn conversation(&self) -> Option<Component> {
        Component::new(self.names.first()?).ok()
    }

    /// Returns the conversation of the file `name`, and the path inside it.
    pub(super) fn place_of(&self, name: &OsStr) -> Option<(Component, RelPath)> {
        let (_, above) = self.names.split_first()?;
        let names: Vec<_> = above.iter().map(|above| &**above).chain([name]).collect();
        Some((self.conversation()?, joined(&names)?))
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
