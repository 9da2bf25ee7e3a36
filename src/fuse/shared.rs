//! The filesystem object: its options, and the state that all operations share.

use std::sync::Arc;
use std::time::Instant;

use crate::copies::RemovedViews;
use crate::handle::HandleTable;
use crate::inode::InodeTable;
use crate::process::ProcFs;
use crate::promises::Promises;
use crate::seal_queue::Sealer;
use crate::standard::NewConversations;
use crate::waiting::WaitingRoom;
use crate::{Caller, FsError, Ino, Node, Processes, Result};
use ctxfs_engine::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use ctxfs_engine::sync::{RwLock, lock_manifest};
use ctxfs_engine::workers::WorkerPool;
use ctxfs_engine::{Client, Confinement, Engine, Share};
use ctxfs_store::{Conversation, ManifestLock, Stat};

/// The changes by other processes that an access through the mount may miss.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Coherence {
    /// An access may miss a change that another process made in the store within the last second.
    #[default]
    Relaxed,
    /// An access misses no change, because each one reads the store.
    Strict,
}

/// The options of a mount that are not options of the engine.
///
/// With `list_views`, directories list `X.summary`, `X.tail` and `X.grep`; without it, these views
/// are only found by name. `root_mode` contains the permission bits of the root. The server learns
/// from `processes` how a writer ended. `.ctxfs/status.json` shows `confinement`.
#[derive(Debug, Clone)]
pub struct FsOptions {
    pub list_views: bool,
    pub coherence: Coherence,
    pub root_mode: u16,
    pub processes: Arc<dyn Processes>,
    pub confinement: Confinement,
}

impl Default for FsOptions {
    fn default() -> Self {
        Self {
            list_views: true,
            coherence: Coherence::default(),
            root_mode: 0o755,
            processes: Arc::new(ProcFs),
            confinement: Confinement::default(),
        }
    }
}

/// The filesystem. It is cheap to clone, and all clones refer to the same filesystem.
///
/// Each operation is a method. A method with a parameter `done` may call it later on another
/// thread. Any other method fails with EAGAIN if another process holds a lock that it needs. After
/// [`Self::shut_down`], the filesystem serves no requests.
#[derive(Debug, Clone)]
pub struct ContextFs(pub(crate) Arc<Shared>);

#[derive(Debug, Default)]
pub(crate) struct MountCounters {
    pub(crate) bytes_written: AtomicU64,
    pub(crate) slow_operations: AtomicU64,
    pub(crate) passthrough: AtomicBool,
}

/// The state that all clones of a filesystem share. The crate documentation describes the lock
/// order.
pub(crate) struct Shared {
    pub(crate) engine: Arc<Engine>,
    pub(crate) options: FsOptions,
    pub(crate) nodes: InodeTable,
    pub(crate) handles: HandleTable,
    pub(crate) sealer: Sealer,
    /// Locked for reading while a record is written under the path of its file. The path contains
    /// the names of all directories above the file. Locked for writing while a name moves and its
    /// records are moved.
    pub(crate) places: RwLock<()>,
    pub(crate) promises: Promises,
    pub(crate) new_conversations: NewConversations,
    pub(crate) removed_views: RemovedViews,
    pub(crate) waiting: Arc<WaitingRoom>,
    pub(crate) slow_workers: WorkerPool,
    pub(crate) ending: AtomicBool,
    pub(crate) counters: MountCounters,
    pub(crate) started: Instant,
}

impl Shared {
    /// Claims `count` descriptors for a file or directory that `caller` opens at or inside `node`.
    /// Fails with [`FsError::TooManyOpen`] if the client has too many descriptors.
    pub(crate) fn claim(&self, node: &Node, caller: Caller, count: u64) -> Result<Share> {
        let user = self.engine.options().allow_other.then_some(caller.uid);
        let client = Client { conversation: node.conversation(), user };
        self.handles.shares.claim(client, count).ok_or(FsError::TooManyOpen)
    }

    /// Locks a manifest for a moment. Fails with EAGAIN while another process holds the lock. After
    /// the mount has ended, waits for the lock instead, because no client waits for this thread.
    pub(crate) fn lock_manifest(&self, conversation: &Conversation) -> Result<ManifestLock> {
        Ok(lock_manifest(conversation, self.ending.load(Relaxed))?)
    }

    /// Compacts a manifest if most of it is outdated. Runs on another thread, because it flushes to
    /// the disk.
    pub(crate) fn compact(&self, conversation: &Arc<Conversation>) {
        if conversation.manifest().may_be_wasteful() {
            let conversation = Arc::clone(conversation);
            let whom = Some(conversation.id().clone());
            let compact = move || conversation.manifest().compact_if_wasteful();
            // If no thread can be started, the next change tries again.
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
