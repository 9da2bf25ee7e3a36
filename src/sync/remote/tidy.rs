use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use crate::bucket::{
    BucketError, Deadline, Listed, ObjectName, StoreTime, log_prefix, object_key, object_of,
    objects_prefix,
};
use crate::remote::merge::stale;
use crate::remote::notes::Untidy;
use crate::remote::{
    LookReport, Moment, NoSource, Notes, Objects, Pieces, Push, RemoteError, Session, Synchronizer,
    look,
};
use crate::replica::{Changes, SegmentId, State};
use ctxfs_core::model::Component;

/// Maximum number of restarts. A merge starts over after it has finished a pending intent, and
/// after it has detected a copy of this host.
const ROUNDS: usize = 8;

const MANY: usize = 64;

/// Time after a removal for which a host tidies the conversation once a day. The removed bytes leave
/// a week after the removal; the rest is a margin for days on which nothing could be done.
const RESTLESS: Duration = Duration::from_hours(10 * 24);
const DAY: Duration = Duration::from_hours(24);
/// Time after a merge until the covered segments can be deleted, with a margin.
const RESTED: Duration = Duration::from_mins(65);

/// Actions of a garbage collection. `Look` is a dry run that only reports. `Merge` merges segments
/// and deletes nothing. `Delete` also deletes unused segments and unused objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "described above")]
pub enum GcMode {
    Look,
    Merge,
    Delete,
}

/// Result of a garbage collection or a dry run. `merges` are the merged segments that were written.
/// Each deletion has its own outcome, because a host that may not delete can still merge. In a dry
/// run, `to_merge` is the number of segments that would be merged, and `deletions` are those that
/// would be made. `blind` is the reason why nothing was deleted after a push: segments are
/// unreadable or missing.
#[derive(Debug, Default)]
#[expect(missing_docs, reason = "described above")]
pub struct GarbageReport {
    pub merges: Vec<SegmentId>,
    pub to_merge: usize,
    pub deletions: Vec<Collected>,
    pub blind: Option<RemoteError>,
}

impl GarbageReport {
    /// Returns true if a deletion failed.
    pub fn is_hindered(&self) -> bool {
        self.deletions.iter().any(|each| matches!(each.outcome, Some(Err(_))))
    }
}

impl Synchronizer<'_> {
    /// Like [`Self::tidy`], but does nothing and returns `None` unless one of these holds. There are
    /// `MANY` segments that no merge covers. This host has removed something here in the last
    /// `RESTLESS` days, and has not tidied for a day, or `is_first` is true. This host has merged
    /// segments, has not deleted them yet, and has not tidied for `RESTED`. Used after each push,
    /// and later while something is left to do. If segments are unreadable or missing, reports that
    /// in [`GarbageReport::blind`], not as an error.
    pub fn tidy_due(
        &self,
        id: &Component,
        tidying: GcMode,
        is_first: bool,
    ) -> Result<Option<GarbageReport>, RemoteError> {
        let notes = self.home.conversation(id)?;
        let now = (self.now)();
        let untidy = notes.untidy()?;
        let is_due = untidy.as_ref().is_some_and(|Untidy { removed, merged, tidied }| {
            let rested = now.since(tidied);
            let is_removed = removed.is_some() && (is_first || rested >= DAY);
            is_removed || merged.is_some() && rested >= RESTED
        });
        let covered = notes.covered()?;
        let living = notes.segments()?.into_iter().filter(|segment| !covered.contains(segment));
        if !is_due && living.count() < MANY {
            return Ok(None);
        }
        let tidied = match self.tidy(id, tidying) {
            Err(
                blind @ (RemoteError::Blind { .. }
                | RemoteError::NoLog { .. }
                | RemoteError::Clocks { .. }),
            ) => GarbageReport { blind: Some(blind), ..GarbageReport::default() },
            tidied => tidied?,
        };
        let mut after = untidy.unwrap_or_else(|| Untidy::new(now.clone()));
        let log = log_prefix(id);
        let is_done = |each: &Collected| matches!(each.outcome, Some(Ok(())));
        let is_swept = tidied.deletions.iter().any(|it| it.key.starts_with(&log) && is_done(it));
        let is_old = |merged: &Moment| now.since(merged) >= DAY + 2 * RESTED;
        if tidying == GcMode::Delete && !tidied.merges.is_empty() {
            after.merged = Some(now.clone());
        } else if is_swept || after.merged.as_ref().is_some_and(is_old) {
            after.merged = None;
        }
        let is_over = |removed: &Moment| now.since(removed) >= RESTLESS && tidied.blind.is_none();
        after.removed = after.removed.filter(|removed| !is_over(removed));
        after.tidied = now;
        let is_left = after.removed.is_some() || after.merged.is_some();
        notes.keep_untidy(Some(&after).filter(|_| is_left))?;
        Ok(Some(tidied))
    }

    /// Merges the segments of a conversation if there are many, or if segments contain bytes that
    /// were removed at least a week ago. With [`GcMode::Delete`], also deletes segments that have
    /// been covered for long enough or had such bytes, objects that are at least a week old and that
    /// no living record names, and temporary files of writes that were interrupted at least a week
    /// ago. With [`GcMode::Look`], only reports what would be done.
    pub fn tidy(&self, id: &Component, tidying: GcMode) -> Result<GarbageReport, RemoteError> {
        let notes = self.home.conversation(id)?;
        let push = self.pushing(&notes, &NoSource);
        if tidying == GcMode::Look {
            return self.tidiable(&push, &notes);
        }
        // A host that may not delete would leave an object each time that it asks for the time.
        let is_known = tidying == GcMode::Delete && !notes.segments()?.is_empty();
        let clock = is_known.then(|| self.store_now(id)).transpose()?;
        let (merges, stale) = push.merge_all(clock.map(|clock| clock.now))?;
        let mut tidied = GarbageReport { merges, ..GarbageReport::default() };
        if tidying == GcMode::Delete {
            tidied.deletions = self.deleted(&push, &notes, (clock, &stale))?;
        }
        for each in &tidied.deletions {
            tracing::info!(key = %each.key, outcome = ?each.outcome, "deleted from the bucket");
        }
        Ok(tidied)
    }

    /// Deletes unused objects, covered segments and the rests of interrupted writes. `stale` are
    /// segments whose bytes were removed long ago.
    fn deleted(
        &self,
        push: &Push<'_>,
        notes: &Notes,
        (clock, stale): (Option<StoreClock>, &BTreeSet<SegmentId>),
    ) -> Result<Vec<Collected>, RemoteError> {
        let (survey, id) = (Survey::of(self.bucket, notes, self.deadline)?, notes.conversation());
        let Some(latest) = survey.latest() else {
            let any = collect_staged(self.bucket, id, (u64::MAX, 0, true), (self.deadline)())?;
            if any.is_empty() {
                return Ok(Vec::new());
            }
            let now = self.store_now(id)?.now;
            return collect_staged(self.bucket, id, (now, WEEK, false), (self.deadline)());
        };
        let clock = clock.map_or_else(|| self.store_now(id), Ok)?;
        let now = clock.now;
        let objects = survey.objects.iter().map(|listed| listed.modified_ms);
        agree(id, objects.chain([latest]).max().unwrap_or_default().saturating_sub(now))?;
        let useless = push.to_sweep(&survey.looked, &survey.found.pieces, (clock, stale))?;
        let unused = survey.unused((now, WEEK));
        let (objects, log) = (objects_prefix(id), log_prefix(id));
        let deadline = (self.deadline)();
        let mut deletions = deleted(self.bucket, (&objects, &unused), false, deadline);
        // Delete the last empty segment last, because it shows that the conversation has no content.
        deletions.extend(deleted(self.bucket, (&log, &useless), false, (self.deadline)()));
        let staged = collect_staged(self.bucket, id, (now, WEEK, false), (self.deadline)())?;
        deletions.extend(staged);
        Ok(deletions)
    }

    /// Returns the current time by the clock of the object store. Fails if this host's clock, or the
    /// time of the response, contradicts it by more than an hour: ages are then unknown. It is exact
    /// if both tell it within [`EXACT`].
    pub(super) fn store_now(&self, conversation: &Component) -> Result<StoreClock, RemoteError> {
        let StoreTime { written_ms, answered_ms } =
            store_time(self.bucket, conversation, (self.deadline)())?;
        let mut is_exact = answered_ms.is_some();
        for other in [Some((self.now)().wall), answered_ms].into_iter().flatten() {
            let apart = written_ms.abs_diff(other);
            agree(conversation, apart)?;
            is_exact &= apart <= EXACT;
        }
        Ok(StoreClock { now: written_ms, is_exact })
    }

    fn tidiable(&self, push: &Push<'_>, notes: &Notes) -> Result<GarbageReport, RemoteError> {
        let survey = Survey::of(self.bucket, notes, self.deadline)?;
        let stale = stale(&survey.found.pieces, &survey.looked, None);
        // A dry run does not write an object to get the store's time. The latest write is a lower
        // bound of it.
        let (id, now) = (notes.conversation(), survey.latest().unwrap_or_default());
        let clock = StoreClock { now, is_exact: true };
        let useless = push.to_sweep(&survey.looked, &survey.found.pieces, (clock, &stale))?;
        let to_merge = push.to_merge((&survey.looked, &survey.found), stale)?.len();
        let (objects, log, deadline) = (objects_prefix(id), log_prefix(id), (self.deadline)());
        let mut deletions = deleted(self.bucket, (&log, &useless), true, deadline);
        let at = survey.objects.iter().map(|object| object.modified_ms).max().unwrap_or_default();
        let unused = survey.unused((at, WEEK));
        deletions.extend(deleted(self.bucket, (&objects, &unused), true, deadline));
        let when = (now, WEEK, true);
        deletions.extend(collect_staged(self.bucket, id, when, (self.deadline)())?);
        Ok(GarbageReport { to_merge, deletions, ..GarbageReport::default() })
    }
}

/// The current time by the clock of the object store, in milliseconds since the epoch. `is_exact` is
/// false if the times in the bucket may come from the clocks of other hosts, as in a directory, or if
/// clocks differ by minutes. An hour by these times may then be no hour.
#[derive(Clone, Copy)]
pub(crate) struct StoreClock {
    pub(crate) now: u64,
    pub(crate) is_exact: bool,
}

/// Fails if clocks are more than an hour apart.
fn agree(conversation: &Component, apart_ms: u64) -> Result<(), RemoteError> {
    let (conversation, minutes) = (conversation.to_text(), apart_ms / 60_000);
    if apart_ms <= HOUR { Ok(()) } else { Err(RemoteError::Clocks { conversation, minutes }) }
}

impl Push<'_> {
    pub(super) fn settle(&self, session: &mut Session) -> Result<(), RemoteError> {
        for _ in 0..ROUNDS {
            if !self.run(&Changes::default(), session)?.again {
                break;
            }
        }
        Ok(())
    }

    /// Merges until there is nothing to merge. Returns the merges, and the segments that had bytes
    /// which were removed at least a week ago.
    fn merge_all(
        &self,
        now: Option<u64>,
    ) -> Result<(Vec<SegmentId>, BTreeSet<SegmentId>), RemoteError> {
        let (mut session, mut merges) = (Session::default(), Vec::new());
        let mut all_stale = BTreeSet::new();
        self.settle(&mut session)?;
        for _ in 0..ROUNDS {
            let mut looked = look(self.bucket, self.notes, self.deadline)?;
            let found = looked.pieces(self.notes)?;
            let stale = stale(&found.pieces, &looked, now);
            all_stale.extend(&stale);
            let pushed = self.merge((&looked, &found), stale, &mut session)?;
            let is_done = pushed.segments.is_empty() && !pushed.again;
            merges.extend(pushed.segments);
            if is_done {
                break;
            }
            if pushed.again {
                self.settle(&mut session)?;
            }
        }
        Ok((merges, all_stale))
    }
}

/// Age in milliseconds after which unused objects and removed bytes are deleted. A record is
/// published at most a day after its object, so a week is safe.
pub(super) const WEEK: u64 = 7 * 24 * HOUR;
/// Age in milliseconds after which no push can still publish an object. It is a day, plus an hour
/// for a request in flight.
pub(super) const UNNAMED: u64 = 25 * HOUR;
pub(super) const HOUR: u64 = 60 * 60 * 1000;
/// Number of milliseconds by which exact clocks may differ.
const EXACT: u64 = HOUR / 6;

/// An object or segment that was deleted or would be deleted. It has the key, the size in bytes,
/// and the outcome of the deletion, which is `None` in a dry run.
#[derive(Debug)]
#[expect(missing_docs, reason = "described above")]
pub struct Collected {
    pub key: String,
    pub size: u64,
    pub outcome: Option<Result<(), BucketError>>,
}

/// The objects of a conversation, and all that hosts published in it.
///
/// The objects are listed before the segments are read. A record that is published between the two
/// steps can then name only a younger object.
struct Survey {
    objects: Vec<Listed>,
    looked: LookReport,
    found: Pieces,
}

impl Survey {
    /// Fails if segments are unreadable or missing, because they may name any object.
    fn of(
        bucket: &dyn Objects,
        notes: &Notes,
        deadline: &dyn Fn() -> Deadline,
    ) -> Result<Self, RemoteError> {
        let objects = bucket.list(&objects_prefix(notes.conversation()), deadline())?;
        let mut looked = look(bucket, notes, deadline)?;
        let found = looked.pieces(notes)?;
        if let Some(blind) = looked.incomplete_log(notes, &found.refused)? {
            return Err(blind);
        }
        if looked.segments.is_empty() && !objects.is_empty() {
            return Err(RemoteError::NoLog { conversation: notes.conversation().to_text() });
        }
        Ok(Self { objects, looked, found })
    }

    /// Returns the time of the latest segment, by the clock of the object store.
    fn latest(&self) -> Option<u64> {
        self.looked.segments.iter().map(|listed| listed.modified_ms).max()
    }

    /// Returns the objects that no living record names and that are at least `age` old at `now`.
    fn unused(self, (now, age): (u64, u64)) -> Vec<Listed> {
        let living = State::of_all(self.found.pieces).artifacts.into_values();
        let used: HashSet<ObjectName> = living.filter_map(|claim| claim.artifact.object).collect();
        let is_unused = |object: &Listed| {
            let name = object_of(&object.name).map(|(name, _)| name);
            let is_old = now.saturating_sub(object.modified_ms) >= age;
            is_old && name.is_some_and(|name| !used.contains(&name))
        };
        self.objects.into_iter().filter(is_unused).collect()
    }
}

/// Deletes those objects of a conversation that no living record names and that are at least `age`
/// old at `now`, by the clock of the object store. Fails without deleting anything if segments are
/// unreadable or missing.
pub(super) fn collect(
    bucket: &dyn Objects,
    notes: &Notes,
    when: (u64, u64),
    deadline: &dyn Fn() -> Deadline,
) -> Result<Vec<Collected>, RemoteError> {
    let unused = Survey::of(bucket, notes, deadline)?.unused(when);
    let prefix = objects_prefix(notes.conversation());
    Ok(deleted(bucket, (&prefix, &unused), false, deadline()))
}

/// Deletes the temporary files that interrupted writes left next to the segments, the objects and
/// the mark of the bucket. The files must be at least `age` old at `now`, by the clock of the object
/// store. A dry run only lists the files. Only a bucket that is a directory has such files. For other
/// buckets, makes no request.
pub(super) fn collect_staged(
    bucket: &dyn Objects,
    conversation: &Component,
    (now, age, dry_run): (u64, u64, bool),
    deadline: Deadline,
) -> Result<Vec<Collected>, RemoteError> {
    let directories = [String::new(), log_prefix(conversation), objects_prefix(conversation)];
    let mut staged = bucket.list_staged(&directories, deadline)?;
    staged.retain(|each| now.saturating_sub(each.modified_ms) >= age);
    Ok(deleted(bucket, ("", &staged), dry_run, deadline))
}

fn deleted(
    bucket: &dyn Objects,
    (prefix, objects): (&str, &[Listed]),
    dry_run: bool,
    deadline: Deadline,
) -> Vec<Collected> {
    if dry_run {
        return objects.iter().map(|object| told(prefix, object, None)).collect();
    }
    let keys = objects.iter().map(|object| format!("{prefix}{}", object.name)).collect();
    let outcomes = bucket.delete(keys, deadline).into_iter().map(|(_, outcome)| Some(outcome));
    let each = objects.iter().zip(outcomes);
    each.map(|(object, outcome)| told(prefix, object, outcome)).collect()
}

/// Returns the current time by the clock of the object store, in milliseconds since the epoch. To
/// get it, creates an empty object and deletes it. A host that may not delete leaves the object to
/// garbage collection.
pub fn store_now(
    bucket: &dyn Objects,
    conversation: &Component,
    deadline: Deadline,
) -> Result<u64, RemoteError> {
    store_time(bucket, conversation, deadline).map(|time| time.written_ms)
}

fn store_time(
    bucket: &dyn Objects,
    conversation: &Component,
    deadline: Deadline,
) -> Result<StoreTime, RemoteError> {
    let key = object_key(conversation, ObjectName::random());
    bucket.create(&key, &bytes::Bytes::new(), deadline)?;
    let time = bucket.modified(&key, deadline)?;
    bucket.delete(vec![key], deadline);
    Ok(time)
}

fn told(prefix: &str, object: &Listed, outcome: Option<Result<(), BucketError>>) -> Collected {
    Collected { key: format!("{prefix}{}", object.name), size: object.size, outcome }
}

#[cfg(test)]
mod tests;
