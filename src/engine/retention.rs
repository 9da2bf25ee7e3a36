//! Removing old outputs by the retention rules while a server runs.
//!
//! Without rules there is no thread. Otherwise one thread of low priority sweeps: at the start, at
//! intervals, and when the bytes sealed since the last sweep may have passed a limit. A writer that
//! finds no room makes some itself.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use crate::patience::allow_slow;
use crate::sync::{Condvar, Mutex, lower_priority, thread};
use crate::worker::Worker;
use crate::{Counters, Engine, Result};
use ctxfs_core::model::{Component, LetGo, LettingGo, RelPath};
use ctxfs_store::keep::{RetentionRules, SweepReport, SweepScope};
use ctxfs_store::{UnreadPlaces, keep};

/// The interval of regular sweeps, and so the precision of a limit on age.
const EVERY: Duration = Duration::from_mins(10);
/// The shortest interval. With a short limit on age, the interval is a tenth of the limit.
const OFTEN: Duration = Duration::from_secs(1);
/// The time for which sealed outputs gather before a sweep.
const GATHER: Duration = Duration::from_millis(200);
/// The time for which no writer tries to make room after one could make none.
const FRUITLESS: Duration = Duration::from_millis(100);
/// The longest time that a writer waits for closed outputs to be sealed, as only sealed ones can be
/// removed. On a machine with ten times as much to do as it can, a small one takes most of a
/// second.
const SEALING: Duration = Duration::from_secs(5);
/// A writer that found nothing to remove looks again so often, after such pauses: the kernel tells
/// that a file was closed some time after `close` has returned.
const RELEASES: u32 = 2;
const RELEASE: Duration = Duration::from_millis(50);

/// The passes in which local copies are let go until there is room.
const PASSES: usize = 4;

/// What becomes of outputs that no other host has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Going {
    /// They are removed.
    Removed,
    /// They stay.
    LetGo,
}

/// The retention of outputs: decides when to sweep, and sweeps.
#[derive(Default)]
pub struct Retention {
    schedule: Mutex<Schedule>,
    changed: Condvar,
    thread: Worker,
}

/// The sweeps that are due, and the room left before the next one.
#[derive(Default)]
struct Schedule {
    closed: bool,
    /// True if the whole store is to be swept.
    store: bool,
    /// The conversations that are to be swept.
    conversations: BTreeSet<Component>,
    /// The bytes that may be sealed before the next sweep, of each conversation that was swept.
    room: HashMap<Component, u64>,
    store_room: Option<u64>,
    /// The time at which a writer last could make no room.
    fruitless: Option<Instant>,
    /// The places that the last sweep of the store could not read.
    unread: UnreadPlaces,
}

impl fmt::Debug for Retention {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Retention").finish_non_exhaustive()
    }
}

impl Retention {
    /// Starts the thread that sweeps, if there are rules.
    pub(crate) fn start(&self, engine: &Arc<Engine>) -> io::Result<()> {
        if engine.options.keep.is_empty() {
            return Ok(());
        }
        let engine = Arc::clone(engine);
        self.thread.start("ctxfs-keep", move || work(&engine))
    }

    /// Records that an artifact of `bytes` bytes was sealed in a conversation.
    pub fn note_sealed(&self, rules: &RetentionRules, id: &Component, bytes: u64) {
        if !rules.bound_bytes() {
            return;
        }
        let mut schedule = self.schedule.lock();
        if rules.conversation.is_some() && !spend(schedule.room.get_mut(id), bytes) {
            schedule.conversations.insert(id.clone());
        }
        if rules.store.is_some() || rules.free.is_some() {
            schedule.store |= !spend(schedule.store_room.as_mut(), bytes);
        }
        let due = schedule.store || !schedule.conversations.is_empty();
        drop(schedule);
        if due {
            self.changed.notify_all();
        }
    }

    /// Waits for the next sweep that is due. Returns `None` at the end.
    fn next(&self, every: Duration) -> Option<SweepScope> {
        let idle = |schedule: &mut Schedule| {
            !schedule.closed && !schedule.store && schedule.conversations.is_empty()
        };
        let mut schedule = self.schedule.lock();
        let timeout = self.changed.wait_while_for(&mut schedule, idle, every);
        self.changed.wait_while_for(&mut schedule, |schedule| !schedule.closed, GATHER);
        if schedule.closed {
            return None;
        }
        if std::mem::take(&mut schedule.store) || timeout.timed_out() {
            schedule.conversations.clear();
            return Some(SweepScope::Store);
        }
        schedule.conversations.pop_first().map(SweepScope::Conversation)
    }

    /// Records the room that a sweep found or made.
    fn learn(&self, scope: &SweepScope, outcome: SweepReport) {
        let mut schedule = self.schedule.lock();
        match scope {
            SweepScope::Store => {
                schedule.room = outcome.plan.room;
                schedule.store_room = outcome.plan.store_room;
                if schedule.unread != outcome.plan.unread {
                    warn_of(&outcome.plan.unread);
                    schedule.unread = outcome.plan.unread;
                }
            }
            SweepScope::Conversation(_) => schedule.room.extend(outcome.plan.room),
        }
    }

    /// Records an attempt to make room for a writer.
    fn note_room_made(&self, outcome: &SweepReport) {
        let fruitless = !made_room(outcome);
        self.schedule.lock().fruitless = fruitless.then(Instant::now);
    }

    fn is_fruitless(&self) -> bool {
        self.schedule.lock().fruitless.is_some_and(|since| since.elapsed() < FRUITLESS)
    }

    /// Ends the thread, and stops a sweep that is under way.
    pub(crate) fn finish(&self) {
        self.schedule.lock().closed = true;
        self.changed.notify_all();
        self.thread.join();
    }

    /// Makes room in a conversation, if a rule bounds its bytes: at most `may_stay` bytes of
    /// artifacts stay.
    pub(super) fn make_room_in(
        &self,
        engine: &Engine,
        id: &Component,
        may_stay: u64,
    ) -> Result<()> {
        let Some(limit) = engine.options.keep.conversation else { return Ok(()) };
        let conversation = Some(limit.min(may_stay));
        let rules = RetentionRules { conversation, ..RetentionRules::default() };
        self.make_room(engine, &rules, &SweepScope::Conversation(id.clone()))?;
        Ok(())
    }

    /// Makes room for `length` more bytes on the disk, with `least` bytes left free, if a rule
    /// bounds the disk, or if local copies go when it is nearly full. Returns true if outputs were
    /// removed. One that is open takes room until it is closed.
    pub(super) fn make_room_on_disk(
        &self,
        engine: &Engine,
        least: u64,
        length: u64,
    ) -> Result<bool> {
        let enough = least.saturating_add(length);
        match engine.options.keep.free {
            Some(free) => {
                let rules =
                    RetentionRules { free: Some(free.max(enough)), ..RetentionRules::default() };
                self.make_room(engine, &rules, &SweepScope::Store)
            }
            None if engine.options.other_hosts.as_ref().is_some_and(|others| others.evicts()) => {
                self.let_go_on_disk(engine, enough)
            }
            None => Ok(false),
        }
    }

    /// Lets local copies go of what other hosts have, the longest unused first, until `free` bytes
    /// are free. Returns true if any went.
    fn let_go_on_disk(&self, engine: &Engine, free: u64) -> Result<bool> {
        if self.is_fruitless() {
            return Ok(false);
        }
        allow_slow()?;
        // What nobody else has stays, so others must go in its place.
        let mut in_the_way = 0;
        for _ in 0..PASSES {
            let free = Some(free.saturating_add(in_the_way));
            let rules = RetentionRules { free, ..RetentionRules::default() };
            let outcome = self.sweep_as(engine, &rules, &SweepScope::Store, Going::LetGo)?;
            let kept: u64 = outcome.kept.iter().map(|(removal, _)| removal.on_disk).sum();
            self.note_room_made(&outcome);
            if !outcome.removed.is_empty() {
                return Ok(true);
            }
            if kept <= in_the_way {
                break;
            }
            in_the_way = kept;
        }
        Ok(false)
    }

    fn make_room(
        &self,
        engine: &Engine,
        rules: &RetentionRules,
        scope: &SweepScope,
    ) -> Result<bool> {
        if self.is_fruitless() {
            return Ok(false);
        }
        allow_slow()?;
        engine.settle(SEALING);
        let mut outcome = self.sweep(engine, rules, scope)?;
        for _ in 0..RELEASES {
            if made_room(&outcome) {
                break;
            }
            thread::sleep(RELEASE);
            engine.settle(SEALING);
            outcome = self.sweep(engine, rules, scope)?;
        }
        self.note_room_made(&outcome);
        Ok(!outcome.removed.is_empty())
    }

    fn sweep(
        &self,
        engine: &Engine,
        rules: &RetentionRules,
        scope: &SweepScope,
    ) -> Result<SweepReport> {
        self.sweep_as(engine, rules, scope, Going::Removed)
    }

    /// Sweeps. What other hosts have is let go; what they do not have is removed, or stays.
    fn sweep_as(
        &self,
        engine: &Engine,
        rules: &RetentionRules,
        scope: &SweepScope,
        going: Going,
    ) -> Result<SweepReport> {
        let (now, stop) = (SystemTime::now(), || self.schedule.lock().closed);
        let let_go = |id: &Component| letting_go(engine, id, going);
        let outcome =
            keep::sweep_shared(&engine.store, rules, (scope, now), &stop, &mut |_, _| {}, &let_go)?;
        if !outcome.removed.is_empty() {
            let bytes: u64 = outcome.removed.iter().map(|removal| removal.candidate.size).sum();
            tracing::info!(outputs = outcome.removed.len(), bytes, "old outputs were removed");
            Counters::add(&engine.counters.removed, outcome.removed.len() as u64);
        }
        Ok(outcome)
    }
}

/// Returns what lets local copies of outputs of a conversation go.
fn letting_go<'a>(engine: &'a Engine, id: &Component, going: Going) -> LettingGo<'a> {
    let others = engine.options.other_hosts.as_ref();
    let mut let_go = others.map(|others| others.letting_go(id));
    Box::new(move |path: &RelPath| {
        match let_go.as_mut().map_or(LetGo::NotShared, |let_go| let_go(path)) {
            LetGo::NotShared if going == Going::LetGo => LetGo::Kept("no other host has it"),
            gone => gone,
        }
    })
}

/// Returns true if outputs were removed, or none had to be.
fn made_room(outcome: &SweepReport) -> bool {
    let plan = &outcome.plan;
    let room = plan.store_room.into_iter().chain(plan.room.values().copied());
    !outcome.removed.is_empty() || { room }.any(|room| room > 0)
}

/// Logs that a sweep could not read everything, each time that this changes. Names are not logged.
fn warn_of(unread: &UnreadPlaces) {
    if !unread.is_empty() {
        let places = unread.count();
        tracing::warn!(places, "outputs stay where nothing can be read; `ctxfs gc -n` names these");
    }
}

/// Subtracts `bytes` from the room that is left. Returns true if they fit.
fn spend(room: Option<&mut u64>, bytes: u64) -> bool {
    let Some(room) = room else { return false };
    let left = room.checked_sub(bytes);
    *room = left.unwrap_or(0);
    left.is_some()
}

fn work(engine: &Engine) {
    lower_priority();
    let (rules, retention) = (&engine.options.keep, &engine.retention);
    let every = rules.age.map_or(EVERY, |age| (age / 10).clamp(OFTEN, EVERY));
    retention.schedule.lock().store = true;
    while let Some(scope) = retention.next(every) {
        let swept = catch_unwind(AssertUnwindSafe(|| retention.sweep(engine, rules, &scope)));
        match swept {
            Ok(Ok(outcome)) => retention.learn(&scope, outcome),
            Ok(Err(error)) => tracing::warn!(%error, "old outputs were not removed"),
            Err(_) => tracing::error!("removing old outputs panicked"),
        }
    }
}
