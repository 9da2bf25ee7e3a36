//! The thread that sends what was done here.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use super::backlog::Waiting;
use super::{Inner, Mind};
use crate::remote::sync::Hurry;
use crate::remote::tier::access::Known;
use crate::remote::{RemoteError, Sent, Session, Sync, Tidying, standing};
use ctxfs_core::model::Component;
use ctxfs_store::Time;

/// The time that a request is repeated for.
const PATIENCE: Duration = Duration::from_mins(1);
/// The pause before a conversation is tried again while another process uses the bucket.
const ELSEWHERE: Duration = Duration::from_secs(2);
/// The pause before one is tried again that could not be sent.
const FAILED: Duration = Duration::from_mins(1);
/// The pause before a conversation is tried again at the end.
const MOMENT: Duration = Duration::from_millis(20);
/// How often it is looked whether other processes of the store did something, and how many times as
/// long as that takes it is at least.
const SCAN: Duration = Duration::from_secs(10);
const SCAN_SELDOM: u32 = 50;
/// What is within this time of the last look counts as later: clocks of disks are coarse.
const SLACK: Duration = Duration::from_secs(2);
/// The conversations of which it is remembered that the bucket was looked into.
const SESSIONS: usize = 4096;

/// The outcome of a step of the thread, or its next moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// It did something.
    Worked,
    /// It has nothing to do until then, unless the backlog has changed since.
    Idle { until: Instant, changes: u64 },
    /// No more is to come, and all was sent that could be.
    Ended,
}

/// The outcome of a push of a conversation.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    /// All was sent.
    Sent,
    /// Some of it is being written. Others were sent, or not.
    Partly { is_some_sent: bool },
    /// Another process uses the bucket, or it does not say who it is.
    Elsewhere,
}

impl Inner {
    /// Sends until the end.
    pub(super) fn send_all(&self) {
        loop {
            match self.step() {
                Step::Worked => {}
                Step::Idle { until, changes } => self.wait(until, changes),
                Step::Ended => return,
            }
        }
    }

    fn wait(&self, until: Instant, changes: u64) {
        let mut backlog = self.backlog.lock();
        if backlog.changes == changes {
            self.changed.wait_until(&mut backlog, until);
        }
    }

    /// Does one thing. What waits to be sent comes first, then what may be left from before, then
    /// what other processes did.
    pub(super) fn step(&self) -> Step {
        let now = (self.now)();
        let waits = self.weather.send_from(now);
        let mut backlog = self.backlog.lock();
        let (changes, end) = (backlog.changes, backlog.end);
        if end.is_some_and(|end| now >= end || backlog.is_empty() || waits.is_some()) {
            return Step::Ended;
        }
        let next = if waits.is_none() { backlog.take(now) } else { None };
        let turn = waits.or(backlog.next_turn());
        drop(backlog);
        if let Some((id, waiting)) = next {
            self.push(&id, waiting);
            return Step::Worked;
        }
        let mut mind = self.mind.lock();
        if self.find_left(&mut mind, waits.is_none()) {
            return Step::Worked;
        }
        // Not before it is known which conversations there are.
        let scan = match (&mind.unsure, mind.looked) {
            (None, _) => now + ELSEWHERE,
            (Some(_), None) => now,
            (Some(_), Some((at, _))) => at + SCAN.max(mind.took * SCAN_SELDOM),
        };
        if scan <= now {
            self.scan(&mut mind, now);
            return Step::Worked;
        }
        Step::Idle { until: turn.map_or(scan, |turn| turn.min(scan)), changes }
    }

    /// Finds out of one conversation whether something is left to send, or first which there are,
    /// which needs the bucket. Returns false if nothing can be found out now.
    fn find_left(&self, mind: &mut Mind, may_ask: bool) -> bool {
        let found = match &mut mind.unsure {
            None => match self.unsure(may_ask) {
                Ok(None) => return false,
                unsure => {
                    mind.unsure = Some(VecDeque::new());
                    unsure.map(|all| mind.unsure = all)
                }
            },
            Some(unsure) => {
                let (Some(id), Ok(Some(known))) = (unsure.pop_front(), self.access.known()) else {
                    return false;
                };
                self.check(&known, &id)
            }
        };
        if let Err(error) = found {
            self.weather.refused(&error);
        }
        true
    }

    /// Returns the conversations of which something may be left to send. `None` if only the bucket
    /// could tell that, and does not now.
    fn unsure(&self, may_ask: bool) -> Result<Option<VecDeque<Component>>, RemoteError> {
        if let Some(known) = self.access.known()? {
            return self.all(&known).map(Some);
        }
        if self.access.store.conversations()?.is_empty() {
            return Ok(Some(VecDeque::new()));
        }
        let greeted = if may_ask { self.greet() } else { Ok(None) };
        match greeted {
            Ok(Some(known)) => self.all(&known).map(Some),
            _ => Ok(None),
        }
    }

    /// Asks the bucket who it is, if that is not known. A failure is one of the bucket.
    pub(super) fn greet(&self) -> Result<Option<Arc<Known>>, RemoteError> {
        let greeted = self.access.greeted();
        if let Err(error) = &greeted {
            self.failed(error);
        }
        greeted
    }

    /// Returns the conversations of the store. Those that were removed from it are to be told at
    /// once, but not where the store has none at all: then it was lost.
    fn all(&self, known: &Known) -> Result<VecDeque<Component>, RemoteError> {
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

    /// Adds a conversation to the backlog if something of it is to be sent.
    fn check(&self, known: &Known, id: &Component) -> Result<(), RemoteError> {
        let Some(conversation) = self.access.store.conversation(id)? else { return Ok(()) };
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
        let waiting = Waiting::new(now, self.access.options.every);
        self.backlog.lock().found(id, waiting.with(outputs, bytes, since));
    }

    /// Finds the conversations in which something was done since the last time, by whichever
    /// process of the store.
    fn scan(&self, mind: &mut Mind, now: Instant) {
        let (start, began) = (SystemTime::now(), Instant::now());
        let since = mind.looked.map(|(_, since)| since);
        if let (Some(since), Ok(ids)) = (since, self.access.store.conversations()) {
            let since = since.checked_sub(SLACK).unwrap_or(since);
            let waiting = mind.unsure.get_or_insert_default();
            waiting.extend(ids.into_iter().filter(|id| self.is_touched(id, since)));
        }
        mind.looked = Some((now, start));
        mind.took = began.elapsed();
    }

    fn is_touched(&self, id: &Component, since: SystemTime) -> bool {
        let since = since.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let touched = self.access.store.touched(id);
        touched
            .is_ok_and(|time| time.is_some_and(|time| time.as_millis() >= since.as_millis() as i64))
    }

    fn push(&self, id: &Component, waiting: Waiting) {
        let outcome = self.noted(self.try_push(id));
        let (now, every) = ((self.now)(), self.access.options.every);
        let again = match outcome {
            Ok(Outcome::Sent) => {
                let mut backlog = self.backlog.lock();
                backlog.sent();
                backlog.lag = Some(now.saturating_duration_since(waiting.since));
                return;
            }
            Ok(Outcome::Partly { is_some_sent: true }) => waiting.sent(now).later(now, every),
            Ok(Outcome::Partly { is_some_sent: false }) => waiting.later(now, every),
            Ok(Outcome::Elsewhere) => waiting.at(now + ELSEWHERE),
            Err(error) if error.may_pass() => waiting.at(now),
            Err(_) => waiting.later(now, FAILED),
        };
        self.push_again(id, again, now);
    }

    /// Gives a conversation back of which something is left. At the end it has few turns more: what
    /// was written a moment ago counts as being written until the clock of its disk moves.
    fn push_again(&self, id: &Component, again: Waiting, now: Instant) {
        if self.backlog.lock().end.is_none() {
            self.backlog.lock().give_back(id, again);
        } else if again.is_worth_it(self.access.options.every) {
            thread::sleep(MOMENT);
            self.backlog.lock().give_back(id, again.at(now));
        } else {
            self.backlog.lock().sent();
        }
    }

    fn try_push(&self, id: &Component) -> Result<Outcome, RemoteError> {
        let Ok(Some(known)) = self.greet() else { return Ok(Outcome::Elsewhere) };
        let Some(lock) = self.access.lock(&known, Duration::ZERO)? else {
            return Ok(Outcome::Elsewhere);
        };
        let _turn = self.access.turn(id);
        let sent = self.access.sync((&*known, &*lock), PATIENCE, |sync| {
            let sent = match sync.store.conversation(id)? {
                Some(conversation) => {
                    let mut session = self.session(id);
                    let sent = sync.push_in(&conversation, &mut session, Hurry::OnceRested);
                    self.mind.lock().sessions.insert(id.clone(), session);
                    sent?
                }
                None if sync.home.is_removed(sync.store, id)? => sync.push_removal(id)?,
                None => Sent::default(),
            };
            if !sent.segments.is_empty() {
                self.weather.worked();
                self.tidy(sync, id)?;
            }
            Ok::<_, RemoteError>(sent)
        })?;
        for (path, why) in &sent.left {
            tracing::debug!(%path, %why, "an output was left out");
        }
        let is_whole = sent.live.is_empty() && sent.left.is_empty() && !sent.is_partial;
        let is_some_sent = !sent.segments.is_empty();
        Ok(if is_whole { Outcome::Sent } else { Outcome::Partly { is_some_sent } })
    }

    fn session(&self, id: &Component) -> Session {
        let mut mind = self.mind.lock();
        if mind.sessions.len() > SESSIONS {
            mind.sessions.clear();
        }
        mind.sessions.remove(id).unwrap_or_default()
    }

    /// Merges the segments of a conversation if there are many. A host that may not delete is told
    /// so, and goes on.
    fn tidy(&self, sync: &Sync<'_>, id: &Component) -> Result<(), RemoteError> {
        let deletes = self.access.options.sweeps;
        let tidying = if deletes { Tidying::Delete } else { Tidying::Merge };
        let tidied = sync.tidy_many(id, tidying)?;
        let Some(tidied) = tidied else { return Ok(()) };
        if tidied.is_hindered() {
            tracing::warn!("this host may not delete: set `sweep = false` in `[remote]`");
        }
        if let Some(error) = tidied.blind {
            tracing::warn!(%error, "the bucket has lost something");
        }
        Ok(())
    }
}
