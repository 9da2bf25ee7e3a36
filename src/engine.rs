//! What every door does alike: take in, show, search, list, count and remove.
//!
//! A door (the mount, the command line, and those to come) has names, handles and sockets; the engine
//! has none of these. It works on snapshots of files ([`SourceFile`]) and directories
//! ([`SourceDir`]) that a door hands it, and keeps what all doors share: caches, worker threads,
//! deadlines, redaction, quotas, retention and counts. Two doors that ask the same get the same bytes
//! and the same error.

mod analysis;
mod cache_key;
mod compute;
mod computed;
mod confinement;
mod counters;
mod counting;
mod deadline;
mod error;
mod facts;
mod filters;
mod listing;
mod live;
mod manifest;
mod message_writer;
pub(crate) mod messages;
mod metrics;
pub(crate) mod names;
mod offload;
mod options;
mod recent;
mod redaction;
mod removed;
pub(crate) mod resolve;
mod retention;
mod search;
mod show;
mod snapshot;
mod space;
mod spool;
mod status;
mod stored_dir;
mod stored_file;
pub(crate) mod sync;
mod text;
mod text_cache;
mod tracker;
mod tree;
mod version;
mod watches;
pub(crate) mod worker;
mod workers;

use std::ffi::OsStr;
use std::fs::File;
use std::sync::Arc;
use std::sync::OnceLock;
use std::time::Duration;
use std::time::Instant;

use quick_cache::sync::Cache as RecentCache;
use serde_json::Value;

pub use computed::Base;
pub use computed::Computed;
pub use computed::OpenText;
pub use computed::Recipe;
pub use confinement::Confinement;
pub use counters::Counters;
pub use error::EngineError;
pub use error::Result;
pub(crate) use error::io_error_number;
pub(crate) use facts::KnownRecord;
pub(crate) use facts::facts_number;
pub use listing::ConversationCounts;
pub use listing::ListedArtifact;
pub use listing::ListedConversation;
pub use message_writer::MessageWriter;
pub use messages::messages_version;
pub(crate) use offload::MessageHost;
pub use options::EngineOptions;
pub use redaction::Redaction;
pub use removed::RemovedContent;
pub(crate) use resolve::DiskEntry;
pub(crate) use resolve::Resolved;
pub use snapshot::DirPlace;
pub use snapshot::Snapshot;
pub use snapshot::SourceDir;
pub use snapshot::SourceFile;
pub(crate) use status::version_page;
pub use text::ViewText;
pub use tracker::RewriteCount;
pub(crate) use tracker::STEP;
pub use tracker::Tracker;
pub(crate) use tracker::analyse;
pub use tree::OpenedFile;
pub use tree::Tree;
pub use version::FileId;
pub use version::Version;

use analysis::Analyses;
use analysis::AnalysisSoFar;
use counting::Counting;
use deadline::LateSlot;
use filters::FilterProcesses;
use live::LiveFiles;
use metrics::Gauge;
use redaction::Secrets;
use retention::Retention;
use space::Space;
use text_cache::TextCache;
use watches::Watches;
use workers::WorkerPool;

use crate::message::Batch;
use crate::message::MessageError;
use crate::message::UnfinishedLine;
use crate::model::Component;
use crate::model::Record;
use crate::model::RelPath;
use crate::model::Sums;
use crate::store::Cache;
use crate::store::Conversation;
use crate::store::ManifestLock;
use crate::store::Store;

/// Conversations whose manifests stay indexed in memory.
const KEPT_CONVERSATIONS: usize = 64;

/// Filters that run at a time, each with memory of its own; of one conversation, one less.
const FILTERS: usize = 3;

/// Waits until files that were just closed are sealed, but not for longer than this.
type Settle = dyn Fn(Duration) + Send + Sync;

/// The verbs of ctxfs over one store.
pub struct Engine {
    pub(crate) store: Store,
    pub(crate) options: EngineOptions,
    pub(crate) secrets: Secrets,
    /// Texts on the store's disk, of any process that uses the store.
    cache: Cache,
    /// Texts in memory.
    texts: TextCache,
    analyses: Analyses,
    watches: Watches,
    view_workers: WorkerPool,
    /// Computes views that run filters, and so bounds how many of these run at a time.
    filter_workers: WorkerPool,
    filters: FilterProcesses,
    late: LateSlot,
    pub(crate) live: LiveFiles,
    pub(crate) retention: Retention,
    pub(crate) counting: Counting,
    pub(crate) space: Space,
    pub(crate) counters: Counters,
    /// Kept open, so that each keeps the index of its manifest.
    pub(crate) conversations: RecentCache<Component, Arc<Conversation>>,
    settle: OnceLock<Box<Settle>>,
    started: Instant,
}

impl Engine {
    /// Opens the engine over `store`. Reads nothing and starts no thread.
    pub fn new(store: Store, options: EngineOptions) -> Arc<Self> {
        let threads = std::thread::available_parallelism().map_or(2, usize::from).clamp(2, 4) + 1;
        Arc::new(Self {
            cache: store.cache(options.disk_cache_bytes),
            store,
            texts: text_cache::text_cache(options.kept_views),
            analyses: Analyses::new(),
            watches: Watches::new(),
            view_workers: WorkerPool::new("ctxfs-view", threads),
            filter_workers: WorkerPool::new("ctxfs-jq", FILTERS),
            filters: FilterProcesses::new(options.filter_command.clone()),
            secrets: Secrets(options.redaction.clone()),
            options,
            late: LateSlot::default(),
            live: LiveFiles::default(),
            retention: Retention::default(),
            counting: Counting::default(),
            space: Space::default(),
            counters: Counters::default(),
            conversations: recent::recent_cache(KEPT_CONVERSATIONS),
            settle: OnceLock::new(),
            started: Instant::now(),
        })
    }

    /// Starts the threads of a server: one removes old outputs, one saves counts. `settle` waits
    /// until files that were just closed are sealed, since only then they can be removed.
    pub(crate) fn serve(
        self: &Arc<Self>,
        settle: impl Fn(Duration) + Send + Sync + 'static,
    ) -> Result<()> {
        // A second server of the same engine would seal no other files.
        drop(self.settle.set(Box::new(settle)));
        self.retention.start(self)?;
        Ok(self.counting.start(self)?)
    }

    /// Stops computing views past their deadline, and removing old outputs.
    pub(crate) fn stop_background_work(&self) {
        self.late.close();
        self.retention.finish();
    }

    /// Saves all counts. Nothing is counted afterwards.
    pub fn finish(&self) {
        self.counting.finish(&self.store);
    }

    /// Returns the counters of this process.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Returns the store.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Returns the conversation `id`. [`EngineError::NotFound`] where there is none any more.
    pub(crate) fn conversation(&self, id: &Component) -> Result<Arc<Conversation>> {
        let conversation = self.store.conversation(id)?.ok_or(EngineError::NotFound)?;
        let held = self.conversations.get(id);
        if !held.is_some_and(|held| Arc::ptr_eq(&held, &conversation)) {
            self.conversations.insert(id.clone(), Arc::clone(&conversation));
        }
        Ok(conversation)
    }

    fn settle(&self, most: Duration) {
        if let Some(settle) = self.settle.get() {
            settle(most);
        }
    }
}

/// Take in.
impl Engine {
    /// Takes in bytes that go on where `unfinished` stopped, and hands the messages that they
    /// complete to `append`: all of them, or none. What follows the last newline stays unfinished.
    pub(crate) fn take_messages<E: From<EngineError> + From<MessageError>>(
        &self,
        conversation: &Arc<Conversation>,
        unfinished: &mut UnfinishedLine,
        bytes: &[u8],
        append: impl FnOnce(&Batch) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        messages::take(self, conversation, unfinished, bytes, append)
    }

    /// Hands a last line that lacks nothing but its newline to `append`. Otherwise it stays
    /// unfinished, and this fails.
    pub(crate) fn finish_messages<E: From<EngineError> + From<MessageError>>(
        &self,
        conversation: &Arc<Conversation>,
        unfinished: &mut UnfinishedLine,
        append: impl FnOnce(&Batch) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        messages::finish(self, conversation, unfinished, append)
    }

    /// Ends a writer of messages that is gone: appends a last line that lacks nothing but its newline,
    /// and sets any other aside, beside the log.
    pub(crate) fn leave_messages<E: From<EngineError> + From<MessageError>>(
        &self,
        conversation: &Arc<Conversation>,
        unfinished: &mut UnfinishedLine,
        append: impl FnOnce(&Batch) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        messages::leave(self, conversation, unfinished, append)
    }

    /// Checks cap, quota and disk for a file at `place` that will end at `end`, grows by `growth`,
    /// and has `length` bytes written to it. Asks for place and growth only where a limit is set.
    pub(crate) fn check_room_for_write(
        &self,
        place: &dyn Fn() -> Option<(Component, RelPath)>,
        end: u64,
        growth: &dyn Fn() -> u64,
        length: u64,
    ) -> Result<()> {
        self.check_cap(place, end)?;
        if self.options.quota.is_some()
            && let Some((id, _)) = place()
        {
            self.space.check_quota(self, &*self.conversation(&id)?, growth())?;
        }
        self.check_disk(length)
    }

    /// Checks that an output of `length` bytes can be added to `conversation`.
    pub(crate) fn check_room_for_output(
        &self,
        conversation: &Conversation,
        length: u64,
    ) -> Result<()> {
        space::check_cap(&self.options, || false, length)?;
        self.space.check_quota(self, conversation, length)?;
        self.check_disk(length)
    }

    /// Checks that an artifact at `place` that ends at `end` stays below its cap.
    pub(crate) fn check_cap(
        &self,
        place: &dyn Fn() -> Option<(Component, RelPath)>,
        end: u64,
    ) -> Result<()> {
        let is_terminal = || place().is_some_and(|(_, path)| path.is_terminal());
        space::check_cap(&self.options, is_terminal, end)
    }

    /// Checks that `length` more bytes leave room on the disk.
    pub(crate) fn check_disk(&self, length: u64) -> Result<()> {
        self.space.check_disk(self, length, true)
    }

    /// Returns the analysis of `of`, which is open as `file`, as it is now; of its first bytes only
    /// where `expired` reports that there is no time for more.
    pub(crate) fn analysis(
        &self,
        of: &dyn SourceFile,
        file: &File,
        record: Option<&Record>,
        expired: &dyn Fn() -> bool,
    ) -> Result<AnalysisSoFar> {
        analysis::analysis(self, of, file, record, expired)
    }
}

/// Show, search and list.
impl Engine {
    /// Computes the text of `of` where it is not cached, and hands it to `done`: at once where that
    /// is quick, else on another thread. Callers that ask meanwhile wait for the same computation.
    pub fn text(
        self: &Arc<Self>,
        of: &Arc<Computed>,
        done: impl FnOnce(Result<Arc<ViewText>>) + Send + 'static,
    ) {
        compute::text(self, of, Box::new(done));
    }

    /// Drops the cached text of `of`, so that it has to be computed again.
    #[cfg(test)]
    pub(crate) fn drop_text(&self, of: &Computed) {
        self.texts.remove(&of.number());
    }

    /// Returns the bytes that the pages of `of` divide: of a log, those of its text.
    pub fn text_length(&self, of: &dyn SourceFile) -> Result<u64> {
        show::text_length(self, of)
    }

    /// Returns the version of the computed file that `recipe` makes of the directory `dir`.
    pub fn version(&self, recipe: &Recipe, dir: &dyn SourceDir) -> Result<Version> {
        match recipe {
            Recipe::Manifest => manifest::version(self, dir),
            Recipe::Search(_) => search::version(self, dir),
            _ => Ok(Version::default()),
        }
    }

    /// Returns what `name` stands for in `dir`, or [`EngineError::NotFound`]. `is_top` is true for
    /// the root that the door shows.
    pub(crate) fn resolve<'a>(
        &self,
        dir: &dyn SourceDir,
        is_top: bool,
        name: &'a OsStr,
    ) -> Result<Resolved<'a>> {
        resolve::resolve(self, dir, is_top, name)
    }

    /// Lists the conversations that this door shows, in the order of their ids.
    pub fn list_conversations(&self) -> Result<Vec<ListedConversation>> {
        listing::conversations(self)
    }

    /// Lists the artifacts of the conversation `id`, in no order.
    pub fn list_artifacts(&self, id: &Component) -> Result<Vec<ListedArtifact>> {
        listing::artifacts(&*self.conversation(id)?)
    }

    /// Finds the removed content whose summary `name` means in the directory `dir`.
    pub fn removed(&self, dir: &dyn SourceDir, name: &OsStr) -> Result<Option<RemovedContent>> {
        removed::find(self, dir, name)
    }
}

/// Count.
impl Engine {
    /// Returns the counts of one conversation, or of all that this door shows, up to now.
    pub fn counts(&self, of: Option<&Component>) -> Result<ConversationCounts> {
        match of {
            Some(id) => listing::counts(self, std::slice::from_ref(id)),
            None => listing::counts(self, &listing::shown(self)?),
        }
    }

    /// Returns the sums of all conversations that this door shows, up to now.
    pub fn sums(&self) -> Result<Sums> {
        status::sums(self)
    }

    /// Returns the page for Prometheus, with the numbers that the door adds.
    pub(crate) fn metrics(&self, gauges: &[Gauge]) -> Result<String> {
        status::metrics(self, gauges)
    }

    /// Returns the status page, with the members that the door adds.
    pub(crate) fn status(&self, door: &Value) -> Result<String> {
        status::status(self, door)
    }
}

/// Remove.
impl Engine {
    /// Removes a conversation in which nothing is left but the store's own files; ENOTEMPTY
    /// otherwise.
    pub(crate) fn remove_conversation(&self, id: &Component) -> Result<()> {
        self.conversations.remove(id);
        self.counting.forget(id);
        Ok(self.store.remove_conversation(id)?)
    }

    /// Forgets the artifact at `path`, whose file of `bytes` bytes was removed, for a caller that
    /// holds the manifest.
    pub(crate) fn forget_artifact(
        &self,
        conversation: &Conversation,
        manifest: &ManifestLock,
        path: &RelPath,
        bytes: u64,
    ) -> Result<()> {
        self.space.freed(conversation.id());
        let record = conversation.forget_locked(manifest, path)?;
        self.counting.deleted(conversation.id(), bytes, record);
        Ok(())
    }

    /// Forgets removed content: its summary is gone, too.
    pub fn forget_removed(&self, removed: &RemovedContent) -> Result<()> {
        self.conversation(&removed.conversation)?.forget(&removed.path)?;
        Ok(())
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("options", &self.options).finish_non_exhaustive()
    }
}
