//! The verbs of ctxfs, each implemented once for all doors: take in, show, search, list, count and
//! remove.
//!
//! A door (the mount, the command line, and those to come) has names, handles and sockets; the
//! engine has none of these. It works on snapshots of files ([`SourceFile`]) and directories
//! ([`SourceDir`]) that a door hands it, and has the parts that all doors share: caches, workers,
//! deadlines, redaction, quotas, retention and counts. Two doors that ask for one thing get equal
//! bytes or equal errors.

mod analysis;
mod answers;
mod bounded_writer;
mod cache_key;
mod catalog;
mod compute;
mod computed;
mod confinement;
mod counters;
mod counting;
mod deadline;
mod descriptors;
mod document;
mod error;
mod facts;
pub(crate) mod far;
mod filters;
mod identity;
mod intake;
mod kept_analyses;
pub mod last_seen;
mod line_index;
mod line_window;
mod listing;
mod live;
mod logged;
mod look;
mod manifest;
mod message_writer;
pub mod messages;
mod metrics;
pub mod names;
mod offload;
mod open_file;
mod options;
mod others;
mod overflow;
pub mod patience;
pub mod quota;
mod reader;
mod recent;
mod redaction;
mod removed;
pub mod resolve;
mod retention;
pub mod same_name;
mod search;
mod shared_log;
mod shares;
mod show;
mod shown;
mod snapshot;
mod space;
mod spool;
mod stand_in;
mod status;
mod stored_dir;
mod stored_file;
pub mod sync;
mod tail;
mod text;
mod text_cache;
mod tracker;
mod tree;
pub mod unsettled;
mod verbs;
mod version;
pub mod view_sizes;
mod watches;
pub mod worker;
pub mod workers;

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use quick_cache::sync::Cache as RecentCache;

pub use answers::{Answer, Answers, Question};
pub use computed::{Base, Computed, OpenText, Recipe};
pub use confinement::Confinement;
pub use counters::Counters;
pub use error::{EngineError, Result, io_error_number, reason_of_loss};
pub use facts::{KnownRecord, facts_number};
pub use identity::{FileId, Identity};
pub use intake::{Intake, NewOutput, OutputName};
pub use line_index::Counted;
pub use line_window::{LineRow, LineWindow, WINDOW_ROWS};
pub use listing::{ConversationCounts, ListedArtifact, ListedConversation, Listing};
pub use logged::{LoggedMessage, MessagePage, MessageRange};
pub use look::{Look, LookFacts, LookText};
pub use message_writer::MessageWriter;
pub use messages::{UnfinishedMessage, messages_version};
pub(crate) use offload::MessageHost;
pub use open_file::{FileRef, OpenFar, OpenFile};
pub use options::EngineOptions;
pub use overflow::Loss;
pub use quota::Reservation;
pub use reader::{Reader, User};
pub use redaction::{MaskedForm, Redaction};
pub use removed::RemovedContent;
pub use resolve::{DiskEntry, Resolved};
pub use shared_log::SharedLog;
pub use shares::{Client, Share, Shares};
pub use snapshot::{DirPlace, FileChange, Snapshot, SourceDir, SourceFile};
pub use spool::Spool;
pub use stand_in::{OutputParts, Replace, ShownOutput, StandInRequest, StoredOutput, pays};
pub use status::version_page;
pub use tail::{Tail, cut_line_of, left_out, whole_lines_before};
pub use text::ViewText;
pub use tracker::{RewriteCount, STEP, Tracker, analyse};
pub use tree::{OpenedFile, Tree};
pub use version::Version;

use analysis::Analyses;
use answers::UnkeptAnswers;
use counting::Counting;
use deadline::LateSlot;
use descriptors::DescriptorBudget;
use filters::FilterProcesses;
use kept_analyses::KeptAnalyses;
use line_index::LineIndex;
use live::LiveFiles;
use redaction::Secrets;
use retention::Retention;
use space::Space;
use text_cache::TextCache;
use watches::Watches;
use workers::WorkerPool;

use ctxfs_core::model::Component;
use ctxfs_store::{Cache, Conversation, Store};

/// The bytes that clients make this process hold, of texts of views, names of open directories and
/// unfinished messages. With some 40 MiB for the server itself, they leave it below 128 MiB.
/// Nothing fails for want of them: what a client may not hold in memory goes to a file without a
/// name.
const HELD_FOR_CLIENTS: u64 = 64 << 20;

/// The most filters that run at a time, each with memory of its own. One conversation gets one
/// less.
const FILTERS: usize = 3;
/// The most questions of views that language models are asked at a time. One conversation gets one
/// less.
const QUESTIONS: usize = 4;

/// The files whose places of lines are kept, each with at most 64 KiB.
const LINE_INDEXES: usize = 32;

/// A function that waits until files that were just closed are sealed, for at most the given time.
type Settle = dyn Fn(Duration) + Send + Sync;

/// The verbs of ctxfs over one store.
pub struct Engine {
    /// The store on disk.
    pub store: Store,
    /// The settings in effect.
    pub options: EngineOptions,
    /// The patterns of secrets, which views mask.
    pub secrets: Secrets,
    /// Texts on the store's disk, from all processes that use the store.
    cache: Cache,
    /// Texts in memory.
    texts: TextCache,
    /// The memory that clients make this process hold.
    memory: Arc<Shares>,
    analyses: Analyses,
    kept_analyses: KeptAnalyses,
    /// The places of lines in files that people looked at last.
    line_indexes: RecentCache<FileId, Arc<LineIndex>>,
    watches: Watches,
    view_workers: WorkerPool,
    /// Computes views that run filters, and so bounds the number of filters that run at a time.
    filter_workers: WorkerPool,
    filters: FilterProcesses,
    /// Computes answers of language models.
    question_workers: WorkerPool,
    unkept_answers: UnkeptAnswers,
    late: LateSlot,
    /// Files that a writer has open.
    pub live: LiveFiles,
    /// The sweeps that remove old outputs.
    pub retention: Retention,
    /// Counts of reads that are not in the store yet.
    pub counting: Counting,
    /// Room on the disk and under the quota.
    pub space: Space,
    /// Counters of the process, as `.ctxfs/metrics` prints them.
    pub counters: Counters,
    /// Kept open, so that each keeps the index of its manifest.
    pub(crate) conversations: RecentCache<Component, Arc<Conversation>>,
    /// Descriptors that files of the store may take.
    pub descriptors: DescriptorBudget,
    settle: OnceLock<Box<Settle>>,
    started: Instant,
}

impl Engine {
    /// Opens the engine over `store`. Reads nothing and starts no thread.
    pub fn new(store: Store, options: EngineOptions) -> Arc<Self> {
        let descriptors = DescriptorBudget::new(options.descriptors);
        let threads = std::thread::available_parallelism().map_or(2, usize::from).clamp(2, 4) + 1;
        Arc::new(Self {
            cache: store.cache(options.disk_cache_bytes),
            store,
            texts: text_cache::text_cache(options.kept_views, descriptors.texts),
            memory: Shares::new(HELD_FOR_CLIENTS),
            analyses: Analyses::new(),
            kept_analyses: KeptAnalyses::default(),
            line_indexes: recent::recent_cache(LINE_INDEXES),
            watches: Watches::new(descriptors.watched, options.allow_other),
            view_workers: WorkerPool::new("ctxfs-view", threads),
            filter_workers: WorkerPool::new("ctxfs-jq", FILTERS),
            filters: FilterProcesses::new(options.filter_command.clone()),
            question_workers: WorkerPool::new("ctxfs-extract", QUESTIONS),
            unkept_answers: UnkeptAnswers::default(),
            secrets: Secrets(options.redaction.clone()),
            options,
            late: LateSlot::default(),
            live: LiveFiles::default(),
            retention: Retention::default(),
            counting: Counting::default(),
            space: Space::default(),
            counters: Counters::default(),
            conversations: recent::recent_cache(descriptors.conversations),
            descriptors,
            settle: OnceLock::new(),
            started: Instant::now(),
        })
    }

    /// Starts the threads of a server: one removes old outputs, one saves counts. `settle` waits
    /// until files that were just closed are sealed, as only sealed ones can be removed.
    pub fn serve(
        self: &Arc<Self>,
        settle: impl Fn(Duration) + Send + Sync + 'static,
    ) -> Result<()> {
        // A second server of the same engine would seal no other files.
        drop(self.settle.set(Box::new(settle)));
        self.retention.start(self)?;
        Ok(self.counting.start(self)?)
    }

    /// Stops computing views past their deadline, and removing old outputs.
    pub fn stop_background_work(&self) {
        self.late.close();
        self.retention.finish();
    }

    /// Starts the thread that saves counts every few seconds.
    pub fn start_counting(self: &Arc<Self>) -> Result<()> {
        Ok(self.counting.start(self)?)
    }

    /// Saves all counts. Nothing is counted afterwards.
    pub fn finish(&self) {
        self.counting.finish(self);
    }

    /// Returns the counters of this process.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Returns the store.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Returns the conversation `id`. Fails with [`EngineError::NotFound`] if there is none.
    pub fn conversation(&self, id: &Component) -> Result<Arc<Conversation>> {
        let conversation = self.store.conversation(id)?.ok_or(EngineError::NotFound)?;
        let held = self.conversations.get(id);
        if !held.is_some_and(|held| Arc::ptr_eq(&held, &conversation)) {
            self.conversations.insert(id.clone(), Arc::clone(&conversation));
        }
        Ok(conversation)
    }

    /// Tells the hosts that share the conversation `id` that something was done in it. `sealed` has
    /// the bytes of an output that is complete now. Costs next to nothing.
    pub fn changed(&self, id: &Component, sealed: Option<u64>) {
        if let Some(others) = &self.options.other_hosts {
            others.changed(id, sealed);
        }
    }

    fn settle(&self, most: Duration) {
        if let Some(settle) = self.settle.get() {
            settle(most);
        }
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("options", &self.options).finish_non_exhaustive()
    }
}
