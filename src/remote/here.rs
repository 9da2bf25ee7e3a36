//! The files of this host beside those that host and bucket agreed upon.

use crate::remote::Agreement;
use crate::remote::Files;
use crate::remote::Notes;
use crate::remote::RemoteError;
use crate::remote::files;
use crate::store::Conversation;
use crate::store::FileClock;

/// Returns what host and bucket agreed upon, and the files as they are. Nothing is agreed upon any
/// more about what a rule of keeping removed here: the next look sees that others have it.
pub(super) fn here(
    conversation: &Conversation,
    notes: &Notes,
    clock: FileClock,
) -> Result<(Agreement, Files), RemoteError> {
    let mut agreement = notes.agreement()?;
    let mut files = files(conversation, &agreement.base, clock)?;
    if !conversation.has_manifest()? {
        files.assume_elsewhere(&agreement.base);
    }
    agreement.base.entries.retain(|entry| !files.swept.contains(&entry.path));
    agreement.base.heal(&files.found);
    Ok((agreement, files))
}

/// Does that for a caller that changes things, and notes what it found.
pub(super) fn here_now(
    conversation: &Conversation,
    notes: &Notes,
    clock: FileClock,
) -> Result<(Agreement, Files), RemoteError> {
    let (agreement, files) = here(conversation, notes, clock)?;
    if !files.swept.is_empty() {
        notes.save(&notes.agreement()?, &agreement)?;
    }
    Ok((agreement, files))
}
