//! The store behind the gateway, opened when it is first needed.

use std::io;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::engine::Engine;
use crate::mcp::scratch::Scratch;
use crate::model::Component;
use crate::model::Limits;
use crate::store::Conversation;

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
}

/// A shelf that is opened once.
pub(super) struct LazyShelf {
    shelf: Arc<dyn Shelf>,
    open: Mutex<Option<OpenShelf>>,
}

impl LazyShelf {
    pub(super) fn new(shelf: Arc<dyn Shelf>) -> Self {
        Self { shelf, open: Mutex::new(None) }
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
        Ok(open.insert(opened).clone())
    }

    /// Begins a file for a long message. Waits for the disk.
    pub(super) fn scratch(&self) -> io::Result<Scratch> {
        let open = self.open().map_err(io::Error::other)?;
        Scratch::begin(open.engine)
    }

    /// Saves the counts. Nothing is counted afterwards.
    pub(super) fn finish(&self) {
        if let Some(open) = self.open.lock().take() {
            open.engine.finish();
        }
    }
}
