//! Removal of old outputs by retention rules while a server runs.
//!
//! Without rules there is no thread. With rules, a thread of low priority sweeps at the start, at
//! regular intervals, and when the bytes sealed since the last sweep may exceed a limit. In
//! addition, a writer that finds no room makes a sweep on its own thread.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use crate::sync::{Condvar, Mutex, lower_priority, thread};
use crate::{BackgroundThread, Counters, EngineOptions, Result, allow_slow};
use ctxfs_core::model::{Component, EvictionResult, Evictor, RelPath};
use ctxfs_store::keep::{RetentionRules, SweepReport, SweepScope};
use ctxfs_store::{Store, UnreadPlaces, keep};

/// The interval of regular sweeps, and thus the precision of a limit on age.
const EVERY: Duration = Duration::from_mins(10);
/// Minimum interval of regular sweeps. With a short limit on age, the interval is a tenth of the
/// limit.
const OFTEN: Duration = Duration::from_secs(1);
/// The time for which sealed outputs accumulate before a sweep.
const GATHER: Duration = Duration::from_millis(200);
/// After a sweep that freed nothing, writers do not sweep again for this time.
const FRUITLESS: Duration = Duration::from_millis(100);
/// Maximum time that a writer waits until closed outputs are sealed, because only sealed outputs
/// can be removed. On a machine with ten times the load that it can handle, sealing a small output
/// takes almost a second.
const SEALING: Duration = Duration::from_secs(5);
/// Number of retries of a writer that found nothing to remove, with a pause of `RELEASE` before
/// each. The kernel reports a closed file some time after `close` has returned.
const RELEASES: u32 = 2;
const RELEASE: Duration = Duration::from_millis(50);
/// Maximum number of sweeps that remove local copies to make room.
const PASSES: usize = 4;

/// Waits, for at most the given time, until files that were just closed are sealed.
type Settle = dyn Fn(Duration) + Send + Sync;

/// The effect of a sweep on an output that no other host has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unshared {
    Removed,
    Kept,
}

/// The retention of outputs. It decides when to sweep, and sweeps.
///
/// If another host has an output, only the local copy is removed. Otherwise a sweep under rules
/// removes the output itself, and a sweep that only evicts local copies keeps it.
pub(crate) struct Retention {
    store: Store,
    options: Arc<EngineOptions>,
    counters: Arc<Counters>,
    settle: OnceLock<Box<Settle>>,
    schedule: Mutex<SweepSchedule>,
    changed: Condvar,
    thread: BackgroundThread,
}

/// The sweeps that are due, and the limits for the next ones.
///
/// - `store`: true if a sweep of the whole store is due
/// - `conversations`: conversations for which a sweep is due
/// - `room`: the number of bytes that may be sealed before the next sweep, for each swept
///   conversation
/// - `fruitless`: the time of the last sweep by a writer, if that sweep freed nothing
/// - `unread`: the places that the last sweep of the store could not read
#[derive(Default)]
struct SweepSchedule {
    closed: bool,
    store: bool,
    conversations: BTreeSet<Component>,
    room: HashMap<Component, u64>,
    store_room: Option<u64>,
    fruitless: Option<Instant>,
    unread: UnreadPlaces,
}

impl Retention {
    pub(crate) fn new(
        store: &Store,
        options: &Arc<EngineOptions>,
        counters: &Arc<Counters>,
    ) -> Self {
        Self {
            store: store.clone(),
            options: Arc::clone(options),
            counters: Arc::clone(counters),
            settle: OnceLock::new(),
            schedule: Mutex::default(),
            changed: Condvar::default(),
            thread: BackgroundThread::default(),
        }
    }

    /// Starts the sweeping thread, if there are rules. Sweeps by writers call `settle` first.
    pub(crate) fn start(self: &Arc<Self>, settle: Box<Settle>) -> io::Result<()> {
        // The first `settle` is kept. A second server of the same engine would seal the same files.
        drop(self.settle.set(settle));
        if self.options.keep.is_empty() {
            return Ok(());
        }
        let retention = Arc::clone(self);
        self.thread.start("ctxfs-keep", move || retention.work())
    }

    pub(crate) fn finish(&self) {
        self.schedule.lock().closed = true;
        self.changed.notify_all();
        self.thread.join();
    }

    pub(crate) fn note_sealed(&self, id: &Component, bytes: u64) {
        let rules = &self.options.keep;
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

    /// Makes room in a conversation if a rule limits its bytes. Removes outputs until at most
    /// `may_stay` bytes of artifacts remain.
    pub(crate) fn make_room_in(&self, id: &Component, may_stay: u64) -> Result<()> {
        let Some(limit) = self.options.keep.conversation else { return Ok(()) };
        let conversation = Some(limit.min(may_stay));
        let rules = RetentionRules { conversation, ..RetentionRules::default() };
        self.make_room(&rules, &SweepScope::Conversation(id.clone()))?;
        Ok(())
    }

    /// Makes room for `length` more bytes on the disk, with `least` bytes left free. Does so only
    /// if a rule limits the use of the disk, or if local copies are evicted when the disk is nearly
    /// full. Returns true if outputs were removed. An open output takes room until it is closed.
    pub(crate) fn make_room_on_disk(&self, least: u64, length: u64) -> Result<bool> {
        let enough = least.saturating_add(length);
        match self.options.keep.free {
            Some(free) => {
                let rules =
                    RetentionRules { free: Some(free.max(enough)), ..RetentionRules::default() };
                self.make_room(&rules, &SweepScope::Store)
            }
            None if self.options.other_hosts.as_ref().is_some_and(|others| others.evicts()) => {
                self.evict(enough)
            }
            None => Ok(false),
        }
    }

    /// Removes local copies of outputs that other hosts have, least recently used first, until
    /// `free` bytes are free. Returns true if a copy was removed.
    fn evict(&self, free: u64) -> Result<bool> {
        if self.is_fruitless() {
            return Ok(false);
        }
        allow_slow()?;
        // A sweep keeps outputs that only this host has. The goal grows by the size of these
        // outputs, so that the next sweep chooses more of the shared ones.
        let mut in_the_way = 0;
        for _ in 0..PASSES {
            let free = Some(free.saturating_add(in_the_way));
            let rules = RetentionRules { free, ..RetentionRules::default() };
            let report = self.sweep(&rules, &SweepScope::Store, Unshared::Kept)?;
            let kept: u64 = report.kept.iter().map(|(removal, _)| removal.on_disk).sum();
            self.note_room_made(&report);
            if !report.removed.is_empty() {
                return Ok(true);
            }
            if kept <= in_the_way {
                break;
            }
            in_the_way = kept;
        }
        Ok(false)
    }

    fn make_room(&self, rules: &RetentionRules, scope: &SweepScope) -> Result<bool> {
        if self.is_fruitless() {
            return Ok(false);
        }
        allow_slow()?;
        let settled_sweep = || {
            if let Some(settle) = self.settle.get() {
                settle(SEALING);
            }
            self.sweep(rules, scope, Unshared::Removed)
        };
        let mut report = settled_sweep()?;
        for _ in 0..RELEASES {
            if made_room(&report) {
                break;
            }
            thread::sleep(RELEASE);
            report = settled_sweep()?;
        }
        self.note_room_made(&report);
        Ok(!report.removed.is_empty())
    }

    fn note_room_made(&self, report: &SweepReport) {
        let fruitless = !made_room(report);
        self.schedule.lock().fruitless = fruitless.then(Instant::now);
    }

    fn is_fruitless(&self) -> bool {
        self.schedule.lock().fruitless.is_some_and(|since| since.elapsed() < FRUITLESS)
    }

    fn sweep(
        &self,
        rules: &RetentionRules,
        scope: &SweepScope,
        unshared: Unshared,
    ) -> Result<SweepReport> {
        let (now, stop) = (SystemTime::now(), || self.schedule.lock().closed);
        let evictor = |id: &Component| self.evictor(id, unshared);
        let report =
            keep::sweep_shared(&self.store, rules, (scope, now), &stop, &mut |_, _| {}, &evictor)?;
        if !report.removed.is_empty() {
            let bytes: u64 = report.removed.iter().map(|removal| removal.candidate.size).sum();
            tracing::info!(outputs = report.removed.len(), bytes, "old outputs were removed");
            Counters::add(&self.counters.removed, report.removed.len() as u64);
        }
        Ok(report)
    }

    fn evictor(&self, id: &Component, unshared: Unshared) -> Evictor<'_> {
        let others = self.options.other_hosts.as_ref();
        let mut evictor = others.map(|others| others.evictor(id));
        Box::new(move |path: &RelPath| {
            match evictor.as_mut().map_or(EvictionResult::NotShared, |evict| evict(path)) {
                EvictionResult::NotShared if unshared == Unshared::Kept => {
                    EvictionResult::Kept("no other host has it")
                }
                gone => gone,
            }
        })
    }

    fn work(&self) {
        lower_priority();
        let rules = &self.options.keep;
        let every = rules.age.map_or(EVERY, |age| (age / 10).clamp(OFTEN, EVERY));
        self.schedule.lock().store = true;
        while let Some(scope) = self.next(every) {
            let sweep = || self.sweep(rules, &scope, Unshared::Removed);
            match catch_unwind(AssertUnwindSafe(sweep)) {
                Ok(Ok(report)) => self.learn(&scope, report),
                Ok(Err(error)) => tracing::warn!(%error, "old outputs were not removed"),
                Err(_) => tracing::error!("removing old outputs panicked"),
            }
        }
    }

    /// Waits for the next sweep that is due. Returns `None` at shutdown.
    fn next(&self, every: Duration) -> Option<SweepScope> {
        let idle = |schedule: &mut SweepSchedule| {
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

    fn learn(&self, scope: &SweepScope, report: SweepReport) {
        let mut schedule = self.schedule.lock();
        match scope {
            SweepScope::Store => {
                schedule.room = report.plan.room;
                schedule.store_room = report.plan.store_room;
                if schedule.unread != report.plan.unread {
                    warn_of(&report.plan.unread);
                    schedule.unread = report.plan.unread;
                }
            }
            SweepScope::Conversation(_) => schedule.room.extend(report.plan.room),
        }
    }
}

/// Returns true if outputs were removed, or if there is room without removals.
fn made_room(report: &SweepReport) -> bool {
    let plan = &report.plan;
    let room = plan.store_room.into_iter().chain(plan.room.values().copied());
    !report.removed.is_empty() || { room }.any(|room| room > 0)
}

/// Logs the number of places that a sweep could not read, but not the names.
fn warn_of(unread: &UnreadPlaces) {
    if !unread.is_empty() {
        let places = unread.count();
        tracing::warn!(places, "outputs stay where nothing can be read; `ctxfs gc -n` names these");
    }
}

/// Subtracts `bytes` from the remaining room. Returns true if they fit.
fn spend(room: Option<&mut u64>, bytes: u64) -> bool {
    let Some(room) = room else { return false };
    let left = room.checked_sub(bytes);
    *room = left.unwrap_or(0);
    left.is_some()
}
