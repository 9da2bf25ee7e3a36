//! Background synchronization of a running server.
//!
//! ```text
//! local change   -> backlog -> one thread:    push, one conversation after the other
//! local reader   -> looks   -> a few threads: run looks, and apply changes of other hosts
//! ```
//!
//! Reporting a change does not block. A reader waits for a look, but only for a limited time. The
//! files to send are found on disk each time, so nothing is lost when the process ends: the next
//! process finds the rest. Several processes of one store take turns with the push lock.
//!
//! A process that must not write to the store delegates looks to a [`Looker`] in another process.

mod access;
mod backlog;
mod looking;
mod looks;
mod pushing;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use std::{fmt, io, thread};

use parking_lot::{Condvar, Mutex};

use crate::bucket::{BucketError, BucketUrl, RequestCounts, Tally, log_prefix};
use crate::remote::notes::AgreementCache;
use crate::remote::tier::access::{BucketAccess, CircuitBreaker};
use crate::remote::tier::backlog::PushBacklog;
use crate::remote::tier::looks::LookQueue;
use crate::remote::{Agreement, LookOutcome, Looker, Notes, Objects, RemoteError, Session};
use ctxfs_core::model::{
    Component, EvictionResult, Evictor, FarFile, FarStore, HostsReport, OtherHosts, Record,
    RelPath, RequestReport,
};
use ctxfs_store::{Conversation, RemovalOutcome, Store};

pub use access::TierOptions;

/// Maximum time that [`Tier::finish`] waits for an idle pusher thread.
const IDLE: Duration = Duration::from_millis(50);
type Now = Box<dyn Fn() -> Instant + Send + Sync>;

/// Synchronization of a store with other hosts through a bucket. Clones share the state.
///
/// The tier tracks local changes and pushes them in a thread. For readers, it runs looks and opens
/// remote artifacts. It also evicts local copies. While the bucket is unreachable, a circuit
/// breaker keeps readers from waiting.
#[derive(Clone)]
pub struct Tier(Arc<TierInner>);

struct TierInner {
    access: BucketAccess,
    breaker: CircuitBreaker,
    now: Now,
    backlog: Mutex<PushBacklog>,
    changed: Condvar,
    pusher: Mutex<PusherState>,
    looks: LookQueue,
    looker: Option<Arc<dyn Looker>>,
    others: Mutex<Arc<[Component]>>,
    /// Conversation of the last look. It stays open, so that a reader that waited for the look need
    /// not load the records again.
    last: Mutex<Option<Arc<Conversation>>>,
    same_names: SameNames,
    thread: Mutex<Option<std::thread::JoinHandle<()>>>,
}

#[derive(Default)]
struct PusherState {
    sessions: HashMap<Component, Session>,
    /// Conversations that may have unsent changes. `None` if the conversations have not been listed
    /// yet.
    unchecked: Option<VecDeque<Component>>,
    looked: Option<(Instant, SystemTime)>,
    took: Duration,
    /// Conversations that this process has tidied.
    tidied: BTreeSet<Component>,
    /// Conversations to be tidied, and when they were listed.
    untidy: (VecDeque<Component>, Option<Instant>),
}

impl Tier {
    /// Opens the synchronization of `store` through `bucket`. Makes no request and starts no
    /// thread.
    pub fn new(store: Store, bucket: Arc<dyn Objects + Send>, options: TierOptions) -> Self {
        Self(Arc::new(TierInner::new(
            BucketAccess::new(store, bucket, options),
            Box::new(Instant::now),
        )))
    }

    /// Like [`Self::new`], for a process that only reads the store. `looker` runs the looks.
    pub fn looking_by(
        store: Store,
        bucket: Arc<dyn Objects + Send>,
        options: TierOptions,
        looker: Arc<dyn Looker>,
    ) -> Self {
        let inner =
            TierInner::new(BucketAccess::new(store, bucket, options), Box::new(Instant::now));
        Self(Arc::new(TierInner { looker: Some(looker), ..inner }))
    }

    /// Starts the pusher thread. Does nothing unless [`TierOptions::pushes`] is set.
    pub fn start(&self) -> io::Result<()> {
        if self.0.access.options.pushes {
            let inner = Arc::clone(&self.0);
            let work = move || inner.send_all();
            let thread = thread::Builder::new().name("ctxfs-push".to_owned()).spawn(work)?;
            *self.0.thread.lock() = Some(thread);
        }
        Ok(())
    }

    /// Pushes the backlog for at most `most`, and then stops the threads. The rest is pushed after
    /// the next start. Waits for no request if the backlog is empty.
    pub fn finish(&self, most: Duration) {
        let inner = &self.0;
        let mut backlog = inner.backlog.lock();
        let has_left = backlog.has_left();
        let end = (inner.now)() + if has_left { most } else { most.min(IDLE) };
        backlog.end = Some(end);
        backlog.changes += 1;
        drop(backlog);
        inner.changed.notify_all();
        inner.looks.close();
        let Some(thread) = inner.thread.lock().take() else { return };
        // A request in flight may take longer. It ends with the process.
        while !thread.is_finished() && (inner.now)() < end {
            thread::sleep(Duration::from_millis(5));
        }
        if !thread.is_finished() {
            if has_left {
                tracing::warn!(
                    "not all outputs could be sent to other hosts in time; the next start does"
                );
            }
        } else if thread.join().is_err() {
            tracing::error!("sending outputs to other hosts panicked");
        }
    }
}

impl OtherHosts for Tier {
    fn changed(&self, conversation: &Component, sealed: Option<u64>) {
        let inner = &self.0;
        if sealed.is_none() {
            inner.drop_gone(conversation);
            inner.tell_unfit(conversation);
        }
        if !inner.access.options.pushes {
            return;
        }
        let now = (inner.now)();
        let every = inner.access.options.every;
        if inner.backlog.lock().note(conversation, sealed, now, every) {
            inner.changed.notify_all();
        }
    }

    fn is_look_due(&self, at: Option<&Component>) -> bool {
        let now = (self.0.now)();
        !self.0.breaker.is_open(now) && self.0.looks.is_due(at, now, self.0.max_age(at))
    }

    fn look(&self, at: Option<&Component>, patience: Duration) -> bool {
        self.0.look(at, patience)
    }

    fn is_arriving(&self, conversation: &Component) -> bool {
        let known = self.0.access.known().ok().flatten();
        known.is_some_and(|known| {
            known.home.is_arriving(&self.0.access.store, conversation).unwrap_or_default()
        })
    }

    fn conversations(&self) -> Arc<[Component]> {
        Arc::clone(&self.0.others.lock())
    }

    fn evictor(&self, conversation: &Component) -> Evictor<'_> {
        let mut room = Eviction::new(&self.0, conversation);
        Box::new(move |path: &RelPath| room.let_go(path))
    }

    fn evicts(&self) -> bool {
        self.0.access.options.evicts
    }

    fn same_name(&self, conversation: &Component, path: &RelPath) -> Vec<String> {
        let found = self.0.try_same_name(conversation, path);
        found.unwrap_or_else(|error| {
            tracing::debug!(%error, "outputs of one name are not told");
            Vec::new()
        })
    }

    fn report(&self) -> HostsReport {
        let (totals, lag) = {
            let backlog = self.0.backlog.lock();
            (backlog.totals(), backlog.lag)
        };
        let known = self.0.access.known().ok().flatten();
        let age = totals.oldest.map(|oldest| (self.0.now)().saturating_duration_since(oldest));
        HostsReport {
            url: self.0.access.options.url.clone(),
            bucket: known.as_ref().map(|known| known.id.to_string()),
            writer: known
                .and_then(|known| known.home.writer().ok())
                .map(|writer| writer.to_string()),
            waiting: totals.outputs,
            waiting_bytes: totals.bytes,
            oldest_seconds: age.as_ref().map(Duration::as_secs),
            lag_millis: lag.map(|lag| lag.as_millis() as u64),
            error: self.0.trouble(),
            requests: requests(&self.0.access.bucket.requests()),
        }
    }
}

impl Looker for Tier {
    fn look_now(&self, at: Option<&Component>) -> Result<LookOutcome, RemoteError> {
        self.0.look_here(&at.cloned())
    }
}

impl FarStore for Tier {
    fn open(&self, conversation: &Component, record: &Record) -> io::Result<FarFile> {
        let known = match self.0.access.known().map_err(io::Error::other)? {
            Some(known) => Some(known),
            None => self.0.access.identified().map_err(io::Error::other)?,
        };
        let absent = || io::Error::other("the bucket that has its bytes is not known here");
        known.ok_or_else(absent)?.artifacts.open(conversation, record)
    }
}

impl fmt::Debug for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tier").field(&self.0.access.options).finish()
    }
}

impl TierInner {
    fn new(access: BucketAccess, now: Now) -> Self {
        Self {
            access,
            breaker: CircuitBreaker::default(),
            now,
            backlog: Mutex::default(),
            changed: Condvar::new(),
            pusher: Mutex::default(),
            looks: LookQueue::default(),
            looker: None,
            others: Mutex::default(),
            last: Mutex::default(),
            same_names: SameNames::default(),
            thread: Mutex::default(),
        }
    }

    fn record<T>(
        &self,
        about: Option<&Component>,
        outcome: Result<T, RemoteError>,
    ) -> Result<T, RemoteError> {
        match &outcome {
            Err(error) if error.may_pass() => self.failed(error),
            Err(error) => self.breaker.refused(about, error),
            Ok(_) => {}
        }
        outcome
    }

    /// Tells at once if the bucket cannot have the conversation, and not only when it is sent.
    pub(super) fn tell_unfit(&self, id: &Component) {
        let url = BucketUrl::parse(&self.access.options.url);
        if url.is_ok_and(|url| !url.fits(id)) && !self.breaker.is_refused(id) {
            let why =
                "the name of the conversation is too long: each byte that is no ASCII counts \
                       three times"
                    .to_owned();
            let error = BucketError::Unfit { key: log_prefix(id), why };
            self.breaker.refused(Some(id), &error.into());
        }
    }

    fn failed(&self, error: &RemoteError) {
        self.access.doubt();
        self.breaker.failed(error, (self.now)());
    }

    fn trouble(&self) -> Option<String> {
        let of_looks = || self.looker.as_ref()?.trouble();
        self.access.bucket.trouble().or_else(of_looks).or_else(|| self.breaker.error())
    }
}

fn requests(counts: &RequestCounts) -> Vec<RequestReport> {
    let RequestCounts { get, put, list, delete, head } = *counts;
    let kinds = [("get", get), ("put", put), ("list", list), ("delete", delete), ("head", head)];
    kinds.map(|(kind, Tally { requests, bytes })| RequestReport { kind, requests, bytes }).into()
}

const WAIT: Duration = Duration::from_secs(2);

/// A round in which local copies of a conversation are evicted. It reads the agreement again only
/// after a change.
struct Eviction<'a> {
    inner: &'a TierInner,
    id: Component,
    agreed: Option<AgreementCache<PublishedEntries>>,
}

type PublishedEntries = HashMap<String, crate::replica::Entry>;

fn entries(agreed: Agreement) -> PublishedEntries {
    let published = agreed.base.entries.into_iter().filter(|entry| !entry.origins.is_empty());
    published.map(|entry| (entry.path.clone(), entry)).collect()
}

impl<'a> Eviction<'a> {
    fn new(inner: &'a TierInner, id: &Component) -> Self {
        Self { inner, id: id.clone(), agreed: None }
    }

    fn let_go(&mut self, path: &RelPath) -> EvictionResult {
        let tried = self.try_let_go(path);
        let gone = self.inner.record(Some(&self.id), tried);
        gone.unwrap_or(EvictionResult::Kept("the bucket does not have it as it should"))
    }

    fn try_let_go(&mut self, path: &RelPath) -> Result<EvictionResult, RemoteError> {
        let (inner, id) = (self.inner, self.id.clone());
        let access = &inner.access;
        let Some(known) = access.known()? else { return Ok(EvictionResult::NotShared) };
        let Some(conversation) = access.store.conversation(&id)? else {
            return Ok(EvictionResult::NotShared);
        };
        let notes = known.home.conversation(&id)?;
        let text = path.to_text();
        if !self.entries(&notes)?.contains_key(&text) {
            return Ok(EvictionResult::NotShared);
        }
        if inner.breaker.has_failed() {
            return Ok(EvictionResult::Kept("the bucket does not answer"));
        }
        if access.is_directory() && access.identified()?.is_none() {
            return Ok(EvictionResult::Kept("the bucket is not there"));
        }
        let Some(_lock) = access.lock(&known, WAIT)? else {
            return Ok(EvictionResult::Kept("another process uses the bucket"));
        };
        let Some(_turn) = access.try_lock_conversation(&id, WAIT) else {
            return Ok(EvictionResult::Kept("its conversation is being sent"));
        };
        let clock = access.store.clock();
        let entry = self.entries(&notes)?.get(&text);
        let gone = known.artifacts.evict(&conversation, path, entry, clock)?;
        Ok(match gone {
            RemovalOutcome::Removed => EvictionResult::Gone,
            RemovalOutcome::Kept(why) => EvictionResult::Kept(why),
        })
    }

    fn entries(&mut self, notes: &Notes) -> Result<&PublishedEntries, RemoteError> {
        let agreed = AgreementCache::current(self.agreed.take(), notes, entries)?;
        Ok(&self.agreed.insert(agreed).value)
    }
}

/// Maximum number of cached conversations. `NAMES` is the maximum number of their cached names. The
/// most recent conversation stays cached even if it exceeds this maximum.
const CONVERSATIONS: usize = 64;
const NAMES: usize = 100_000;

#[derive(Default)]
struct SameNames(Mutex<VecDeque<(Component, AgreementCache<NamePairs>)>>);

/// Pairs of the path of an output and the path that it requested. Each pair is stored in both
/// directions.
struct NamePairs(BTreeSet<(String, String)>);

impl TierInner {
    fn try_same_name(&self, id: &Component, path: &RelPath) -> Result<Vec<String>, RemoteError> {
        let Some(known) = self.access.known()? else { return Ok(Vec::new()) };
        let Some(notes) = known.home.known_conversation(id)? else { return Ok(Vec::new()) };
        self.same_names.of(&notes, path)
    }
}

impl SameNames {
    fn of(&self, notes: &Notes, path: &RelPath) -> Result<Vec<String>, RemoteError> {
        let (mut kept, id) = (self.0.lock(), notes.conversation());
        let at = kept.iter().position(|(known, _)| known == id);
        let before = at.and_then(|at| kept.remove(at)).map(|(_, names)| names);
        let names = AgreementCache::current(before, notes, NamePairs::new)?;
        let others = names.value.of(path);
        kept.push_back((id.clone(), names));
        bound(&mut kept);
        Ok(others)
    }
}

fn bound(kept: &mut VecDeque<(Component, AgreementCache<NamePairs>)>) {
    let count = |(_, names): &(Component, AgreementCache<NamePairs>)| names.value.0.len();
    let mut names: usize = kept.iter().map(count).sum();
    while kept.len() > 1 && (kept.len() > CONVERSATIONS || names > NAMES) {
        names -= kept.pop_front().as_ref().map_or(0, count);
    }
}

impl NamePairs {
    fn new(agreed: Agreement) -> Self {
        let entries = agreed.base.entries.into_iter();
        let living = entries.filter(|entry| !entry.origins.is_empty());
        let asked = living.filter_map(|entry| Some((entry.path, entry.asked?)));
        let both = |(at, asked): (String, String)| [(at.clone(), asked.clone()), (asked, at)];
        Self(asked.flat_map(both).collect())
    }

    fn of(&self, path: &RelPath) -> Vec<String> {
        let path = path.to_text();
        let from = self.0.range((path.clone(), String::new())..);
        from.take_while(|(at, _)| *at == path).map(|(_, other)| other.clone()).collect()
    }
}

#[cfg(test)]
mod tests;
