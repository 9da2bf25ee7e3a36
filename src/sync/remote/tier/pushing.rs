//! The pusher thread.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use crate::remote::sync::Hurry;
use crate::remote::tier::access::Known;
use crate::remote::tier::backlog::Waiting;
use crate::remote::tier::{Inner, Mind};
use crate::remote::{RemoteError, Sent, Session, Sync, Tidying, standing};
use ctxfs_core::model::Component;
use ctxfs_store::Time;

///+ Time for which a request is retried.
const PATIENCE: Duration = Duration::from_mins(1);
///+ Pause before a retry while another process uses the bucket.
const ELSEWHERE: Duration = Duration::from_secs(2);
///+ Pause before a retry after a failure.
const FAILED: Duration = Duration::from_mins(1);
///+ Pause before a retry at shutdown.
const MOMENT: Duration = Duration::from_millis(20);
///+ Interval of scans for changes of other processes, and the minimum multiple of the duration of a
///+ scan.
const SCAN: Duration = Duration::from_secs(10);
const SCAN_SELDOM: u32 = 50;
///+ Tolerance for coarse file times: changes this long before the last scan count as later.
const SLACK: Duration = Duration::from_secs(2);
///+ Maximum remembered sessions.
const SESSIONS: usize = 4096;

///+ Outcome of a step of the pusher thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Worked,
    ///+ Nothing to do until then, unless the backlog changes.
    Idle {
        until: Instant,
        changes: u64,
    },
    ///+ Shutdown: everything possible was pushed.
    Ended,
}

#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Sent,
    ///+ Some files are still being written. Other files were sent, or not.
    Partly {
        is_some_sent: bool,
    },
    ///+ Another process uses the bucket, or the bucket is unreachable.
    Elsewhere,
}

impl Inner {
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

    ///+ Does one thing: pushes what is due, else checks conversations for unsent changes, else scans
    ///+ for changes of other processes.
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
        // Not before the conversations are known.
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

    ///+ Checks one conversation for unsent changes, or first lists the conversations, which may need
    ///+ the bucket. Returns false if nothing can be checked now.
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

    ///+ Returns the conversations with possible unsent changes. `None` if that takes a request that
    ///+ is impossible now.
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

    ///+ Checks the identity of the bucket if needed, and records a failure.
    pub(super) fn greet(&self) -> Result<Option<Arc<Known>>, RemoteError> {
        let greeted = self.access.greeted();
        if let Err(error) = &greeted {
            self.failed(error);
        }
        greeted
    }

    ///+ Returns the conversations of the store, and queues removed ones. If the store has no
    ///+ conversations at all, it was lost, and no removal is published.
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

    ///+ Finds the conversations that any process of the store changed since the last scan.
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

    ///+ Returns an unfinished conversation to the backlog. At shutdown it gets a few more attempts:
    ///+ a file counts as live until the clock of its disk advances.
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

    ///+ Merges the segments of a conversation if there are many. A host without the right to delete
    ///+ logs that.
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
