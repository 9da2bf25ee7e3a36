//! The pusher thread.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use crate::remote::sync::Pacing;
use crate::remote::tier::access::OpenBucket;
use crate::remote::tier::backlog::WaitingPush;
use crate::remote::tier::{PusherState, TierInner};
use crate::remote::{GcMode, RemoteError, Sent, Session, Synchronizer, standing};
use ctxfs_core::model::Component;
use ctxfs_store::Time;

const PATIENCE: Duration = Duration::from_mins(1);
const BUSY_PAUSE: Duration = Duration::from_secs(2);
const FAILED_PAUSE: Duration = Duration::from_mins(1);
const FINAL_PAUSE: Duration = Duration::from_millis(20);
/// Minimum interval between scans for changes of other processes. The interval is also at least
/// `SCAN_SELDOM` times the duration of the last scan.
const SCAN: Duration = Duration::from_secs(10);
const SCAN_SELDOM: u32 = 50;
/// Tolerance for coarse file times. A scan includes changes that are at most this much older than
/// the previous scan.
const SLACK: Duration = Duration::from_secs(2);
const SESSIONS: usize = 4096;
/// Interval between lists of the conversations in which this host has removed or merged something.
const TIDY: Duration = Duration::from_hours(1);

/// Result of one unit of work of the pusher. `Idle` means that there is no work before `until`,
/// unless the number of changes of the backlog exceeds `changes`. `Ended` means that the tier is
/// shutting down and everything possible was pushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PusherStep {
    Worked,
    Idle { until: Instant, changes: u64 },
    Ended,
}

/// Outcome of a push of one conversation. `Partly` means that files are still being written, were
/// left out, or could not be read. `Busy` means that another process holds the push lock, or that
/// the bucket is unreachable.
#[derive(Debug, PartialEq, Eq)]
enum PushOutcome {
    Sent,
    Partly { is_some_sent: bool },
    Busy,
}

impl TierInner {
    pub(super) fn send_all(&self) {
        loop {
            match self.step() {
                PusherStep::Worked => {}
                PusherStep::Idle { until, changes } => self.wait(until, changes),
                PusherStep::Ended => return,
            }
        }
    }

    fn wait(&self, until: Instant, changes: u64) {
        let mut backlog = self.backlog.lock();
        if backlog.changes == changes {
            self.changed.wait_until(&mut backlog, until);
        }
    }

    /// Does one unit of work: pushes a conversation that is due. If none is due, checks one
    /// conversation for unsent changes. If there is none to check, scans for changes of other
    /// processes.
    pub(super) fn step(&self) -> PusherStep {
        let now = (self.now)();
        let waits = self.breaker.retry_at(now);
        let mut backlog = self.backlog.lock();
        let (changes, end) = (backlog.changes, backlog.end);
        if end.is_some_and(|end| now >= end || backlog.is_empty() || waits.is_some()) {
            return PusherStep::Ended;
        }
        let next = if waits.is_none() { backlog.take(now) } else { None };
        let turn = waits.or(backlog.next_turn());
        drop(backlog);
        if let Some((id, waiting)) = next {
            self.push(&id, waiting);
            return PusherStep::Worked;
        }
        if waits.is_none() && end.is_none() && self.tidy_next(now) {
            return PusherStep::Worked;
        }
        let mut pusher = self.pusher.lock();
        if self.find_left(&mut pusher, waits.is_none()) {
            return PusherStep::Worked;
        }
        // Scans start only once the conversations are known.
        let scan = match (&pusher.unchecked, pusher.looked) {
            (None, _) => now + BUSY_PAUSE,
            (Some(_), None) => now,
            (Some(_), Some((at, _))) => at + SCAN.max(pusher.took * SCAN_SELDOM),
        };
        if scan <= now {
            self.scan(&mut pusher, now);
            return PusherStep::Worked;
        }
        PusherStep::Idle { until: turn.map_or(scan, |turn| turn.min(scan)), changes }
    }

    /// Checks one conversation for unsent changes. If the conversations are not listed yet, lists
    /// them instead, which may need the bucket. Returns false if nothing can be checked now.
    fn find_left(&self, pusher: &mut PusherState, may_ask: bool) -> bool {
        let found = match &mut pusher.unchecked {
            None => match self.unchecked(may_ask) {
                Ok(None) => return false,
                unchecked => {
                    pusher.unchecked = Some(VecDeque::new());
                    unchecked.map(|all| pusher.unchecked = all).map_err(|error| (None, error))
                }
            },
            Some(unchecked) => {
                let (Some(id), Ok(Some(known))) = (unchecked.pop_front(), self.access.known())
                else {
                    return false;
                };
                self.check(&known, &id).map_err(|error| (Some(id), error))
            }
        };
        if let Err((about, error)) = found {
            self.breaker.refused(about.as_ref(), &error);
        }
        true
    }

    /// Returns the conversations that may have unsent changes. Returns `None` if this needs a
    /// request that is not allowed now.
    fn unchecked(&self, may_ask: bool) -> Result<Option<VecDeque<Component>>, RemoteError> {
        if let Some(known) = self.access.known()? {
            return self.all(&known).map(Some);
        }
        if self.access.store.conversations()?.is_empty() {
            return Ok(Some(VecDeque::new()));
        }
        let identified = if may_ask { self.identify() } else { Ok(None) };
        match identified {
            Ok(Some(known)) => self.all(&known).map(Some),
            _ => Ok(None),
        }
    }

    pub(super) fn identify(&self) -> Result<Option<Arc<OpenBucket>>, RemoteError> {
        let identified = self.access.identified();
        if let Err(error) = &identified {
            self.failed(error);
        }
        identified
    }

    /// Returns the conversations of the store, and adds removed ones to the backlog. If the store
    /// has no conversations at all, assumes that the store was lost, and publishes no removal.
    fn all(&self, known: &OpenBucket) -> Result<VecDeque<Component>, RemoteError> {
        let here: BTreeSet<_> = self.access.store.conversations()?.into_iter().collect();
        for id in known.home.known_conversations()? {
            if !here.contains(&id) && known.home.is_removed(&self.access.store, &id)? {
                if here.is_empty() {
                    tracing::warn!("the store has lost all conversations; others keep theirs");
                    break;
                }
                self.wait_for(&id, (0, 0), None);
            }
        }
        Ok(here.into_iter().collect())
    }

    fn check(&self, known: &OpenBucket, id: &Component) -> Result<(), RemoteError> {
        let Some(conversation) = self.access.store.conversation(id)? else { return Ok(()) };
        self.tell_unfit(id);
        let notes = known.home.conversation(id)?;
        let standing = standing(Some(&conversation), &notes, self.access.store.clock())?;
        if !standing.is_sent() {
            let outputs = (standing.files as u64, standing.bytes);
            self.wait_for(id, outputs, standing.oldest.and_then(Time::age));
        }
        Ok(())
    }

    fn wait_for(&self, id: &Component, (outputs, bytes): (u64, u64), age: Option<Duration>) {
        let now = (self.now)();
        let since = age.and_then(|age| now.checked_sub(age)).unwrap_or(now);
        let waiting = WaitingPush::new(now, self.access.options.every);
        self.backlog.lock().found(id, waiting.with(outputs, bytes, since));
    }

    /// Finds the conversations that any process changed in the store since the last scan.
    fn scan(&self, pusher: &mut PusherState, now: Instant) {
        let (start, began) = (SystemTime::now(), Instant::now());
        let since = pusher.looked.map(|(_, since)| since);
        if let (Some(since), Ok(ids)) = (since, self.access.store.conversations()) {
            let since = since.checked_sub(SLACK).unwrap_or(since);
            let waiting = pusher.unchecked.get_or_insert_default();
            waiting.extend(ids.into_iter().filter(|id| self.is_touched(id, since)));
        }
        pusher.looked = Some((now, start));
        pusher.took = began.elapsed();
    }

    fn is_touched(&self, id: &Component, since: SystemTime) -> bool {
        let since = since.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let touched = self.access.store.touched(id);
        touched
            .is_ok_and(|time| time.is_some_and(|time| time.as_millis() >= since.as_millis() as i64))
    }

    fn push(&self, id: &Component, waiting: WaitingPush) {
        let outcome = self.record(Some(id), self.try_push(id));
        let (now, every) = ((self.now)(), self.access.options.every);
        let again = match outcome {
            Ok(PushOutcome::Sent) => {
                let mut backlog = self.backlog.lock();
                backlog.sent();
                backlog.lag = Some(now.saturating_duration_since(waiting.since));
                return;
            }
            Ok(PushOutcome::Partly { is_some_sent: true }) => waiting.sent(now).later(now, every),
            Ok(PushOutcome::Partly { is_some_sent: false }) => waiting.later(now, every),
            Ok(PushOutcome::Busy) => waiting.at(now + BUSY_PAUSE),
            Err(error) if error.may_pass() => waiting.at(now),
            Err(_) => waiting.later(now, FAILED_PAUSE),
        };
        self.push_again(id, again, now);
    }

    /// Returns an unfinished conversation to the backlog. At shutdown it gets a few more attempts,
    /// because a file counts as being written until the clock of its disk has advanced.
    fn push_again(&self, id: &Component, again: WaitingPush, now: Instant) {
        if self.backlog.lock().end.is_none() {
            self.backlog.lock().give_back(id, again);
        } else if again.may_retry(self.access.options.every) {
            std::thread::sleep(FINAL_PAUSE);
            self.backlog.lock().give_back(id, again.at(now));
        } else {
            self.backlog.lock().sent();
        }
    }

    fn try_push(&self, id: &Component) -> Result<PushOutcome, RemoteError> {
        let sent = self.in_turn(id, |sync| {
            let sent = match sync.store.conversation(id)? {
                Some(conversation) => {
                    let mut session = self.session(id);
                    let sent = sync.push_in(&conversation, &mut session, Pacing::WhenQuiet);
                    self.pusher.lock().sessions.insert(id.clone(), session);
                    sent?
                }
                None if sync.home.is_removed(sync.store, id)? => sync.push_removal(id)?,
                None => Sent::default(),
            };
            if !sent.segments.is_empty() {
                self.breaker.succeeded(Some(id));
                self.tidy(sync, id)?;
            }
            Ok(sent)
        })?;
        let Some(sent) = sent else { return Ok(PushOutcome::Busy) };
        for (path, why) in &sent.left {
            tracing::debug!(%path, %why, "an output was left out");
        }
        let is_whole = sent.live.is_empty() && sent.left.is_empty() && !sent.is_partial;
        let is_some_sent = !sent.segments.is_empty();
        Ok(if is_whole { PushOutcome::Sent } else { PushOutcome::Partly { is_some_sent } })
    }

    /// Runs `work` on the conversation `id`, with the locks for it. Returns `None` if the bucket or
    /// the lock is not available now.
    fn in_turn<T>(
        &self,
        id: &Component,
        work: impl FnOnce(&Synchronizer<'_>) -> Result<T, RemoteError>,
    ) -> Result<Option<T>, RemoteError> {
        let Ok(Some(known)) = self.identify() else { return Ok(None) };
        let Some(lock) = self.access.lock(&known, Duration::ZERO)? else { return Ok(None) };
        let _turn = self.access.lock_conversation(id);
        self.access.sync((&*known, &*lock), PATIENCE, work).map(Some)
    }

    fn session(&self, id: &Component) -> Session {
        let mut pusher = self.pusher.lock();
        if pusher.sessions.len() > SESSIONS {
            pusher.sessions.clear();
        }
        pusher.sessions.remove(id).unwrap_or_default()
    }

    /// Tidies the next conversation in which this host has removed or merged something, even if
    /// nothing is pushed there. Lists these conversations once an hour. Returns false if there is
    /// none now.
    fn tidy_next(&self, now: Instant) -> bool {
        let Ok(Some(known)) = self.access.known() else { return false };
        let next = {
            let PusherState { untidy: (waiting, listed), .. } = &mut *self.pusher.lock();
            if listed.is_none_or(|listed| now - listed >= TIDY) {
                *listed = Some(now);
                waiting.extend(known.home.untidy_conversations().unwrap_or_default());
            }
            waiting.pop_front()
        };
        let Some(id) = next else { return false };
        let tidied = self.in_turn(&id, |sync| self.tidy(sync, &id));
        self.record(Some(&id), tidied).ok();
        true
    }

    /// Merges the segments of a conversation if there are many, and once a day if this host has
    /// removed something there. If this host may not delete objects, logs that.
    fn tidy(&self, sync: &Synchronizer<'_>, id: &Component) -> Result<(), RemoteError> {
        let deletes = self.access.options.sweeps;
        let tidying = if deletes { GcMode::Delete } else { GcMode::Merge };
        let is_first = !self.pusher.lock().tidied.contains(id);
        let tidied = sync.tidy_due(id, tidying, is_first)?;
        let Some(tidied) = tidied else { return Ok(()) };
        self.pusher.lock().tidied.insert(id.clone());
        if tidied.is_hindered() {
            tracing::warn!("this host may not delete: set `sweep = false` in `[remote]`");
        }
        if let Some(error) = tidied.blind {
            tracing::warn!(%error, "the bucket has lost something");
        }
        Ok(())
    }
}
