//! What all requests share.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::access::Gate;
use crate::catalog::Catalog;
use crate::error::WebError;
use crate::topics::Followers;
use crate::turns::Searches;
use crate::work::Work;
use ctxfs_core::model::{Component, RelPath};
use ctxfs_engine::{Engine, EngineError, Look};

/// Streams of events that are open at a time: fewer than connections, so that pages have some.
const STREAMS: usize = 128;
/// Files whose lines are counted at a time behind what people look at.
const COUNTERS: usize = 2;
/// The time for which a thread counts before it looks whether the file has grown.
const ROUND: Duration = Duration::from_millis(200);

/// The engine, and what is kept at hand beside it.
pub(super) struct Site {
    pub(super) engine: Arc<Engine>,
    pub(super) gate: Gate,
    pub(super) catalog: Arc<Catalog>,
    pub(super) work: Work,
    pub(super) searches: Searches,
    pub(super) followers: Followers,
    /// The streams of events that may be open.
    pub(super) streams: Arc<Semaphore>,
    /// The files whose lines are being counted, by conversation and path.
    counting: Mutex<HashSet<(Component, String)>>,
}

impl Site {
    pub(super) fn new(engine: Arc<Engine>, gate: Gate) -> Arc<Self> {
        let catalog = Catalog::new(Arc::clone(&engine));
        Arc::new(Self {
            engine,
            gate,
            catalog,
            work: Work::new(),
            searches: Searches::default(),
            followers: Followers::default(),
            streams: Arc::new(Semaphore::new(STREAMS)),
            counting: Mutex::default(),
        })
    }

    /// Returns the conversation that an address names, if there is one and it is shown.
    pub(super) fn conversation(&self, name: &str) -> Result<Component, WebError> {
        let id = Component::from_text(name)?;
        if self.engine.options.only.as_ref().is_some_and(|only| *only != id) {
            return Err(WebError::Missing);
        }
        // Its directory is looked at, and no more.
        self.engine.conversation(&id)?;
        Ok(id)
    }

    /// Does that, and asks other hosts for a conversation that is not here: waits for some seconds
    /// at most.
    pub(super) fn conversation_anywhere(&self, name: &str) -> Result<Component, WebError> {
        let id = Component::from_text(name)?;
        if self.engine.options.only.as_ref().is_none_or(|only| *only == id) {
            self.engine.others().ask_for_conversation(&id)?;
        }
        self.conversation(name)
    }

    /// Looks at the output that an address names.
    pub(super) fn look(&self, id: &Component, path: &str) -> Result<Look, WebError> {
        let path = RelPath::from_text(path)?;
        match Look::at(&self.engine, id, &path) {
            // It was replaced meanwhile.
            Err(EngineError::Stale) => Ok(Look::at(&self.engine, id, &path)?),
            looked => Ok(looked?),
        }
    }

    /// Counts the lines of a large file behind those who look at it.
    pub(super) fn count_lines(self: &Arc<Self>, id: &Component, look: Look) {
        let key = (id.clone(), look.path().to_owned());
        {
            let mut counting = self.counting.lock();
            if look.is_counted() || counting.len() >= COUNTERS || !counting.insert(key.clone()) {
                return;
            }
        }
        let site = Arc::clone(self);
        let count = move || {
            while !look.is_counted() {
                let began = Instant::now();
                let before = look.counted();
                let counted = look.count_on(&|| began.elapsed() > ROUND);
                if counted.map_or(true, |counted| counted == before) {
                    break;
                }
            }
            site.counting.lock().remove(&key);
        };
        tokio::task::spawn_blocking(count);
    }
}

impl std::fmt::Debug for Site {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Site").field("engine", &self.engine).finish_non_exhaustive()
    }
}
