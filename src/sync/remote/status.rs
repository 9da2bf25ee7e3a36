//! Backlog of a conversation, and the known state of its bucket. This module makes no request.

use std::collections::BTreeMap;

use crate::remote::files::compare;
use crate::remote::pieces::pieces;
use crate::remote::{Agreement, Notes, RemoteError};
use crate::replica::{Changes, SegmentId};
use ctxfs_store::{Conversation, FileClock, FileMark, Time, stat_file};

/// Synchronization status of a conversation, computed from local state only. It has the backlog of
/// files, renames, removals and messages, and information about the local segments.
#[derive(Debug, Default)]
pub struct SyncStatus {
    /// Number of complete files that are not sent yet.
    pub files: usize,
    /// Total bytes of the complete files that are not sent yet.
    pub bytes: u64,
    /// Oldest modification time of the complete files that are not sent yet.
    pub oldest: Option<Time>,
    /// Number of files that are still being written. They are sent once they are complete.
    pub live: usize,
    /// Number of renames and removals that are not sent yet.
    pub others: usize,
    /// Bytes of messages that are not sent yet.
    pub messages: u64,
    /// Messages that cannot be shared. The key is the offset in the local log, the value the
    /// length, both in bytes.
    pub unshared: BTreeMap<u64, u64>,
    /// True if part of the conversation could not be read.
    pub is_partial: bool,
    /// True if a segment is waiting to be sent.
    pub is_sending: bool,
    /// Number of local segments.
    pub segments: usize,
    /// Time of the last look, by the clock of the local disk.
    pub looked: Option<Time>,
    /// Segments that are ignored, and the reasons.
    pub refused: Vec<(SegmentId, RemoteError)>,
}

/// Returns the status of a conversation. `conversation` is `None` if it is not in the store.
pub fn standing(
    conversation: Option<&Conversation>,
    notes: &Notes,
    clock: FileClock,
) -> Result<SyncStatus, RemoteError> {
    let (changes, is_partial) = match conversation {
        Some(conversation) => {
            let (agreement, files) = compare(conversation, notes, clock)?;
            (Changes::since(&agreement.base, &files.found), !files.unread.is_empty())
        }
        None => (Changes::since(&notes.agreement()?.base, &BTreeMap::new()), false),
    };
    let mut standing = SyncStatus { is_partial, ..SyncStatus::of(&changes) };
    if let Some(conversation) = conversation {
        let agreement = notes.agreement()?;
        standing.messages = messages(conversation, &agreement)?;
        standing.unshared = agreement.unshared;
    }
    standing.is_sending = notes.intent()?.is_some();
    standing.segments = notes.segments()?.len();
    standing.looked = notes.looked()?;
    standing.refused = pieces(notes)?.refused;
    Ok(standing)
}

impl SyncStatus {
    fn of(changes: &Changes) -> Self {
        let complete = || changes.puts.values().filter(|put| put.digest.is_some());
        let oldest = complete().map(|put| put.version.modified).min();
        Self {
            files: complete().count(),
            bytes: complete().map(|put| put.version.size).sum(),
            oldest: oldest.map(Time::from_nanos),
            live: changes.puts.len() - complete().count(),
            others: changes.moves.len() + changes.removed.len(),
            ..Self::default()
        }
    }

    /// Returns true if the bucket has all complete content of this host.
    pub fn is_sent(&self) -> bool {
        let is_told = self.files == 0 && self.others == 0 && self.messages == 0;
        is_told && !self.is_sending && !self.is_partial
    }
}

fn messages(conversation: &Conversation, agreement: &Agreement) -> Result<u64, RemoteError> {
    let Some(file) = conversation.log_file()? else { return Ok(0) };
    let read = stat_file(&file);
    let stat = read.map_err(|error| conversation.log_error("read", error))?;
    let sent = agreement.messages;
    let is_same = FileMark::of(&stat).ino == sent.inode;
    Ok(stat.size.saturating_sub(if is_same { sent.offset } else { 0 }))
}

#[cfg(test)]
mod tests;
