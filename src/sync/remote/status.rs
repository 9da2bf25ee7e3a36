//! Backlog of a conversation, and the known state of its bucket. This module makes no request.

use std::collections::BTreeMap;

use crate::remote::files::compare;
use crate::remote::pieces::pieces;
use crate::remote::{Agreement, Notes, RemoteError};
use crate::replica::{Changes, SegmentId};
use ctxfs_store::{Conversation, FileClock, FileMark, Time, stat_file};

/// Synchronization status of a conversation, computed from local state only. `files`, `bytes` and
/// `oldest` describe the complete files that are not sent yet: their number, their total size and
/// their oldest modification time. `live` files are still being written; they are sent once they
/// are complete. `others` is the number of renames and removals that are not sent yet, and
/// `messages` the bytes of messages.
///
/// `unshared` are the messages that cannot be shared. The key is the offset in the local log, the
/// value the length, both in bytes. `is_partial` is true if part of the conversation could not be
/// read, and `is_sending` if a segment is waiting to be sent. `segments` is the number of local
/// segments. `looked` is the time of the last look, by the clock of the local disk. `refused` are
/// the segments that are ignored, and the reasons.
#[derive(Debug, Default)]
#[expect(missing_docs, reason = "described above")]
pub struct SyncStatus {
    pub files: usize,
    pub bytes: u64,
    pub oldest: Option<Time>,
    pub live: usize,
    pub others: usize,
    pub messages: u64,
    pub unshared: BTreeMap<u64, u64>,
    pub is_partial: bool,
    pub is_sending: bool,
    pub segments: usize,
    pub looked: Option<Time>,
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
