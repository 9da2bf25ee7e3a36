//! The files of this host beside those that host and bucket agreed upon.

use std::collections::BTreeSet;

use crate::remote::{Agreement, Files, Notes, RemoteError, files};
use crate::replica::{Origin, SegmentId};
use ctxfs_store::{Conversation, FileClock};

/// Returns what host and bucket agreed upon, and the files as they are. Nothing is agreed upon any
/// more about what a rule of keeping removed here: the next look sees that others have it. Files
/// that were restored from a copy of the store, or have other times, are those that were agreed
/// upon.
pub(super) fn here(
    conversation: &Conversation,
    notes: &Notes,
    clock: FileClock,
) -> Result<(Agreement, Files), RemoteError> {
    compared(conversation, notes, clock).map(|(agreement, files, _)| (agreement, files))
}

/// Does that for a caller that changes things, and notes what it found.
pub(super) fn here_now(
    conversation: &Conversation,
    notes: &Notes,
    clock: FileClock,
) -> Result<(Agreement, Files), RemoteError> {
    let (agreement, files, is_changed) = compared(conversation, notes, clock)?;
    if is_changed || !files.swept.is_empty() {
        notes.save(&notes.agreement()?, &agreement)?;
    }
    Ok((agreement, files))
}

/// Returns that, and true if there are files that were restored or have other times, with the bytes
/// that were published.
fn compared(
    conversation: &Conversation,
    notes: &Notes,
    clock: FileClock,
) -> Result<(Agreement, Files, bool), RemoteError> {
    let mut agreement = notes.agreement()?;
    let segments = segments_of(notes, &agreement)?;
    let is_of_bucket = |origin: Origin| segments.contains(&origin.segment);
    let mut files = files(conversation, &agreement.base, clock, &is_of_bucket)?;
    if !conversation.has_manifest()? {
        files.assume_elsewhere(&agreement.base);
    }
    agreement.base.entries.retain(|entry| !files.swept.contains(&entry.path));
    agreement.base.heal(&files.found);
    let has_same = agreement.base.keep_same(&files.found);
    Ok((agreement, files, has_same))
}

/// Returns all segments of this bucket that have anything here. The store may have been shared
/// through another one before.
fn segments_of(notes: &Notes, agreement: &Agreement) -> Result<BTreeSet<SegmentId>, RemoteError> {
    let mut segments: BTreeSet<_> = notes.segments()?.into_iter().collect();
    segments.extend(notes.covered()?.ids());
    let origins = agreement.base.entries.iter().flat_map(|entry| &entry.origins);
    segments.extend(origins.map(|origin| origin.segment));
    Ok(segments)
}
