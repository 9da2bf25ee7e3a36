use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use crate::bucket::{
    BucketError, Deadline, Listed, ObjectName, log_prefix, object_key, object_of, objects_prefix,
};
use crate::remote::notes::Untidy;
use crate::remote::{
    LookReport, NoSource, Notes, Objects, Push, RemoteError, Session, Synchronizer, look,
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
    /// Like [`Self::tidy`], but does nothing and returns `None` unless there are `MANY` segments that
    /// no merge covers, or this host has removed something here in the last [`RESTLESS`] days and
    /// has not tidied for a day. If `is_first` is true, it counts as not tidied. Used after each
    /// push. If segments are unreadable or missing, reports that in [`GarbageReport::blind`], not as
    /// an error.
    pub fn tidy_due(
        &self,
        id: &Component,
        tidying: GcMode,
        is_first: bool,
    ) -> Result<Option<GarbageReport>, RemoteError> {
        let notes = self.home.conversation(id)?;
        let now = (self.now)();
        let untidy = notes.untidy()?;
        let is_due =
            untidy.as_ref().is_some_and(|untidy| is_first || now.since(&untidy.tidied) >= DAY);
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
        if let Some(Untidy { removed, .. }) = untidy {
            let is_over = now.since(&removed) >= RESTLESS && tidied.blind.is_none();
            let untidy = Untidy { removed, tidied: now };
            notes.keep_untidy(Some(&untidy).filter(|_| !is_over))?;
        }
        Ok(Some(tidied))
    }

    /// Merges the segments of a conversation if there are many, or if segments contain bytes that
    /// were removed at least a week ago. With [`GcMode::Delete`], also deletes segments that have
    /// been covered for a day or had such bytes, objects that are at least a week old and that no
    /// living record names, and temporary files of writes that were interrupted at least a week
    /// ago. With [`GcMode::Look`], only reports what would be done.
    pub fn tidy(&self, id: &Component, tidying: GcMode) -> Result<GarbageReport, RemoteError> {
        let notes = self.home.conversation(id)?;
        let push = self.pushing(&notes, &NoSource);
        if tidying == GcMode::Look {
            return self.tidiable(&push, &notes);
        }
        // A host that may not delete would leave an object each time that it asks for the time.
        let is_known = tidying == GcMode::Delete && !notes.segments()?.is_empty();
        let now = is_known.then(|| self.store_now(id)).transpose()?;
        let (merges, stale) = push.merge_all(now)?;
        let mut tidied = GarbageReport { merges, ..GarbageReport::default() };
        if tidying == GcMode::Delete {
            tidied.deletions = self.deleted(&push, &notes, (now, &stale))?;
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
        (now, stale): (Option<u64>, &BTreeSet<SegmentId>),
    ) -> Result<Vec<Collected>, RemoteError> {
        let (looked, id) = (self.look(notes)?, notes.conversation());
        let Some(latest) = looked.segments.iter().map(|listed| listed.modified_ms).max() else {
            // This dry run fails if there are objects without a segment.
            collect(self.bucket, notes, None, (self.deadline)())?;
            let any = collect_staged(self.bucket, id, (u64::MAX, 0, true), (self.deadline)())?;
            if any.is_empty() {
                return Ok(Vec::new());
            }
            let now = self.store_now(id)?;
            return collect_staged(self.bucket, id, (now, WEEK, false), (self.deadline)());
        };
        let now = now.map_or_else(|| self.store_now(id), Ok)?;
        agree(id, latest.saturating_sub(now))?;
        let mut deletions = collect(self.bucket, notes, Some(now), (self.deadline)())?;
        // Delete the last empty segment last, because it shows that the conversation has no content.
        let listed = push.to_sweep(&looked, now, stale)?.into_iter();
        let swept = push.sweep(&looked, now, stale)?.into_iter();
        deletions.extend(listed.zip(swept).map(|(listed, (_, outcome))| {
            let (key, size) = (format!("{}{}", log_prefix(id), listed.name), listed.size);
            Collected { key, size, outcome: Some(outcome) }
        }));
        let staged = collect_staged(self.bucket, id, (now, WEEK, false), (self.deadline)())?;
        deletions.extend(staged);
        Ok(deletions)
    }

    /// Returns the current time by the clock of the object store. Fails if this host's clock
    /// contradicts it by more than an hour: ages are then unknown.
    pub(super) fn store_now(&self, conversation: &Component) -> Result<u64, RemoteError> {
        let now = store_now(self.bucket, conversation, (self.deadline)())?;
        agree(conversation, now.abs_diff((self.now)().wall))?;
        Ok(now)
    }

    fn tidiable(&self, push: &Push<'_>, notes: &Notes) -> Result<GarbageReport, RemoteError> {
        let looked = self.look(notes)?;
        let to_merge = push.to_merge(&looked)?.len();
        // A dry run does not write an object to get the store's time. The latest write is a lower
        // bound of it.
        let now = looked.segments.iter().map(|each| each.modified_ms).max().unwrap_or_default();
        let prefix = log_prefix(notes.conversation());
        let stale = push.stale(&looked, None)?;
        let segments = push.to_sweep(&looked, now, &stale)?.into_iter().map(|listed| Collected {
            key: format!("{prefix}{}", listed.name),
            size: listed.size,
            outcome: None,
        });
        let mut deletions: Vec<_> = segments.collect();
        deletions.extend(collect(self.bucket, notes, None, (self.deadline)())?);
        let id = notes.conversation();
        let when = (now, WEEK, true);
        deletions.extend(collect_staged(self.bucket, id, when, (self.deadline)())?);
        Ok(GarbageReport { to_merge, deletions, ..GarbageReport::default() })
    }

    /// Runs a look. Fails if segments are unreadable or missing, because they may name objects that
    /// seem unused.
    pub(super) fn look(&self, notes: &Notes) -> Result<LookReport, RemoteError> {
        let looked = look(self.bucket, notes, (self.deadline)())?;
        looked.incomplete_log(notes, &[])?.map_or(Ok(looked), Err)
    }
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
        let mut stale = BTreeSet::new();
        self.settle(&mut session)?;
        for _ in 0..ROUNDS {
            let looked = look(self.bucket, self.notes, (self.deadline)())?;
            stale.extend(self.stale(&looked, now)?);
            let pushed = self.merge(&looked, now, &mut session)?;
            let is_done = pushed.segments.is_empty() && !pushed.again;
            merges.extend(pushed.segments);
            if is_done {
                break;
            }
            if pushed.again {
                self.settle(&mut session)?;
            }
        }
        Ok((merges, stale))
    }
}

/// Age in milliseconds after which unused objects and removed bytes are deleted. A record is
/// published at most a day after its object, so a week is safe.
pub(super) const WEEK: u64 = 7 * 24 * HOUR;
/// Age in milliseconds after which no push can still publish an object. It is a day, plus an hour
/// for a request in flight.
pub(super) const UNNAMED: u64 = 25 * HOUR;
const HOUR: u64 = 60 * 60 * 1000;

/// An object or segment that was deleted or would be deleted. It has the key, the size in bytes,
/// and the outcome of the deletion, which is `None` in a dry run.
#[derive(Debug)]
#[expect(missing_docs, reason = "described above")]
pub struct Collected {
    pub key: String,
    pub size: u64,
    pub outcome: Option<Result<(), BucketError>>,
}

/// Deletes those objects of a conversation that no living record names and that are older than a
/// week at `now`, by the clock of the object store. Without `now`, only lists them.
///
/// Lists the objects before it reads the segments. A record that is published between the two steps
/// can then name only a younger object. Fails without deleting anything if segments are unreadable
/// or missing.
pub(crate) fn collect(
    bucket: &dyn Objects,
    notes: &Notes,
    now: Option<u64>,
    deadline: Deadline,
) -> Result<Vec<Collected>, RemoteError> {
    collect_older(bucket, notes, (now, WEEK), deadline)
}

pub(super) fn collect_older(
    bucket: &dyn Objects,
    notes: &Notes,
    (now, age): (Option<u64>, u64),
    deadline: Deadline,
) -> Result<Vec<Collected>, RemoteError> {
    let prefix = objects_prefix(notes.conversation());
    let listed = bucket.list(&prefix, deadline)?;
    let Some(latest) = listed.iter().map(|object| object.modified_ms).max() else {
        return Ok(Vec::new());
    };
    let at = now.unwrap_or(latest);
    let used = used(bucket, notes, deadline)?;
    let old = listed.into_iter().filter(|object| at.saturating_sub(object.modified_ms) >= age);
    let unused: Vec<Listed> = old.filter(|object| is_unused(object, &used)).collect();
    Ok(deleted(bucket, (&prefix, &unused), now.is_none(), deadline))
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
    let key = object_key(conversation, ObjectName::random());
    bucket.create(&key, &bytes::Bytes::new(), deadline)?;
    let now = bucket.modified(&key, deadline)?;
    bucket.delete(vec![key], deadline);
    Ok(now)
}

fn used(
    bucket: &dyn Objects,
    notes: &Notes,
    deadline: Deadline,
) -> Result<HashSet<ObjectName>, RemoteError> {
    let mut looked = look(bucket, notes, deadline)?;
    let found = looked.pieces(notes)?;
    if let Some(blind) = looked.incomplete_log(notes, &found.refused)? {
        return Err(blind);
    }
    if looked.segments.is_empty() {
        return Err(RemoteError::NoLog { conversation: notes.conversation().to_text() });
    }
    let living = State::of_all(found.pieces).artifacts;
    Ok(living.into_values().filter_map(|claim| claim.artifact.object).collect())
}

fn is_unused(object: &Listed, used: &HashSet<ObjectName>) -> bool {
    object_of(&object.name).is_some_and(|(name, _)| !used.contains(&name))
}

fn told(prefix: &str, object: &Listed, outcome: Option<Result<(), BucketError>>) -> Collected {
    Collected { key: format!("{prefix}{}", object.name), size: object.size, outcome }
}

#[cfg(test)]
mod tests;
