//! Decides which artifacts are removed, in which order and why.
//!
//! An artifact is removed last if a message refers to it. A message may refer to an artifact by its
//! path, in `fullOutputPath`, in a reference or in any text. The result of a call also refers, by
//! `tool_call_id`, to the artifact of that call.
//!
//! The message log is read as bytes, one block at a time, and its lines may have any length. Lines
//! that are not messages count too: it is better to keep an output too long than to remove it too
//! early.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::{Conversation, RemovalCandidate, Stat, Store, StoreError, UnreadPlaces, read_full_at};
use ctxfs_core::model::{Component, Record, RelPath, Removal};

/// The names of the settings that define the rules. The reason for a removal contains the name of
/// the setting.
const AGE: &str = "keep_age";
const CONVERSATION: &str = "keep_conversation";
const STORE: &str = "keep_store";
const FREE: &str = "keep_free";
const HOST_AGE: &str = "hooks.keep_age";
const HOST_STORE: &str = "hooks.keep_store";
/// If a limit is exceeded, removals free the excess and another 1/`SLACK` of the limit. Without
/// this slack, every new output would cause a sweep.
const SLACK: u64 = 10;

/// The limits on outputs. Without limits, all outputs are kept.
///
/// - `age`: the time since the last use after which an output is removed.
/// - `conversation`: the maximum total size in bytes of the outputs of each conversation.
/// - `store`: the maximum total size in bytes of all outputs of the store.
/// - `free`: the number of bytes that should be free on the store's disk.
/// - `host_age` and `host_store`: the same as `age` and `store`, for outputs that hooks and `ctxfs
///   shell` have stored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "described above")]
pub struct RetentionRules {
    pub age: Option<Duration>,
    pub conversation: Option<u64>,
    pub store: Option<u64>,
    pub free: Option<u64>,
    pub host_age: Option<Duration>,
    pub host_store: Option<u64>,
}

/// The outputs that a sweep may remove: all outputs of the store, or the outputs of one
/// conversation. For a single conversation, only two rules apply: the age, and the bytes of a
/// conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "described above")]
pub enum SweepScope {
    Store,
    Conversation(Component),
}

impl RetentionRules {
    /// Returns true if no limit is set.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns true if any limit on bytes is set that is checked as outputs are sealed.
    pub fn bound_bytes(&self) -> bool {
        self.conversation.is_some() || self.store.is_some() || self.free.is_some()
    }
}

/// Returns the number of bytes to free so that `used` drops below `limit` by the slack. Returns 0
/// if `used` is within the limit.
fn excess(used: u64, limit: u64) -> u64 {
    if used <= limit { 0 } else { used - (limit - limit / SLACK) }
}

/// Returns the number of bytes to free so that `free` rises above `least` by the slack. Returns 0
/// if `free` is at least `least`.
fn lack(free: u64, least: u64) -> u64 {
    if free >= least { 0 } else { least.saturating_add(least / SLACK) - free }
}

/// An artifact as found by the sweep. It takes about 100 bytes of memory plus its path.
///
/// Times are in milliseconds since the epoch, except `changed`, which is in nanoseconds. An
/// artifact with `live` is never removed. An artifact with `referenced` is removed last.
/// [`Inventory::find_references`] sets this field.
#[derive(Debug)]
struct StoredArtifact {
    path: RelPath,
    ino: u64,
    size: u64,
    on_disk: u64,
    changed: i64,
    read: i64,
    used: i64,
    live: bool,
    referenced: bool,
    chosen: bool,
}

#[derive(Debug)]
struct Inventory {
    store: Store,
    conversation: Arc<Conversation>,
    artifacts: Vec<StoredArtifact>,
    references_found: bool,
}

impl Inventory {
    /// Returns the artifacts of a conversation. `now` is in milliseconds since the epoch. Adds
    /// places that cannot be read to `unread`, by path in the conversation.
    fn of(
        store: &Store,
        conversation: Arc<Conversation>,
        now: i64,
        unread: &mut UnreadPlaces,
    ) -> Result<Self, StoreError> {
        let found = conversation.artifacts()?;
        unread.extend(found.unread);
        let artifact = |(path, stat): (RelPath, Stat)| StoredArtifact::new(path, &stat, now);
        let mut artifacts: Vec<_> = found.files.into_iter().map(artifact).collect();
        let paths = artifacts.iter().map(|artifact| artifact.path.to_text());
        let live = conversation.manifest().live(paths)?;
        for (artifact, live) in artifacts.iter_mut().zip(live) {
            // Most live artifacts have a writer. If the writer died, recovery marks the artifact
            // incomplete.
            artifact.live = live
                && conversation.recover(&artifact.path, None).map_or_else(
                    |error| unread.pass_over(conversation.path(), error).map(|()| true),
                    |recovered| Ok(recovered.is_none()),
                )?;
        }
        Ok(Self { store: store.clone(), conversation, artifacts, references_found: false })
    }

    fn bytes(&self) -> u64 {
        let stays = self.artifacts.iter().filter(|artifact| !artifact.chosen);
        stays.map(|artifact| artifact.size).sum()
    }

    /// Returns true if a hook or `ctxfs shell` has stored the artifact.
    fn is_of_host(&self, at: usize) -> Result<bool, StoreError> {
        let record = self.conversation.record(&self.artifacts[at].path)?;
        Ok(record.is_some_and(|record| record.provenance.host.is_some()))
    }

    /// Sets `referenced` of each artifact. Only the first call reads the message log. If the log
    /// cannot be read, every artifact counts as referenced.
    fn find_references(&mut self, unread: &mut UnreadPlaces) -> Result<(), StoreError> {
        if std::mem::replace(&mut self.references_found, true) {
            return Ok(());
        }
        let paths: Vec<_> = self.artifacts.iter().map(|artifact| &artifact.path).collect();
        let published = self.store.published_messages(self.conversation.id());
        let published = published.map_err(|error| self.conversation.log_error("read", error));
        let referenced =
            published.and_then(|published| referenced(&self.conversation, published, &paths));
        let referenced = match referenced {
            Ok(referenced) => referenced,
            Err(error) => {
                let mut below = UnreadPlaces::default();
                below.pass_over(self.conversation.path(), error)?;
                unread.extend(below.below(&self.conversation.id().to_text()));
                vec![true; self.artifacts.len()]
            }
        };
        for (artifact, referenced) in self.artifacts.iter_mut().zip(referenced) {
            artifact.referenced = referenced;
        }
        Ok(())
    }
}

impl StoredArtifact {
    fn new(path: RelPath, stat: &Stat, now: i64) -> Self {
        Self {
            path,
            ino: stat.ino,
            size: stat.size,
            on_disk: stat.blocks * 512,
            changed: stat.ctime.as_nanos(),
            read: stat.atime.as_millis(),
            used: last_use(stat, now),
            live: false,
            referenced: false,
            chosen: false,
        }
    }
}

/// Returns the time of the last use of a file: the later one of the last change and the last read.
/// The result and `now`, the current time, are in milliseconds since the epoch.
///
/// A program with write access to a file can set the access and modification times to any value.
/// Therefore the time of a change is `ctime`, which only the kernel sets, and an access time in the
/// future is ignored. Setting the times of a file changes its `ctime`, so a program cannot make the
/// last use earlier.
fn last_use(stat: &Stat, now: i64) -> i64 {
    let changed = stat.ctime.as_millis().min(now);
    let read = Some(stat.atime.as_millis()).filter(|read| *read <= now);
    read.map_or(changed, |read| read.max(changed))
}

pub(super) fn ids(store: &Store, scope: &SweepScope) -> Result<Vec<Component>, StoreError> {
    match scope {
        SweepScope::Store => store.conversations(),
        SweepScope::Conversation(id) => Ok(vec![id.clone()]),
    }
}

/// Lists the artifacts of each conversation in `scope`, ordered by conversation id. Ends early once
/// `stop` returns true.
fn inventories(
    store: &Store,
    scope: &SweepScope,
    now: i64,
    stop: &dyn Fn() -> bool,
    unread: &mut UnreadPlaces,
) -> Result<Vec<Inventory>, StoreError> {
    let ids = ids(store, scope)?;
    let mut inventories = Vec::with_capacity(ids.len());
    for id in ids {
        if stop() {
            break;
        }
        let take = |conversation: Arc<Conversation>, below: &mut UnreadPlaces| {
            Inventory::of(store, conversation, now, below)
        };
        inventories.extend(in_conversation(store, &id, unread, take)?);
    }
    Ok(inventories)
}

/// Calls `work` with the conversation `id` and with a list to which `work` adds places that cannot
/// be read. Returns `None` if the conversation is gone or cannot be read. In the second case, adds
/// the conversation to `unread`.
pub(super) fn in_conversation<T>(
    store: &Store,
    id: &Component,
    unread: &mut UnreadPlaces,
    work: impl FnOnce(Arc<Conversation>, &mut UnreadPlaces) -> Result<T, StoreError>,
) -> Result<Option<T>, StoreError> {
    let conversation = match store.conversation(id) {
        Ok(Some(conversation)) => conversation,
        Ok(None) => return Ok(None),
        Err(error) => return store.pass_over(error, unread).map(|()| None),
    };
    let mut below = UnreadPlaces::default();
    let worked = match work(Arc::clone(&conversation), &mut below) {
        Ok(worked) => Some(worked),
        Err(error) => {
            below.pass_over(conversation.path(), error)?;
            None
        }
    };
    unread.extend(below.below(&id.to_text()));
    Ok(worked)
}

/// An artifact that a plan removes, and the reason, with the facts that are shown to the user.
///
/// `on_disk` is the number of bytes that the artifact takes on the disk. `used` is the time of its
/// last use, in milliseconds since the epoch. `referenced` is true if a message refers to the
/// artifact.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "described above")]
pub struct PlannedRemoval {
    pub conversation: Component,
    pub candidate: RemovalCandidate,
    pub on_disk: u64,
    pub used: i64,
    pub referenced: bool,
}

/// The removals that the rules require, in the order of execution, and the growth that the limits
/// allow after these removals.
///
/// `room` is the number of bytes by which each conversation may grow before it exceeds the limit
/// for conversations. `store_room` is the number of bytes by which the store may grow. It is `None`
/// if the store has no limit, or if the sweep covered one conversation. `unread` are the places
/// that could not be read, by path below the directory of all conversations. The plan treats such
/// places as empty.
#[derive(Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "described above")]
pub struct RemovalPlan {
    pub removals: Vec<PlannedRemoval>,
    pub room: HashMap<Component, u64>,
    pub store_room: Option<u64>,
    pub unread: UnreadPlaces,
}

/// Decides which artifacts must be removed under `rules` at the time `now`. Removes nothing.
///
/// Needs about 150 bytes of memory for each artifact in `scope`. Once `stop` returns true, the
/// remaining conversations are treated as empty.
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
    planner.by_age(rules.age, AGE, &mut inventories, |_, _| Ok(true))?;
    planner.by_age(rules.host_age, HOST_AGE, &mut inventories, Inventory::is_of_host)?;
    planner.by_conversation(rules, &mut inventories)?;
    if *scope == SweepScope::Store {
        planner.by_store(store, rules, &mut inventories)?;
    }
    Ok(planner.plan)
}

fn total(inventories: &[Inventory]) -> u64 {
    inventories.iter().map(Inventory::bytes).sum()
}

struct Planner {
    now: i64,
    plan: RemovalPlan,
}

impl Planner {
    fn by_age(
        &mut self,
        age: Option<Duration>,
        rule: &str,
        inventories: &mut [Inventory],
        is_ruled: fn(&Inventory, usize) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        let Some(age) = age else { return Ok(()) };
        let oldest = self.now.saturating_sub(age.as_millis().try_into().unwrap_or(i64::MAX));
        let is_old = |artifact: &StoredArtifact| {
            !artifact.live && !artifact.chosen && artifact.used < oldest
        };
        for inventory in inventories {
            let artifacts = &inventory.artifacts;
            let mut old: Vec<_> =
                (0..artifacts.len()).filter(|at| is_old(&artifacts[*at])).collect();
            old.sort_unstable_by_key(|at| artifacts[*at].used);
            for at in old {
                if is_ruled(inventory, at)? {
                    let last = last_use_text(&inventory.artifacts[at]);
                    let why = format!("it was last used {last}, longer ago than `{rule}` allows");
                    self.choose(inventory, at, rule, why);
                }
            }
        }
        Ok(())
    }

    fn by_conversation(
        &mut self,
        rules: &RetentionRules,
        inventories: &mut [Inventory],
    ) -> Result<(), StoreError> {
        let Some(limit) = rules.conversation else { return Ok(()) };
        let limited = Limited {
            rule: CONVERSATION,
            what: "the outputs of the conversation",
            size: |artifact| artifact.size,
        };
        for inventory in inventories {
            let excess = excess(inventory.bytes(), limit);
            let one = std::slice::from_mut(inventory);
            self.longest_unused(one, excess, &limited, |_, _| Ok(true))?;
            let room = limit.saturating_sub(one[0].bytes());
            self.plan.room.insert(one[0].conversation.id().clone(), room);
        }
        Ok(())
    }

    fn by_store(
        &mut self,
        store: &Store,
        rules: &RetentionRules,
        inventories: &mut [Inventory],
    ) -> Result<(), StoreError> {
        if let Some(limit) = rules.host_store {
            self.by_bytes_of_hosts(limit, inventories)?;
        }
        if let Some(limit) = rules.store {
            self.by_store_bytes(limit, inventories)?;
        }
        if let Some(least) = rules.free {
            self.by_free_bytes(store, least, inventories)?;
        }
        Ok(())
    }

    fn by_bytes_of_hosts(
        &mut self,
        limit: u64,
        inventories: &mut [Inventory],
    ) -> Result<(), StoreError> {
        // Usually the outputs of the whole store are within the limit, and no record is read.
        if total(inventories) <= limit {
            return Ok(());
        }
        let mut used = 0;
        for inventory in &*inventories {
            for (at, artifact) in inventory.artifacts.iter().enumerate() {
                let counts = !artifact.chosen && inventory.is_of_host(at)?;
                used += if counts { artifact.size } else { 0 };
            }
        }
        let limited = Limited {
            rule: HOST_STORE,
            what: "the outputs that hooks have stored",
            size: |artifact| artifact.size,
        };
        self.longest_unused(inventories, excess(used, limit), &limited, Inventory::is_of_host)
    }

    fn by_store_bytes(
        &mut self,
        limit: u64,
        inventories: &mut [Inventory],
    ) -> Result<(), StoreError> {
        let limited = Limited {
            rule: STORE,
            what: "the outputs of the store",
            size: |artifact| artifact.size,
        };
        let excess = excess(total(inventories), limit);
        self.longest_unused(inventories, excess, &limited, |_, _| Ok(true))?;
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
            rule: FREE,
            what: "what is free on the disk",
            size: |artifact| artifact.on_disk,
        };
        let chosen: u64 = self.plan.removals.iter().map(|removal| removal.on_disk).sum();
        let space = store.space()?;
        let free = (space.f_bavail * space.f_frsize).saturating_add(chosen);
        let lack = lack(free, least);
        self.longest_unused(inventories, lack, &limited, |_, _| Ok(true))?;
        let room = free.saturating_add(lack).saturating_sub(least);
        self.plan.store_room = Some(self.plan.store_room.unwrap_or(u64::MAX).min(room));
        Ok(())
    }

    /// Chooses the least recently used artifacts of all `inventories` to which the rule applies,
    /// until `bytes` are freed. Artifacts that messages refer to come last.
    fn longest_unused(
        &mut self,
        inventories: &mut [Inventory],
        bytes: u64,
        limited: &Limited,
        is_ruled: fn(&Inventory, usize) -> Result<bool, StoreError>,
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
            if freed > 0 && is_ruled(&inventories[number], at)? {
                left = left.saturating_sub(freed);
                let (Limited { rule, what, .. }, last) = (limited, last_use_text(artifact));
                let why = format!("{what} passed `{rule}`, and it was last used {last}");
                self.choose(&mut inventories[number], at, rule, why);
            }
        }
        Ok(())
    }

    fn choose(&mut self, inventory: &mut Inventory, at: usize, rule: &str, why: String) {
        let conversation = inventory.conversation.id().clone();
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

/// A quantity that a rule limits, in bytes. `rule` is the name of the setting. `what` is the
/// subject of the sentence that states the reason. `size` returns the bytes that the removal of an
/// artifact frees.
struct Limited {
    rule: &'static str,
    what: &'static str,
    size: fn(&StoredArtifact) -> u64,
}

/// Returns the artifacts that may be removed, in the order of removal. Each is given by the index
/// of its inventory and its index in that inventory.
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
        order.extend((0..inventory.artifacts.len()).filter(may_go).map(|at| (number, at)));
    }
    order.sort_unstable_by_key(|(number, at)| {
        let artifact = &inventories[*number].artifacts[*at];
        (artifact.referenced, artifact.used)
    });
    Ok(order)
}

fn last_use_text(artifact: &StoredArtifact) -> String {
    let time = jiff::Timestamp::from_millisecond(artifact.used).unwrap_or_default();
    time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

fn millis(time: SystemTime) -> i64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    since.as_millis().try_into().unwrap_or(i64::MAX)
}

const BLOCK: usize = 256 * 1024;
/// Maximum length of a mention in bytes: a path inside a conversation and a few bytes around it.
const MENTION: usize = 512;
const PATH: &[u8] = b"artifacts/";
const CALL: &[u8] = b"\"tool_call_id\"";

/// Returns, for each of `paths`, whether a message refers to it. Reads the messages of the local
/// log, and the messages of all hosts in `published`.
pub(super) fn referenced(
    conversation: &Conversation,
    published: Option<File>,
    paths: &[&RelPath],
) -> Result<Vec<bool>, StoreError> {
    let mut mentioned = vec![false; paths.len()];
    let logs = [conversation.log_file()?, published.map(Arc::new)];
    let logs: Vec<_> = logs.into_iter().flatten().collect();
    if logs.is_empty() {
        return Ok(mentioned);
    }
    let names = ArtifactNames::of(conversation, paths)?;
    for log in logs {
        let read = each_window(&log, |window, fresh| names.look(window, fresh, &mut mentioned));
        read.map_err(|error| conversation.log_error("read", error))?;
    }
    Ok(mentioned)
}

#[derive(Default)]
struct ArtifactNames {
    paths: HashMap<Vec<u8>, usize>,
    calls: HashMap<Vec<u8>, Vec<usize>>,
}

impl ArtifactNames {
    fn of(conversation: &Conversation, paths: &[&RelPath]) -> Result<Self, StoreError> {
        let mut names = Self::default();
        for (number, path) in paths.iter().enumerate() {
            let text = path.to_text();
            let below = text.strip_prefix("artifacts/").unwrap_or(&text);
            names.paths.insert(below.as_bytes().to_vec(), number);
            let call = match conversation.record(path)? {
                Some(record) => record.call().to_owned(),
                None => Record { path: text, ..Record::default() }.call().to_owned(),
            };
            names.calls.entry(call.into_bytes()).or_default().push(number);
        }
        Ok(names)
    }

    /// Marks the artifacts that `window` mentions. Only mentions that begin in the first `fresh`
    /// bytes count.
    fn look(&self, window: &[u8], fresh: usize, mentioned: &mut [bool]) {
        for at in memchr::memmem::find_iter(window, PATH).take_while(|at| *at < fresh) {
            if let Some(number) = self.path(&window[at + PATH.len()..]) {
                mentioned[number] = true;
            }
        }
        for at in memchr::memmem::find_iter(window, CALL).take_while(|at| *at < fresh) {
            let call = text_value(&window[at + CALL.len()..]);
            for number in call.and_then(|call| self.calls.get(call)).into_iter().flatten() {
                mentioned[*number] = true;
            }
        }
    }

    /// Returns the number of the artifact whose path is a prefix of `text`, or `None` if there is
    /// none. Of several such paths, the longest counts. The path may be followed by the name of a
    /// view or the end of a sentence.
    fn path(&self, text: &[u8]) -> Option<usize> {
        let end = memchr::memchr3(b'"', b'\\', b'\n', text).unwrap_or(text.len());
        let mut name = &text[..end.min(MENTION)];
        loop {
            if let Some(number) = self.paths.get(name) {
                return Some(*number);
            }
            let last = name.iter().rposition(|byte| !byte.is_ascii_alphanumeric())?;
            name = &name[..last];
        }
    }
}

fn text_value(after: &[u8]) -> Option<&[u8]> {
    let rest = after.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
    let rest = rest.strip_prefix(b"\"")?;
    let end = memchr::memchr2(b'"', b'\\', rest)?;
    (rest[end] == b'"').then_some(&rest[..end])
}

/// Calls `look` with windows of the file. Consecutive windows overlap by the length of a mention,
/// so that each mention lies completely in one of the windows. `look` also gets the number of fresh
/// bytes at the start of the window. Every byte is fresh in exactly one window.
fn each_window(file: &File, mut look: impl FnMut(&[u8], usize)) -> io::Result<()> {
    let mut buffer = vec![0; BLOCK + MENTION];
    let mut offset = 0;
    loop {
        let count = read_full_at(file, offset, &mut buffer)?;
        let last = count < buffer.len();
        look(&buffer[..count], if last { count } else { BLOCK });
        if last {
            return Ok(());
        }
        offset += BLOCK as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Time;

    #[test]
    fn a_limit_that_is_passed_is_passed_by_some() {
        assert_eq!(excess(1000, 1000), 0);
        assert_eq!(excess(1001, 1000), 101);
        assert_eq!(excess(7, 0), 7);
        assert_eq!(lack(1000, 1000), 0);
        assert_eq!(lack(999, 1000), 101);
        assert_eq!(lack(0, u64::MAX), u64::MAX);
    }

    #[test]
    fn without_rules_everything_is_kept() {
        assert!(RetentionRules::default().is_empty());
        let age = RetentionRules { age: Some(Duration::ZERO), ..RetentionRules::default() };
        assert!(!age.is_empty() && !age.bound_bytes());
    }

    #[test]
    fn no_writer_sets_the_time_of_the_last_use() {
        let stat = |read, changed| {
            let (atime, ctime) =
                (Time { seconds: read, nanos: 0 }, Time { seconds: changed, nanos: 0 });
            // The modification time, which a client can set, has no effect.
            let mtime = Time { seconds: 4_000_000_000, nanos: 0 };
            Stat { atime, mtime, ctime, ..Stat::imagined() }
        };
        let now = 1000;
        for (read, changed, used) in [
            (700, 600, 700),
            (500, 600, 600),
            (1000, 600, 1000),
            (1001, 600, 600),
            (2000, 3000, 1000),
        ] {
            assert_eq!(last_use(&stat(read, changed), now * 1000), used * 1000, "{read} {changed}");
        }
    }

    fn names(paths: &[(&str, &str)]) -> ArtifactNames {
        let mut names = ArtifactNames::default();
        for (number, (path, call)) in paths.iter().enumerate() {
            names.paths.insert(path.as_bytes().to_vec(), number);
            names.calls.entry(call.as_bytes().to_vec()).or_default().push(number);
        }
        names
    }

    fn marked(text: &str) -> Vec<usize> {
        let names = names(&[
            ("tool/a.txt", "a"),
            ("tool/a.txt.b", "c1"),
            ("terminal/s 1.log", "s 1"),
            ("tool/a.json", "a"),
        ]);
        let mut mentioned = vec![false; 4];
        names.look(text.as_bytes(), text.len(), &mut mentioned);
        (0..4).filter(|at| mentioned[*at]).collect()
    }

    #[test]
    fn paths_and_calls_are_mentions() {
        let cases: [(&str, &[usize]); 12] = [
            ("{\"fullOutputPath\":\"/ctx/c7/artifacts/tool/a.txt\"}", &[0]),
            ("{\\\"fullOutputPath\\\":\\\"/ctx/c7/artifacts/tool/a.txt\\\"}", &[0]),
            ("see ctx://c7/artifacts/tool/a.txt.", &[0]),
            ("cat /ctx/c7/artifacts/tool/a.txt.grep/-i x", &[0]),
            ("artifacts/tool/a.txt.b.summary", &[1]),
            ("artifacts/terminal/s 1.log\\n", &[2]),
            ("artifacts/tool/a.tx", &[]),
            ("artifacts/tool/ab.txt", &[]),
            ("{\"tool_call_id\":\"a\"}", &[0, 3]),
            ("{\"tool_call_id\" : \"c1\"}", &[1]),
            ("{\"tool_call_id\":null,\"x\":\"a\"}", &[]),
            ("{\"tool_call_id\":\"a", &[]),
        ];
        for (text, want) in cases {
            assert_eq!(marked(text), want, "{text}");
        }
    }

    #[test]
    fn mentions_are_found_wherever_the_blocks_end() {
        for before in BLOCK - 40..BLOCK + 4 {
            let file = tempfile::NamedTempFile::new().unwrap();
            let text = " ".repeat(before) + "artifacts/tool/a.txt \"tool_call_id\":\"c1\" ";
            std::fs::write(file.path(), text).unwrap();
            let names = names(&[("tool/a.txt", "-"), ("tool/b", "c1")]);
            let mut mentioned = vec![false; 2];
            let look = |window: &[u8], fresh| names.look(window, fresh, &mut mentioned);
            each_window(file.as_file(), look).unwrap();
            assert_eq!(mentioned, [true, true], "{before}");
        }
    }
}
