//! An open store: its conversations, and the other files in its directory.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::conversation::{make_directories, remove_bookkeeping};
use crate::{
    Conversation, Dir, FileClock, FileType, StoreError, SweepLock, Time, UnreadPlaces, archive,
    file_io, if_there, is_bookkeeping, layout,
};
use ctxfs_core::model::{Component, RelPath, is_scratch, readings};

/// An open store: a directory with conversations, a cache and locks.
///
/// A store is cheap to clone, and all clones refer to the same store. A conversation in use is
/// shared, and therefore has a single index of its manifest. Several processes may have the store
/// open: nothing that another process can change is cached here.
#[derive(Debug, Clone)]
pub struct Store(Arc<OpenStore>);

#[derive(Debug)]
struct OpenStore {
    root: PathBuf,
    dir: Dir,
    context: Dir,
    clock: OnceLock<FileClock>,
    open: Mutex<std::collections::HashMap<Component, Weak<Conversation>>>,
}

impl Store {
    /// Opens the store at `root`, creating it if it is missing. Reads one small file, and removes
    /// the leftovers of interrupted imports.
    pub fn open(root: &Path) -> Result<Self, StoreError> {
        Self::open_with(root, |dir| dir)
    }

    /// Returns true if there is a store at `root`.
    pub fn exists(root: &Path) -> bool {
        Dir::open(root).is_ok_and(|dir| dir.stat(layout::VERSION.as_ref()).is_ok())
    }

    /// Opens the store as [`Self::open`] does. Calls `made`, for example [`Dir::never_waiting`],
    /// with the directory of the store. Uses the directory that `made` returns, and opens all other
    /// directories of the store through it.
    pub fn open_with(root: &Path, made: fn(Dir) -> Dir) -> Result<Self, StoreError> {
        let dir = Dir::ensure(root, layout::DIRECTORY_MODE).map(made);
        let dir = dir.map_err(|error| StoreError::io("make", root, error))?;
        check_version(&dir, root)?;
        // Leftovers that cannot be removed are harmless.
        archive::clean_staging(&dir).ok();
        let path = root.join(layout::CONTEXT);
        let context = dir
            .ensure_synced_dir(layout::CONTEXT.as_ref(), layout::DIRECTORY_MODE)
            .and_then(|()| dir.open_dir(layout::CONTEXT.as_ref()))
            .map_err(|error| StoreError::io("open", &path, error))?;
        let (root, clock, open) = (root.to_owned(), OnceLock::new(), Mutex::default());
        Ok(Self(Arc::new(OpenStore { root, dir, context, clock, open })))
    }

    /// Returns the path with which the store was opened, for messages. To access files, use
    /// [`Self::context`].
    pub fn root(&self) -> &Path {
        &self.0.root
    }

    pub(crate) fn dir(&self) -> &Dir {
        &self.0.dir
    }

    /// Returns the directory of all conversations. It is held open.
    pub fn context(&self) -> &Dir {
        &self.0.context
    }

    /// Returns the clock of the store's disk. The first call measures the clock. If that fails, for
    /// example because the disk is full, returns the coarsest clock, and the next call tries again.
    pub fn clock(&self) -> FileClock {
        if let Some(clock) = self.0.clock.get() {
            return *clock;
        }
        let found = self.0.dir.nameless_file().and_then(|file| FileClock::of_disk(&file));
        found.map_or(FileClock::COARSEST, |clock| *self.0.clock.get_or_init(|| clock))
    }

    /// Sets the clock of the store's disk. Panics if [`Self::clock`] has already measured it.
    #[cfg(any(test, feature = "testing"))]
    pub fn date_by(&self, clock: FileClock) {
        self.0.clock.set(clock).expect("a clock that was not asked for");
    }

    /// Returns the ids of all conversations, sorted. Leaves out files, and directories without a
    /// valid name.
    pub fn conversations(&self) -> Result<Vec<Component>, StoreError> {
        let path = self.0.root.join(layout::CONTEXT);
        let entries = self.0.context.entries();
        let entries = entries.map_err(|error| StoreError::io("list", &path, error))?;
        let directories = entries.into_iter().filter(|entry| entry.kind == FileType::Directory);
        let mut ids: Vec<_> = directories.filter_map(|e| Component::new(e.name).ok()).collect();
        ids.sort_unstable();
        Ok(ids)
    }

    /// Returns the conversation `id`, or `None` if it does not exist. All callers share one
    /// instance while any of them uses it. A conversation that was renamed, or removed and created
    /// again, gets a new instance.
    pub fn conversation(&self, id: &Component) -> Result<Option<Arc<Conversation>>, StoreError> {
        let path = layout::conversation_path(&self.0.root, id);
        let mut open = self.0.open.lock();
        let found = if_there(self.0.context.stat(id.as_os_str()));
        let Some(stat) = found.map_err(|error| StoreError::io("look at", &path, error))? else {
            open.remove(id);
            return Ok(None);
        };
        if let Some(known) =
            open.get(id).and_then(Weak::upgrade).filter(|c| c.stat().same_file(&stat))
        {
            return Ok(Some(known));
        }
        let dir = self.0.context.open_dir(id.as_os_str());
        let dir = dir.map_err(|error| StoreError::io("open", &path, error))?;
        let opened = Conversation::new(id.clone(), path.clone(), dir);
        let opened = Arc::new(opened.map_err(|error| StoreError::io("open", &path, error))?);
        // Removes the entries of conversations that are no longer in use. This is done only when
        // the number of entries is a power of two.
        if open.len().is_power_of_two() {
            open.retain(|_, conversation| conversation.strong_count() > 0);
        }
        open.insert(id.clone(), Arc::downgrade(&opened));
        Ok(Some(opened))
    }

    /// Adds the place of `error` to `unread`, by its path below the directory of all conversations.
    /// Fails with `error` if `error` concerns more than one place.
    pub fn pass_over(
        &self,
        error: StoreError,
        unread: &mut UnreadPlaces,
    ) -> Result<(), StoreError> {
        unread.pass_over(&self.0.root.join(layout::CONTEXT), error)
    }

    /// Returns the time of the last write of a record or message in the conversation `id`. Returns
    /// `None` if the conversation has no record and no message, or does not exist.
    pub fn touched(&self, id: &Component) -> Result<Option<Time>, StoreError> {
        let look = || -> io::Result<Option<Time>> {
            let dir = self.0.context.open_dir(id.as_os_str())?;
            let manifest = dir.stat(layout::MANIFEST.as_ref()).ok();
            let history = dir.open_dir(layout::HISTORY.as_ref()).ok();
            let log = history.and_then(|history| history.stat(layout::MESSAGES.as_ref()).ok());
            Ok([manifest, log].into_iter().flatten().map(|stat| stat.mtime).max())
        };
        let found = if_there(look()).map_err(|error| {
            StoreError::io("look at", &layout::conversation_path(&self.0.root, id), error)
        })?;
        Ok(found.flatten())
    }

    /// Creates the conversation `id` with its directories. If the conversation exists, creates
    /// missing directories. New names are on the disk when this returns.
    pub fn create_conversation(&self, id: &Component) -> Result<Arc<Conversation>, StoreError> {
        let path = layout::conversation_path(&self.0.root, id);
        let fault = |error| StoreError::io("make", &path, error);
        let is_new = self.0.context.ensure_dir(id.as_os_str(), layout::DIRECTORY_MODE);
        let is_new = is_new.map_err(fault)?;
        let conversation = self.conversation(id)?.ok_or_else(|| {
            StoreError::io("open", &path, io::Error::from(io::ErrorKind::NotFound))
        })?;
        make_directories(conversation.dir()).map_err(fault)?;
        if is_new {
            self.sync_conversations()?;
        }
        Ok(conversation)
    }

    /// Syncs the names of all conversations to the disk. This is needed after one was renamed or
    /// removed.
    pub fn sync_conversations(&self) -> Result<(), StoreError> {
        let path = self.0.root.join(layout::CONTEXT);
        self.0.context.sync().map_err(|error| StoreError::io("sync", &path, error))
    }

    /// Removes a conversation that contains only the store's own files, as `rmdir` does through a
    /// mount. Fails with ENOTEMPTY if it contains anything else.
    pub fn remove_conversation(&self, id: &Component) -> Result<(), StoreError> {
        let path = layout::conversation_path(&self.0.root, id);
        let removed = self.0.context.open_dir(id.as_os_str()).and_then(|dir| {
            remove_bookkeeping(&dir)?;
            self.0.context.rmdir(id.as_os_str()).or_else(|_| {
                // Another process may have added a record or a count in the meantime.
                remove_bookkeeping(&dir)?;
                self.0.context.rmdir(id.as_os_str())
            })
        });
        removed.map_err(|error| StoreError::io("remove", &path, error))
    }

    /// Waits until no other process is sweeping the store, and takes the sweep lock. Other sweeps
    /// wait until the lock is dropped.
    pub fn lock_sweeps(&self) -> Result<SweepLock, StoreError> {
        let path = self.0.root.join(layout::SWEEP_LOCK);
        SweepLock::wait(&self.0.dir).map_err(|error| StoreError::io("lock", &path, error))
    }

    /// Opens a regular file of the store. The caller can use it to test which operations the kernel
    /// allows on the disk.
    pub fn probe_file(&self) -> Result<File, StoreError> {
        let path = self.0.root.join(layout::VERSION);
        let file = self.0.dir.open_file(layout::VERSION.as_ref(), OFlags::RDONLY);
        file.map_err(|error| StoreError::io("open", &path, error))
    }

    /// Returns true if the store is on overlayfs. Overlayfs is a stack of filesystems, and the
    /// kernel limits the depth of such a stack.
    pub fn is_stacked(&self) -> bool {
        /// The value of `OVERLAYFS_SUPER_MAGIC` in linux/magic.h.
        const OVERLAYFS: i64 = 0x794c_7630;
        rustix::fs::fstatfs(&self.0.context).is_ok_and(|disk| disk.f_type == OVERLAYFS)
    }

    /// Returns the total, free and available blocks and inodes of the disk that contains the store.
    pub fn space(&self) -> Result<rustix::fs::StatVfs, StoreError> {
        let space = self.0.context.space();
        space.map_err(|error| StoreError::io("measure the disk of", &self.0.root, error))
    }

    /// Opens the messages that hosts have published in a conversation. Returns `None`, after one
    /// system call, if there are none.
    pub fn published_messages(&self, id: &Component) -> io::Result<Option<File>> {
        let mut path = OsString::from(format!("{}/{}/", layout::REMOTE, layout::REMOTE_MESSAGES));
        path.push(id.as_os_str());
        path.push(format!("/{}", layout::PUBLISHED));
        let path = RelPath::new(path).map_err(io::Error::other)?;
        if_there(self.0.dir.open_file_at(&path, OFlags::RDONLY))
    }

    /// Finds the file to which a handle, a reference or a path refers. Returns the conversation of
    /// the file and its path in that conversation.
    ///
    /// Finds only files that have views. Whatever `text` and the links in the store are, it finds
    /// no scratch files, no files of the store itself, and nothing outside the store.
    pub fn resolve(&self, text: &str) -> Result<Option<(Component, RelPath)>, StoreError> {
        for (id, path) in readings(text) {
            let Some(conversation) = self.conversation(&id)? else { continue };
            if is_kept(&path) && is_file(&conversation, &path)? {
                return Ok(Some((id, path)));
            }
        }
        Ok(None)
    }

    /// Removes a conversation that contains only the store's own files and a message log. If it
    /// contains anything else, returns false and does not change it. The caller must hold the lock
    /// on the log, and must have checked that readers see no message of the log.
    pub fn remove_ended(&self, conversation: &Conversation) -> Result<bool, StoreError> {
        let dir = conversation.dir();
        let aside = layout::removing();
        let history = dir.open_dir(layout::HISTORY.as_ref());
        let moved = history.and_then(|history| {
            history.rename_to_free(layout::MESSAGES.as_ref(), dir, aside.as_ref())?;
            Ok(history)
        });
        let history = if_there(moved).map_err(|error| conversation.log_error("rename", error))?;
        let removed = self.remove_conversation(conversation.id());
        if removed.is_err()
            && let Some(history) = history
        {
            take_back(dir, &aside, &history).map_err(|e| conversation.log_error("rename", e))?;
        }
        match removed {
            Err(error) if error.raw_os_error() == Some(libc::ENOTEMPTY) => Ok(false),
            removed => removed.map(|()| true),
        }
    }
}

impl AsFd for Store {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.dir.as_fd()
    }
}

fn check_version(dir: &Dir, root: &Path) -> Result<(), StoreError> {
    let path = root.join(layout::VERSION);
    let Some(text) = version(dir).map_err(|error| StoreError::io("read", &path, error))? else {
        let text = format!("{}\n", layout::FORMAT);
        return file_io::replace_file(dir, layout::VERSION.as_ref(), text.as_bytes(), true)
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
    let opened = if_there(dir.open_file(layout::VERSION.as_ref(), OFlags::RDONLY))?;
    let Some(file) = opened else { return Ok(None) };
    let mut text = String::new();
    // 64 bytes are enough for any number, and enough to recognize other content.
    file.take(64).read_to_string(&mut text)?;
    Ok(Some(text))
}

fn is_kept(path: &RelPath) -> bool {
    let first = path.to_text();
    let first = first.split('/').next().unwrap_or_default();
    !is_bookkeeping(OsStr::new(first)) && !is_scratch(path.file_name())
}

fn is_file(conversation: &Conversation, path: &RelPath) -> Result<bool, StoreError> {
    match conversation.dir().stat_at(path) {
        Ok(stat) => Ok(stat.kind() == FileType::File),
        Err(error) if is_absence(&error) => Ok(false),
        Err(error) => Err(conversation.error_at("look at", path, error)),
    }
}

fn is_absence(error: &io::Error) -> bool {
    let absent = [Errno::NOENT, Errno::NOTDIR, Errno::LOOP, Errno::NAMETOOLONG];
    Errno::from_io_error(error).is_some_and(|errno| absent.contains(&errno))
}

fn take_back(dir: &Dir, aside: &str, history: &Dir) -> io::Result<()> {
    // The log may be gone. If removing the conversation failed after the store's own files were
    // removed, the log was removed with them.
    if_there(dir.rename_to_free(aside.as_ref(), history, layout::MESSAGES.as_ref())).map(drop)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;
    use crate::mere_owner::as_mere_owner;

    const ID: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

    /// Calls `test` with a store that contains some files, and with its parent directory, which
    /// also contains a file `secret`.
    fn with_store(test: impl FnOnce(&Store, &std::path::Path)) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("secret"), "secret").unwrap();
        let store = Store::open(&dir.path().join("store")).unwrap();
        for id in ["c7", "c8", &format!("session-{ID}")] {
            let conversation = store.create_conversation(&Component::new(id).unwrap()).unwrap();
            let root = store.root().join("context").join(conversation.id().as_os_str());
            for path in [
                "artifacts/tool/9f3k.txt",
                &format!("artifacts/tool/{ID}.json"),
                "artifacts/tool/half.tmp",
                "artifacts/terminal/s1.log",
                "history/messages.jsonl",
                "manifest.jsonl",
            ] {
                std::fs::write(root.join(path), "text").unwrap();
            }
        }
        test(&store, dir.path());
    }

    fn found(store: &Store, text: &str) -> Option<String> {
        let found = store.resolve(text).unwrap();
        found.map(|(id, path)| format!("{id}/{path}"))
    }

    #[test]
    fn what_ctxfs_hands_out_is_found() {
        with_store(|store, _| {
            let found = |text: &str| found(store, text).unwrap();
            let file = "c7/artifacts/tool/9f3k.txt";
            for text in [
                "c7/9f3k.txt",
                "c7/9f3k",
                file,
                "ctx://c7/artifacts/tool/9f3k.txt",
                "/ctx/c7/artifacts/tool/9f3k.txt",
            ] {
                assert_eq!(found(text), file, "{text}");
            }
            let session = format!("session-{ID}/artifacts/tool/{ID}.json");
            assert_eq!(found(&format!("session-{ID}/{ID}")), session);
            assert_eq!(found("c8/s1.log"), "c8/artifacts/terminal/s1.log");
            assert_eq!(found("c7/history/messages.jsonl"), "c7/history/messages.jsonl");
        });
    }

    #[test]
    fn nothing_else_is() {
        with_store(|store, root| {
            let tools = store.root().join("context/c7/artifacts/tool");
            symlink(root.join("secret"), tools.join("link.txt")).unwrap();
            symlink(root, tools.join("out")).unwrap();
            symlink(root, store.root().join("context/c9")).unwrap();
            let secret = root.join("secret").display().to_string();
            for text in [
                "",
                "c7",
                "c7/",
                "c7/none",
                "c7/artifacts",
                "c7/half.tmp",
                "c7/manifest.jsonl",
                "c7/.ctxfs-manifest",
                "c7/link.txt",
                "c7/artifacts/tool/link.txt",
                "c7/artifacts/tool/out/secret",
                "c7/9f3k.txt/x",
                "c7/../c8/9f3k.txt",
                "../../secret",
                "ctx://c7/../../../../secret",
                "/c7/artifacts/../../../secret",
                &secret,
                "c7/\0",
                &"x/".repeat(5000),
                &format!("c7/{}", "x".repeat(250)),
            ] {
                assert_eq!(found(store, text), None, "{text:?}");
            }
            assert!(store.resolve("c9/secret").map_or(true, |found| found.is_none()));
        });
    }

    #[test]
    fn it_goes_with_its_log_unless_something_else_is_in_it() {
        let temporary = tempfile::tempdir().unwrap();
        let store = Store::open(temporary.path()).unwrap();
        let conversation = store.create_conversation(&Component::new("c7").unwrap()).unwrap();
        let at = |path: &str| store.root().join("context/c7").join(path);
        fs::write(at("history/messages.jsonl"), "{}\n").unwrap();
        fs::write(at("artifacts/tool/x.tmp"), "half").unwrap();
        assert!(!store.remove_ended(&conversation).unwrap());
        assert_eq!(fs::read(at("history/messages.jsonl")).unwrap(), b"{}\n");
        fs::remove_file(at("artifacts/tool/x.tmp")).unwrap();
        assert!(store.remove_ended(&conversation).unwrap());
        assert!(!at("").exists());
    }

    #[test]
    fn a_disk_that_cannot_be_asked_is_asked_again() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let allow = |mode| fs::set_permissions(dir.path(), Permissions::from_mode(mode)).unwrap();
        as_mere_owner(|| {
            allow(0o500);
            assert_eq!(store.clock(), FileClock::COARSEST);
            allow(0o700);
            assert_eq!(
                store.clock(),
                FileClock::of_disk(&store.0.dir.nameless_file().unwrap()).unwrap()
            );
        });
        assert!(store.0.clock.get().is_some());
    }
}
