//! The gateway's store, opened on first use.

use std::collections::HashMap;
use std::io::{self, Read as _};
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use ctxfs_core::model::{Component, Counts, Limits, OTHER_TOOLS};
use ctxfs_engine::Engine;
use ctxfs_store::{Conversation, Draft};
use ctxfs_view::Form;

// Delay before the store is opened only to save counts. It is often opened earlier for an output.
const COUNT_DELAY: Duration = Duration::from_secs(5);
const MAX_COUNTED: usize = 500;
// Number of bytes written between checks for free disk space.
const DISK_CHECK_STEP: u64 = 1 << 20;
// Maximum length of a long message that stays in memory, and number of such messages.
const MEMORY: u64 = 4 << 20;
const MAX_IN_MEMORY: usize = 4;

/// The settings and the store of one conversation. Implementations may block on the disk only in
/// `open`.
pub trait Shelf: Send + Sync {
    /// Returns the limits for outputs of `tool`, which has the form `server/tool`.
    fn limits(&self, tool: &str) -> Limits;

    /// Returns the conversation that outputs go to.
    fn conversation(&self) -> &Component;

    /// Returns true if `tool_output` is offered: a language model is configured, or stand-ins name
    /// the tool.
    fn answers_questions(&self) -> bool;

    /// Opens the conversation, and creates it if it is missing. Errors are worded for the model and
    /// the log.
    fn open(&self) -> Result<GatewayConversation, String>;
}

/// The shelves of a gateway with several clients. Sessions may share a conversation or have one
/// each.
pub trait ConversationSources: Send + Sync {
    /// Returns the shelf of a new session.
    fn of_session(&self) -> Arc<dyn Shelf>;

    /// Returns the shelf for requests without a session. If tokens are required, `token` is a
    /// stable name of the client's bearer token. It does not reveal the token.
    fn of_token(&self, token: Option<&str>) -> Arc<dyn Shelf>;
}

/// A conversation, and the engine over its store. If `mounted`, stand-ins name paths that can be
/// read as files. A clone is cheap and keeps the store open.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "the names say it")]
pub struct GatewayConversation {
    pub engine: Arc<Engine>,
    pub conversation: Arc<Conversation>,
    pub mounted: bool,
    pub form: Form,
}

/// A shelf that opens its store on first use, so that a gateway that stores nothing does not touch
/// the disk. Until then, counts are kept in memory.
pub(crate) struct LazyShelf {
    /// Provides the limits and the conversation, which are available without the store.
    pub(crate) source: Arc<dyn Shelf>,
    /// True if the gateway offers the context tools, so that stand-ins may name them.
    pub(crate) has_tools: bool,
    open: Mutex<Option<GatewayConversation>>,
    uncounted: Mutex<UnsavedCounts>,
}

// Turns of the long messages in memory, of all sessions.
static IN_MEMORY: LazyLock<Arc<Semaphore>> =
    LazyLock::new(|| Arc::new(Semaphore::new(MAX_IN_MEMORY)));

/// Counts per tool, collected before the store was open. The calls of tools beyond the first
/// `MAX_COUNTED` are counted together.
#[derive(Default)]
struct UnsavedCounts {
    counts: HashMap<String, Counts>,
    is_due: bool,
}

impl LazyShelf {
    pub(crate) fn new(source: Arc<dyn Shelf>, has_tools: bool) -> Self {
        Self { source, has_tools, open: Mutex::new(None), uncounted: Mutex::default() }
    }

    pub(crate) fn open(&self) -> Result<GatewayConversation, String> {
        let mut open = self.open.lock();
        // A conversation that was removed is created again.
        if let Some(open) = open.as_ref().filter(|open| open.conversation.path().is_dir()) {
            return Ok(open.clone());
        }
        let opened = self.source.open()?;
        // Removes long messages left behind by killed gateways.
        if let Err(error) = opened.engine.store().cache(0).remove_abandoned() {
            tracing::warn!("abandoned files stay in the store: {error}");
        }
        if let Err(error) = opened.engine.start_counting() {
            tracing::warn!("counts are saved at the end alone: {error}");
        }
        Ok(open.insert(opened).clone())
    }

    pub(crate) fn scratch(&self) -> io::Result<Scratch> {
        let open = self.open().map_err(io::Error::other);
        let place = open.and_then(|open| ScratchPlace::in_file(open.engine)).or_else(|error| {
            let turn = Arc::clone(&IN_MEMORY).try_acquire_owned().map_err(|_| error)?;
            Ok::<_, io::Error>(ScratchPlace::Memory { bytes: Vec::new(), _turn: turn })
        })?;
        Ok(Scratch { place, length: 0 })
    }

    /// Adds to the counts of a tool without waiting. If the store is not open yet, another thread
    /// opens it later.
    pub(crate) fn count(self: &Arc<Self>, tool: String, counts: &Counts) {
        let open = self.open.try_lock().and_then(|open| open.clone());
        if let Some(open) = open {
            return open.engine.count(open.conversation.id(), tool, counts);
        }
        let mut uncounted = self.uncounted.lock();
        let has_room = uncounted.counts.len() < MAX_COUNTED || uncounted.counts.contains_key(&tool);
        let tool = if has_room { tool } else { OTHER_TOOLS.to_owned() };
        *uncounted.counts.entry(tool).or_default() += counts;
        if !std::mem::replace(&mut uncounted.is_due, true) {
            let shelf = Arc::clone(self);
            tokio::spawn(async move {
                sleep(COUNT_DELAY).await;
                spawn_blocking(move || shelf.count_waiting()).await.ok();
            });
        }
    }

    fn count_waiting(&self) {
        let is_needed = !self.uncounted.lock().counts.is_empty();
        let open = is_needed.then(|| self.open().ok()).flatten();
        let mut uncounted = self.uncounted.lock();
        uncounted.is_due = false;
        let Some(open) = open else { return };
        for (tool, counts) in uncounted.counts.drain() {
            open.engine.count(open.conversation.id(), tool, &counts);
        }
    }

    pub(crate) fn finish(&self) {
        self.count_waiting();
        if let Some(open) = self.open.lock().take() {
            open.engine.finish();
        }
    }
}

/// The bytes of a message that is too long for memory: a file in the store's cache, which is
/// deleted on drop. If the gateway is killed, the next gateway deletes it. A message for which the
/// disk has no room stays in memory if it has at most [`MEMORY`] bytes.
pub(crate) struct Scratch {
    place: ScratchPlace,
    length: u64,
}

/// Bytes are written to the disk up to `checked` without a check for free space.
enum ScratchPlace {
    File { engine: Arc<Engine>, draft: Draft, checked: u64 },
    Memory { bytes: Vec<u8>, _turn: OwnedSemaphorePermit },
}

impl ScratchPlace {
    fn in_file(engine: Arc<Engine>) -> io::Result<Self> {
        // The cache limit does not apply to drafts.
        let draft = engine.store().cache(0).draft()?;
        Ok(Self::File { engine, draft, checked: 0 })
    }
}

impl Scratch {
    pub(crate) fn add(&mut self, bytes: &[u8]) -> io::Result<()> {
        let end = self.length + bytes.len() as u64;
        if let Err(error) = self.write(bytes, end) {
            let turn = Arc::clone(&IN_MEMORY).try_acquire_owned();
            let Some(turn) = turn.ok().filter(|_| end <= MEMORY) else { return Err(error) };
            let mut held = vec![0; self.length as usize];
            if let ScratchPlace::File { draft, .. } = &self.place {
                draft.file().read_exact_at(&mut held, 0)?;
            }
            held.extend_from_slice(bytes);
            self.place = ScratchPlace::Memory { bytes: held, _turn: turn };
        }
        self.length = end;
        Ok(())
    }

    fn write(&mut self, bytes: &[u8], end: u64) -> io::Result<()> {
        match &mut self.place {
            ScratchPlace::File { engine, draft, checked } => {
                if end > *checked {
                    engine.check_disk(end - self.length + DISK_CHECK_STEP)?;
                    *checked = end + DISK_CHECK_STEP;
                }
                draft.file().write_all_at(bytes, self.length)
            }
            ScratchPlace::Memory { bytes: held, .. } if end <= MEMORY => {
                held.extend_from_slice(bytes);
                Ok(())
            }
            ScratchPlace::Memory { .. } => Err(io::ErrorKind::StorageFull.into()),
        }
    }

    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// Reads from the start of `span` and shortens it accordingly. Returns the number of bytes
    /// read, or 0 at the end.
    pub(crate) fn read(&self, span: &mut Range<u64>, block: &mut [u8]) -> io::Result<usize> {
        let left = span.end.saturating_sub(span.start).min(block.len() as u64);
        let block = &mut block[..left as usize];
        let count = match &self.place {
            ScratchPlace::File { draft, .. } => draft.file().read_at(block, span.start)?,
            ScratchPlace::Memory { bytes, .. } => {
                let from = span.start.min(self.length) as usize;
                (&bytes[from..]).read(block)?
            }
        };
        if count == 0 && left > 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        span.start += count as u64;
        Ok(count)
    }
}
