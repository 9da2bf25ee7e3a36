//! The message log of a conversation: taking messages in, and showing them as one JSON array.

use std::fs::File;
use std::sync::Arc;

use rustix::fs::OFlags;

use crate::engine::Engine;
use crate::engine::EngineError;
use crate::engine::MessageHost;
use crate::engine::Result;
use crate::engine::SourceDir;
use crate::engine::SourceFile;
use crate::engine::Version;
use crate::engine::ViewText;
use crate::engine::spool::Spool;
use crate::message;
use crate::message::AppendContext;
use crate::message::Batch;
use crate::message::LockedLog;
use crate::message::MessageError;
use crate::message::UnfinishedLine;
use crate::store::Artifact;
use crate::store::Conversation;
use crate::store::Lease;
use crate::store::MESSAGES;
use crate::store::Stat;
use crate::store::lease_of;
use crate::store::stat_file;
use crate::view::Rendered;

/// Returns the version of the array of a log of which the disk says `stat`, of whose bytes readers
/// may see the first `stat.size`. It changes with every message.
pub fn messages_version(stat: &Stat) -> Version {
    let Stat { size, mtime, ino, .. } = *stat;
    Version { size, modified: mtime.as_nanos(), facts: ino, ..Version::default() }
}

/// Takes in bytes that go on where `unfinished` stopped, and hands the messages that they
/// complete to `append`: all of them, or none. What follows the last newline stays unfinished.
pub(super) fn take<E: From<EngineError> + From<MessageError>>(
    engine: &Engine,
    conversation: &Arc<Conversation>,
    unfinished: &mut UnfinishedLine,
    bytes: &[u8],
    append: impl FnOnce(&Batch) -> std::result::Result<(), E>,
) -> std::result::Result<(), E> {
    engine.check_disk(bytes.len() as u64)?;
    let host = MessageHost { engine, conversation };
    let context = AppendContext { conversation, host: &host };
    Batch::take(unfinished, bytes, &context, append)
}

/// Hands a last line that lacks nothing but its newline to `append`. Otherwise it stays
/// unfinished, and this fails.
pub(super) fn finish<E: From<EngineError> + From<MessageError>>(
    engine: &Engine,
    conversation: &Arc<Conversation>,
    unfinished: &mut UnfinishedLine,
    append: impl FnOnce(&Batch) -> std::result::Result<(), E>,
) -> std::result::Result<(), E> {
    if unfinished.is_empty() {
        return Ok(());
    }
    let host = MessageHost { engine, conversation };
    let context = AppendContext { conversation, host: &host };
    Batch::finish(unfinished, &context, append)
}

/// Ends a writer that is gone: appends a last line that lacks nothing but its newline, and sets any
/// other aside, beside the log.
pub(super) fn leave<E: From<EngineError> + From<MessageError>>(
    engine: &Engine,
    conversation: &Arc<Conversation>,
    unfinished: &mut UnfinishedLine,
    append: impl FnOnce(&Batch) -> std::result::Result<(), E>,
) -> std::result::Result<(), E> {
    match finish(engine, conversation, unfinished, append) {
        Ok(()) => Ok(()),
        Err(_) => Ok(set_aside(conversation, unfinished)?),
    }
}

/// Sets an unfinished line aside, beside the log.
pub(super) fn set_aside(
    conversation: &Conversation,
    unfinished: &mut UnfinishedLine,
) -> std::result::Result<(), MessageError> {
    let line = unfinished.take()?;
    tracing::warn!(conversation = %conversation.id(), "an unfinished message is set aside");
    message::set_aside(&line, conversation)
}

/// Returns the attributes of `of`, of which the disk says `stat`, as readers see it: a message log has
/// whole lines only. What a crash cut off is set aside, once nobody writes any more. Calls `reader`
/// for a descriptor to read a log by.
pub(crate) fn shown(
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

/// Repairs a log that was torn. Returns false where somebody may still write it.
fn repair(engine: &Engine, of: &dyn SourceFile, reader: &File) -> Result<bool> {
    // Only a descriptor of its own can ask, and only before there is one that can write.
    let probe = of.open_by_name(OFlags::RDONLY)?;
    if lease_of(&probe) != Lease::Free {
        return Ok(false);
    }
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
    let file = Arc::new(history.dir()?.open_file(MESSAGES.as_ref(), OFlags::RDONLY)?);
    let stat = stat_file(&file)?;
    if stat.ino != version.facts || stat.size < version.size {
        return Err(EngineError::Stale);
    }
    let room = |length| engine.space.check_text(engine, length);
    let spool = Spool::new(&engine.cache, &room);
    let log = Artifact::new(file, version.size);
    message::array(log, &mut &spool)?;
    Ok(spool.finish(Rendered { notice: None, whole: true }, None)?)
}
