//! Decides which artifacts are removed, in which order and why.

use std::collections::HashMap;
use std::ops::Range;
use std::time::SystemTime;

use crate::keep::inventory::{Inventory, StoredArtifact, inventories};
use crate::keep::rules;
use crate::keep::rules::{RetentionRules, SweepScope};
use crate::{RemovalCandidate, Store, StoreError, UnreadPlaces};
use ctxfs_core::model::{Component, Removal};

/// An artifact that a plan removes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedRemoval {
    /// The conversation of the artifact.
    pub conversation: Component,
    /// The artifact, and the reason for its removal.
    pub candidate: RemovalCandidate,
    /// The bytes that it takes on the disk.
    pub on_disk: u64,
    /// The time it was last created, changed or read, in milliseconds since the epoch.
    pub used: i64,
    /// True if a message refers to it.
    pub referenced: bool,
}

/// The removals that the rules ask for, and the room that is left then.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct RemovalPlan {
    /// The removals, in their order.
    pub removals: Vec<PlannedRemoval>,
    /// The bytes that each conversation may grow by before it passes the rule for conversations.
    pub room: HashMap<Component, u64>,
    /// The bytes that the store may grow by before it passes a rule for the store. `None` without
    /// such a rule, or if the sweep was of one conversation.
    pub store_room: Option<u64>,
    /// The places that could not be read, below the directory of all conversations. They count as
    /// empty.
    pub unread: UnreadPlaces,
}

/// Decides which artifacts `rules` remove at the moment `now`. Removes nothing.
///
/// Takes some 150 bytes of memory for each artifact in `scope`. Once `stop` returns true, the
/// remaining conversations count as empty.
pub fn plan(
    store: &Store,
    rules: &RetentionRules,
    scope: &SweepScope,
    now: SystemTime,
    stop: &dyn Fn() -> bool,
) -> Result<RemovalPlan, StoreError> {
    let mut planner = Planner { now: millis(now), plan: RemovalPlan::default() };
    if rules.is_empty() {
        return Ok(planner.plan);
    }
    let unread = &mut planner.plan.unread;
    let mut inventories = inventories(store, scope, planner.now, stop, unread)?;
    planner.by_age(rules, &mut inventories);
    planner.by_conversation(rules, &mut inventories)?;
    if *scope == SweepScope::Store {
        planner.by_store(store, rules, &mut inventories)?;
    }
    Ok(planner.plan)
}

/// A plan that is being made.
struct Planner {
    /// In milliseconds since the epoch.
    now: i64,
    plan: RemovalPlan,
}

impl Planner {
    /// Chooses the artifacts that were last used too long ago.
    fn by_age(&mut self, rules: &RetentionRules, inventories: &mut [Inventory]) {
        let Some(age) = rules.age else { return };
        let oldest = self.now.saturating_sub(age.as_millis().try_into().unwrap_or(i64::MAX));
        let is_old = |artifact: &StoredArtifact| !artifact.live && artifact.used < oldest;
        for inventory in inventories {
            let artifacts = &inventory.artifacts;
            let mut old: Vec<_> = numbers(inventory).filter(|at| is_old(&artifacts[*at])).collect();
            old.sort_unstable_by_key(|at| artifacts[*at].used);
            for at in old {
                let last = last_use(&inventory.artifacts[at]);
                let why =
                    format!("it was last used {last}, longer ago than `{}` allows", rules::AGE);
                self.choose(inventory, at, rules::AGE, why);
            }
        }
    }

    /// Chooses artifacts of each conversation that has too many bytes.
    fn by_conversation(
        &mut self,
        rules: &RetentionRules,
        inventories: &mut [Inventory],
    ) -> Result<(), StoreError> {
        let Some(limit) = rules.conversation else { return Ok(()) };
        let limited = Limited {
            rule: rules::CONVERSATION,
            what: "the outputs of the conversation",
            size: |artifact| artifact.size,
        };
        for inventory in inventories {
            let excess = rules::excess(inventory.bytes(), limit);
            let one = std::slice::from_mut(inventory);
            self.longest_unused(one, excess, &limited)?;
            let room = limit.saturating_sub(one[0].bytes());
            self.plan.room.insert(one[0].id().clone(), room);
        }
        Ok(())
    }

    /// Chooses artifacts of the whole store, by its bytes and by the free bytes of its disk.
    fn by_store(
        &mut self,
        store: &Store,
        rules: &RetentionRules,
        inventories: &mut [Inventory],
    ) -> Result<(), StoreError> {
        if let Some(limit) = rules.store {
            self.by_store_bytes(limit, inventories)?;
        }
        if let Some(least) = rules.free {
            self.by_free_bytes(store, least, inventories)?;
        }
        Ok(())
    }

    fn by_store_bytes(
        &mut self,
        limit: u64,
        inventories: &mut [Inventory],
    ) -> Result<(), StoreError> {
        let total = |inventories: &[Inventory]| inventories.iter().map(Inventory::bytes).sum();
        let limited = Limited {
            rule: rules::STORE,
            what: "the outputs of the store",
            size: |artifact| artifact.size,
        };
        let excess = rules::excess(total(inventories), limit);
        self.longest_unused(inventories, excess, &limited)?;
        self.plan.store_room = Some(limit.saturating_sub(total(inventories)));
        Ok(())
    }

    fn by_free_bytes(
        &mut self,
        store: &Store,
        least: u64,
        inventories: &mut [Inventory],
    ) -> Result<(), StoreError> {
        let limited = Limited {
            rule: rules::FREE,
            what: "what is free on the disk",
            size: |artifact| artifact.on_disk,
        };
        let chosen: u64 = self.plan.removals.iter().map(|removal| removal.on_disk).sum();
        let space = store.space()?;
        let free = (space.f_bavail * space.f_frsize).saturating_add(chosen);
        let lack = rules::lack(free, least);
        self.longest_unused(inventories, lack, &limited)?;
        let room = free.saturating_add(lack).saturating_sub(least);
        self.plan.store_room = Some(self.plan.store_room.unwrap_or(u64::MAX).min(room));
        Ok(())
    }

    /// Chooses the artifacts that were used longest ago, of all `inventories`, until `bytes` are
    /// freed. Those that messages refer to come after all others.
    fn longest_unused(
        &mut self,
        inventories: &mut [Inventory],
        bytes: u64,
        limited: &Limited,
    ) -> Result<(), StoreError> {
        if bytes == 0 {
            return Ok(());
        }
        let mut left = bytes;
        for (number, at) in removal_order(inventories, &mut self.plan.unread)? {
            if left == 0 {
                break;
            }
            let artifact = &inventories[number].artifacts[at];
            let freed = (limited.size)(artifact);
            if freed > 0 {
                left = left.saturating_sub(freed);
                let (Limited { rule, what, .. }, last) = (limited, last_use(artifact));
                let why = format!("{what} passed `{rule}`, and it was last used {last}");
                self.choose(&mut inventories[number], at, rule, why);
            }
        }
        Ok(())
    }

    fn choose(&mut self, inventory: &mut Inventory, at: usize, rule: &str, why: String) {
        let conversation = inventory.id().clone();
        let artifact = &mut inventory.artifacts[at];
        artifact.chosen = true;
        let rule = rule.to_owned();
        let removal = Removal { at: self.now, rule, why, stays: false };
        let candidate = RemovalCandidate {
            path: artifact.path.clone(),
            ino: artifact.ino,
            size: artifact.size,
            changed: artifact.changed,
            read: artifact.read,
            removal,
        };
        let (on_disk, used, referenced) = (artifact.on_disk, artifact.used, artifact.referenced);
        let planned = PlannedRemoval { conversation, candidate, on_disk, used, referenced };
        self.plan.removals.push(planned);
    }
}

/// A number of bytes that a rule limits.
struct Limited {
    /// The setting of the rule.
    rule: &'static str,
    /// The subject of the sentence that gives the reason of a removal.
    what: &'static str,
    /// Returns the bytes that a removal frees.
    size: fn(&StoredArtifact) -> u64,
}

/// Returns the artifacts that may be removed, first to last: for each, the index of its inventory
/// and its index in there.
fn removal_order(
    inventories: &mut [Inventory],
    unread: &mut UnreadPlaces,
) -> Result<Vec<(usize, usize)>, StoreError> {
    let mut order = Vec::new();
    for (number, inventory) in inventories.iter_mut().enumerate() {
        inventory.find_references(unread)?;
        let may_go = |at: &usize| {
            let artifact = &inventory.artifacts[*at];
            !artifact.live && !artifact.chosen
        };
        order.extend(numbers(inventory).filter(may_go).map(|at| (number, at)));
    }
    order.sort_unstable_by_key(|(number, at)| {
        let artifact = &inventories[*number].artifacts[*at];
        (artifact.referenced, artifact.used)
    });
    Ok(order)
}

fn numbers(inventory: &Inventory) -> Range<usize> {
    0..inventory.artifacts.len()
}

/// Returns the time of the last use, such as `2026-01-13 15:30:45 UTC`.
fn last_use(artifact: &StoredArtifact) -> String {
    let time = jiff::Timestamp::from_millisecond(artifact.used).unwrap_or_default();
    time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

fn millis(time: SystemTime) -> i64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    since.as_millis().try_into().unwrap_or(i64::MAX)
}
