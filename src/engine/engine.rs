//! The engine: the state that all doors of a process share, and its start and shutdown.

use std::io::{self, Write as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use quick_cache::sync::Cache as RecentCache;

use crate::answers::unkept::UnkeptAnswers;
use crate::sync::atomic::Ordering::Relaxed;
use crate::{
    Analyses, Client, Counters, Counting, DescriptorBudget, EngineError, EngineOptions, FileId,
    FilterProcesses, KeptAnalyses, LateSlot, LineIndex, LiveFiles, Result, Retention, Secrets,
    Shares, Space, Spool, TextCache, ViewText, Watches, WorkerPool, enough_on_disk,
    fitting_on_disk, recent_cache, text_cache,
};
use ctxfs_core::model::{Component, Counts};
use ctxfs_store::{Cache, Conversation, Store};
use ctxfs_view::Rendered;

/// Maximum number of bytes in memory on behalf of clients: texts of views, names of open
/// directories, and unfinished messages. With about 40 MiB for the server itself, the process stays
/// below 128 MiB. Nothing fails at the limit; the excess goes to unnamed files.
pub(crate) const HELD_FOR_CLIENTS: u64 = 64 << 20;

/// Maximum number of filter processes at a time, each with its own memory. A conversation may use
/// all of them but one.
const FILTERS: usize = 3;
/// Maximum number of questions from views that language models answer at a time. A conversation may
/// use all of them but one.
const QUESTIONS: usize = 4;

/// Maximum number of files whose line positions are cached. Each takes at most 64 KiB.
const LINE_INDEXES: usize = 32;

/// The operations of ctxfs over one store, for every door of a process.
///
/// The engine is shared through an `Arc`, and every method may be called from any thread. The
/// components in its fields do not refer to the engine. An operation that combines several of them
/// is a method of the engine or a function that takes the engine.
///
/// - `options`: the settings in effect, which never change
/// - `cache`: texts of views on the store's disk. All processes that use the store share these.
/// - `filter_workers`: one thread for each filter process
/// - `counting`: counts of reads that are not yet in the store
/// - `conversations`: conversations whose manifest index stays in memory
pub struct Engine {
    pub(crate) store: Store,
    pub options: Arc<EngineOptions>,
    pub(crate) secrets: Secrets,
    pub(crate) cache: Cache,
    pub(crate) texts: TextCache,
    pub(crate) memory: Arc<Shares>,
    pub(crate) analyses: Analyses,
    pub(crate) kept_analyses: KeptAnalyses,
    pub(crate) line_indexes: RecentCache<FileId, Arc<LineIndex>>,
    pub(crate) watches: Watches,
    pub(crate) view_workers: WorkerPool,
    pub(crate) filter_workers: WorkerPool,
    pub(crate) filters: FilterProcesses,
    pub(crate) question_workers: WorkerPool,
    pub(crate) unkept_answers: UnkeptAnswers,
    pub(crate) late: LateSlot,
    pub(crate) live: LiveFiles,
    pub(crate) retention: Arc<Retention>,
    pub(crate) counting: Arc<Counting>,
    pub(crate) space: Space,
    pub(crate) counters: Arc<Counters>,
    pub(crate) conversations: RecentCache<Component, Arc<Conversation>>,
    pub(crate) started: Instant,
}

impl Engine {
    /// Opens the engine over `store`. Reads nothing and starts no thread.
    pub fn new(store: Store, options: EngineOptions) -> Arc<Self> {
        let options = Arc::new(options);
        let descriptors = DescriptorBudget::new(options.descriptors);
        let threads = std::thread::available_parallelism().map_or(2, usize::from).clamp(2, 4) + 1;
        let secrets = Secrets(options.redaction.clone());
        let cache = store.cache(options.disk_cache_bytes);
        let counters = Arc::<Counters>::default();
        let retention = Arc::new(Retention::new(&store, &options, &counters));
        Arc::new(Self {
            texts: text_cache(options.kept_views, descriptors.texts),
            memory: Shares::new(HELD_FOR_CLIENTS),
            analyses: Analyses::new(),
            kept_analyses: KeptAnalyses::default(),
            line_indexes: recent_cache(LINE_INDEXES),
            watches: Watches::new(descriptors.watched, options.allow_other),
            view_workers: WorkerPool::new("ctxfs-view", threads),
            filter_workers: WorkerPool::new("ctxfs-jq", FILTERS),
            filters: FilterProcesses::new(options.filter_command.clone()),
            question_workers: WorkerPool::new("ctxfs-extract", QUESTIONS),
            unkept_answers: UnkeptAnswers::default(),
            late: LateSlot::default(),
            live: LiveFiles::default(),
            space: Space::default(),
            retention,
            counting: Arc::new(Counting::new(store.clone(), secrets.clone())),
            counters,
            conversations: recent_cache(descriptors.conversations),
            started: Instant::now(),
            secrets,
            cache,
            options,
            store,
        })
    }

    /// Starts the background threads of a server: one removes old outputs, one saves counts.
    /// `settle` waits, for at most the given time, until files that were just closed are sealed.
    /// Only sealed files can be removed.
    pub fn serve(&self, settle: impl Fn(Duration) + Send + Sync + 'static) -> Result<()> {
        self.retention.start(Box::new(settle))?;
        self.start_counting()
    }

    /// Starts the thread that saves counts every few seconds.
    pub fn start_counting(&self) -> Result<()> {
        Ok(self.counting.start()?)
    }

    /// Ends the work of a server: stops computing views past their deadlines, and stops removing
    /// old outputs. Then calls `seal`, which seals the files of the door, and saves all counts.
    pub fn shut_down(&self, seal: impl FnOnce()) {
        self.late.closed.store(true, Relaxed);
        self.retention.finish();
        seal();
        self.finish();
    }

    /// Saves all counts. Later operations are not counted.
    pub fn finish(&self) {
        self.counting.finish();
    }

    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Returns a writer for the text of a computed file. The memory of the text is charged to the
    /// conversation `by`.
    pub fn spool(&self, by: Option<Component>) -> Spool<'_> {
        // No output is removed to make room for a text.
        let room =
            |length| Ok(enough_on_disk(self, fitting_on_disk(self, length, false)?, length)?);
        let held = self.memory.holder(Client { conversation: by, user: None });
        Spool::new(&self.cache, Box::new(room), held)
    }

    /// Returns `text` as the text of a computed file. The memory of the text is charged to the
    /// conversation `by`.
    pub(crate) fn held_text(&self, text: &str, by: Option<Component>) -> io::Result<ViewText> {
        let spool = self.spool(by);
        (&spool).write_all(text.as_bytes())?;
        spool.finish(Rendered { notice: None, whole: true }, None)
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

    pub fn options(&self) -> &EngineOptions {
        &self.options
    }

    /// Adds to the counts of a tool. If counting was started, the counts are in the store a few
    /// seconds later. Otherwise they are in the store when counting ends.
    pub fn count(&self, id: &Component, tool: String, counts: &Counts) {
        self.counting.add(id.clone(), tool, counts);
    }

    /// Removes a conversation that contains only the store's own files. Fails with ENOTEMPTY if it
    /// contains other files.
    pub fn remove_conversation(&self, id: &Component) -> Result<()> {
        self.conversations.remove(id);
        self.counting.forget(id);
        self.space.quotas.forget(id);
        self.store.remove_conversation(id)?;
        self.changed(id);
        Ok(())
    }

    /// Notifies the hosts that share the conversation `id` that it has changed. Returns without
    /// waiting.
    pub(crate) fn changed(&self, id: &Component) {
        if let Some(others) = &self.options.other_hosts {
            others.changed(id, None);
        }
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("options", &self.options).finish_non_exhaustive()
    }
}
