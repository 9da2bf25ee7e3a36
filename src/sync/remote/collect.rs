//! The end of objects that nobody names.

use std::collections::HashSet;

use bytes::Bytes;

use crate::bucket::{
    BucketError, Deadline, Listed, ObjectName, log_prefix, object_key, object_of, objects_prefix,
};
use crate::remote::look::look;
use crate::remote::{Notes, Objects, RemoteError};
use crate::replica::State;
use ctxfs_core::model::Component;

/// The age from which on goes what is of no use, in milliseconds: objects that nobody names, as no
/// record comes later than a day after its object, and bytes that were removed.
pub(super) const WEEK: u64 = 7 * 24 * HOUR;
/// The age after which no push publishes an object any more: a day, and an hour for a request under
/// way.
pub(super) const UNNAMED: u64 = 25 * HOUR;
/// In milliseconds.
const HOUR: u64 = 60 * 60 * 1000;

/// An object that nobody names.
#[derive(Debug)]
pub struct Collected {
    /// Its key.
    pub key: String,
    /// Its bytes.
    pub size: u64,
    /// What became of it; none if it was only looked for.
    pub outcome: Option<Result<(), BucketError>>,
}

/// Deletes the objects of a conversation that no living record names, and that are older than a
/// week by the clock of the store. With `dry_run` only tells which.
///
/// Lists the objects, then reads the log: a record that comes in between is of a younger object.
/// Fails, and deletes nothing, while not all of the log can be read.
pub fn collect(
    bucket: &dyn Objects,
    notes: &Notes,
    dry_run: bool,
    deadline: Deadline,
) -> Result<Vec<Collected>, RemoteError> {
    collect_older(bucket, notes, (WEEK, dry_run), deadline)
}

/// Deletes unnamed objects of at least an `age`, in milliseconds. See [`collect`].
pub(super) fn collect_older(
    bucket: &dyn Objects,
    notes: &Notes,
    (age, dry_run): (u64, bool),
    deadline: Deadline,
) -> Result<Vec<Collected>, RemoteError> {
    let prefix = objects_prefix(notes.conversation());
    let listed = bucket.list(&prefix, deadline)?;
    let Some(latest) = listed.iter().map(|object| object.modified_ms).max() else {
        return Ok(Vec::new());
    };
    // Without writing anything, now is not earlier than that.
    let now = if dry_run { latest } else { store_now(bucket, notes.conversation(), deadline)? };
    let used = used(bucket, notes, deadline)?;
    let old = listed.into_iter().filter(|object| now.saturating_sub(object.modified_ms) >= age);
    let unused: Vec<Listed> = old.filter(|object| is_unused(object, &used)).collect();
    Ok(deleted(bucket, (&prefix, &unused), dry_run, deadline))
}

/// Deletes what writes that were cut off have left beside the segments and objects of a
/// conversation, and beside the mark of the bucket, once it has an `age` by the clock of the store.
/// With `latest`, a time of that clock, only tells which. Only a bucket that is a directory shows
/// such files; others make no request for this.
pub(super) fn collect_staged(
    bucket: &dyn Objects,
    conversation: &Component,
    (latest, age): (Option<u64>, u64),
    deadline: Deadline,
) -> Result<Vec<Collected>, RemoteError> {
    let directories = [String::new(), log_prefix(conversation), objects_prefix(conversation)];
    let mut staged = bucket.list_staged(&directories, deadline)?;
    let Some(newest) = staged.iter().map(|each| each.modified_ms).max() else {
        return Ok(Vec::new());
    };
    let now = match latest {
        Some(latest) => latest.max(newest),
        None => store_now(bucket, conversation, deadline)?,
    };
    staged.retain(|each| now.saturating_sub(each.modified_ms) >= age);
    Ok(deleted(bucket, ("", &staged), latest.is_some(), deadline))
}

/// Deletes objects whose names follow `prefix`, and tells what became of each.
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

/// Returns the time of the store, in milliseconds since the epoch: that of an empty object, which
/// is written and deleted. Where nothing may be deleted, it stays until it is collected.
pub fn store_now(
    bucket: &dyn Objects,
    conversation: &Component,
    deadline: Deadline,
) -> Result<u64, RemoteError> {
    let key = object_key(conversation, ObjectName::random());
    bucket.create(&key, &Bytes::new(), deadline)?;
    let now = bucket.modified(&key, deadline)?;
    bucket.delete(vec![key], deadline);
    Ok(now)
}

/// Returns the objects that living records name.
fn used(
    bucket: &dyn Objects,
    notes: &Notes,
    deadline: Deadline,
) -> Result<HashSet<ObjectName>, RemoteError> {
    let mut looked = look(bucket, notes, deadline)?;
    let found = looked.pieces(notes)?;
    if let Some(blind) = looked.blindness(notes, &found.refused)? {
        return Err(blind);
    }
    if looked.segments.is_empty() {
        return Err(RemoteError::NoLog { conversation: notes.conversation().to_text() });
    }
    let living = State::of_all(found.pieces).artifacts;
    Ok(living.into_values().filter_map(|claim| claim.artifact.object).collect())
}

/// Returns true if it is an object, or the table of its blocks, that is not used.
fn is_unused(object: &Listed, used: &HashSet<ObjectName>) -> bool {
    object_of(&object.name).is_some_and(|(name, _)| !used.contains(&name))
}

fn told(prefix: &str, object: &Listed, outcome: Option<Result<(), BucketError>>) -> Collected {
    Collected { key: format!("{prefix}{}", object.name), size: object.size, outcome }
}

#[cfg(test)]
mod tests;
