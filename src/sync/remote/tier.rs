//! Background synchronization of a running server.
//!
//! ```text
//! change on a door   -> backlog -> one thread:    push, one conversation after the other
//! reader on a door   -> looks   -> a few threads: look, and apply changes of other hosts
//! ```
//!
//! Reporting a change does not block, and a reader waits for a bounded time. The files to send are
//! found on disk each time, so nothing is lost with the process: the next start finds the rest.
//! Several processes of one store take turns with the push lock.
//!
//! A process that must not write to the store delegates looks to another one, a [`Looker`].

mod access;
mod backlog;
mod hearing;
mod looks;
mod options;
mod report;
mod room;
mod same_name;
mod sending;
mod weather;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};
use std::{fmt, io, thread};

use parking_lot::{Condvar, Mutex};

use crate::remote::{Heard, Looker, Objects, RemoteError, Session};
use ctxfs_core::model::{
    Component, FarFile, FarStore, HostsReport, LettingGo, OtherHosts, Record, RelPath,
};
use ctxfs_store::{Conversation, Store};

use access::Access;
use backlog::Backlog;
use looks::Looks;
use room::Room;
use same_name::SameNames;
use weather::Weather;

pub use options::TierOptions;

///+ Maximum wait in [`Tier::finish`] for an idle pusher thread.
const IDLE: Duration = Duration::from_millis(50);
type Now = Box<dyn Fn() -> Instant + Send + std::marker::Sync>;

///+ Synchronization of a store with other hosts through a bucket. Clones share the state.
///+
///+ It tracks local changes and pushes them in a thread, looks into the bucket when readers ask,
///+ opens remote artifacts, and evicts local copies. While the bucket is unreachable, a circuit
///+ breaker keeps readers from waiting.
#[derive(Clone)]
pub struct Tier(Arc<Inner>);

struct Inner {
    access: Access,
    weather: Weather,
    now: Now,
    backlog: Mutex<Backlog>,
    changed: Condvar,
    mind: Mutex<Mind>,
    looks: Looks,
    looker: Option<Arc<dyn Looker>>,
    others: Mutex<Arc<[Component]>>,
    ///+ Conversation of the last look, kept open so that the reader who waited for it need not load
    ///+ its records again.
    last: Mutex<Option<Arc<Conversation>>>,
    same_names: SameNames,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Mind {
    sessions: HashMap<Component, Session>,
    ///+ Conversations that may have unsent changes. `None` until the conversations are listed.
    unsure: Option<VecDeque<Component>>,
    ///+ Time of the last scan for changes of other processes.
    looked: Option<(Instant, SystemTime)>,
    ///+ Duration of that scan.
    took: Duration,
}

impl Tier {
    ///+ Opens the synchronization of `store` through `bucket`. Makes no request and starts no
    ///+ thread.
    pub fn new(store: Store, bucket: Arc<dyn Objects + Send>, options: TierOptions) -> Self {
        Self(Arc::new(Inner::new(Access::new(store, bucket, options), Box::new(Instant::now))))
    }

    ///+ Does what [`Self::new`] does, for a process that only reads the store: `looker` runs its
    ///+ looks.
    pub fn looking_by(
        store: Store,
        bucket: Arc<dyn Objects + Send>,
        options: TierOptions,
        looker: Arc<dyn Looker>,
    ) -> Self {
        let inner = Inner::new(Access::new(store, bucket, options), Box::new(Instant::now));
        Self(Arc::new(Inner { looker: Some(looker), ..inner }))
    }

    ///+ Starts the pusher thread, unless only commands push.
    pub fn start(&self) -> io::Result<()> {
        if self.0.access.options.pushes {
            let inner = Arc::clone(&self.0);
            let work = move || inner.send_all();
            let thread = thread::Builder::new().name("ctxfs-push".to_owned()).spawn(work)?;
            *self.0.thread.lock() = Some(thread);
        }
        Ok(())
    }

    ///+ Pushes the backlog for at most `most`, and stops the threads. The next start pushes the
    ///+ rest. Waits for no request if the backlog is empty.
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
        // A request in flight may take longer; it ends with the process.
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
        !self.0.weather.is_away(now) && self.0.looks.is_due(at, now, self.0.age_of(at))
    }

    fn look(&self, at: Option<&Component>, patience: Duration) -> bool {
        self.0.look(at, patience)
    }

    fn conversations(&self) -> Arc<[Component]> {
        Arc::clone(&self.0.others.lock())
    }

    fn letting_go(&self, conversation: &Component) -> LettingGo<'_> {
        let mut room = Room::new(&self.0, conversation);
        Box::new(move |path: &RelPath| room.let_go(path))
    }

    fn evicts(&self) -> bool {
        self.0.access.options.evicts
    }

    fn same_name(&self, conversation: &Component, path: &RelPath) -> Vec<String> {
        self.0.same_name(conversation, path)
    }

    fn report(&self) -> HostsReport {
        self.0.report()
    }
}

impl Looker for Tier {
    fn look_now(&self, at: Option<&Component>) -> Result<Heard, RemoteError> {
        self.0.heard(&at.cloned())
    }
}

impl FarStore for Tier {
    fn open(&self, conversation: &Component, record: &Record) -> io::Result<FarFile> {
        let known = match self.0.access.known().map_err(io::Error::other)? {
            Some(known) => Some(known),
            None => self.0.access.greeted().map_err(io::Error::other)?,
        };
        let absent = || io::Error::other("the bucket that has its bytes is not known here");
        known.ok_or_else(absent)?.far.open(conversation, record)
    }
}

impl fmt::Debug for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tier").field(&self.0.access.options).finish()
    }
}

impl Inner {
    fn new(access: Access, now: Now) -> Self {
        Self {
            access,
            weather: Weather::default(),
            now,
            backlog: Mutex::default(),
            changed: Condvar::new(),
            mind: Mutex::default(),
            looks: Looks::default(),
            looker: None,
            others: Mutex::default(),
            last: Mutex::default(),
            same_names: SameNames::default(),
            thread: Mutex::default(),
        }
    }

    ///+ Records the outcome of requests.
    fn noted<T>(&self, outcome: Result<T, RemoteError>) -> Result<T, RemoteError> {
        match &outcome {
            Err(error) if error.may_pass() => self.failed(error),
            Err(error) => self.weather.refused(error),
            Ok(_) => {}
        }
        outcome
    }

    fn failed(&self, error: &RemoteError) {
        self.access.doubt();
        self.weather.failed(error, (self.now)());
    }
}

#[cfg(test)]
mod tests;
