//! The bucket of a tier: who it is, and the right to use it for the store.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::bucket::{BucketId, Deadline, Identity};
use crate::remote::tier::options::TierOptions;
use crate::remote::{
    FarArtifacts, Home, Moment, Objects, PATIENCE, PushLock, RemoteError, Sync, known_bucket,
};
use ctxfs_core::model::Component;
use ctxfs_store::Store;

/// The time for finding out who the bucket is.
const GREETING: Duration = Duration::from_secs(10);
/// How often another process of the store is asked whether it is done.
const AGAIN: Duration = Duration::from_millis(20);

/// A store and the bucket that it shares, for several threads.
pub(super) struct Access {
    pub(super) store: Store,
    pub(super) bucket: Arc<dyn Objects + Send>,
    pub(super) options: TierOptions,
    met: Mutex<Met>,
    /// One thread asks who the bucket is.
    greeting: Mutex<()>,
    /// True if this process is to publish under another name than the last one.
    needs_writer: AtomicBool,
    /// The right to use the bucket, while some thread does.
    lock: Mutex<Weak<PushLock>>,
    /// The conversations that a thread works on.
    busy: Mutex<BTreeSet<Component>>,
    freed: Condvar,
}

#[derive(Default)]
struct Met {
    known: Option<Arc<Known>>,
    /// True if the bucket has said itself who it is.
    is_greeted: bool,
    /// The process that told its answer, unless something failed since.
    told_by: Option<u32>,
}

/// What is kept here about the bucket.
pub(super) struct Known {
    pub(super) id: BucketId,
    pub(super) home: Home,
    pub(super) far: FarArtifacts,
}

/// The right of a thread to work on a conversation, until it is dropped.
pub(super) struct Turn<'a> {
    access: &'a Access,
    id: Component,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.access.busy.lock().remove(&self.id);
        self.access.freed.notify_all();
    }
}

impl Access {
    pub(super) fn new(store: Store, bucket: Arc<dyn Objects + Send>, options: TierOptions) -> Self {
        Self {
            store,
            bucket,
            options,
            met: Mutex::default(),
            greeting: Mutex::default(),
            needs_writer: AtomicBool::new(false),
            lock: Mutex::default(),
            busy: Mutex::default(),
            freed: Condvar::new(),
        }
    }

    /// Returns what is kept about the bucket, as far as that is known without asking it.
    pub(super) fn known(&self) -> Result<Option<Arc<Known>>, RemoteError> {
        let mut met = self.met.lock();
        if met.known.is_none() {
            let here = known_bucket(&self.store, &self.options.url)?;
            met.known = here.map(|id| self.open(id)).transpose()?;
        }
        Ok(met.known.clone())
    }

    /// Returns true if the bucket is a directory, which costs little to ask.
    pub(super) fn is_directory(&self) -> bool {
        self.options.url.starts_with("file://")
    }

    /// Notes that a request failed: the bucket is asked again who it is before it is used.
    pub(super) fn doubt(&self) {
        self.met.lock().told_by = None;
    }

    /// Returns what is kept about the bucket, once the bucket has said who it is. `None` if no host
    /// ever sent anything there, and this one does not.
    ///
    /// It is asked again after a failure, and where the process that asks it began anew. A
    /// directory is asked each time: while its disk is not mounted, an empty one is in its place.
    /// Fails if the bucket is not there any more, or is another one than this process has used.
    pub(super) fn greeted(&self) -> Result<Option<Arc<Known>>, RemoteError> {
        let _one = self.greeting.lock();
        let (known, is_greeted) = (self.known()?, self.met.lock().is_greeted);
        if is_greeted && self.is_sure() {
            return Ok(known);
        }
        let Some(identity) = self.identity(known.as_deref(), is_greeted)? else { return Ok(None) };
        let earlier = known.filter(|known| known.id == identity.id);
        let known = earlier.map_or_else(|| self.open(identity.id), Ok)?;
        if !is_greeted {
            // Nobody could tell whether a copy of this store has taken the next number.
            self.needs_writer.store(self.options.pushes && !identity.conditional, Relaxed);
            known.home.keep_bucket(&self.options.url, identity.write_once)?;
        }
        let told_by = Some(self.bucket.answerer());
        *self.met.lock() = Met { known: Some(Arc::clone(&known)), is_greeted: true, told_by };
        Ok(Some(known))
    }

    /// Returns true if the last answer of the bucket still counts.
    fn is_sure(&self) -> bool {
        !self.is_directory() && self.met.lock().told_by == Some(self.bucket.answerer())
    }

    /// Asks the bucket who it is. One that is known here is not begun anew.
    fn identity(
        &self,
        known: Option<&Known>,
        is_greeted: bool,
    ) -> Result<Option<Identity>, RemoteError> {
        let (deadline, write_once) = (Deadline::after(GREETING), self.options.write_once);
        let identity = match (known, self.options.pushes && !is_greeted) {
            (None, true) => Some(self.bucket.found(write_once, deadline)?),
            (Some(_), true) => self.bucket.met(write_once, deadline)?,
            (_, false) => {
                let identity = self.bucket.identity(deadline)?;
                identity.map(|found| found.agreeing(write_once)).transpose()?
            }
        };
        let url = || self.options.url.clone();
        match (known.map(|known| known.id), identity) {
            (Some(id), None) => Err(RemoteError::Lost { url: url(), id }),
            (Some(id), Some(Identity { id: now, .. })) if is_greeted && id != now => {
                Err(RemoteError::Replaced { url: url(), id, now })
            }
            (_, identity) => Ok(identity),
        }
    }

    fn open(&self, id: BucketId) -> Result<Arc<Known>, RemoteError> {
        let open = || Home::open(&self.store, id).map(|home| home.within(self.options.limits));
        let home = open()?;
        let far = FarArtifacts::new(
            Arc::clone(&self.bucket),
            open()?,
            self.options.cache_bytes,
            PATIENCE,
        )?;
        Ok(Arc::new(Known { id, home, far }))
    }

    /// Takes the right to use the bucket for the store, which the threads of this process share.
    /// `None` if another process has it for all of `patience`.
    pub(super) fn lock(
        &self,
        known: &Known,
        patience: Duration,
    ) -> Result<Option<Arc<PushLock>>, RemoteError> {
        let end = Instant::now() + patience;
        loop {
            if let Some(lock) = self.try_lock(known)? {
                return Ok(Some(lock));
            }
            if Instant::now() >= end {
                return Ok(None);
            }
            thread::sleep(AGAIN);
        }
    }

    fn try_lock(&self, known: &Known) -> Result<Option<Arc<PushLock>>, RemoteError> {
        let mut held = self.lock.lock();
        if let Some(lock) = held.upgrade() {
            return Ok(Some(lock));
        }
        let Some(lock) = known.home.lock()?.map(Arc::new) else { return Ok(None) };
        if self.needs_writer.swap(false, Relaxed) {
            known.home.new_writer()?;
        }
        *held = Arc::downgrade(&lock);
        Ok(Some(lock))
    }

    /// Waits until no other thread works on a conversation.
    pub(super) fn turn(&self, id: &Component) -> Turn<'_> {
        let mut busy = self.busy.lock();
        self.freed.wait_while(&mut busy, |busy| busy.contains(id));
        busy.insert(id.clone());
        drop(busy);
        Turn { access: self, id: id.clone() }
    }

    /// Does that for `patience` at most. `None` if another thread works on it all that time.
    pub(super) fn turn_within(&self, id: &Component, patience: Duration) -> Option<Turn<'_>> {
        let mut busy = self.busy.lock();
        self.freed.wait_while_for(&mut busy, |busy| busy.contains(id), patience);
        let is_free = busy.insert(id.clone());
        drop(busy);
        is_free.then(|| Turn { access: self, id: id.clone() })
    }

    /// Hands out what is needed for a conversation. Each request is repeated for `patience`.
    pub(super) fn sync<T>(
        &self,
        (known, lock): (&Known, &PushLock),
        patience: Duration,
        with: impl FnOnce(&Sync<'_>) -> T,
    ) -> T {
        with(&Sync {
            store: &self.store,
            bucket: &*self.bucket,
            home: &known.home,
            lock,
            now: &Moment::now,
            deadline: &|| Deadline::after(patience),
        })
    }
}
