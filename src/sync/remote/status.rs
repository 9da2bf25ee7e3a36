//! The backlog of a conversation, and the state of its bucket as it is known. Asks nobody.

use std::collections::BTreeMap;

use crate::remote::here::here;
use crate::remote::pieces::pieces;
use crate::remote::{Agreement, Notes, RemoteError};
use crate::replica::{Changes, SegmentId};
use ctxfs_store::{Conversation, FileClock, FileMark, Time, stat_file};

/// How a conversation of this host stands to its bucket.
#[derive(Debug, Default)]
pub struct Standing {
    /// Complete files that are still to be sent.
    pub files: usize,
    /// Their bytes.
    pub bytes: u64,
    /// When the oldest of them was written last.
    pub oldest: Option<Time>,
    /// Files that are being written, and are sent once they are complete.
    pub live: usize,
    /// Renames and removals that are still to be told.
    pub others: usize,
    /// Bytes of messages that are still to be sent.
    pub messages: u64,
    /// Messages that no segment can say, which stay here: where each begins in the log of this
    /// host, and its bytes.
    pub unshared: BTreeMap<u64, u64>,
    /// True if not all of it could be read.
    pub is_partial: bool,
    /// True if a segment is about to be sent, since it could not be sent before.
    pub is_sending: bool,
    /// The segments that are here.
    pub segments: usize,
    /// When this host looked last, by the clock of its disk.
    pub looked: Option<Time>,
    /// The segments that do not count, and why.
    pub refused: Vec<(SegmentId, RemoteError)>,
}

/// Returns how a conversation stands. Without `conversation` it is not in the store.
pub fn standing(
    conversation: Option<&Conversation>,
    notes: &Notes,
    clock: FileClock,
) -> Result<Standing, RemoteError> {
    let (changes, is_partial) = match conversation {
        Some(conversation) => {
            let (agreement, files) = here(conversation, notes, clock)?;
            (Changes::since(&agreement.base, &files.found), !files.unread.is_empty())
        }
        None => (Changes::since(&notes.agreement()?.base, &BTreeMap::new()), false),
    };
    let mut standing = Standing { is_partial, ..Standing::of(&changes) };
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

impl Standing {
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

    /// Returns true if the bucket has all that is complete here.
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
