//! The filesystem as a value: its options, and the state that all operations share.

use std::sync::Arc;
use std::time::Instant;

use crate::handle::HandleTable;
use crate::inode::InodeTable;
use crate::process::{ClosingThreads, ProcFs};
use crate::promises::Promises;
use crate::seal_queue::Sealer;
use crate::waiting::WaitingRoom;
use crate::{Caller, FsError, Ino, Node, Processes, Result};
use ctxfs_engine::sync::atomic::{AtomicBool, Ordering::Relaxed};
use ctxfs_engine::sync::{RwLock, lock_manifest};
use ctxfs_engine::workers::WorkerPool;
use ctxfs_engine::{Client, Confinement, Engine, Share};
use ctxfs_store::{Conversation, ManifestLock, Stat};

/// Which changes a look at a file through the mount may miss.
/// The changes that a look at a file through the mount may miss.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Coherence {
    /// A change that another process has just made in the store, for up to a second.
    #[default]
    Relaxed,
    /// None: every look asks the store.
    Strict,
}

/// The options of a mount, beside the options of the engine.
///
/// With `list_views`, directories list `X.summary`, `X.tail` and `X.grep`; otherwise these are only
/// found by name. `root_mode` has the permission bits of the root, `processes` tells how a writer
/// ended, and `confinement` is shown in `.ctxfs/status.json`.
#[derive(Debug, Clone)]
pub struct FsOptions {
    pub write_once: bool,
    pub list_views: bool,
    pub coherence: Coherence,
    pub root_mode: u16,
    pub processes: Arc<dyn Processes>,
    pub confinement: Confinement,
}

impl Default for FsOptions {
    fn default() -> Self {
        Self {
            write_once: false,
            list_views: true,
            coherence: Coherence::default(),
            root_mode: 0o755,
            processes: Arc::new(ProcFs),
            confinement: Confinement::default(),
        }
    }
}

/// The number of nodes that the kernel knows, which include the root, of open files and
/// directories, and of jobs of the sealing thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InUse {
    pub nodes: usize,
    pub handles: usize,
    pub waiting_to_seal: usize,
}

/// The filesystem. Cheap to clone: all clones are the same filesystem.
///
/// Each operation is a method. Those that take a function `done` may answer later on another
/// thread; the others fail with EAGAIN where another process holds a lock that they need. After
/// [`Self::shut_down`] nothing is served.
#[derive(Debug, Clone)]
pub struct ContextFs(pub(crate) Arc<Shared>);

/// The state that all clones of a filesystem share. The documentation of the crate has the order of
/// its locks.
pub(crate) struct Shared {
    pub(crate) engine: Arc<Engine>,
    pub(crate) options: FsOptions,
    pub(crate) nodes: InodeTable,
    pub(crate) handles: HandleTable,
    pub(crate) closing: ClosingThreads,
    pub(crate) sealer: Sealer,
    /// Locked for reading while a record is written under the path of its file, which consists of
    /// the names of all directories above. Locked for writing while a name moves and its records
    /// follow.
    pub(crate) places: RwLock<()>,
    pub(crate) promises: Promises,
    pub(crate) waiting: Arc<WaitingRoom>,
    pub(crate) slow_workers: WorkerPool,
    pub(crate) ending: AtomicBool,
    pub(crate) started: Instant,
}

impl Shared {
    /// Claims `count` descriptors for something that `caller` opens in, or as, `node`. Fails with
    /// [`FsError::TooManyOpen`] if the client has too much open.
    pub(crate) fn claim(&self, node: &Node, caller: Caller, count: u64) -> Result<Share> {
        let user = self.engine.options.allow_other.then_some(caller.uid);
        let client = Client { conversation: node.conversation(), user };
        self.handles.shares.claim(client, count).ok_or(FsError::TooManyOpen)
    }

    /// Locks a manifest for a moment. Fails with EAGAIN while another process has it, unless the
    /// mount has ended: then no client waits for this thread.
    pub(crate) fn lock_manifest(&self, conversation: &Conversation) -> Result<ManifestLock> {
        Ok(lock_manifest(conversation, self.is_ending())?)
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.ending.load(Relaxed)
    }

    /// Compacts a manifest if that pays, on another thread as it flushes to the disk.
    pub(crate) fn compact(&self, conversation: &Arc<Conversation>) {
        if conversation.manifest().may_be_wasteful() {
            let conversation = Arc::clone(conversation);
            let whom = Some(conversation.id().clone());
            let compact = move || conversation.manifest().compact_if_wasteful();
            // Without a thread for it, the next change tries again.
            self.slow_workers.submit(whom, compact).ok();
        }
    }

    pub(crate) fn top_stat(&self) -> Result<Stat> {
        self.nodes.get(Ino::ROOT)?.as_dir()?.stat()
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("options", &self.options).finish_non_exhaustive()
    }
}
