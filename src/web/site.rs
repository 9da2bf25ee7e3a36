//! The state shared by all requests.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::{AccessGate, Followers, PageCatalog, Result, Searches, WebError, Work};
use ctxfs_core::model::{Component, RelPath};
use ctxfs_engine::{Engine, EngineError, Look};

// Maximum number of open event streams. It is lower than the number of connections, so that pages
// can still be loaded.
const STREAMS: usize = 128;
// Maximum number of files whose lines are counted in the background at the same time.
const COUNTERS: usize = 2;
// Time after which a counting thread checks whether the file has grown.
const ROUND: Duration = Duration::from_millis(200);

pub(super) struct Site {
    pub(super) engine: Arc<Engine>,
    pub(super) gate: AccessGate,
    pub(super) catalog: Arc<PageCatalog>,
    pub(super) work: Work,
    pub(super) searches: Searches,
    pub(super) followers: Followers,
    pub(super) streams: Arc<Semaphore>,
    // The files being counted, by conversation and path.
    counting: Mutex<HashSet<(Component, String)>>,
}

impl Site {
    pub(super) fn new(engine: Arc<Engine>, gate: AccessGate) -> Arc<Self> {
        let catalog = PageCatalog::new(Arc::clone(&engine));
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

    // Returns the id of a conversation. Fails with [`WebError::Missing`] if the conversation is not
    // shown.
    pub(super) fn conversation(&self, name: &str) -> Result<Component> {
        let id = Component::from_text(name)?;
        if self.engine.options.only.as_ref().is_some_and(|only| *only != id) {
            return Err(WebError::Missing);
        }
        // Only checks that the directory exists.
        self.engine.conversation(&id)?;
        Ok(id)
    }

    /// Like [`conversation`](Self::conversation), but first looks up an unknown conversation on
    /// other hosts, for a few seconds at most.
    pub(super) fn conversation_anywhere(&self, name: &str) -> Result<Component> {
        let id = Component::from_text(name)?;
        if self.engine.options.only.as_ref().is_none_or(|only| *only == id) {
            self.engine.others().ask_for_conversation(&id)?;
        }
        self.conversation(name)
    }

    pub(super) fn look(&self, id: &Component, path: &str) -> Result<Look> {
        let path = RelPath::from_text(path)?;
        match Look::at(&self.engine, id, &path) {
            // The file was replaced in the meantime.
            Err(EngineError::Stale) => Ok(Look::at(&self.engine, id, &path)?),
            looked => Ok(looked?),
        }
    }

    // Counts the lines of a large file in the background.
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
