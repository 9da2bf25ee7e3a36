//! The store behind the gateway, opened when it is first needed.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::scratch::Scratch;
use ctxfs_core::model::{Component, Counts, Limits, OTHER_TOOLS};
use ctxfs_engine::Engine;
use ctxfs_store::Conversation;
use ctxfs_view::Form;

/// The settings and the store.
pub trait Shelf: Send + Sync {
    /// Returns the limits for the outputs of `server/tool`.
    fn limits(&self, tool: &str) -> Limits;

    /// Returns the conversation that outputs go to.
    fn conversation(&self) -> &Component;

    /// Opens the conversation, which is created if it is missing. The error says why it cannot.
    fn open(&self) -> Result<OpenShelf, String>;
}

/// The shelves of a gateway with several clients.
pub trait Shelves: Send + Sync {
    /// Returns the shelf of a new session.
    fn of_session(&self) -> Arc<dyn Shelf>;

    /// Returns the shelf of requests without a session. If the gateway asks for tokens, `token` is a
    /// name for theirs, which is the same each time and tells nothing of it.
    fn of_token(&self, token: Option<&str>) -> Arc<dyn Shelf>;
}

/// A conversation, and the engine over its store.
#[derive(Debug, Clone)]
pub struct OpenShelf {
    /// The engine.
    pub engine: Arc<Engine>,
    /// The conversation.
    pub conversation: Arc<Conversation>,
    /// True if the store is mounted, so that the paths in texts can be read as files.
    pub mounted: bool,
    /// The form of the texts that stand for long results.
    pub form: Form,
}

/// The time for which counts wait for a store that nobody has opened.
const UNCOUNTED: Duration = Duration::from_secs(5);
/// The most tools that are counted by name before the shelf is open.
const MOST_COUNTED: usize = 500;

/// A shelf that is opened once.
pub(super) struct LazyShelf {
    shelf: Arc<dyn Shelf>,
    open: Mutex<Option<OpenShelf>>,
    uncounted: Mutex<Uncounted>,
}

/// What happened before the shelf was open, by tools.
#[derive(Default)]
struct Uncounted {
    counts: HashMap<String, Counts>,
    /// True if they will be counted.
    is_due: bool,
}

impl LazyShelf {
    pub(super) fn new(shelf: Arc<dyn Shelf>) -> Self {
        Self { shelf, open: Mutex::new(None), uncounted: Mutex::default() }
    }

    pub(super) fn limits(&self, tool: &str) -> Limits {
        self.shelf.limits(tool)
    }

    pub(super) fn conversation(&self) -> &Component {
        self.shelf.conversation()
    }

    /// Opens the store, unless that was done. Waits for the disk.
    pub(super) fn open(&self) -> Result<OpenShelf, String> {
        let mut open = self.open.lock();
        if let Some(open) = &*open {
            return Ok(open.clone());
        }
        let opened = self.shelf.open()?;
        // Long messages of gateways that were killed.
        if let Err(error) = opened.engine.store().cache(0).remove_abandoned() {
            tracing::warn!("abandoned files stay in the store: {error}");
        }
        if let Err(error) = opened.engine.start_counting() {
            tracing::warn!("counts are saved at the end alone: {error}");
        }
        Ok(open.insert(opened).clone())
    }

    /// Begins a file for a long message. Waits for the disk.
    pub(super) fn scratch(&self) -> io::Result<Scratch> {
        let open = self.open().map_err(io::Error::other)?;
        Scratch::begin(open.engine)
    }

    /// Counts what happened with a tool. Waits for nothing: a store that nobody has opened is opened
    /// a little later, on another thread.
    pub(super) fn count(self: &Arc<Self>, tool: String, counts: &Counts) {
        let open = self.open.try_lock().and_then(|open| open.clone());
        if let Some(open) = open {
            return open.engine.count(open.conversation.id(), tool, counts);
        }
        let mut uncounted = self.uncounted.lock();
        let has_room =
            uncounted.counts.len() < MOST_COUNTED || uncounted.counts.contains_key(&tool);
        let tool = if has_room { tool } else { OTHER_TOOLS.to_owned() };
        *uncounted.counts.entry(tool).or_default() += counts;
        if !std::mem::replace(&mut uncounted.is_due, true) {
            let shelf = Arc::clone(self);
            tokio::spawn(async move {
                sleep(UNCOUNTED).await;
                spawn_blocking(move || shelf.count_waiting()).await.ok();
            });
        }
    }

    /// Counts what happened before the store was open. Waits for the disk.
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

    /// Saves the counts. Nothing is counted afterwards.
    pub(super) fn finish(&self) {
        self.count_waiting();
        if let Some(open) = self.open.lock().take() {
            open.engine.finish();
        }
    }
}
