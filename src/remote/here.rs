//! What is on this host, beside what host and bucket agreed upon.

use crate::remote::Agreement;
use crate::remote::Files;
use crate::remote::Notes;
use crate::remote::RemoteError;
use crate::remote::files;
use crate::store::Conversation;
use crate::store::FileClock;

/// Returns what host and bucket agreed upon, and the files as they are.
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
    agreement.base.heal(&files.found);
    Ok((agreement, files))
}
