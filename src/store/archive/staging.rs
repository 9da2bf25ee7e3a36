//! Where a conversation stands while it is imported: in the store, but where nobody looks.
//!
//! Whoever imports holds a shared lock on the directory of all such places. So what is found there
//! while an exclusive lock can be had, was left by a process that ended in the middle.

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

/// The conversation that is being made.
const CONVERSATION: &str = "conversation";
/// The list of its digests.
const DIGESTS: &str = "digests";

/// A place for one import. It goes, with all that is still in it, when this is dropped.
pub(super) struct Staging {
    root: PathBuf,
    store: Dir,
    own: Dir,
    name: OsString,
    /// Holds the lock.
    all: Dir,
}

impl Staging {
    /// In the store at `root`, which is open as `store`.
    pub(super) fn new(store: &Dir, root: &Path) -> io::Result<Self> {
        let all = locked(store)?;
        let unique = RandomState::new().hash_one(std::process::id());
        let name = OsString::from(format!("{unique:016x}"));
        all.mkdir(&name, layout::DIRECTORY_MODE)?;
        let own = all.open_dir(&name)?;
        own.mkdir(CONVERSATION.as_ref(), layout::DIRECTORY_MODE)?;
        Ok(Self { root: root.to_owned(), store: store.try_clone()?, own, name, all })
    }

    /// The directory of the conversation, and its path for messages.
    pub(super) fn conversation(&self) -> io::Result<(Dir, PathBuf)> {
        let path = self.root.join(layout::STAGING).join(&self.name).join(CONVERSATION);
        Ok((self.own.open_dir(CONVERSATION.as_ref())?, path))
    }

    /// A file for the list of digests.
    pub(super) fn digests(&self) -> io::Result<File> {
        self.own.create_file(DIGESTS.as_ref(), OFlags::RDWR | OFlags::EXCL, layout::FILE_MODE)
    }

    /// Makes it the conversation `id`, in one step; EEXIST where there is one. All of it has reached
    /// the disk before, and its name has when this returns.
    pub(super) fn publish(self, context: &Dir, id: &Component) -> io::Result<()> {
        rustix::fs::syncfs(&self.own)?;
        let rename = |flags| self.own.rename(CONVERSATION.as_ref(), context, id.as_os_str(), flags);
        match rename(RenameFlags::NOREPLACE) {
            // A disk that cannot: one that exists is still not replaced, unless it is empty.
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
        // What cannot be removed now is removed by whoever cleans next.
        self.all.remove_all(&self.name).ok();
        if rustix::fs::flock(&self.all, FlockOperation::NonBlockingLockExclusive).is_ok() {
            self.store.rmdir(layout::STAGING.as_ref()).ok();
        }
    }
}

/// Removes what imports left behind that never ended.
pub(in crate::store) fn clean(store: &Dir) -> io::Result<()> {
    let name = layout::STAGING.as_ref();
    let all = match store.open_dir(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        all => all?,
    };
    match rustix::fs::flock(&all, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => Ok(()),
        Err(error) => Err(error.into()),
        // The name may mean a directory by now that another import has just made: it stays, since
        // what is removed here is what was locked.
        Ok(()) => {
            for entry in all.entries()? {
                all.remove_all(&entry.name)?;
            }
            store.rmdir(name)
        }
    }
}

/// The directory of all imports, with a shared lock. Made where it is missing; another process may
/// remove it until the lock is there.
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
