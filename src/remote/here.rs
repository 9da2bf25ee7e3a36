//! The files of this host beside those that host and bucket agreed upon.

use std::collections::BTreeSet;
use std::collections::HashMap;

use crate::remote::Agreement;
use crate::remote::Files;
use crate::remote::Notes;
use crate::remote::RemoteError;
use crate::remote::far::KnownSegments;
use crate::remote::files;
use crate::replica::Base;
use crate::replica::Entry;
use crate::replica::FileKey;
use crate::replica::Origin;
use crate::replica::SegmentId;
use crate::store::Conversation;
use crate::store::FileClock;

/// Returns what host and bucket agreed upon, and the files as they are. Nothing is agreed upon any
/// more about what a rule of keeping removed here: the next look sees that others have it.
pub(super) fn here(
    conversation: &Conversation,
    notes: &Notes,
    clock: FileClock,
) -> Result<(Agreement, Files), RemoteError> {
    let Here { agreement, files, .. } = compared(conversation, notes, clock)?;
    Ok((agreement, files))
}

/// What is here, beside what was agreed upon.
struct Here {
    agreement: Agreement,
    files: Files,
    /// True if files were found that have other attributes.
    has_touched: bool,
}

fn compared(
    conversation: &Conversation,
    notes: &Notes,
    clock: FileClock,
) -> Result<Here, RemoteError> {
    let mut agreement = notes.agreement()?;
    let segments = segments_of(notes, &agreement)?;
    let is_of_bucket = |origin: Origin| segments.contains(&origin.segment);
    let mut files = files(conversation, &agreement.base, clock, &is_of_bucket)?;
    if !conversation.has_manifest()? {
        files.assume_elsewhere(&agreement.base);
    }
    agreement.base.entries.retain(|entry| !files.swept.contains(&entry.path));
    agreement.base.heal(&files.found);
    let has_touched = keep_touched(notes, &mut agreement.base, &files)?;
    Ok(Here { agreement, files, has_touched })
}

/// Takes notice of files with other times that still have the bytes which were published: these
/// are not sent again. Returns true if there are any.
fn keep_touched(notes: &Notes, base: &mut Base, files: &Files) -> Result<bool, RemoteError> {
    let complete = files.found.values().filter_map(|found| {
        let digest = found.digest.as_deref().filter(|digest| !digest.is_empty())?;
        matches!(found.key, FileKey::Here { .. }).then_some((found.key, (found.version, digest)))
    });
    let complete: HashMap<_, _> = complete.collect();
    let (segments, mut has_touched) = (KnownSegments::default(), false);
    for entry in &mut base.entries {
        let Some((version, digest)) = complete.get(&entry.key) else { continue };
        let may_be = entry.version != *version && entry.version.size == version.size;
        if may_be && was_published(notes, &segments, entry, digest)? {
            entry.version = *version;
            has_touched = true;
        }
    }
    Ok(has_touched)
}

/// Returns true if the bytes of an entry were published with this digest.
fn was_published(
    notes: &Notes,
    segments: &KnownSegments,
    entry: &Entry,
    digest: &str,
) -> Result<bool, RemoteError> {
    let Some(origin) = entry.origins.first() else { return Ok(false) };
    match segments.published(notes, *origin) {
        Ok(published) => Ok(published.put.digest() == Some(digest)),
        // Its segment was refused, or is gone.
        Err(RemoteError::Unknown { .. } | RemoteError::Segment { .. }) => Ok(false),
        Err(error) => Err(error),
    }
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

/// Does that for a caller that changes things, and notes what it found.
pub(super) fn here_now(
    conversation: &Conversation,
    notes: &Notes,
    clock: FileClock,
) -> Result<(Agreement, Files), RemoteError> {
    let Here { agreement, files, has_touched } = compared(conversation, notes, clock)?;
    if has_touched || !files.swept.is_empty() {
        notes.save(&notes.agreement()?, &agreement)?;
    }
    Ok((agreement, files))
}
