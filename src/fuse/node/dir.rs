//! A directory on disk. It is open only while it is among those used last.

use std::ffi::OsString;
use std::io;
use std::sync::Arc;

use rustix::io::Errno;

use crate::node::{Link, Linked};
use crate::open_dirs::OpenDirs;
use crate::{FsError, Result};
use ctxfs_core::model::MAX_DEPTH;
use ctxfs_engine::FileId;
use ctxfs_store::{Dir, Stat};

/// A directory on disk.
pub(crate) struct DirNode {
    pub(crate) link: Linked,
    id: FileId,
    /// True for the directory of all conversations.
    is_root: bool,
    open_dirs: Arc<OpenDirs>,
}

/// The way to a directory: a directory that is open, and the names that lead on from there.
struct Way {
    from: Arc<Dir>,
    names: Vec<OsString>,
}

impl DirNode {
    /// Creates the directory of all conversations, which is always open.
    pub(crate) fn root(open_dirs: Arc<OpenDirs>, stat: &Stat) -> Self {
        Self { link: Linked::default(), id: FileId::of(stat), is_root: true, open_dirs }
    }

    /// Creates the directory at `link`, which is in this one. Opens nothing.
    pub(crate) fn child(&self, link: Link, stat: &Stat) -> Self {
        let open_dirs = Arc::clone(&self.open_dirs);
        Self { link: Linked::new(link), id: FileId::of(stat), is_root: false, open_dirs }
    }

    /// Returns its identity on disk.
    pub(crate) fn id(&self) -> FileId {
        self.id
    }

    /// Returns true if it is the directory of all conversations.
    pub(crate) fn is_root(&self) -> bool {
        self.is_root
    }

    /// Lets all directories of the mount go that are held open.
    #[cfg(test)]
    pub(crate) fn close_held(&self) {
        self.open_dirs.close_all();
    }

    /// Returns it open. Costs no system call if it is held open, and two if not. Fails with
    /// [`FsError::Stale`] if its names lead to another directory by now, or to none.
    ///
    /// Locks the links of the directories above, so the caller holds no lock that comes after
    /// these.
    pub(crate) fn open(&self) -> Result<Arc<Dir>> {
        self.held().map_or_else(|| self.open_again(), Ok)
    }

    /// Returns its present attributes. Does not open it for that.
    pub(crate) fn stat(&self) -> Result<Stat> {
        if let Some(dir) = self.held() {
            return Ok(dir.stat_self()?);
        }
        let link = self.link.get().ok_or(FsError::Stale)?;
        match link.dir()?.stat(&link.name) {
            Ok(stat) if FileId::of(&stat) == self.id => Ok(stat),
            // It may have been renamed meanwhile.
            Ok(_) | Err(_) => Ok(self.open()?.stat_self()?),
        }
    }

    fn held(&self) -> Option<Arc<Dir>> {
        if self.is_root { Some(self.open_dirs.root()) } else { self.open_dirs.get(self.id) }
    }

    /// Opens it by its names. Starts over if one of them was renamed meanwhile.
    fn open_again(&self) -> Result<Arc<Dir>> {
        let mut tried = None;
        loop {
            let Way { from, names } = self.way()?;
            if tried.as_ref() == Some(&names) {
                return Err(FsError::Stale);
            }
            match from.open_dir_below(&names) {
                Ok(dir) if FileId::of(&dir.stat_self()?) == self.id => {
                    return Ok(self.open_dirs.hold(self.id, dir));
                }
                Err(error) if !leads_elsewhere(&error) => return Err(error.into()),
                Ok(_) | Err(_) => tried = Some(names),
            }
        }
    }

    /// Returns the way from the nearest directory that is open.
    fn way(&self) -> Result<Way> {
        let mut names = Vec::new();
        let mut link = self.link.get().ok_or(FsError::Stale)?;
        while names.len() <= MAX_DEPTH {
            names.push(link.name);
            let above = link.parent.as_dir()?;
            if let Some(from) = above.held() {
                names.reverse();
                return Ok(Way { from, names });
            }
            link = above.link.get().ok_or(FsError::Stale)?;
        }
        Err(FsError::Stale)
    }
}

/// A directory that the kernel has forgotten need not be held.
impl Drop for DirNode {
    fn drop(&mut self) {
        self.open_dirs.close(self.id);
    }
}

/// Returns true if the error says that a name does not lead to a directory.
fn leads_elsewhere(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP))
}
