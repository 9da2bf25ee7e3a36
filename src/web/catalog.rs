//! The lists of conversations and of their outputs, kept at hand.
//!
//! Listing 10,000 conversations takes a second or more, as each has its directory and its records.
//! So a thread lists them while somebody looks, each again only when its state has changed, and a
//! page shows what is known so far and says how much that is. These lists ask no other host: there
//! would be a request for each conversation.

mod named;
mod outputs;
mod row;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::catalog::named::NamedOutputs;
use crate::error::WebError;
use ctxfs_core::model::Component;
use ctxfs_engine::Engine;
use ctxfs_engine::worker::Worker;

pub(super) use outputs::{OutputRow, Outputs};
pub(super) use row::ConversationRow;

/// The time for which the list is kept fresh after somebody looked at it.
const WATCHED: Duration = Duration::from_secs(30);
/// The shortest time between two looks at all conversations, and its least part of the whole.
const BETWEEN: Duration = Duration::from_secs(1);
const PAUSES: u32 = 10;
/// A conversation with a live output is listed again after this time.
const LIVE: Duration = Duration::from_secs(2);
/// The conversations whose lists of outputs are kept, and the outputs in them.
const KEPT: usize = 16;
const KEPT_OUTPUTS: usize = 250_000;

/// The lists.
pub(super) struct Catalog {
    engine: Arc<Engine>,
    state: Mutex<CatalogState>,
    changed: Condvar,
    thread: Worker,
    outputs: Mutex<VecDeque<KeptOutputs>>,
    named: NamedOutputs,
}

/// A conversation, the number of its state, and its outputs then.
type KeptOutputs = (Component, u64, Instant, Arc<Outputs>);

#[derive(Default)]
struct CatalogState {
    rows: HashMap<Component, KnownRow>,
    /// Newest first.
    sorted: Arc<Vec<Arc<ConversationRow>>>,
    /// The conversations that there are, and true once all of them are known.
    total: usize,
    is_complete: bool,
    /// The number of lists that differed from the one before.
    version: u64,
    wanted: Option<Instant>,
    stopped: bool,
}

#[derive(Clone)]
struct KnownRow {
    number: u64,
    at: Instant,
    row: Arc<ConversationRow>,
}

/// The conversations as far as they are known.
pub(super) struct Listed {
    /// Those used last come first.
    pub(super) rows: Arc<Vec<Arc<ConversationRow>>>,
    /// The conversations that there are.
    pub(super) total: usize,
    /// True if all are known.
    pub(super) is_complete: bool,
}

impl Catalog {
    pub(super) fn new(engine: Arc<Engine>) -> Arc<Self> {
        Arc::new(Self {
            engine,
            state: Mutex::default(),
            changed: Condvar::new(),
            thread: Worker::default(),
            outputs: Mutex::default(),
            named: NamedOutputs::default(),
        })
    }

    /// Starts the thread that lists conversations.
    pub(super) fn start(self: &Arc<Self>) -> io::Result<()> {
        self.state.lock().wanted = Some(Instant::now());
        let catalog = Arc::clone(self);
        self.thread.start("ctxfs-catalog", move || catalog.keep_fresh())
    }

    /// Ends the thread.
    pub(super) fn stop(&self) {
        self.state.lock().stopped = true;
        self.changed.notify_all();
        self.thread.join();
    }

    /// Returns the conversations. Waits for at most `patience` until all are known.
    pub(super) fn conversations(&self, patience: Duration) -> Listed {
        let until = Instant::now() + patience;
        let mut state = self.state.lock();
        state.wanted = Some(Instant::now());
        self.changed.notify_all();
        while !state.is_complete && !self.changed.wait_until(&mut state, until).timed_out() {}
        let CatalogState { sorted, total, is_complete, .. } = &*state;
        Listed { rows: Arc::clone(sorted), total: *total, is_complete: *is_complete }
    }

    /// Returns the conversations that only other hosts have, as far as they are known. Waits a
    /// moment for these hosts.
    pub(super) fn elsewhere(&self) -> Vec<ConversationRow> {
        let ids = self.engine.others().conversations_elsewhere().unwrap_or_else(|error| {
            tracing::warn!("the conversations of other hosts cannot be listed: {error}");
            Vec::new()
        });
        ids.into_iter().map(ConversationRow::elsewhere).collect()
    }

    /// Returns why other hosts cannot be asked, for people.
    pub(super) fn trouble(&self) -> Option<String> {
        self.engine.others().trouble_with_others()
    }

    /// Returns a number that changes with the list of conversations, and keeps that fresh.
    pub(super) fn version(&self) -> u64 {
        let mut state = self.state.lock();
        state.wanted = Some(Instant::now());
        self.changed.notify_all();
        state.version
    }

    /// Returns the outputs of a conversation, as they are now.
    pub(super) fn outputs(&self, id: &Component) -> Result<Arc<Outputs>, WebError> {
        let number = self.engine.conversation(id)?.state_number()?;
        if let Some(known) = self.known_outputs(id, number) {
            return Ok(known);
        }
        let outputs = Arc::new(Outputs::list(&self.engine, id)?);
        let mut kept = self.outputs.lock();
        kept.retain(|(other, ..)| other != id);
        kept.push_back((id.clone(), number, Instant::now(), Arc::clone(&outputs)));
        let count = |kept: &VecDeque<KeptOutputs>| -> usize {
            kept.iter().map(|(.., outputs)| outputs.rows.len()).sum()
        };
        while kept.len() > 1 && (kept.len() > KEPT || count(&kept) > KEPT_OUTPUTS) {
            kept.pop_front();
        }
        Ok(outputs)
    }

    /// Returns the outputs of a conversation that no message names, newest first.
    pub(super) fn unnamed(&self, id: &Component) -> Result<Vec<OutputRow>, WebError> {
        self.named.unnamed(&self.engine, id, &self.outputs(id)?.rows)
    }

    fn known_outputs(&self, id: &Component, number: u64) -> Option<Arc<Outputs>> {
        let kept = self.outputs.lock();
        let (.., at, outputs) = kept.iter().find(|(other, n, ..)| other == id && *n == number)?;
        let is_fresh = !outputs.is_live() || at.elapsed() < LIVE;
        is_fresh.then(|| Arc::clone(outputs))
    }

    fn keep_fresh(&self) {
        loop {
            let began = Instant::now();
            if let Err(error) = self.refresh() {
                tracing::warn!("the conversations cannot be listed: {error}");
            }
            let pause = BETWEEN.max(began.elapsed() * PAUSES);
            let mut state = self.state.lock();
            self.changed.notify_all();
            let until = Instant::now() + pause;
            while !state.stopped && !self.changed.wait_until(&mut state, until).timed_out() {}
            while !state.stopped && state.wanted.is_none_or(|at| at.elapsed() > WATCHED) {
                self.changed.wait(&mut state);
            }
            if state.stopped {
                return;
            }
        }
    }

    /// Looks at all conversations once.
    fn refresh(&self) -> Result<(), WebError> {
        let ids = match &self.engine.options.only {
            Some(only) => vec![only.clone()],
            None => self.engine.store().conversations().map_err(|e| WebError::Engine(e.into()))?,
        };
        let known = self.state.lock().rows.clone();
        let mut rows = HashMap::with_capacity(ids.len());
        let mut shown = Instant::now();
        for id in &ids {
            if self.state.lock().stopped {
                return Ok(());
            }
            let found = self.row(id, known.get(id));
            rows.extend(found.map(|row| (id.clone(), row)));
            let is_first = !self.state.lock().is_complete;
            if is_first && shown.elapsed() > BETWEEN / 4 {
                self.take(rows.clone(), ids.len(), false);
                shown = Instant::now();
            }
        }
        self.take(rows, ids.len(), true);
        Ok(())
    }

    /// Returns the row of a conversation: the known one if it still holds. A conversation that is
    /// gone or cannot be read has none.
    fn row(&self, id: &Component, known: Option<&KnownRow>) -> Option<KnownRow> {
        let number = self.engine.conversation(id).ok()?.state_number().ok()?;
        let holds = |known: &&KnownRow| {
            known.number == number && (known.row.live == 0 || known.at.elapsed() < LIVE)
        };
        if let Some(known) = known.filter(holds) {
            return Some(known.clone());
        }
        let row = ConversationRow::of(&self.engine, id);
        let row = row.inspect_err(|error| tracing::debug!("`{id}` cannot be listed: {error}"));
        Some(KnownRow { number, at: Instant::now(), row: Arc::new(row.ok()?) })
    }

    fn take(&self, rows: HashMap<Component, KnownRow>, total: usize, is_complete: bool) {
        let mut sorted: Vec<_> = rows.values().map(|known| Arc::clone(&known.row)).collect();
        sorted.sort_by(|a, b| (b.used, &a.name).cmp(&(a.used, &b.name)));
        let mut state = self.state.lock();
        let is_same = state.sorted.len() == sorted.len()
            && state.sorted.iter().zip(&sorted).all(|(a, b)| Arc::ptr_eq(a, b));
        state.version += u64::from(!is_same);
        state.sorted = Arc::new(sorted);
        state.rows = rows;
        state.total = total;
        state.is_complete |= is_complete;
        self.changed.notify_all();
    }
}

impl std::fmt::Debug for Catalog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Catalog").finish_non_exhaustive()
    }
}
