//! The message log of a conversation: taking messages in, and showing them as one JSON array.

use std::fs::File;
use std::sync::Arc;

use rustix::fs::OFlags;

use crate::patience::allow_slow;
use crate::{
    Client, Engine, EngineError, MessageHost, Reservation, Result, Share, SourceDir, SourceFile,
    Spool, Version, ViewText,
};
use ctxfs_core::model::{Component, Content as _};
use ctxfs_store::message::{
    AppendContext, Batch, HELD, LockedLog, Log, MessageError, Published, UnfinishedLine,
};
use ctxfs_store::{Artifact, Conversation, Lease, MESSAGES, Stat, lease_of, message, stat_file};
use ctxfs_view::Rendered;

/// Returns the version of the array of a log of which the disk says `stat`, and of which readers
/// see `stat.size` bytes, those that hosts have `published` among them. It changes with every
/// message.
pub fn messages_version(stat: &Stat, published: Option<&Published>) -> Version {
    let Stat { size, mtime, .. } = *stat;
    let facts = order_number(stat, published);
    Version { size, modified: mtime.as_nanos(), facts, ..Version::default() }
}

/// Returns a number of the log as long as its messages stay in their order.
fn order_number(stat: &Stat, published: Option<&Published>) -> u64 {
    let edition = published.map_or(0, Published::edition);
    stat.ino ^ edition.rotate_left(32)
}

/// Returns what stands in front of `of`, of which the disk says `own`. `None` for all but the
/// message log of a conversation of several hosts.
pub fn published(
    engine: &Engine,
    of: &dyn SourceFile,
    own: &Stat,
) -> Result<Option<Arc<Published>>> {
    let Some(others) = &engine.options.other_messages else { return Ok(None) };
    if !of.is_message_log() {
        return Ok(None);
    }
    let id = of.conversation().ok_or(EngineError::Stale)?;
    Ok(others.published(&id, own)?)
}

/// The bytes of an unfinished message up to which a descriptor would cost more than their memory.
const SMALL: usize = 512;

/// The message that a writer has not finished. It is in memory as far as its conversation may hold
/// that, and else in a file without a name.
#[derive(Debug, Default)]
pub struct UnfinishedMessage {
    line: UnfinishedLine,
    /// Present once there was one.
    held: Option<Share>,
    /// The room below the quota that is reserved for it: it is nowhere that a measurement would
    /// find it.
    room: Reservation,
}

impl UnfinishedMessage {
    /// Returns true if the last byte ended a line.
    pub fn is_empty(&self) -> bool {
        self.line.is_empty()
    }

    /// Asks for the memory that it needs for `bytes` more.
    fn make_room(&mut self, engine: &Engine, conversation: &Conversation, bytes: &[u8]) {
        let needs = self.line.needs(bytes).min(HELD);
        let by = || Client { conversation: Some(conversation.id().clone()), user: None };
        let held = self.held.get_or_insert_with(|| engine.memory.holder(by()));
        let fits = held.try_resize((needs as u64).max(self.line.held_bytes() as u64));
        self.line.hold_at_most(if fits { HELD } else { SMALL });
    }

    /// Keeps as much of the room, and of `more`, as the line needs now.
    fn keep_room(&mut self, more: Reservation) {
        self.room.keep(more, self.line.len());
    }

    /// Gives back what it does not need.
    fn settle(&mut self) {
        match &mut self.held {
            _ if self.line.held_bytes() == 0 => self.held = None,
            Some(held) => held.resize(self.line.held_bytes() as u64),
            None => {}
        }
    }
}

/// Takes in bytes that go on where `unfinished` stopped, and hands the messages that they
/// complete to `append`: all of them, or none. What follows the last newline stays unfinished.
pub(super) fn take<E: From<EngineError> + From<MessageError>>(
    engine: &Engine,
    conversation: &Arc<Conversation>,
    unfinished: &mut UnfinishedMessage,
    bytes: &[u8],
    append: impl FnOnce(&Batch) -> std::result::Result<(), E>,
) -> std::result::Result<(), E> {
    engine.check_disk(bytes.len() as u64)?;
    let room = engine.reserve_in(conversation.id(), bytes.len() as u64)?;
    let host = MessageHost { engine, conversation };
    let context = AppendContext { conversation, host: &host };
    unfinished.make_room(engine, conversation, bytes);
    let taken = Batch::take(&mut unfinished.line, bytes, &context, append);
    unfinished.settle();
    unfinished.keep_room(room);
    taken
}

/// Hands a last line that lacks nothing but its newline to `append`. Otherwise it stays
/// unfinished, and this fails.
pub(super) fn finish<E: From<EngineError> + From<MessageError>>(
    engine: &Engine,
    conversation: &Arc<Conversation>,
    unfinished: &mut UnfinishedMessage,
    append: impl FnOnce(&Batch) -> std::result::Result<(), E>,
) -> std::result::Result<(), E> {
    if unfinished.is_empty() {
        return Ok(());
    }
    let host = MessageHost { engine, conversation };
    let context = AppendContext { conversation, host: &host };
    let finished = Batch::finish(&mut unfinished.line, &context, append);
    unfinished.settle();
    unfinished.keep_room(Reservation::default());
    finished
}

/// Ends a writer that is gone: appends a last line that lacks nothing but its newline, and sets any
/// other aside, beside the log. Changes nothing if an error is one after which the caller
/// `comes_back`.
pub(super) fn leave<E: From<EngineError> + From<MessageError>>(
    engine: &Engine,
    conversation: &Arc<Conversation>,
    unfinished: &mut UnfinishedMessage,
    append: impl FnOnce(&Batch) -> std::result::Result<(), E>,
    comes_back: impl FnOnce(&E) -> bool,
) -> std::result::Result<(), E> {
    match finish(engine, conversation, unfinished, append) {
        Ok(()) => Ok(()),
        Err(error) if comes_back(&error) => Err(error),
        Err(_) => {
            allow_slow()?;
            Ok(set_aside(engine, conversation, unfinished)?)
        }
    }
}

/// Sets an unfinished line aside, beside the log.
pub(super) fn set_aside(
    engine: &Engine,
    conversation: &Arc<Conversation>,
    unfinished: &mut UnfinishedMessage,
) -> std::result::Result<(), MessageError> {
    let host = MessageHost { engine, conversation };
    let line = unfinished.line.take()?;
    unfinished.settle();
    let line = message::stored(line, &AppendContext { conversation, host: &host })?;
    tracing::warn!(conversation = %conversation.id(), "an unfinished message is set aside");
    let done = message::set_aside(&line, conversation);
    unfinished.keep_room(Reservation::default());
    done
}

/// Returns the attributes of `of`, of which the disk says `stat`, as readers see it: a message log
/// has whole lines only. What a crash cut off is set aside, once nobody writes any more, which
/// fails with [`EngineError::Slow`] on a thread that others need. Calls `reader` for a descriptor
/// to read a log by.
pub fn shown(
    engine: &Engine,
    of: &dyn SourceFile,
    stat: Stat,
    reader: impl FnOnce() -> Result<Arc<File>>,
) -> Result<Stat> {
    if stat.size == 0 || !of.is_message_log() {
        return Ok(stat);
    }
    let reader = reader()?;
    let size = message::whole(&reader, stat.size)?;
    if size < stat.size && repair(engine, of, &reader)? {
        return Ok(stat_file(&reader)?);
    }
    Ok(Stat { size, ..stat })
}

/// Returns the bytes of `of`, open as `reader`, that readers may see; see [`shown`]. On a thread
/// that others need, nothing is set aside.
pub fn shown_length(
    engine: &Engine,
    of: &dyn SourceFile,
    stat: Stat,
    reader: &Arc<File>,
) -> Result<u64> {
    match shown(engine, of, stat, || Ok(Arc::clone(reader))) {
        Err(EngineError::Slow) => Ok(message::whole(reader, stat.size)?),
        shown => Ok(shown?.size),
    }
}

/// Repairs a log that was torn. Returns false where somebody may still write it.
fn repair(engine: &Engine, of: &dyn SourceFile, reader: &File) -> Result<bool> {
    // Only a descriptor of its own can ask, and only before there is one that can write.
    let probe = of.open_by_name(OFlags::RDONLY)?;
    if lease_of(&probe) != Lease::Free {
        return Ok(false);
    }
    allow_slow()?;
    let open = Arc::new(of.open_by_name(OFlags::RDWR)?);
    let Some(log) = LockedLog::now(&open)? else { return Ok(false) };
    let conversation = engine.conversation(&of.conversation().ok_or(EngineError::Stale)?)?;
    log.repair(&conversation)?;
    tracing::warn!(conversation = %conversation.id(), "the message log was torn, and is mended");
    of.note_repair(&stat_file(reader)?);
    Ok(true)
}

/// Computes the messages of the log in the directory `history` as one JSON array.
pub(super) fn show_messages(
    engine: &Engine,
    history: &dyn SourceDir,
    version: &Version,
) -> Result<ViewText> {
    let id = history.place()?.conversation().cloned();
    let log = log_at(engine, history, id.as_ref(), version)?;
    let spool = Spool::begin(engine, id);
    let mut shown = engine.secrets.shown_form(&spool);
    message::array(log, &mut shown)?;
    shown.finish()?;
    drop(shown);
    Ok(spool.finish(Rendered { notice: None, whole: true }, None)?)
}

/// Returns the log in the directory `history` of the conversation `id`, as it was at `version`.
fn log_at(
    engine: &Engine,
    history: &dyn SourceDir,
    id: Option<&Component>,
    version: &Version,
) -> Result<Log> {
    let file = Arc::new(history.dir()?.open_file(MESSAGES.as_ref(), OFlags::RDONLY)?);
    let stat = stat_file(&file)?;
    let published = match (&engine.options.other_messages, id) {
        (Some(others), Some(id)) => others.published(id, &stat)?,
        _ => None,
    };
    let is_same = order_number(&stat, published.as_deref()) == version.facts;
    let log = Log::new(Artifact::new(file, stat.size), published);
    if !is_same || log.len() < version.size {
        return Err(EngineError::Stale);
    }
    Ok(log.up_to(version.size))
}
