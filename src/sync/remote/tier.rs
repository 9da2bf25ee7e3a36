//! The sharing that goes on by itself while a server runs.
//!
//! ```text
//! a door: something was done -> backlog -> a thread: push, one conversation after the other
//! a door: what did others do? -> looks -> a few threads: look, and do here what they did
//! ```
//!
//! Nobody who tells waits, and who asks waits for a bounded time. Which files are to be sent is
//! found on the disk each time, so nothing is lost with this process: its next start finds what is
//! left. Another process of the store may do the same: they take turns, by the lock of the home.
//!
//! A process that may not write to the store has another one look for it, a [`Looker`].

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

/// The longest wait for the thread that sends, where it has nothing to send.
const IDLE: Duration = Duration::from_millis(50);
/// The clock.
type Now = Box<dyn Fn() -> Instant + Send + std::marker::Sync>;

/// The sharing of a store with other hosts through a bucket. Clones are the same one.
#[derive(Clone)]
pub struct Tier(Arc<Inner>);

struct Inner {
    access: Access,
    weather: Weather,
    /// The time. Tests have their own.
    now: Now,
    backlog: Mutex<Backlog>,
    changed: Condvar,
    /// What the thread that sends has in mind.
    mind: Mutex<Mind>,
    looks: Looks,
    /// Another process, which looks instead of this one.
    looker: Option<Arc<dyn Looker>>,
    /// Conversations that others have.
    others: Mutex<Arc<[Component]>>,
    /// The one that was looked at last, so that whoever waited for that finds it open, and need not
    /// read its records again.
    last: Mutex<Option<Arc<Conversation>>>,
    same_names: SameNames,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// The memory of the thread that sends.
#[derive(Default)]
struct Mind {
    sessions: HashMap<Component, Session>,
    /// The conversations of which it is not known whether all of them was sent. None before it was
    /// found out which there are.
    unsure: Option<VecDeque<Component>>,
    /// When it looked last for what other processes did.
    looked: Option<(Instant, SystemTime)>,
    /// How long that took.
    took: Duration,
}

impl Tier {
    /// Opens the sharing of `store` through `bucket`. Makes no request, and starts no thread.
    pub fn new(store: Store, bucket: Arc<dyn Objects + Send>, options: TierOptions) -> Self {
        Self(Arc::new(Inner::new(Access::new(store, bucket, options), Box::new(Instant::now))))
    }

    /// Does what [`Self::new`] does, for a process that only reads the store: `looker` looks for
    /// it.
    pub fn looking_by(
        store: Store,
        bucket: Arc<dyn Objects + Send>,
        options: TierOptions,
        looker: Arc<dyn Looker>,
    ) -> Self {
        let inner = Inner::new(Access::new(store, bucket, options), Box::new(Instant::now));
        Self(Arc::new(Inner { looker: Some(looker), ..inner }))
    }

    /// Starts the thread that sends, unless only commands send.
    pub fn start(&self) -> io::Result<()> {
        if self.0.access.options.pushes {
            let inner = Arc::clone(&self.0);
            let work = move || inner.send_all();
            let thread = thread::Builder::new().name("ctxfs-push".to_owned()).spawn(work)?;
            *self.0.thread.lock() = Some(thread);
        }
        Ok(())
    }

    /// Sends what is left, for `most` at most, and ends the threads. What is left then is sent at
    /// the next start. Where nothing is left, waits for no request.
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
        // A request that is under way may take longer: it ends with the process.
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

    /// Notes what became of requests, and returns the same.
    fn noted<T>(&self, outcome: Result<T, RemoteError>) -> Result<T, RemoteError> {
        match &outcome {
            Err(error) if error.may_pass() => self.failed(error),
            Err(error) => self.weather.refused(error),
            Ok(_) => {}
        }
        outcome
    }

    /// Notes a failure of the bucket.
    fn failed(&self, error: &RemoteError) {
        self.access.doubt();
        self.weather.failed(error, (self.now)());
    }
}

#[cfg(test)]
mod tests;
