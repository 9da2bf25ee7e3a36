//! Retention: which outputs are removed to make room, and in which order.
//!
//! Nothing is removed unless a rule requires it. If the bytes of an output are in the bucket, only
//! the local copy is removed. The least recently used output is removed first. An output is removed
//! last if a message refers to it. [`plan()`] decides what to remove, and [`sweep()`] removes it.
//! In between, only other sweeps of the store are locked out. Each removal therefore checks again
//! that its output has not been used.

mod plan;

use std::time::SystemTime;

use crate::keep::plan::{ids, in_conversation};
use crate::{RemovalCandidate, RemovalOutcome, Store, StoreError, SweepLock, UnreadPlaces};
use ctxfs_core::model::{Component, EvictionResult, Evictor, RelPath};

pub use plan::{PlannedRemoval, RemovalPlan, RetentionRules, SweepScope, plan};

const STEP: usize = 256;

/// A function that takes the id of a conversation and returns the [`Evictor`] of its shared
/// outputs. Each evictor is used for one sweep.
pub type EvictorOf<'a> = dyn Fn(&Component) -> Evictor<'a> + 'a;

/// The result of a sweep. A planned removal is in `removed` if it was done. Otherwise it is in
/// `kept`, with the reason. If the sweep ended early, or a conversation could not be read, the
/// remaining removals are in neither list.
///
/// `plan` states how far the outputs may still grow, and the places that could not be read. Its
/// list of removals is empty.
#[derive(Debug, Default)]
#[expect(missing_docs, reason = "described above")]
pub struct SweepReport {
    pub removed: Vec<PlannedRemoval>,
    pub kept: Vec<(PlannedRemoval, &'static str)>,
    pub plan: RemovalPlan,
}

/// Makes a [`plan()`] for the time `now` and removes the artifacts in it. First waits for other
/// sweeps of the store to end.
///
/// Skips places that cannot be read and outputs that cannot be removed; the report lists both.
/// Calls `progress` with the number of artifacts done and the total number. Ends early once `stop`
/// returns true.
pub fn sweep(
    store: &Store,
    rules: &RetentionRules,
    scope: &SweepScope,
    now: SystemTime,
    stop: &dyn Fn() -> bool,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<SweepReport, StoreError> {
    sweep_shared(store, rules, (scope, now), stop, progress, &|_| {
        Box::new(|_: &RelPath| EvictionResult::NotShared)
    })
}

/// Sweeps a store whose outputs are shared between hosts, as [`sweep()`] does. If an output is in
/// the bucket, `let_go` evicts its local copy. An output is removed only if the copy on this disk
/// is the only one.
pub fn sweep_shared(
    store: &Store,
    rules: &RetentionRules,
    (scope, now): (&SweepScope, SystemTime),
    stop: &dyn Fn() -> bool,
    progress: &mut dyn FnMut(usize, usize),
    let_go: &EvictorOf<'_>,
) -> Result<SweepReport, StoreError> {
    let mut report = SweepReport::default();
    let lock = store.lock_sweeps()?;
    let mut unread = finish_removals(store, scope, &lock)?;
    if !rules.is_empty() {
        clear_cache_if_full(store, rules)?;
        report.plan = plan(store, rules, scope, now, stop)?;
        remove(store, (&lock, let_go), &mut report, stop, progress)?;
    }
    unread.extend(std::mem::take(&mut report.plan.unread));
    report.plan.unread = unread;
    Ok(report)
}

fn remove(
    store: &Store,
    (lock, let_go): (&SweepLock, &EvictorOf<'_>),
    report: &mut SweepReport,
    stop: &dyn Fn() -> bool,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<(), StoreError> {
    let removals = std::mem::take(&mut report.plan.removals);
    let SweepReport { removed, kept, plan } = report;
    let (all, mut done) = (removals.len(), 0);
    for (id, removals) in by_conversation(removals) {
        in_conversation(store, &id, &mut plan.unread, |conversation, _| {
            let mut let_go = let_go(&id);
            for step in removals.chunks(STEP) {
                if stop() {
                    break;
                }
                let mut own = Vec::new();
                for removal in step {
                    match let_go(&removal.candidate.path) {
                        EvictionResult::Gone => removed.push(removal.clone()),
                        EvictionResult::Kept(why) => kept.push((removal.clone(), why)),
                        EvictionResult::NotShared => own.push(removal),
                    }
                }
                let candidates: Vec<RemovalCandidate> =
                    own.iter().map(|removal| removal.candidate.clone()).collect();
                let outcomes = lock.remove(&conversation, &candidates)?;
                for (removal, outcome) in own.into_iter().zip(outcomes) {
                    match outcome {
                        RemovalOutcome::Removed => removed.push(removal.clone()),
                        RemovalOutcome::Kept(why) => kept.push((removal.clone(), why)),
                    }
                }
                done += step.len();
                progress(done, all);
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// Clears the cache of views if the disk has fewer free bytes than the rules require. Views can be
/// computed again; outputs cannot.
fn clear_cache_if_full(store: &Store, rules: &RetentionRules) -> Result<(), StoreError> {
    let Some(least) = rules.free else { return Ok(()) };
    let space = store.space()?;
    if space.f_bavail * space.f_frsize < least {
        store.clear_cache()?;
    }
    Ok(())
}

/// Completes the removals of a sweep that was interrupted. Returns the conversations for which this
/// failed.
fn finish_removals(
    store: &Store,
    scope: &SweepScope,
    lock: &SweepLock,
) -> Result<UnreadPlaces, StoreError> {
    let mut unread = UnreadPlaces::default();
    for id in ids(store, scope)? {
        in_conversation(store, &id, &mut unread, |conversation, _| {
            lock.finish_removals(&conversation)
        })?;
    }
    Ok(unread)
}

fn by_conversation(removals: Vec<PlannedRemoval>) -> Vec<(Component, Vec<PlannedRemoval>)> {
    let mut grouped: Vec<(Component, Vec<PlannedRemoval>)> = Vec::new();
    let mut known = std::collections::HashMap::new();
    for removal in removals {
        let id = removal.conversation.clone();
        let at = *known.entry(id.clone()).or_insert(grouped.len());
        if at == grouped.len() {
            grouped.push((id, Vec::new()));
        }
        grouped[at].1.push(removal);
    }
    grouped
}

#[cfg(test)]
mod tests;
