//! The message log of this host: how far it was published, and whether it is still the same.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::sync::Arc;

use crate::remote::notes::Shown;
use crate::remote::{MessagesAt, Notes, RemoteError, pieces};
use crate::replica::{Origin, State, WriterId};
use ctxfs_store::message::{LogLine, LogLines};
use ctxfs_store::{Artifact, Conversation, FileMark, message, stat_file};

/// Returns the number of the lines up to `line`, where `before` is that of the lines before it.
pub(super) fn chained(before: u64, line: &LogLine) -> io::Result<u64> {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&before.to_le_bytes());
    line.read(|block| {
        hasher.update(block);
        Ok::<_, io::Error>(())
    })?;
    let hash = hasher.finalize();
    let first = hash.as_bytes().first_chunk().copied().unwrap_or_default();
    Ok(u64::from_le_bytes(first))
}

/// Returns the place in the log as it is now, wherever its lines are: a store may be copied. `None`
/// if the log was replaced or removed since.
pub(super) fn found_again(
    conversation: &Conversation,
    at: MessagesAt,
) -> Result<Option<MessagesAt>, RemoteError> {
    if at.inode == 0 {
        return Ok(Some(at));
    }
    let Some(file) = conversation.log_file()? else { return Ok(None) };
    let found = place_in(&file, at);
    Ok(found.map_err(|error| conversation.log_error("read", error))?)
}

fn place_in(file: &Arc<File>, at: MessagesAt) -> io::Result<Option<MessagesAt>> {
    let mark = FileMark::of(&stat_file(file)?);
    let start = MessagesAt { inode: mark.ino, born: mark.born, ..MessagesAt::default() };
    // A file that others cut off is published again, as far as it is there.
    if (at.inode, at.born) == (mark.ino, mark.born) {
        return Ok(Some(at));
    }
    if at.offset == 0 {
        return Ok(Some(start));
    }
    let log = Artifact::new(Arc::clone(file), message::whole(file, mark.size)?);
    let (mut chain, mut lines) = (0, LogLines::of(log));
    while let Some(line) = lines.next() {
        chain = chained(chain, &line?)?;
        if chain == at.chain {
            return Ok(Some(MessagesAt { offset: lines.reached(), chain, ..start }));
        }
    }
    Ok(None)
}

/// Returns the beginning of the log as it is now.
pub(super) fn beginning(conversation: &Conversation) -> Result<MessagesAt, RemoteError> {
    let Some(file) = conversation.log_file()? else { return Ok(MessagesAt::default()) };
    let stat = stat_file(&file).map_err(|error| conversation.log_error("look at", error))?;
    let mark = FileMark::of(&stat);
    Ok(MessagesAt { inode: mark.ino, born: mark.born, ..MessagesAt::default() })
}

/// Returns true if the directory of the conversation is the one in which the log that `at` was a
/// place in was made, as far as the disk tells.
pub(super) fn is_in_its_place(
    conversation: &Conversation,
    at: MessagesAt,
) -> Result<bool, RemoteError> {
    let stat = conversation.dir().stat_self();
    let dir = FileMark::of(&stat.map_err(|error| conversation.log_error("look beside", error))?);
    Ok((1..=at.born).contains(&dir.born))
}

/// Returns the messages that were shown with the log that `at` was a place in: whoever replaced it
/// removed them. They are those of `writer`, and those that readers saw last.
pub(super) fn replaced(
    notes: &Notes,
    at: &MessagesAt,
    writer: Option<WriterId>,
) -> Result<BTreeSet<Origin>, RemoteError> {
    let shown = notes.shown()?.filter(|shown| (shown.inode, shown.born) == (at.inode, at.born));
    seen(notes, shown, writer)
}

/// Returns the messages that were seen in a conversation that is gone.
pub(super) fn gone(
    notes: &Notes,
    writer: Option<WriterId>,
) -> Result<BTreeSet<Origin>, RemoteError> {
    seen(notes, notes.shown()?, writer)
}

/// Returns the messages of `writer`.
pub(super) fn own(
    notes: &Notes,
    writer: Option<WriterId>,
) -> Result<BTreeSet<Origin>, RemoteError> {
    seen(notes, None, writer)
}

/// Returns true if the lines before `at` are other ones than were published, in the same file:
/// somebody wrote over them.
pub(super) fn is_rewritten(
    conversation: &Conversation,
    at: MessagesAt,
) -> Result<bool, RemoteError> {
    let Some(file) = conversation.log_file()? else { return Ok(false) };
    let read = || -> io::Result<bool> {
        let mark = FileMark::of(&stat_file(&file)?);
        if (at.inode, at.born) != (mark.ino, mark.born) || at.offset == 0 || at.chain == 0 {
            return Ok(false);
        }
        let log = Artifact::new(Arc::clone(&file), message::whole(&file, mark.size)?);
        let (mut chain, mut lines) = (0, LogLines::of(log));
        while lines.reached() < at.offset
            && let Some(line) = lines.next()
        {
            chain = chained(chain, &line?)?;
        }
        Ok((lines.reached(), chain) != (at.offset, at.chain))
    };
    Ok(read().map_err(|error| conversation.log_error("read", error))?)
}

/// Returns the messages of `writer`, and those that were shown.
fn seen(
    notes: &Notes,
    shown: Option<Shown>,
    writer: Option<WriterId>,
) -> Result<BTreeSet<Origin>, RemoteError> {
    let segments = shown.map(|shown| shown.segments).unwrap_or_default();
    let state = State::of_all(pieces(notes)?.pieces);
    let was_seen = |origin: &Origin| {
        Some(origin.segment.writer) == writer || segments.contains(&origin.segment)
    };
    Ok(state.messages.into_keys().map(|(_, origin)| origin).filter(was_seen).collect())
}
