//! Access of a tier to its bucket: identity checks, the push lock, and the circuit breaker.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use serde::{Deserialize, Serialize};

use crate::bucket::{BucketId, Deadline, Identity};
use crate::remote::{
    Home, Limits, Moment, Objects, PATIENCE, PushLock, RemoteArtifacts, RemoteError, Synchronizer,
    known_bucket,
};
use ctxfs_core::model::Component;
use ctxfs_store::Store;

const IDENTITY_TIME: Duration = Duration::from_secs(10);
const AGAIN: Duration = Duration::from_millis(20);

pub(super) struct BucketAccess {
    pub(super) store: Store,
    pub(super) bucket: Arc<dyn Objects + Send>,
    pub(super) options: TierOptions,
    met: Mutex<IdentityState>,
    identifying: Mutex<()>,
    needs_writer: AtomicBool,
    lock: Mutex<Weak<PushLock>>,
    busy: Mutex<BTreeSet<Component>>,
    freed: Condvar,
}

#[derive(Default)]
struct IdentityState {
    known: Option<Arc<OpenBucket>>,
    is_identified: bool,
    identified_by: Option<u32>,
}

pub(super) struct OpenBucket {
    pub(super) id: BucketId,
    pub(super) home: Home,
    pub(super) artifacts: RemoteArtifacts,
}

pub(super) struct ConversationGuard<'a> {
    access: &'a BucketAccess,
    id: Component,
}

impl Drop for ConversationGuard<'_> {
    fn drop(&mut self) {
        self.access.busy.lock().remove(&self.id);
        self.access.freed.notify_all();
    }
}

impl BucketAccess {
    pub(super) fn new(store: Store, bucket: Arc<dyn Objects + Send>, options: TierOptions) -> Self {
        Self {
            store,
            bucket,
            options,
            met: Mutex::default(),
            identifying: Mutex::default(),
            needs_writer: AtomicBool::new(false),
            lock: Mutex::default(),
            busy: Mutex::default(),
            freed: Condvar::new(),
        }
    }

    pub(super) fn known(&self) -> Result<Option<Arc<OpenBucket>>, RemoteError> {
        let mut met = self.met.lock();
        if met.known.is_none() {
            let here = known_bucket(&self.store, &self.options.url)?;
            met.known = here.map(|id| self.open(id)).transpose()?;
        }
        Ok(met.known.clone())
    }

    pub(super) fn is_directory(&self) -> bool {
        self.options.url.starts_with("file://")
    }

    pub(super) fn doubt(&self) {
        self.met.lock().identified_by = None;
    }

    /// Returns the bucket after an identity check. Returns `None` if the bucket is not initialized
    /// and this host does not push.
    ///
    /// The check is repeated after a failure, and after a restart of the process that makes the
    /// requests. A bucket that is a directory is checked each time, because while its disk is not
    /// mounted, an empty directory is in its place. Fails if the bucket is gone or was replaced.
    pub(super) fn identified(&self) -> Result<Option<Arc<OpenBucket>>, RemoteError> {
        let _one = self.identifying.lock();
        let (known, is_identified) = (self.known()?, self.met.lock().is_identified);
        if is_identified && self.is_sure() {
            return Ok(known);
        }
        let Some(identity) = self.identity(known.as_deref(), is_identified)? else {
            return Ok(None);
        };
        let earlier = known.filter(|known| known.id == identity.id);
        let known = earlier.map_or_else(|| self.open(identity.id), Ok)?;
        if !is_identified {
            // Without conditional create, a copy of this store could use the same segment numbers
            // without being noticed.
            self.needs_writer.store(self.options.pushes && !identity.conditional, Relaxed);
            known.home.keep_bucket(&self.options.url, identity.write_once)?;
        }
        let identified_by = Some(self.bucket.answerer());
        *self.met.lock() =
            IdentityState { known: Some(Arc::clone(&known)), is_identified: true, identified_by };
        Ok(Some(known))
    }

    fn is_sure(&self) -> bool {
        !self.is_directory() && self.met.lock().identified_by == Some(self.bucket.answerer())
    }

    fn identity(
        &self,
        known: Option<&OpenBucket>,
        is_identified: bool,
    ) -> Result<Option<Identity>, RemoteError> {
        let (deadline, write_once) = (Deadline::after(IDENTITY_TIME), self.options.write_once);
        let identity = match (known, self.options.pushes && !is_identified) {
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
            (Some(id), Some(Identity { id: now, .. })) if is_identified && id != now => {
                Err(RemoteError::Replaced { url: url(), id, now })
            }
            (_, identity) => Ok(identity),
        }
    }

    fn open(&self, id: BucketId) -> Result<Arc<OpenBucket>, RemoteError> {
        let open = || Home::open(&self.store, id).map(|home| home.within(self.options.limits));
        let home = open()?;
        let artifacts = RemoteArtifacts::new(
            Arc::clone(&self.bucket),
            open()?,
            self.options.cache_bytes,
            PATIENCE,
        )?;
        Ok(Arc::new(OpenBucket { id, home, artifacts }))
    }

    /// Takes the push lock, which all threads of this process share. Returns `None` if another
    /// process still holds it after `patience`.
    pub(super) fn lock(
        &self,
        known: &OpenBucket,
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
            std::thread::sleep(AGAIN);
        }
    }

    fn try_lock(&self, known: &OpenBucket) -> Result<Option<Arc<PushLock>>, RemoteError> {
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

    pub(super) fn lock_conversation(&self, id: &Component) -> ConversationGuard<'_> {
        let mut busy = self.busy.lock();
        self.freed.wait_while(&mut busy, |busy| busy.contains(id));
        busy.insert(id.clone());
        drop(busy);
        ConversationGuard { access: self, id: id.clone() }
    }

    pub(super) fn try_lock_conversation(
        &self,
        id: &Component,
        patience: Duration,
    ) -> Option<ConversationGuard<'_>> {
        let mut busy = self.busy.lock();
        self.freed.wait_while_for(&mut busy, |busy| busy.contains(id), patience);
        let is_free = busy.insert(id.clone());
        drop(busy);
        is_free.then(|| ConversationGuard { access: self, id: id.clone() })
    }

    pub(super) fn sync<T>(
        &self,
        (known, lock): (&OpenBucket, &PushLock),
        patience: Duration,
        with: impl FnOnce(&Synchronizer<'_>) -> T,
    ) -> T {
        with(&Synchronizer {
            store: &self.store,
            bucket: &*self.bucket,
            home: &known.home,
            lock,
            now: &Moment::now,
            deadline: &|| Deadline::after(patience),
        })
    }
}

/// Settings of background synchronization, from the section `[remote]` of the configuration.
/// `pushes` is true if sealed outputs are pushed, `evicts` if local copies of pushed outputs are
/// evicted when the disk is nearly full, and `sweeps` if unused segments and objects are deleted.
/// All hosts of a bucket need the same `write_once`. A push follows the first change after `every`;
/// changes during this time are pushed together. A look older than `poll` is too old for readers.
/// `cache_bytes` is the maximum size of cached blocks, and `limits` are the limits of downloads.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is a setting of its own")]
#[expect(missing_docs, reason = "described above")]
pub struct TierOptions {
    pub url: String,
    pub pushes: bool,
    pub write_once: bool,
    pub every: Duration,
    pub poll: Duration,
    pub cache_bytes: u64,
    pub limits: Limits,
    pub evicts: bool,
    pub sweeps: bool,
}

/// Time after a failure during which readers make no request.
const AWAY: Duration = Duration::from_secs(5);
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_mins(1);
/// Maximum number of conversations whose errors are remembered.
const MAX_REFUSED: usize = 64;

/// Circuit breaker for the bucket. After failures, readers do not wait for requests, and pushes
/// pause with exponential backoff.
#[derive(Debug, Default)]
pub(super) struct CircuitBreaker(Mutex<BreakerState>);

#[derive(Debug, Default)]
struct BreakerState {
    failures: u32,
    failed: Option<Instant>,
    retry_at: Option<Instant>,
    error: Option<String>,
    /// Errors that concern one conversation, or the list of conversations.
    refused: BTreeMap<Option<Component>, String>,
}

impl CircuitBreaker {
    pub(super) fn failed(&self, error: &RemoteError, now: Instant) {
        let mut state = self.0.lock();
        if state.failures == 0 {
            tracing::warn!(%error, "the bucket does not answer; what is to be sent waits");
        }
        let pause = FIRST * 2_u32.saturating_pow(state.failures.min(10));
        state.failures = state.failures.saturating_add(1);
        state.failed = Some(now);
        state.retry_at = Some(now + jittered(pause.min(LONGEST)));
        state.error = Some(error.to_string());
    }

    pub(super) fn refused(&self, about: Option<&Component>, error: &RemoteError) {
        let (text, about) = (error.to_string(), about.cloned());
        let refused = &mut self.0.lock().refused;
        let has_room = refused.len() < MAX_REFUSED || refused.contains_key(&about);
        if has_room && refused.insert(about, text.clone()).as_ref() != Some(&text) {
            tracing::warn!(%error, "a conversation is not shared as it should be");
        }
    }

    /// Returns true if an error that concerns this conversation is remembered.
    pub(super) fn is_refused(&self, id: &Component) -> bool {
        self.0.lock().refused.keys().flatten().any(|about| about == id)
    }

    pub(super) fn succeeded(&self, about: Option<&Component>) {
        let mut state = self.0.lock();
        if state.failures > 0 {
            tracing::info!("the bucket answers again");
        }
        let mut refused = std::mem::take(&mut state.refused);
        refused.remove(&about.cloned());
        *state = BreakerState { refused, ..BreakerState::default() };
    }

    /// Returns true for a short time after a failure. Readers must not make a request then.
    pub(super) fn is_open(&self, now: Instant) -> bool {
        self.0.lock().failed.is_some_and(|failed| now < failed + AWAY)
    }

    pub(super) fn has_failed(&self) -> bool {
        self.0.lock().failures > 0
    }

    /// Returns the time of the next allowed push. Returns `None` if a push is allowed now.
    pub(super) fn retry_at(&self, now: Instant) -> Option<Instant> {
        self.0.lock().retry_at.filter(|from| now < *from)
    }

    pub(super) fn error(&self) -> Option<String> {
        let state = self.0.lock();
        state.error.as_ref().or_else(|| state.refused.values().next()).cloned()
    }
}

/// Returns a random time between half of `pause` and all of it, so that hosts whose requests failed
/// at the same time do not all retry at the same time.
fn jittered(pause: Duration) -> Duration {
    let random = uuid::Uuid::new_v4().as_u128() as u32;
    pause.mul_f64(0.5 + f64::from(random) / f64::from(u32::MAX) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bucket::BucketError;

    #[test]
    fn pauses_grow_up_to_a_minute_and_end_with_the_first_success() {
        let (breaker, now) = (CircuitBreaker::default(), Instant::now());
        let away = || BucketError::Away { what: "x".to_owned(), why: "y".to_owned() };
        let mut longest = Duration::ZERO;
        for failures in 0..20_u32 {
            breaker.failed(&away().into(), now);
            let pause = breaker.retry_at(now).unwrap() - now;
            let most = FIRST.saturating_mul(2_u32.pow(failures.min(6))).min(LONGEST);
            assert!(pause <= most && pause >= most / 2, "{failures}: {pause:?}");
            longest = longest.max(pause);
        }
        assert!(longest > Duration::from_secs(20));
        assert!(breaker.is_open(now) && !breaker.is_open(now + AWAY) && breaker.has_failed());
        breaker.succeeded(None);
        assert!(
            !breaker.has_failed() && breaker.retry_at(now).is_none() && breaker.error().is_none()
        );
    }
}
