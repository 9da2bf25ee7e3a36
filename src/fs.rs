//! The filesystem without a kernel: nodes, handles, sealing, and the views of every file.
//!
//! [`ContextFs`] has one method an operation, in its own terms ([`Ino`], [`Attr`], [`Entry`],
//! [`Errno`]); the `fuse` layer translates. It may be called from many threads at once.
//!
//! Locks, in the order in which they may be held together: a manifest, `Shared::places`, the link
//! of a node on disk, its `Writing`, its analysis, the inode table. None is held while a view is
//! computed.

mod analysis;
mod attr;
mod body;
mod changes;
mod closer;
mod computed;
mod confinement;
mod copy;
mod counters;
mod dir;
mod error;
mod facts;
mod file;
mod filters;
mod handle;
mod inode;
mod io;
mod keeper;
mod kept;
mod lookup;
mod messages;
mod metrics;
mod node;
mod overtime;
mod pool;
mod recording;
mod redaction;
mod removed;
mod rename;
mod rendered;
mod room;
mod seal;
mod search;
mod setattr;
mod sync;
mod tally;
mod terminal;
#[cfg(test)]
mod tests;
mod views;
mod xattr;

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;
use std::time::Instant;

pub use attr::Attr;
pub use attr::Caller;
pub use attr::Entry;
pub use attr::Fh;
pub use attr::FileKind;
pub use attr::Ino;
pub use attr::NewTime;
pub use attr::SetAttr;
pub use attr::TimedAttr;
pub use closer::Processes;
pub use closer::SeenFromHere;
pub use confinement::Confinement;
pub use copy::FilePosition;
pub use counters::Counters;
pub use dir::Listed;
pub use error::Errno;
pub use error::FsError;
pub use error::Level;
pub use error::Result;
pub use io::OpenMode;
pub use io::Opened;
pub use redaction::Redaction;
pub use rename::RenameMode;

use quick_cache::sync::Cache as Recent;

use analysis::Analyses;
use body::BodyCache;
use changes::Watched;
use filters::FilterProcesses;
use handle::HandleTable;
use inode::InodeTable;
use keeper::Keeper;
use overtime::Overtime;
use pool::Pool;
use room::Room;
use seal::Sealer;
use tally::Tally;

use crate::fs::sync::RwLock;
use crate::keep::RetentionRules;
use crate::model::Component;
use crate::model::Limits;
use crate::model::LimitsByTool;
use crate::model::Place;
use crate::model::RelPath;
use crate::model::Root;
use crate::store::Cache;
use crate::store::Conversation;
use crate::store::Store;

/// Conversations whose manifests stay indexed in memory.
const KEPT_CONVERSATIONS: usize = 64;

/// Filters that run at a time, each with memory of its own; of one conversation, one less.
const FILTERS: usize = 3;

/// How a mount behaves.
#[derive(Debug, Clone)]
pub struct Options {
    /// The root of the tree as its readers name it, such as `/ctx`; views print it.
    pub prefix: String,
    /// The conversation that is the root, made where it is missing; without one, the root holds all.
    pub only: Option<Component>,
    /// Sealed artifacts cannot be changed.
    pub write_once: bool,
    /// Directories list `X.summary`, `X.tail` and `X.grep`; else they are found by name only.
    pub list_views: bool,
    /// Most bytes of one artifact: a write past it gives EFBIG.
    pub max_artifact: Option<u64>,
    /// Most bytes of one log in `artifacts/terminal`, where that is less.
    pub max_terminal: Option<u64>,
    /// Most bytes of the artifacts of one conversation: a write past it gives EDQUOT.
    pub quota: Option<u64>,
    /// What is removed to make room; nothing, where no rule says so.
    pub keep: RetentionRules,
    /// Bytes that must stay free on the store's disk: a write that leaves less gives ENOSPC.
    pub min_free: u64,
    /// Permission bits of the root directory.
    pub root_mode: u16,
    /// How long a view may be computed before it gives what it has.
    pub view_deadline: Duration,
    /// Bytes of views that are kept in memory for the next reader.
    pub kept_views: u64,
    /// What fits into a conversation.
    pub limits: Arc<dyn LimitsByTool>,
    /// What is done about secrets; nothing, where it is absent.
    pub redaction: Option<Redaction>,
    /// The program, and its arguments, that runs a jq filter with `view::run_filter`, in a process
    /// with limits; without one no filter runs.
    pub filter_command: Option<Vec<OsString>>,
    /// Most bytes of results that are kept on the store's disk for the next reader.
    pub disk_cache_bytes: u64,
    /// Who sees how a writer ended.
    pub processes: Arc<dyn Processes>,
    /// What holds of this process, for `.ctxfs/status.json`.
    pub confinement: Confinement,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            prefix: "/ctx".to_owned(),
            only: None,
            write_once: false,
            list_views: true,
            max_artifact: None,
            max_terminal: Some(1 << 30),
            quota: None,
            keep: RetentionRules::default(),
            min_free: 64 * 1024 * 1024,
            root_mode: 0o755,
            view_deadline: Duration::from_secs(5),
            kept_views: 8 * 1024 * 1024,
            limits: Arc::new(Limits::default()),
            redaction: None,
            filter_command: None,
            disk_cache_bytes: 1 << 30,
            processes: Arc::new(SeenFromHere),
            confinement: Confinement::default(),
        }
    }
}

impl Options {
    /// Where the tree begins for its readers.
    fn root(&self) -> Root {
        let prefix = self.prefix.clone();
        if self.only.is_some() { Root::One(prefix) } else { Root::All(prefix) }
    }

    /// How readers name the file at `path` in the conversation `id`.
    fn place(&self, id: &Component, path: &RelPath) -> Place {
        Place::below(&self.root(), &id.to_text(), path)
    }
}

/// What is held of a filesystem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InUse {
    /// Nodes that the kernel knows; the root is always one of them.
    pub nodes: usize,
    /// Open files and directories.
    pub handles: usize,
    /// What the sealing thread has still to do.
    pub waiting_to_seal: usize,
}

/// The filesystem.
#[derive(Clone)]
pub struct ContextFs(Arc<Shared>);

pub(crate) struct Shared {
    store: Store,
    options: Options,
    nodes: InodeTable,
    handles: HandleTable,
    /// Results of any process that uses the store.
    cache: Cache,
    bodies: BodyCache,
    analyses: Analyses,
    watched: Watched,
    pool: Pool,
    /// Computes views that run filters, and so bounds how many of these run at a time.
    filter_pool: Pool,
    filters: FilterProcesses,
    overtime: Overtime,
    sealer: Sealer,
    keeper: Keeper,
    tally: Tally,
    /// Kept open, so that each keeps the index of its manifest.
    conversations: Recent<Component, Arc<Conversation>>,
    /// For reading while a record is written under the path of its file, which the names of all
    /// directories above make; for writing while a name moves and its records follow.
    places: RwLock<()>,
    room: Room,
    counters: Counters,
    started: Instant,
}

impl ContextFs {
    /// Serves `store`. Starts the threads that compute views and that seal; reads nothing yet.
    pub fn new(store: Store, options: Options) -> Result<Self> {
        let top = node::top(&store, options.only.as_ref())?;
        let threads = std::thread::available_parallelism().map_or(2, usize::from).clamp(2, 4) + 1;
        let filters = FilterProcesses::new(options.filter_command.clone());
        let fs = Self(Arc::new(Shared {
            cache: store.cache(options.disk_cache_bytes),
            store,
            nodes: InodeTable::new(top),
            handles: HandleTable::default(),
            bodies: body::cache(options.kept_views),
            options,
            analyses: Analyses::new(),
            watched: Watched::new(),
            pool: Pool::start("ctxfs-view", threads)?,
            filter_pool: Pool::start("ctxfs-jq", FILTERS)?,
            filters,
            overtime: Overtime::default(),
            sealer: Sealer::default(),
            keeper: Keeper::default(),
            tally: Tally::default(),
            conversations: Recent::new(KEPT_CONVERSATIONS),
            places: RwLock::default(),
            room: Room::default(),
            counters: Counters::default(),
            started: Instant::now(),
        }));
        seal::start(&fs.0)?;
        keeper::start(&fs.0)?;
        tally::start(&fs.0)?;
        Ok(fs)
    }

    /// What the kernel and the sealing thread hold of it now.
    pub fn in_use(&self) -> InUse {
        InUse {
            nodes: self.0.nodes.len(),
            handles: self.0.handles.len(),
            waiting_to_seal: self.0.sealer.waiting(),
        }
    }

    /// What has happened since the start.
    pub fn counters(&self) -> &Counters {
        &self.0.counters
    }

    /// A regular file of the store, by which the adaptor tries what the kernel allows.
    pub fn probe_file(&self) -> Result<std::fs::File> {
        Ok(self.0.store.probe_file()?)
    }

    /// Seals what is still to be sealed. Nothing is served afterwards.
    ///
    /// The kernel does not wait for RELEASE when a mount ends: files that were closed just before
    /// are released here.
    pub fn shut_down(&self) {
        self.0.overtime.close();
        self.0.keeper.finish();
        for handle in self.0.handles.drain() {
            let closed = |file: &Arc<handle::FileHandle>| file.writes && file.is_closed();
            match handle {
                handle::Handle::File(file) if closed(&file) => {
                    if let Err(error) = self.0.writer_gone(file) {
                        tracing::warn!(%error, "an open file was not released");
                    }
                }
                handle::Handle::Rendered(view) => self.0.count_read(&view),
                handle::Handle::File(_) | handle::Handle::Listing(_) => {}
            }
        }
        self.0.sealer.finish();
        self.0.finish_counting();
    }
}

impl std::fmt::Debug for ContextFs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ContextFs").field("options", &self.0.options).finish_non_exhaustive()
    }
}
