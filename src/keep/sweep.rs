//! Removes the artifacts that a plan chooses.

use std::time::SystemTime;

use crate::keep::inventory::ids;
use crate::keep::plan::PlannedRemoval;
use crate::keep::plan::RemovalPlan;
use crate::keep::plan::plan;
use crate::keep::rules::RetentionRules;
use crate::keep::rules::SweepScope;
use crate::model::Component;
use crate::store::RemovalCandidate;
use crate::store::RemovalOutcome;
use crate::store::Store;
use crate::store::StoreError;
use crate::store::SweepLock;

/// The artifacts that are removed before `stop` is asked again.
const STEP: usize = 256;

/// The result of a sweep.
#[derive(Debug, Default)]
pub struct SweepReport {
    /// The artifacts that were removed.
    pub removed: Vec<PlannedRemoval>,
    /// The artifacts that were to be removed and stayed, each with the reason.
    pub kept: Vec<(PlannedRemoval, &'static str)>,
    /// The room that is left, as the plan computed it. Its removals are moved to the other fields.
    pub plan: RemovalPlan,
}

/// Makes a [`plan`] and removes the artifacts in it. Waits for other sweeps of the store.
///
/// Calls `progress` with the number of artifacts done and the number of all. Ends early once `stop`
/// returns true.
pub fn sweep(
    store: &Store,
    rules: &RetentionRules,
    scope: &SweepScope,
    stop: &dyn Fn() -> bool,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<SweepReport, StoreError> {
    let mut report = SweepReport::default();
    let lock = store.lock_sweeps()?;
    finish_removals(store, scope, &lock)?;
    if rules.is_empty() {
        return Ok(report);
    }
    clear_cache_if_full(store, rules)?;
    report.plan = plan(store, rules, scope, SystemTime::now(), stop)?;
    let removals = std::mem::take(&mut report.plan.removals);
    let (all, mut done) = (removals.len(), 0);
    for (id, removals) in by_conversation(removals) {
        let Some(conversation) = store.conversation(&id)? else { continue };
        for step in removals.chunks(STEP) {
            if stop() {
                return Ok(report);
            }
            let candidates: Vec<RemovalCandidate> =
                step.iter().map(|removal| removal.candidate.clone()).collect();
            let outcomes = lock.remove(&conversation, &candidates)?;
            for (removal, outcome) in step.iter().zip(outcomes) {
                match outcome {
                    RemovalOutcome::Removed => report.removed.push(removal.clone()),
                    RemovalOutcome::Kept(why) => report.kept.push((removal.clone(), why)),
                }
            }
            done += step.len();
            progress(done, all);
        }
    }
    Ok(report)
}

/// Clears the cache of views if the disk has fewer free bytes than the rules ask for. Views can be
/// computed again; outputs cannot.
fn clear_cache_if_full(store: &Store, rules: &RetentionRules) -> Result<(), StoreError> {
    let Some(least) = rules.free else { return Ok(()) };
    let space = store.space()?;
    if space.f_bavail * space.f_frsize < least {
        store.clear_cache()?;
    }
    Ok(())
}

/// Completes the removals of a sweep that was cut off.
fn finish_removals(store: &Store, scope: &SweepScope, lock: &SweepLock) -> Result<(), StoreError> {
    for id in ids(store, scope)? {
        if let Some(conversation) = store.conversation(&id)? {
            lock.finish_removals(&conversation)?;
        }
    }
    Ok(())
}

/// Groups removals by conversation, in the order in which the conversations first occur.
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
