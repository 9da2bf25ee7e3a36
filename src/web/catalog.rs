//! Caches the lists of conversations and of their outputs.
//!
//! Listing 10,000 conversations takes a second or more, because each one has its own directory and
//! records. A thread therefore lists them while pages are in use, and lists a conversation again
//! only if its state has changed. A page shows the list as far as it is known and says whether it
//! is complete. The lists do not include data from other hosts, because that would take one request
//! per conversation.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::{Result, WebError};
use ctxfs_core::model::{ArtifactState, Component, Counts, visible};
use ctxfs_engine::workers::BackgroundThread;
use ctxfs_engine::{Engine, ListedArtifact, MessageRange};
use ctxfs_store::About;
use ctxfs_store::message::MessageEntry;
use ctxfs_view::Title;

// Time after a use of the list during which it is kept up to date.
const WATCHED: Duration = Duration::from_secs(30);
// Minimum pause between two listings. The pause is also at least `PAUSES` times as long as the last
// listing took.
const BETWEEN: Duration = Duration::from_secs(1);
const PAUSES: u32 = 10;
// Time after which a conversation with a live output is listed again.
const LIVE: Duration = Duration::from_secs(2);
// Maximum number of conversations with cached outputs, and of cached outputs in total.
const KEPT: usize = 16;
const KEPT_OUTPUTS: usize = 250_000;

/// The cached lists, and the thread that updates the list of conversations.
pub(super) struct PageCatalog {
    engine: Arc<Engine>,
    state: Mutex<CatalogState>,
    changed: Condvar,
    thread: BackgroundThread,
    outputs: Mutex<VecDeque<KeptOutputs>>,
    named: Mutex<VecDeque<(Component, ReadNames)>>,
}

// A conversation, its state number, the time of the listing, and the outputs at that time.
type KeptOutputs = (Component, u64, Instant, Arc<OutputList>);

#[derive(Default)]
struct CatalogState {
    rows: HashMap<Component, KnownRow>,
    sorted: Arc<Vec<Arc<ConversationRow>>>,
    total: usize,
    is_complete: bool,
    // Incremented for each list that differs from the previous one.
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

/// The conversations known so far, most recently used first, and the total number of conversations.
pub(super) struct ListedConversations {
    pub(super) rows: Arc<Vec<Arc<ConversationRow>>>,
    pub(super) total: usize,
    pub(super) is_complete: bool,
}

impl PageCatalog {
    pub(super) fn new(engine: Arc<Engine>) -> Arc<Self> {
        Arc::new(Self {
            engine,
            state: Mutex::default(),
            changed: Condvar::new(),
            thread: BackgroundThread::default(),
            outputs: Mutex::default(),
            named: Mutex::default(),
        })
    }

    pub(super) fn start(self: &Arc<Self>) -> io::Result<()> {
        self.state.lock().wanted = Some(Instant::now());
        let catalog = Arc::clone(self);
        self.thread.start("ctxfs-catalog", move || catalog.keep_fresh())
    }

    pub(super) fn stop(&self) {
        self.state.lock().stopped = true;
        self.changed.notify_all();
        self.thread.join();
    }

    // Returns the known conversations. Waits up to `patience` for a complete list.
    pub(super) fn conversations(&self, patience: Duration) -> ListedConversations {
        let until = Instant::now() + patience;
        let mut state = self.wanted();
        while !state.is_complete && !self.changed.wait_until(&mut state, until).timed_out() {}
        let CatalogState { sorted, total, is_complete, .. } = &*state;
        ListedConversations { rows: Arc::clone(sorted), total: *total, is_complete: *is_complete }
    }

    /// Returns the known conversations that exist only on other hosts. Waits a short time for news
    /// of other hosts.
    pub(super) fn elsewhere(&self) -> Vec<ConversationRow> {
        let ids = self.engine.others().conversations_elsewhere().unwrap_or_else(|error| {
            tracing::warn!("the conversations of other hosts cannot be listed: {error}");
            Vec::new()
        });
        ids.into_iter().map(ConversationRow::elsewhere).collect()
    }

    // Returns a number that changes with the list of conversations.
    pub(super) fn version(&self) -> u64 {
        self.wanted().version
    }

    // Locks the state. The list is then kept up to date for the time `WATCHED`.
    fn wanted(&self) -> MutexGuard<'_, CatalogState> {
        let mut state = self.state.lock();
        state.wanted = Some(Instant::now());
        self.changed.notify_all();
        state
    }

    pub(super) fn outputs(&self, id: &Component) -> Result<Arc<OutputList>> {
        let number = self.engine.conversation(id)?.state_number()?;
        if let Some(known) = self.known_outputs(id, number) {
            return Ok(known);
        }
        let outputs = Arc::new(OutputList::list(&self.engine, id)?);
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

    /// Returns the outputs that no message of the conversation names. Each call reads the log for a
    /// limited time, and continues where the previous call ended. Messages that have not been read
    /// yet are ignored.
    pub(super) fn unnamed(&self, id: &Component) -> Result<Vec<OutputRow>> {
        let outputs = self.outputs(id)?;
        let known = {
            let mut kept = self.named.lock();
            let at = kept.iter().position(|(other, _)| other == id);
            at.and_then(|at| kept.remove(at)).map(|(_, names)| names)
        };
        let mut names = known.unwrap_or_default();
        names.read_on(&self.engine, id)?;
        let is_named =
            |row: &&OutputRow| names.names.contains(&row.path) || names.names.contains(&row.call);
        let unnamed = outputs.rows.iter().filter(|row| !is_named(row)).cloned().collect();
        let mut kept = self.named.lock();
        kept.push_back((id.clone(), names));
        while kept.len() > KEPT_NAMED {
            kept.pop_front();
        }
        Ok(unnamed)
    }

    fn known_outputs(&self, id: &Component, number: u64) -> Option<Arc<OutputList>> {
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

    fn refresh(&self) -> Result<()> {
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

    /// Returns the row of a conversation. Uses the `known` row if it is still valid. Returns `None`
    /// for a removed or unreadable conversation.
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

// Number of messages per read, and the total time for reading.
const MESSAGES: usize = 500;
const PATIENCE: Duration = Duration::from_millis(500);
// Maximum number of conversations with cached names, and of names per conversation. Names longer
// than `LONGEST` bytes are not cached.
const KEPT_NAMED: usize = 8;
const NAMES: usize = 200_000;
const LONGEST: usize = 512;

// The paths and call ids that occur in the messages of a conversation.
#[derive(Debug, Default)]
struct ReadNames {
    names: HashSet<String>,
    // Number of bytes of the log that were read.
    read: u64,
}

impl ReadNames {
    fn read_on(&mut self, engine: &Engine, id: &Component) -> Result<()> {
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until && self.names.len() < NAMES {
            let page = engine.messages(id, MessageRange::From(self.read), MESSAGES)?;
            if page.end < self.read {
                // The log was replaced.
                *self = Self::default();
                continue;
            }
            if page.messages.is_empty() {
                return Ok(());
            }
            self.read = page.end;
            for logged in &page.messages {
                let path = logged.output.as_ref().map(|(path, _)| path.to_text());
                let call = logged.message.as_ref().ok().map(MessageEntry::call_id);
                let names = path.into_iter().chain(call);
                self.names.extend(names.filter(|name| !name.is_empty() && name.len() <= LONGEST));
            }
        }
        Ok(())
    }
}

// Maximum length of shown arguments in bytes.
const ARGUMENTS: usize = 300;

/// An output in a list. Paths, ids and names are text. Times are in milliseconds since the epoch.
/// `title` is the command or the subject of the call, or else the tool or the file. `arguments` is
/// empty if the title says it.
/// `lines` is `None` before the output is analyzed. `is_long` is true if the output exceeds the
/// limits for outputs given to a model whole. `errors` is the number of lines that look like
/// errors, and `error_line` is the number of the most significant of these lines.
#[derive(Debug, Clone)]
pub(super) struct OutputRow {
    pub(super) path: String,
    pub(super) title: String,
    pub(super) call: String,
    pub(super) tool: String,
    pub(super) arguments: String,
    pub(super) size: u64,
    pub(super) lines: Option<u64>,
    pub(super) created: i64,
    pub(super) modified: i64,
    pub(super) exit: Option<i32>,
    pub(super) duration: Option<u64>,
    pub(super) is_live: bool,
    pub(super) is_incomplete: bool,
    pub(super) is_long: bool,
    pub(super) errors: u64,
    pub(super) error_line: Option<u64>,
}

/// All outputs of a conversation, newest first. `unread` is the number of directories that could
/// not be read.
#[derive(Debug, Default)]
pub(super) struct OutputList {
    pub(super) rows: Vec<OutputRow>,
    by_path: Vec<usize>,
    pub(super) unread: u64,
}

impl OutputList {
    fn list(engine: &Engine, id: &Component) -> Result<Self> {
        let listing = engine.list_known_artifacts(id, |listed| OutputRow::of(engine, listed))?;
        let mut rows = listing.rows;
        rows.sort_unstable_by(|a, b| (b.created, &b.path).cmp(&(a.created, &a.path)));
        let mut by_path: Vec<usize> = (0..rows.len()).collect();
        by_path.sort_unstable_by(|a, b| rows[*a].path.cmp(&rows[*b].path));
        Ok(Self { rows, by_path, unread: listing.unread.count() })
    }

    fn is_live(&self) -> bool {
        self.rows.iter().any(|row| row.is_live)
    }

    pub(super) fn at(&self, path: &str) -> Option<&OutputRow> {
        let at = self.by_path.binary_search_by(|at| self.rows[*at].path.as_str().cmp(path)).ok()?;
        Some(&self.rows[self.by_path[at]])
    }
}

impl OutputRow {
    // Returns true if the record says that the output failed.
    pub(super) fn has_failed(&self) -> bool {
        self.exit.is_some_and(|code| code != 0) || self.is_incomplete
    }

    pub(super) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    fn of(engine: &Engine, listed: &ListedArtifact) -> Self {
        let ListedArtifact { path, stat, record } = listed;
        let found = record.analysis.as_ref();
        let chars = found.map_or(stat.size, |found| found.chars);
        let limits = engine.options.limits.limits(record.provenance.tool_name().as_deref());
        let arguments = record.provenance.args.as_deref().unwrap_or_default();
        let tool = record.provenance.tool_name().map(|name| visible::whole(&name));
        let title = Title::of(&record.provenance).map(|title| title.to_string());
        let file_name = || path.file_name().to_string_lossy().into_owned();
        let is_title = title.as_ref().is_some_and(|title| arguments.contains(&**title));
        let arguments = if is_title { "" } else { arguments };
        Self {
            path: path.to_text(),
            title: title.or_else(|| tool.clone()).unwrap_or_else(file_name),
            call: visible::whole(record.call()),
            tool: tool.unwrap_or_default(),
            arguments: visible::escaped(arguments, ARGUMENTS),
            size: stat.size,
            lines: found.map(|found| found.lines),
            created: record.created,
            modified: stat.mtime.as_millis(),
            exit: record.provenance.exit_code,
            duration: record.provenance.duration_ms,
            is_live: record.state == ArtifactState::Live,
            is_incomplete: record.incomplete().is_some(),
            is_long: !limits.are_kept_by(stat.size, chars),
            errors: found.map_or(0, |found| found.errors.count),
            error_line: found.and_then(|found| Some(found.errors.shown.first()?.line)),
        }
    }
}

/// A conversation in the list of all conversations.
///
/// `about` tells whose session it is, and `last` is the title of its newest output. `used` is the
/// time of its last output or message, in milliseconds since the epoch. `long` is the
/// number of outputs that exceed the limits, for which a model gets a stand-in. `errors` is the
/// number of failed calls. If the conversation exists only on other hosts, only its name is known.
#[derive(Debug)]
pub(super) struct ConversationRow {
    pub(super) id: Component,
    pub(super) name: String,
    pub(super) about: About,
    pub(super) last: Option<String>,
    pub(super) used: i64,
    pub(super) outputs: u64,
    pub(super) bytes: u64,
    pub(super) long: u64,
    pub(super) counts: Counts,
    pub(super) errors: u64,
    pub(super) last_failure: Option<OutputRow>,
    pub(super) live: u64,
    pub(super) is_elsewhere: bool,
}

impl ConversationRow {
    fn of(engine: &Engine, id: &Component) -> Result<Self> {
        let outputs = OutputList::list(engine, id)?;
        let counts = engine.counts(Some(id))?.by_conversation.remove(id).unwrap_or_default();
        let conversation = engine.conversation(id)?;
        let newest = outputs.rows.iter().map(|row| row.modified).max();
        let used = newest.into_iter().chain(conversation.last_message()).max();
        let used = match used {
            Some(used) => used,
            None => conversation.dir().stat_self()?.mtime.as_millis(),
        };
        let failed = || outputs.rows.iter().filter(|row| row.has_failed());
        Ok(Self {
            id: id.clone(),
            name: id.to_text(),
            about: ctxfs_engine::about_of(engine, &conversation),
            last: outputs.rows.first().map(|row| row.title.clone()),
            used,
            outputs: outputs.rows.len() as u64,
            bytes: outputs.rows.iter().map(|row| row.size).sum(),
            long: outputs.rows.iter().filter(|row| row.is_long).count() as u64,
            counts,
            errors: failed().count() as u64,
            last_failure: failed().max_by_key(|row| row.modified).cloned(),
            live: outputs.rows.iter().filter(|row| row.is_live).count() as u64,
            is_elsewhere: false,
        })
    }

    // Returns the first words of the user, or else the name.
    pub(super) fn title(&self) -> &str {
        self.about.prompt.as_deref().unwrap_or(&self.name)
    }

    // Returns what is known apart from the title: the directory and the host, the last call, and the
    // name.
    pub(super) fn facts(&self) -> impl Iterator<Item = String> {
        let About { directory, host, prompt } = &self.about;
        let place: Vec<&str> =
            [directory, host].into_iter().flatten().map(String::as_str).collect();
        let place = Some(place.join(", ")).filter(|place| !place.is_empty());
        let last = self.last.as_ref().map(|last| format!("last: {last}"));
        let name = prompt.is_some().then(|| self.name.clone());
        [place, last, name].into_iter().flatten()
    }

    // Returns the texts by which the list is filtered.
    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        let About { directory, host, prompt } = &self.about;
        let known = [directory, host, prompt, &self.last].into_iter().flatten();
        known.map(String::as_str).chain([&*self.name])
    }

    fn elsewhere(id: Component) -> Self {
        Self {
            name: id.to_text(),
            id,
            about: About::default(),
            last: None,
            used: 0,
            outputs: 0,
            bytes: 0,
            long: 0,
            counts: Counts::default(),
            errors: 0,
            last_failure: None,
            live: 0,
            is_elsewhere: true,
        }
    }
}
