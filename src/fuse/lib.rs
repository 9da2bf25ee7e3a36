//! The filesystem, without a kernel: inodes, handles, directories and open files.
//!
//! [`ContextFs`] has one method for each operation, with types of its own ([`Ino`], [`Attr`],
//! [`Entry`], [`Errno`]); [`kernel`] translates. It may be called from many threads at once.
//! This crate holds only what a kernel needs; the [`Engine`] below does the work that all doors
//! share.
//!
//! Locks, in the order in which they may be held together: a manifest, `Shared::places`, the link
//! of a node on disk, its life, its analysis, the inode table. None is held while a view is
//! computed.

mod asker;
mod attr;
mod caller_groups;
mod change;
mod closing_thread;
mod computed_node;
mod control;
mod copy;
mod dir;
mod dir_names;
mod error;
mod facts;
mod fallocate;
mod far;
mod getattr;
mod handle;
mod inode;
mod interrupted;
mod interruptible;
mod io;
pub mod kernel;
mod key;
mod keyed_hash;
mod known_facts;
mod known_sizes;
mod life;
mod listing;
mod listing_plus;
mod local_copy;
mod lookup;
mod mask_stored;
mod measured;
mod message_log;
mod move_records;
mod moved;
mod node;
mod notices;
mod open;
mod open_dirs;
mod options;
mod patient;
mod promises;
mod recording;
mod remove;
mod rename;
mod seal;
mod seal_queue;
mod setattr;
mod source;
#[cfg(test)]
mod tests;
mod waiting;
mod write_once;
mod xattr;

use std::ffi::OsStr;
use std::sync::Arc;
use std::time::Instant;

pub use attr::{Attr, Caller, Entry, Fh, FileKind, Ino, NewTime, SetAttr, TimedAttr};
pub use closing_thread::Processes;
pub use copy::FilePosition;
pub use error::{Errno, FsError, Result};
pub use life::Pages;
pub use listing::Listed;
pub use listing_plus::ListedEntry;
pub use open::{Flush, OpenMode, Opened};
pub use options::{Coherence, FsOptions};
pub use patient::{About, RequestOrigin};
pub use rename::RenameMode;

use closing_thread::ClosingThreads;
use handle::HandleTable;
use inode::InodeTable;
use node::Node;
use promises::Promises;
use seal_queue::Sealer;
use waiting::WaitingRoom;

use ctxfs_engine::sync::atomic::AtomicBool;
use ctxfs_engine::sync::atomic::Ordering::Relaxed;
use ctxfs_engine::sync::{RwLock, lock_manifest};
use ctxfs_engine::workers::WorkerPool;
use ctxfs_engine::{Client, Counters, Engine, Share};
use ctxfs_store::{Conversation, ManifestLock, Stat};

/// Threads that flush to the disk and do other slow work, of which one conversation gets all but
/// one.
const SLOW_WORKERS: usize = 8;

/// The number of things that a filesystem holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InUse {
    /// Nodes that the kernel knows; the root is always one of them.
    pub nodes: usize,
    /// Open files and directories.
    pub handles: usize,
    /// Jobs of the sealing thread.
    pub waiting_to_seal: usize,
}

/// The filesystem. Cheap to clone: all clones are the same filesystem.
#[derive(Clone)]
pub struct ContextFs(Arc<Shared>);

/// The state that all clones of a filesystem share.
pub(crate) struct Shared {
    engine: Arc<Engine>,
    options: FsOptions,
    nodes: InodeTable,
    handles: HandleTable,
    closing: ClosingThreads,
    sealer: Sealer,
    /// Locked for reading while a record is written under the path of its file, which consists of
    /// the names of all directories above. Locked for writing while a name moves and its records
    /// follow.
    places: RwLock<()>,
    promises: Promises,
    waiting: Arc<WaitingRoom>,
    slow_workers: WorkerPool,
    /// See `is_ending`.
    ending: AtomicBool,
    started: Instant,
}

impl ContextFs {
    /// Creates a filesystem over the store of `engine`. Starts the threads of a server; reads
    /// nothing yet.
    pub fn new(engine: Arc<Engine>, options: FsOptions) -> Result<Self> {
        let most_dirs = engine.descriptors.dirs;
        let top = node::top(&engine.store, engine.options.only.as_ref(), most_dirs)?;
        let handles = HandleTable::new(engine.descriptors.handles);
        let shared = Arc::new(Shared {
            engine,
            options,
            nodes: InodeTable::new(top),
            handles,
            closing: ClosingThreads::default(),
            sealer: Sealer::default(),
            places: RwLock::default(),
            promises: Promises::default(),
            waiting: Arc::default(),
            slow_workers: WorkerPool::new("ctxfs-slow", SLOW_WORKERS),
            ending: AtomicBool::default(),
            started: Instant::now(),
        });
        seal::start(&shared)?;
        shared.waiting.start()?;
        let weak = Arc::downgrade(&shared);
        shared.engine.serve(move |most| {
            if let Some(fs) = weak.upgrade() {
                fs.sealer.settle(most);
            }
        })?;
        Ok(Self(shared))
    }

    /// Seals the artifacts that are not sealed yet. Nothing is served afterwards.
    ///
    /// The kernel does not wait for RELEASE when a mount ends, so files that were closed just
    /// before are released here.
    pub fn shut_down(&self) {
        self.0.engine.stop_background_work();
        self.0.ending.store(true, Relaxed);
        self.0.promises.finish();
        self.0.waiting.finish();
        self.0.slow_workers.finish();
        open::release_closed(&self.0);
        self.0.sealer.finish();
        self.0.engine.finish();
    }

    /// Begins to let the kernel answer for files at rest, unless the options forbid that. `tell`
    /// makes it forget the attributes of a node, and may be called from any thread.
    pub fn promise(&self, tell: impl Fn(Ino) + Send + Sync + 'static) {
        if !self.may_promise() {
            return;
        }
        if let Err(error) = self.0.promises.begin(tell) {
            tracing::warn!(%error, "changes in the store cannot be watched: every look asks it");
        }
    }

    /// Returns true if the options let the kernel answer for files at rest. Not where several users
    /// may ask: their rights are checked here.
    pub fn may_promise(&self) -> bool {
        self.0.options.coherence == Coherence::Relaxed && !self.0.engine.options.allow_other
    }

    /// Returns the engine.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.0.engine
    }

    /// Returns the counters of this process.
    pub fn counters(&self) -> &Counters {
        self.0.engine.counters()
    }

    /// Returns the number of things that the kernel and the sealing thread hold now.
    pub fn in_use(&self) -> InUse {
        InUse {
            nodes: self.0.nodes.len(),
            handles: self.0.handles.len(),
            waiting_to_seal: self.0.sealer.waiting(),
        }
    }

    /// Returns a regular file of the store, with which the adaptor tries what the kernel allows.
    pub fn probe_file(&self) -> Result<std::fs::File> {
        Ok(self.0.engine.store.probe_file()?)
    }
}

/// Operations on names.
impl ContextFs {
    /// Finds `name` in the directory `parent`. Computes nothing.
    pub fn lookup(&self, parent: Ino, name: &OsStr, caller: Caller) -> Result<Entry> {
        lookup::lookup(&self.0, parent, name, caller)
    }

    /// Returns true if a file or directory on disk has `name` in the directory `parent`.
    pub fn has_on_disk(&self, parent: Ino, name: &OsStr) -> bool {
        lookup::has_on_disk(&self.0, parent, name).unwrap_or(false)
    }

    /// Subtracts `count` from the look-ups of `ino`, as the kernel has forgotten so many.
    pub fn forget(&self, ino: Ino, count: u64) {
        self.0.nodes.forget(ino, count);
    }

    /// Creates a directory. In the root, creates a conversation with its directories.
    pub fn mkdir(&self, parent: Ino, name: &OsStr, mode: u32, caller: Caller) -> Result<Entry> {
        dir::mkdir(&self.0, parent, name, mode, caller)
    }

    /// Creates a regular file without opening it. Refuses special files.
    pub fn mknod(&self, parent: Ino, name: &OsStr, mode: u32, caller: Caller) -> Result<Entry> {
        open::mknod(&self.0, parent, name, mode, caller)
    }

    /// Renames `name` in `parent` to `new_name` in `new_parent`.
    pub fn rename(
        &self,
        parent: Ino,
        name: &OsStr,
        new_parent: Ino,
        new_name: &OsStr,
        mode: RenameMode,
    ) -> Result<()> {
        rename::rename(&self.0, (parent, name), (new_parent, new_name), mode)
    }

    /// Removes a file. Removing a computed one does nothing.
    pub fn unlink(&self, parent: Ino, name: &OsStr) -> Result<()> {
        remove::unlink(&self.0, parent, name)
    }

    /// Removes an empty directory. A conversation without any file counts as empty. Removing a
    /// directory of views does nothing.
    pub fn rmdir(&self, parent: Ino, name: &OsStr) -> Result<()> {
        remove::rmdir(&self.0, parent, name)
    }
}

/// Operations on attributes.
impl ContextFs {
    /// Makes a change to the attributes of `ino`, and returns them after it.
    pub fn setattr(&self, ino: Ino, change: &SetAttr, fh: Option<Fh>) -> Result<TimedAttr> {
        setattr::setattr(&self.0, ino, change, fh)
    }

    /// Sets an extended attribute. Fails with EINVAL if it is one of ours and has no valid value.
    pub fn setxattr(&self, ino: Ino, name: &OsStr, value: &[u8], flags: i32) -> Result<()> {
        xattr::setxattr(&self.0, ino, name, value, flags)
    }

    /// Returns the value of an extended attribute.
    pub fn getxattr(&self, ino: Ino, name: &OsStr) -> Result<Vec<u8>> {
        xattr::getxattr(&self.0, ino, name)
    }

    /// Returns the names of all extended attributes, each ended by a NUL.
    pub fn listxattr(&self, ino: Ino) -> Result<Vec<u8>> {
        xattr::listxattr(&self.0, ino)
    }

    /// Removes an extended attribute.
    pub fn removexattr(&self, ino: Ino, name: &OsStr) -> Result<()> {
        xattr::removexattr(&self.0, ino, name)
    }

    /// Returns the space on the store's disk.
    pub fn statfs(&self) -> Result<rustix::fs::StatVfs> {
        Ok(self.0.engine.store.space()?)
    }
}

/// Operations on open files.
impl ContextFs {
    /// Creates a file and opens it.
    pub fn create(
        &self,
        parent: Ino,
        name: &OsStr,
        permissions: u32,
        mode: OpenMode,
        caller: Caller,
    ) -> Result<(Entry, Opened)> {
        open::create(&self.0, parent, name, permissions, mode, caller)
    }

    /// Hands up to `buffer.len()` bytes from `offset` on to `take`, and fewer only at the end.
    pub fn read<T>(
        &self,
        fh: Fh,
        offset: u64,
        buffer: &mut [u8],
        take: impl FnOnce(&[u8]) -> T,
    ) -> Result<T> {
        io::read(&self.0, fh, offset, buffer, take)
    }

    /// Writes all `bytes` at `offset`, or at the end if `mode`, the present mode of the open file,
    /// appends. Returns their number. `owner` stands for the table of open files that had the
    /// descriptor, if that is known.
    ///
    /// If a write fails for lack of room or for a cap, the artifact is later sealed as incomplete.
    pub fn write(
        &self,
        fh: Fh,
        offset: u64,
        bytes: &[u8],
        mode: OpenMode,
        owner: Option<u64>,
    ) -> Result<u32> {
        io::write(&self.0, fh, offset, bytes, mode, owner)
    }

    /// Copies up to `length` bytes, a `buffer` at a time, and returns their number. Copies fewer if
    /// `from` ends, if `length` is above 16 MiB, or if an error comes after the first bytes.
    ///
    /// Each buffer is one write like any other.
    pub fn copy(
        &self,
        from: FilePosition,
        to: FilePosition,
        length: u64,
        buffer: &mut [u8],
    ) -> Result<u32> {
        copy::copy(&self.0, from, to, length, buffer)
    }

    /// Records that the thread `caller.pid` closes a descriptor of the file. There may be others.
    /// `owner` stands for the table of open files that had it, if that is known.
    pub fn flush(&self, fh: Fh, caller: Caller, owner: Option<u64>) -> Result<()> {
        open::flush(&self.0, fh, caller, owner)
    }

    /// Releases a handle whose last descriptor is gone.
    pub fn release(&self, fh: Fh) -> Result<()> {
        open::release(&self.0, fh)
    }

    /// Returns the mode in which a file was opened.
    pub fn mode_of(&self, fh: Fh) -> Result<OpenMode> {
        Ok(self.0.handles.file(fh)?.mode)
    }

    /// Reserves room or makes holes, as fallocate(2) does.
    pub fn fallocate(&self, fh: Fh, offset: u64, length: u64, mode: i32) -> Result<()> {
        fallocate::fallocate(&self.0, fh, offset, length, mode)
    }

    /// Returns the next data or hole from `offset` on, as lseek(2) does.
    pub fn seek(&self, fh: Fh, offset: i64, whence: i32) -> Result<i64> {
        io::seek(&self.0, fh, offset, whence)
    }
}

/// Operations on open directories.
impl ContextFs {
    /// Hands the names from `offset` on to `take`, until that returns true for being full.
    pub fn readdir(
        &self,
        ino: Ino,
        fh: Fh,
        offset: u64,
        take: impl FnMut(Listed<'_>) -> bool,
    ) -> Result<()> {
        listing::readdir(&self.0, ino, fh, offset, take)
    }

    /// Hands the names from `offset` on to `take`, with what a look-up by `caller` finds, until
    /// that returns true for being full.
    pub fn readdirplus(
        &self,
        ino: Ino,
        fh: Fh,
        offset: u64,
        caller: Caller,
        take: impl FnMut(ListedEntry<'_>) -> bool,
    ) -> Result<()> {
        listing_plus::readdirplus(&self.0, ino, fh, offset, caller, take)
    }

    /// Closes a directory.
    pub fn releasedir(&self, fh: Fh) -> Result<()> {
        self.0.handles.remove(fh).map(|_| ()).ok_or(FsError::UnknownHandle(fh.0))
    }
}

impl Shared {
    /// Claims `count` descriptors for what `caller` opens: `node`, or something in it.
    fn claim(&self, node: &Node, caller: Caller, count: u64) -> Result<Share> {
        let user = self.engine.options.allow_other.then_some(caller.uid);
        let client = Client { conversation: node.conversation(), user };
        self.handles.claim(client, count)
    }

    /// Locks a manifest for a moment. Fails with EAGAIN while another process has it, unless the
    /// mount has ended.
    fn lock_manifest(&self, conversation: &Conversation) -> Result<ManifestLock> {
        Ok(lock_manifest(conversation, self.is_ending())?)
    }

    /// Returns true once the mount has ended, so that nobody waits for its threads any more.
    fn is_ending(&self) -> bool {
        self.ending.load(Relaxed)
    }

    /// Compacts a manifest if that pays, on another thread as it flushes to the disk.
    fn compact(&self, conversation: &Arc<Conversation>) {
        if conversation.manifest().may_be_wasteful() {
            let conversation = Arc::clone(conversation);
            let whom = Some(conversation.id().clone());
            let compact = move || conversation.manifest().compact_if_wasteful();
            // There is another time if there is no thread for it.
            self.slow_workers.submit(whom, compact).ok();
        }
    }

    /// Returns the attributes of the kernel's root.
    fn top_stat(&self) -> Result<Stat> {
        self.nodes.get(Ino::ROOT)?.as_dir()?.stat()
    }
}

impl std::fmt::Debug for ContextFs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ContextFs").field("options", &self.0.options).finish_non_exhaustive()
    }
}
