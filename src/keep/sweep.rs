//! Removing what a plan says.

use std::time::SystemTime;

use crate::keep::inventory::ids;
use crate::keep::plan::Plan;
use crate::keep::plan::Victim;
use crate::keep::plan::plan;
use crate::keep::rules::Rules;
use crate::keep::rules::Scope;
use crate::model::Component;
use crate::store::Doomed;
use crate::store::Fate;
use crate::store::Store;
use crate::store::StoreError;
use crate::store::Sweeping;

/// Artifacts that are removed between two looks at whether to stop.
const STEP: usize = 256;

/// What a sweep did.
#[derive(Debug, Default)]
pub struct Outcome {
    /// What went.
    pub removed: Vec<Victim>,
    /// What stayed all the same, and why.
    pub kept: Vec<(Victim, &'static str)>,
    /// What may be added before the next sweep has something to do; see `Plan`.
    pub plan: Plan,
}

/// Decides what goes, as [`plan`], and removes it. Waits for other sweeps of the store.
///
/// `progress` is told how many of how many artifacts are done.
pub fn carry_out(
    store: &Store,
    rules: &Rules,
    scope: &Scope,
    stop: &dyn Fn() -> bool,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Outcome, StoreError> {
    let mut outcome = Outcome::default();
    let sweeping = store.sweeping()?;
    finish_removals(store, scope, &sweeping)?;
    if rules.is_empty() {
        return Ok(outcome);
    }
    // Results can be made again; outputs cannot.
    if let Some(least) = rules.free {
        let space = store.space()?;
        if space.f_bavail * space.f_frsize < least {
            store.clear_cache()?;
        }
    }
    outcome.plan = plan(store, rules, scope, SystemTime::now(), stop)?;
    let victims = std::mem::take(&mut outcome.plan.victims);
    let (all, mut done) = (victims.len(), 0);
    for (id, victims) in by_conversation(victims) {
        let Some(conversation) = store.conversation(&id)? else { continue };
        for step in victims.chunks(STEP) {
            if stop() {
                return Ok(outcome);
            }
            let doomed: Vec<Doomed> = step.iter().map(|victim| victim.doomed.clone()).collect();
            let fates = conversation.remove_contents(&sweeping, &doomed)?;
            for (victim, fate) in step.iter().zip(fates) {
                match fate {
                    Fate::Removed => outcome.removed.push(victim.clone()),
                    Fate::Kept(why) => outcome.kept.push((victim.clone(), why)),
                }
            }
            done += step.len();
            progress(done, all);
        }
    }
    Ok(outcome)
}

/// Removes what a sweep left that was cut off.
fn finish_removals(store: &Store, scope: &Scope, sweeping: &Sweeping) -> Result<(), StoreError> {
    for id in ids(store, scope)? {
        if let Some(conversation) = store.conversation(&id)? {
            conversation.finish_removals(sweeping)?;
        }
    }
    Ok(())
}

/// The victims of each conversation, in their order.
fn by_conversation(victims: Vec<Victim>) -> Vec<(Component, Vec<Victim>)> {
    let mut grouped: Vec<(Component, Vec<Victim>)> = Vec::new();
    let mut known = std::collections::HashMap::new();
    for victim in victims {
        let id = victim.conversation.clone();
        let at = *known.entry(id.clone()).or_insert(grouped.len());
        if at == grouped.len() {
            grouped.push((id, Vec::new()));
        }
        grouped[at].1.push(victim);
    }
    grouped
}
