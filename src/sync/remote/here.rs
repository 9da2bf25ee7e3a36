
use std::collections::BTreeSet;

use crate::remote::{Agreement, Files, Notes, RemoteError, files};
use crate::replica::{Origin, SegmentId};
use ctxfs_store::{Conversation, FileClock};

///+ Returns the agreement and the current files. The agreement lacks files that retention removed
///+ here, so that the next look finds them as remote ones, and follows files that were restored from
///+ a copy of the store or got new times.
pub(super) fn here(
    conversation: &Conversation,
    notes: &Notes,
    clock: FileClock,
) -> Result<(Agreement, Files), RemoteError> {
    compared(conversation, notes, clock).map(|(agreement, files, _)| (agreement, files))
}

///+ Does what [`here`] does, and saves the changed agreement.
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

///+ The flag is true if files with unchanged bytes were restored or have new times.
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

///+ Returns all segments of this bucket with anything on this host. The store may have been shared
///+ through another bucket before.
fn segments_of(notes: &Notes, agreement: &Agreement) -> Result<BTreeSet<SegmentId>, RemoteError> {
    let mut segments: BTreeSet<_> = notes.segments()?.into_iter().collect();
    segments.extend(notes.covered()?.ids());
    let origins = agreement.base.entries.iter().flat_map(|entry| &entry.origins);
    segments.extend(origins.map(|origin| origin.segment));
    Ok(segments)
}
