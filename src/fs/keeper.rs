//! Keeping as many outputs as the rules say, while the mount serves.
//!
//! Where there are no rules there is no thread and nothing to count. Otherwise one thread of low
//! priority sweeps: at the start, now and then, and when what was sealed since the last look may
//! have passed a limit. A writer that finds no room makes some itself.

use std::collections::BTreeSet;
use std::collections::HashMap;
use std::io;
use std::panic::AssertUnwindSafe;
use std::panic::catch_unwind;
use std::sync::Arc;
use std::sync::PoisonError;
use std::sync::Weak;
use std::time::Duration;
use std::time::Instant;

use crate::fs::Counters;
use crate::fs::Result;
use crate::fs::Shared;
use crate::fs::sync::Condvar;
use crate::fs::sync::Mutex;
use crate::fs::sync::MutexGuard;
use crate::fs::sync::give_way;
use crate::fs::sync::thread;
use crate::fs::sync::thread::JoinHandle;
use crate::keep;
use crate::keep::RetentionRules;
use crate::keep::SweepReport;
use crate::keep::SweepScope;
use crate::model::Component;

/// How often the store is swept without a reason; the age of outputs is known that exactly.
const EVERY: Duration = Duration::from_mins(10);
/// With a short age, a tenth of it, but not less than this.
const OFTEN: Duration = Duration::from_secs(1);
/// How long sealed outputs gather before a sweep.
const GATHER: Duration = Duration::from_millis(200);
/// How long a writer that could be given no room keeps others from trying again.
const FRUITLESS: Duration = Duration::from_millis(100);
/// How long a writer waits for what was just closed to be sealed, since only then it can go.
const SEALING: Duration = Duration::from_millis(500);

/// When to sweep.
#[derive(Default)]
pub(crate) struct Keeper {
    state: Mutex<State>,
    changed: Condvar,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct State {
    closed: bool,
    /// The store is to be swept.
    store: bool,
    /// Conversations that are to be swept.
    conversations: BTreeSet<Component>,
    /// Bytes that may be sealed before the next look, of each conversation that was looked at.
    room: HashMap<Component, u64>,
    store_room: Option<u64>,
    fruitless: Option<Instant>,
}

impl Keeper {
    /// Notes that `bytes` were sealed in a conversation.
    fn sealed(&self, rules: &RetentionRules, id: &Component, bytes: u64) {
        let mut state = self.state();
        if rules.conversation.is_some() && !spend(state.room.get_mut(id), bytes) {
            state.conversations.insert(id.clone());
        }
        if rules.store.is_some() || rules.free.is_some() {
            state.store |= !spend(state.store_room.as_mut(), bytes);
        }
        let due = state.store || !state.conversations.is_empty();
        drop(state);
        if due {
            self.changed.notify_all();
        }
    }

    /// Waits for the next sweep that is due; none at the end.
    fn next(&self, every: Duration) -> Option<SweepScope> {
        let idle =
            |state: &mut State| !state.closed && !state.store && state.conversations.is_empty();
        let waited = self.changed.wait_timeout_while(self.state(), every, idle);
        let (state, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        let gathered = self.changed.wait_timeout_while(state, GATHER, |state| !state.closed);
        let mut state = gathered.unwrap_or_else(PoisonError::into_inner).0;
        if state.closed {
            return None;
        }
        if std::mem::take(&mut state.store) || timeout.timed_out() {
            state.conversations.clear();
            return Some(SweepScope::Store);
        }
        state.conversations.pop_first().map(SweepScope::Conversation)
    }

    /// Takes in how much room a sweep found or made.
    fn learn(&self, scope: &SweepScope, outcome: SweepReport) {
        let mut state = self.state();
        match scope {
            SweepScope::Store => {
                state.room = outcome.plan.room;
                state.store_room = outcome.plan.store_room;
            }
            SweepScope::Conversation(_) => state.room.extend(outcome.plan.room),
        }
    }

    /// Takes in whether room could be made for a writer.
    fn note_fruit(&self, outcome: &SweepReport) {
        let plan = &outcome.plan;
        let has_room =
            plan.store_room.into_iter().chain(plan.room.values().copied()).any(|room| room > 0);
        let fruitless = outcome.removed.is_empty() && !has_room;
        self.state().fruitless = fruitless.then(Instant::now);
    }

    fn is_fruitless(&self) -> bool {
        self.state().fruitless.is_some_and(|since| since.elapsed() < FRUITLESS)
    }

    fn is_closed(&self) -> bool {
        self.state().closed
    }

    /// Ends the thread; a sweep that is under way stops.
    pub(crate) fn finish(&self) {
        self.state().closed = true;
        self.changed.notify_all();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread
            && thread.join().is_err()
        {
            tracing::error!("the keeping thread panicked");
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether `bytes` fit into the room that was left.
fn spend(room: Option<&mut u64>, bytes: u64) -> bool {
    let Some(room) = room else { return false };
    let left = room.checked_sub(bytes);
    *room = left.unwrap_or(0);
    left.is_some()
}

/// Starts the thread of `shared`, where there are rules.
pub(crate) fn start(shared: &Arc<Shared>) -> io::Result<()> {
    if shared.options.keep.is_empty() {
        return Ok(());
    }
    let weak = Arc::downgrade(shared);
    let thread = thread::Builder::new().name("ctxfs-keep".to_owned()).spawn(move || work(&weak))?;
    *shared.keeper.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
    Ok(())
}

fn work(shared: &Weak<Shared>) {
    let Some(shared) = shared.upgrade() else { return };
    give_way();
    let rules = shared.options.keep.clone();
    let every = rules.age.map_or(EVERY, |age| (age / 10).clamp(OFTEN, EVERY));
    shared.keeper.state().store = true;
    while let Some(scope) = shared.keeper.next(every) {
        let swept = catch_unwind(AssertUnwindSafe(|| shared.sweep(&rules, &scope)));
        match swept {
            Ok(Ok(outcome)) => shared.keeper.learn(&scope, outcome),
            Ok(Err(error)) => tracing::warn!(%error, "old outputs were not removed"),
            Err(_) => tracing::error!("removing old outputs panicked"),
        }
    }
}

impl Shared {
    /// Notes that an artifact of so many bytes was sealed.
    pub(crate) fn note_sealed(&self, id: &Component, bytes: u64) {
        if self.options.keep.bound_bytes() {
            self.keeper.sealed(&self.options.keep, id, bytes);
        }
    }

    /// Makes room for `growth` more bytes below the quota of a conversation, where there is a rule
    /// for its bytes.
    pub(crate) fn make_room_in(&self, id: &Component, quota: u64, growth: u64) -> Result<()> {
        let Some(limit) = self.options.keep.conversation else { return Ok(()) };
        let conversation = Some(limit.min(quota.saturating_sub(growth)));
        let rules = RetentionRules { conversation, ..RetentionRules::default() };
        self.make_room(&rules, &SweepScope::Conversation(id.clone()))
    }

    /// Makes room for `length` more bytes on the disk, so that `least` stay free, where there is a
    /// rule for the disk.
    pub(crate) fn make_room_on_disk(&self, least: u64, length: u64) -> Result<()> {
        let Some(free) = self.options.keep.free else { return Ok(()) };
        let free = Some(free.max(least.saturating_add(length)));
        self.make_room(&RetentionRules { free, ..RetentionRules::default() }, &SweepScope::Store)
    }

    fn make_room(&self, rules: &RetentionRules, scope: &SweepScope) -> Result<()> {
        if !self.keeper.is_fruitless() {
            self.sealer.settle(SEALING);
            self.keeper.note_fruit(&self.sweep(rules, scope)?);
        }
        Ok(())
    }

    fn sweep(&self, rules: &RetentionRules, scope: &SweepScope) -> Result<SweepReport> {
        let stop = || self.keeper.is_closed();
        let outcome = keep::sweep(&self.store, rules, scope, &stop, &mut |_, _| {})?;
        if !outcome.removed.is_empty() {
            let bytes: u64 = outcome.removed.iter().map(|victim| victim.candidate.size).sum();
            tracing::info!(outputs = outcome.removed.len(), bytes, "old outputs were removed");
            Counters::add(&self.counters.removed, outcome.removed.len() as u64);
        }
        Ok(outcome)
    }
}
