//! Which artifacts go, in which order and why.

use std::collections::HashMap;
use std::time::SystemTime;

use crate::keep::inventory::Found;
use crate::keep::inventory::Shelf;
use crate::keep::inventory::shelves;
use crate::keep::rules;
use crate::keep::rules::Rules;
use crate::keep::rules::Scope;
use crate::model::Component;
use crate::model::Removal;
use crate::store::Doomed;
use crate::store::Store;
use crate::store::StoreError;

/// An artifact that is to go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Victim {
    /// Its conversation.
    pub conversation: Component,
    /// The artifact, and why it goes.
    pub doomed: Doomed,
    /// Bytes that it takes on the disk.
    pub on_disk: u64,
    /// When it was last made, changed or read, in milliseconds since the epoch.
    pub used: i64,
    /// Whether a message refers to it.
    pub referenced: bool,
}

/// What is to go, and how much may be added before anything else has to.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// In the order in which they go.
    pub victims: Vec<Victim>,
    /// Bytes that each conversation may grow by, where there is a rule for that.
    pub room: HashMap<Component, u64>,
    /// Bytes that the store may grow by, where there is a rule for that and all of it was looked at.
    pub store_room: Option<u64>,
}

/// Decides what goes by `rules` at the moment `now`. Removes nothing.
///
/// Memory: some 150 bytes for each artifact of `scope`. Where `stop` says so, conversations that
/// were not looked at yet are as if they were empty.
pub fn plan(
    store: &Store,
    rules: &Rules,
    scope: &Scope,
    now: SystemTime,
    stop: &dyn Fn() -> bool,
) -> Result<Plan, StoreError> {
    let mut planning = Planning { now: millis(now), plan: Plan::default() };
    if rules.is_empty() {
        return Ok(planning.plan);
    }
    let mut shelves = shelves(store, scope, stop)?;
    planning.by_age(rules, &mut shelves);
    planning.by_conversation(rules, &mut shelves)?;
    if *scope == Scope::Store {
        planning.by_store(store, rules, &mut shelves)?;
    }
    Ok(planning.plan)
}

struct Planning {
    now: i64,
    plan: Plan,
}

impl Planning {
    fn by_age(&mut self, rules: &Rules, shelves: &mut [Shelf]) {
        let Some(age) = rules.age else { return };
        let oldest = self.now.saturating_sub(age.as_millis().try_into().unwrap_or(i64::MAX));
        let why = |found: &Found| {
            format!("it was last used {}, longer ago than `{}` allows", moment(found), rules::AGE)
        };
        for shelf in shelves {
            let old = |found: &Found| !found.live && found.used < oldest;
            let mut old: Vec<_> = positions(shelf).filter(|at| old(&shelf.found[*at])).collect();
            old.sort_unstable_by_key(|at| shelf.found[*at].used);
            for at in old {
                self.take(shelf, at, rules::AGE, why(&shelf.found[at]));
            }
        }
    }

    fn by_conversation(&mut self, rules: &Rules, shelves: &mut [Shelf]) -> Result<(), StoreError> {
        let Some(limit) = rules.conversation else { return Ok(()) };
        let over = "the outputs of the conversation";
        for shelf in shelves {
            let goes = rules::excess(shelf.bytes(), limit);
            let one = std::slice::from_mut(shelf);
            self.longest_unused(one, goes, |found| found.size, rules::CONVERSATION, over)?;
            let room = limit.saturating_sub(one[0].bytes());
            self.plan.room.insert(one[0].id().clone(), room);
        }
        Ok(())
    }

    fn by_store(
        &mut self,
        store: &Store,
        rules: &Rules,
        shelves: &mut [Shelf],
    ) -> Result<(), StoreError> {
        let total = |shelves: &[Shelf]| shelves.iter().map(Shelf::bytes).sum::<u64>();
        if let Some(limit) = rules.store {
            let goes = rules::excess(total(shelves), limit);
            let over = "the outputs of the store";
            self.longest_unused(shelves, goes, |found| found.size, rules::STORE, over)?;
            self.plan.store_room = Some(limit.saturating_sub(total(shelves)));
        }
        if let Some(least) = rules.free {
            let going: u64 = self.plan.victims.iter().map(|victim| victim.on_disk).sum();
            let space = store.space()?;
            let free = (space.f_bavail * space.f_frsize).saturating_add(going);
            let goes = rules::lack(free, least);
            let over = "what is free on the disk";
            self.longest_unused(shelves, goes, |found| found.on_disk, rules::FREE, over)?;
            let room = free.saturating_add(goes).saturating_sub(least);
            self.plan.store_room = Some(self.plan.store_room.unwrap_or(u64::MAX).min(room));
        }
        Ok(())
    }

    /// Lets go what was used longest ago, of all `shelves`, until `bytes` have gone; what messages
    /// refer to after everything else.
    fn longest_unused(
        &mut self,
        shelves: &mut [Shelf],
        bytes: u64,
        size: impl Fn(&Found) -> u64,
        rule: &str,
        over: &str,
    ) -> Result<(), StoreError> {
        if bytes == 0 {
            return Ok(());
        }
        let mut order = Vec::new();
        for (number, shelf) in shelves.iter_mut().enumerate() {
            shelf.mark()?;
            let may_go = |at: &usize| !shelf.found[*at].live && !shelf.found[*at].goes;
            order.extend(positions(shelf).filter(may_go).map(|at| (number, at)));
        }
        let key = |(number, at): &(usize, usize)| {
            let found = &shelves[*number].found[*at];
            (found.referenced, found.used)
        };
        order.sort_unstable_by_key(key);
        let mut left = bytes;
        for (number, at) in order {
            if left == 0 {
                break;
            }
            let found = &shelves[number].found[at];
            let freed = size(found);
            if freed > 0 {
                left = left.saturating_sub(freed);
                let why = format!("{over} passed `{rule}`, and it was last used {}", moment(found));
                self.take(&mut shelves[number], at, rule, why);
            }
        }
        Ok(())
    }

    fn take(&mut self, shelf: &mut Shelf, at: usize, rule: &str, why: String) {
        let conversation = shelf.id().clone();
        let found = &mut shelf.found[at];
        found.goes = true;
        let removal = Removal { at: self.now, rule: rule.to_owned(), why };
        let doomed = Doomed {
            path: found.path.clone(),
            ino: found.ino,
            size: found.size,
            modified: found.modified,
            read: found.read,
            removal,
        };
        let (on_disk, used, referenced) = (found.on_disk, found.used, found.referenced);
        self.plan.victims.push(Victim { conversation, doomed, on_disk, used, referenced });
    }
}

fn positions(shelf: &Shelf) -> std::ops::Range<usize> {
    0..shelf.found.len()
}

/// When it was last used: `2026-01-13 15:30:45 UTC`.
fn moment(found: &Found) -> String {
    let time = jiff::Timestamp::from_millisecond(found.used).unwrap_or_default();
    time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

fn millis(time: SystemTime) -> i64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    since.as_millis().try_into().unwrap_or(i64::MAX)
}
