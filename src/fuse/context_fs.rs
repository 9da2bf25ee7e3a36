//! Starting and shutting down the filesystem, and operations that need only its tables.

use std::sync::Arc;
use std::time::Instant;

use crate::copies::RemovedViews;
use crate::handle::HandleTable;
use crate::inode::InodeTable;
use crate::promises::Promises;
use crate::seal_queue::Sealer;
use crate::shared::MountCounters;
use crate::standard::NewConversations;
use crate::{Coherence, ContextFs, Fh, FsError, FsOptions, Ino, Result, Shared, node, open, seal};
use ctxfs_engine::sync::RwLock;
use ctxfs_engine::sync::atomic::{AtomicBool, Ordering::Relaxed};
use ctxfs_engine::workers::WorkerPool;
use ctxfs_engine::{DescriptorBudget, DoorStatus, Engine};

/// Number of threads for flushes to the disk and other slow work. A conversation may use all of
/// them but one.
const SLOW_WORKERS: usize = 8;

impl ContextFs {
    /// Creates a filesystem over the store of `engine` and starts its background threads. Does not
    /// read the store yet.
    pub fn new(engine: Arc<Engine>, options: FsOptions) -> Result<Self> {
        let descriptors = DescriptorBudget::new(engine.options().descriptors);
        let top = node::top(engine.store(), engine.options().only.as_ref(), descriptors.dirs)?;
        let handles = HandleTable::new(descriptors.handles);
        let shared = Arc::new(Shared {
            engine,
            options,
            nodes: InodeTable::new(top),
            handles,
            sealer: Sealer::default(),
            places: RwLock::default(),
            promises: Promises::default(),
            new_conversations: NewConversations::default(),
            removed_views: RemovedViews::default(),
            waiting: Arc::default(),
            slow_workers: WorkerPool::new("ctxfs-slow", SLOW_WORKERS),
            ending: AtomicBool::default(),
            counters: MountCounters::default(),
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

    /// Seals the artifacts that are not sealed yet. The filesystem serves no requests afterwards.
    ///
    /// When a mount ends, the kernel does not wait for RELEASE requests, so this also releases the
    /// files that were closed just before.
    pub fn shut_down(&self) {
        let fs = &self.0;
        fs.engine.shut_down(|| {
            fs.ending.store(true, Relaxed);
            fs.promises.finish();
            fs.waiting.finish();
            fs.slow_workers.finish();
            open::release_closed(fs);
            fs.sealer.finish();
        });
    }

    /// Lets the kernel cache the attributes of files at rest, by promises that end with any change.
    /// Does nothing if [`Self::may_promise`] is false. `tell` invalidates the attributes of a node
    /// in the kernel, and may be called from any thread.
    pub fn promise(&self, tell: impl Fn(Ino) + Send + Sync + 'static) {
        if !self.may_promise() {
            return;
        }
        if let Err(error) = self.0.promises.begin(tell) {
            tracing::warn!(%error, "changes in the store cannot be watched: every look asks it");
        }
    }

    /// Returns true if the kernel may cache the attributes of files at rest. That requires relaxed
    /// coherence and a mount without `allow_other`: with several users, the server checks the
    /// rights of each one.
    pub fn may_promise(&self) -> bool {
        self.0.options.coherence == Coherence::Relaxed && !self.0.engine.options().allow_other
    }

    pub fn engine(&self) -> &Arc<Engine> {
        &self.0.engine
    }

    pub fn status(&self) -> DoorStatus {
        let Shared { nodes, handles, sealer, counters, options, .. } = &*self.0;
        DoorStatus {
            bytes_written: counters.bytes_written.load(Relaxed),
            slow_operations: counters.slow_operations.load(Relaxed),
            passthrough: counters.passthrough.load(Relaxed),
            confinement: options.confinement.clone(),
            nodes: nodes.len(),
            open_handles: handles.len(),
            waiting_to_seal: sealer.waiting(),
        }
    }

    /// Subtracts `count` from the look-up count of `ino`, because the kernel has dropped that many
    /// references to the node.
    pub fn forget(&self, ino: Ino, count: u64) {
        self.0.nodes.forget(ino, count);
    }

    pub fn releasedir(&self, fh: Fh) -> Result<()> {
        self.0.handles.remove(fh).map(drop).ok_or(FsError::UnknownHandle(fh.0))
    }
}
