
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::sync::Arc;

use crate::remote::notes::Shown;
use crate::remote::{MessagesAt, Notes, RemoteError, pieces};
use crate::replica::{Origin, State, WriterId};
use ctxfs_store::message::{LogLine, LogLines};
use ctxfs_store::{Artifact, Conversation, FileMark, message, stat_file};

///+ Extends the hash chain `before` by a line.
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

///+ Returns the position in the current log file. After a copy of the store it is found by its hash
///+ chain. `None` if the log was replaced or removed.
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
    // A truncated file is published again up to its end.
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

///+ Returns the start of the current log.
pub(super) fn beginning(conversation: &Conversation) -> Result<MessagesAt, RemoteError> {
    let Some(file) = conversation.log_file()? else { return Ok(MessagesAt::default()) };
    let stat = stat_file(&file).map_err(|error| conversation.log_error("look at", error))?;
    let mark = FileMark::of(&stat);
    Ok(MessagesAt { inode: mark.ino, born: mark.born, ..MessagesAt::default() })
}

///+ Returns true if the directory of the conversation is at least as old as the log of the position,
///+ as far as the disk tells.
pub(super) fn is_in_its_place(
    conversation: &Conversation,
    at: MessagesAt,
) -> Result<bool, RemoteError> {
    let stat = conversation.dir().stat_self();
    let dir = FileMark::of(&stat.map_err(|error| conversation.log_error("look beside", error))?);
    Ok((1..=at.born).contains(&dir.born))
}

///+ Returns the messages that readers saw together with the log of the position: its replacement
///+ removes them. They are those of `writer` and those shown last.
pub(super) fn replaced(
    notes: &Notes,
    at: &MessagesAt,
    writer: Option<WriterId>,
) -> Result<BTreeSet<Origin>, RemoteError> {
    let shown = notes.shown()?.filter(|shown| (shown.inode, shown.born) == (at.inode, at.born));
    seen(notes, shown, writer)
}

///+ Returns the messages that readers saw in a conversation that was removed.
pub(super) fn gone(
    notes: &Notes,
    writer: Option<WriterId>,
) -> Result<BTreeSet<Origin>, RemoteError> {
    seen(notes, notes.shown()?, writer)
}

pub(super) fn own(
    notes: &Notes,
    writer: Option<WriterId>,
) -> Result<BTreeSet<Origin>, RemoteError> {
    seen(notes, None, writer)
}

///+ Returns true if the published lines were overwritten in place.
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

///+ Returns the messages of `writer` and those that were shown.
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
