//! The staging area of imports: directories in the store that no reader sees.
//!
//! Every import holds a shared lock on the staging area. So when an exclusive lock is available,
//! everything in it was left by a process that died.

use std::ffi::OsString;
use std::fs::File;
use std::hash::BuildHasher as _;
use std::hash::RandomState;
use std::io;
use std::path::Path;
use std::path::PathBuf;

use rustix::fs::FlockOperation;
use rustix::fs::OFlags;
use rustix::fs::RenameFlags;
use rustix::io::Errno;

use crate::model::Component;
use crate::store::dir::Dir;
use crate::store::layout;

/// The directory of the conversation.
const CONVERSATION: &str = "conversation";
/// The file for the list of digests.
const DIGESTS: &str = "digests";

/// The directory of one import. It is removed, with everything still in it, when this is dropped.
pub(super) struct Staging {
    root: PathBuf,
    store: Dir,
    own: Dir,
    name: OsString,
    /// The staging area. Holds the lock.
    all: Dir,
}

impl Staging {
    /// Creates a directory in the store at `root`, which is open as `store`.
    pub(super) fn new(store: &Dir, root: &Path) -> io::Result<Self> {
        let all = locked(store)?;
        let unique = RandomState::new().hash_one(std::process::id());
        let name = OsString::from(format!("{unique:016x}"));
        all.mkdir(&name, layout::DIRECTORY_MODE)?;
        let own = all.open_dir(&name)?;
        own.mkdir(CONVERSATION.as_ref(), layout::DIRECTORY_MODE)?;
        Ok(Self { root: root.to_owned(), store: store.try_clone()?, own, name, all })
    }

    /// Returns the directory of the conversation, and its path for error messages.
    pub(super) fn conversation(&self) -> io::Result<(Dir, PathBuf)> {
        let path = self.root.join(layout::STAGING).join(&self.name).join(CONVERSATION);
        Ok((self.own.open_dir(CONVERSATION.as_ref())?, path))
    }

    /// Creates the file for the list of digests.
    pub(super) fn digests(&self) -> io::Result<File> {
        self.own.create_file(DIGESTS.as_ref(), OFlags::RDWR | OFlags::EXCL, layout::FILE_MODE)
    }

    /// Moves the conversation to `id` in one step. Fails with EEXIST if there is one. The content
    /// is synced before, and the name before this returns.
    pub(super) fn publish(self, context: &Dir, id: &Component) -> io::Result<()> {
        rustix::fs::syncfs(&self.own)?;
        let rename = |flags| self.own.rename(CONVERSATION.as_ref(), context, id.as_os_str(), flags);
        match rename(RenameFlags::NOREPLACE) {
            // The disk lacks NOREPLACE. Without it, only an empty directory would be replaced.
            Err(error) if error.raw_os_error() == Some(Errno::INVAL.raw_os_error()) => {
                rename(RenameFlags::empty())?;
            }
            renamed => renamed?,
        }
        context.sync()
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // The next cleaning removes what cannot be removed now.
        self.all.remove_all(&self.name).ok();
        if rustix::fs::flock(&self.all, FlockOperation::NonBlockingLockExclusive).is_ok() {
            self.store.rmdir(layout::STAGING.as_ref()).ok();
        }
    }
}

/// Removes what interrupted imports left behind.
pub(in crate::store) fn clean(store: &Dir) -> io::Result<()> {
    let name = layout::STAGING.as_ref();
    let all = match store.open_dir(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        all => all?,
    };
    match rustix::fs::flock(&all, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => Ok(()),
        Err(error) => Err(error.into()),
        // Another import may have created a new directory of this name by now. It stays, as only
        // the entries of the locked one are removed.
        Ok(()) => {
            for entry in all.entries()? {
                all.remove_all(&entry.name)?;
            }
            store.rmdir(name)
        }
    }
}

/// Opens the staging area with a shared lock, and creates it if it is missing. Starts over if
/// another process removes it before it is locked.
fn locked(store: &Dir) -> io::Result<Dir> {
    let name = layout::STAGING.as_ref();
    loop {
        store.ensure_dir(name, layout::DIRECTORY_MODE)?;
        let all = match store.open_dir(name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            all => all?,
        };
        rustix::io::retry_on_intr(|| rustix::fs::flock(&all, FlockOperation::LockShared))?;
        match store.stat(name) {
            Ok(stat) if stat.same_file(&all.stat_self()?) => return Ok(all),
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(_) | Err(_) => {}
        }
    }
}
