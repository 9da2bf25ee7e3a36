//! The staging area of imports: directories in the store that readers do not see.
//!
//! Every import holds a shared lock on a file beside the staging area. If a process gets an
//! exclusive lock, no import is running, and everything in the staging area was left by processes
//! that died.

use std::ffi::OsString;
use std::fs::File;
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{OFlags, RenameFlags};

use crate::file_lock::{self, LockKind, LockedFile};
use crate::{Dir, layout};
use ctxfs_core::model::Component;

const CONVERSATION: &str = "conversation";
const DIGESTS: &str = "digests";

/// The directory of one import. Dropping this removes the directory with everything that is still
/// in it.
pub(super) struct Staging {
    root: PathBuf,
    store: Dir,
    own: Dir,
    name: OsString,
    all: Dir,
    /// The shared lock that every import holds.
    lock: LockedFile,
}

impl Staging {
    pub(super) fn new(store: &Dir, root: &Path) -> io::Result<Self> {
        let lock = file_lock::lock_by_name(store, layout::STAGING_LOCK, LockKind::Shared)?;
        store.ensure_dir(layout::STAGING.as_ref(), layout::DIRECTORY_MODE)?;
        let all = store.open_dir(layout::STAGING.as_ref())?;
        let unique = RandomState::new().hash_one(std::process::id());
        let name = OsString::from(format!("{unique:016x}"));
        all.mkdir(&name, layout::DIRECTORY_MODE)?;
        let own = all.open_dir(&name)?;
        own.mkdir(CONVERSATION.as_ref(), layout::DIRECTORY_MODE)?;
        Ok(Self { root: root.to_owned(), store: store.try_clone()?, own, name, all, lock })
    }

    pub(super) fn conversation(&self) -> io::Result<(Dir, PathBuf)> {
        let path = self.root.join(layout::STAGING).join(&self.name).join(CONVERSATION);
        Ok((self.own.open_dir(CONVERSATION.as_ref())?, path))
    }

    pub(super) fn digests(&self) -> io::Result<File> {
        self.own.create_file(DIGESTS.as_ref(), OFlags::RDWR | OFlags::EXCL, layout::FILE_MODE)
    }

    /// Moves the conversation to `id` in one step. Fails with EEXIST if `id` is taken. The content
    /// is synced before the move, and the name is synced before this returns.
    pub(super) fn publish(self, context: &Dir, id: &Component) -> io::Result<()> {
        rustix::fs::syncfs(&self.own)?;
        let rename = |flags| self.own.rename(CONVERSATION.as_ref(), context, id.as_os_str(), flags);
        match rename(RenameFlags::NOREPLACE) {
            // The disk lacks NOREPLACE. A plain rename replaces at most an empty directory.
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::INVAL.raw_os_error()) => {
                rename(RenameFlags::empty())?;
            }
            renamed => renamed?,
        }
        context.sync()
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // If this fails, the next `clean` removes the directory.
        self.all.remove_all(&self.name).ok();
        if file_lock::try_lock(&self.lock).unwrap_or(false) {
            self.store.rmdir(layout::STAGING.as_ref()).ok();
        }
    }
}

pub(crate) fn clean(store: &Dir) -> io::Result<()> {
    let name = layout::STAGING.as_ref();
    let all = match store.open_dir(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        all => all?,
    };
    let lock = layout::STAGING_LOCK.as_ref();
    let lock = store.create_file(lock, OFlags::RDWR, layout::FILE_MODE)?;
    let Some(_locked) = LockedFile::try_lock(lock)? else { return Ok(()) };
    for entry in all.entries()? {
        all.remove_all(&entry.name)?;
    }
    match store.rmdir(name) {
        // The last import has just removed the directory.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
