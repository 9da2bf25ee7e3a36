//! The message log of a conversation: a file that accepts messages only and shows whole lines only.

use std::fs::File;
use std::sync::Arc;

use rustix::fs::OFlags;

use crate::engine::Engine;
use crate::engine::names;
use crate::fs::FsError;
use crate::fs::OpenMode;
use crate::fs::Result;
use crate::fs::Shared;
use crate::fs::handle::FileHandle;
use crate::fs::node::file::FileNode;
use crate::message;
use crate::message::Batch;
use crate::message::LockedLog;
use crate::store::Conversation;
use crate::store::Lease;
use crate::store::MESSAGES;
use crate::store::Stat;
use crate::store::lease_of;
use crate::store::stat_file;

impl FileNode {
    /// Returns true if it is the message log of a conversation.
    pub(crate) fn is_message_log(&self) -> bool {
        let parent = {
            let link = self.link.lock();
            link.as_ref().filter(|link| link.name == MESSAGES).map(|link| Arc::clone(&link.parent))
        };
        parent.is_some_and(|parent| parent.as_dir().is_ok_and(|dir| names::is_history(&**dir)))
    }
}

/// Accepts bytes that were written to the log. Whole lines are messages and are appended; the rest
/// waits for its newline.
pub(super) fn write(
    fs: &Shared,
    handle: &FileHandle,
    offset: u64,
    bytes: &[u8],
    mode: OpenMode,
    owner: Option<u64>,
) -> Result<()> {
    let mut pending = handle.line.lock();
    let shown = message::whole(&handle.file, stat_file(&handle.file)?.size)?;
    if !mode.appends() && offset != shown && pending.next != Some(offset) {
        return Err(FsError::AppendOnly);
    }
    let file = handle.node.as_file()?;
    let conversation = conversation_of(&fs.engine, file)?;
    let append = |batch: &Batch| append(handle, batch, &conversation);
    fs.engine.take_messages(&conversation, &mut pending.unfinished, bytes, append)?;
    pending.next = Some(offset + bytes.len() as u64);
    pending.owner = owner;
    Ok(())
}

/// Ends the last line when the process that wrote it closes the file. Another process that
/// inherited the open file does not end the line by closing it.
pub(super) fn flush(fs: &Shared, handle: &FileHandle, owner: Option<u64>) -> Result<()> {
    let written = handle.line.lock().owner;
    let is_another = written.zip(owner).is_some_and(|(written, closed)| written != closed);
    if is_another { Ok(()) } else { finish(fs, handle) }
}

/// Appends a last line that lacks nothing but its newline. Fails with EINVAL if it is not a
/// message.
fn finish(fs: &Shared, handle: &FileHandle) -> Result<()> {
    let mut pending = handle.line.lock();
    if pending.unfinished.is_empty() {
        return Ok(());
    }
    let conversation = conversation_of(&fs.engine, handle.node.as_file()?)?;
    let append = |batch: &Batch| append(handle, batch, &conversation);
    fs.engine.finish_messages(&conversation, &mut pending.unfinished, append)
}

/// Ends a handle that is gone. A last line that is not a message is kept beside the log.
pub(super) fn leave(fs: &Shared, handle: &FileHandle) -> Result<()> {
    if handle.line.lock().unfinished.is_empty() || finish(fs, handle).is_ok() {
        return Ok(());
    }
    let conversation = conversation_of(&fs.engine, handle.node.as_file()?)?;
    let line = handle.line.lock().unfinished.take()?;
    tracing::warn!(conversation = %conversation.id(), "an unfinished message was set aside");
    Ok(message::set_aside(&line, &conversation)?)
}

/// Appends messages. Another process may hold the log, so nothing of this process is locked while
/// this waits.
fn append(handle: &FileHandle, batch: &Batch, conversation: &Conversation) -> Result<()> {
    let file = handle.node.as_file()?;
    let log = LockedLog::wait(&handle.file)?;
    let mut life = file.life();
    life.noticed(&stat_file(&handle.file)?);
    let end = log.repair(conversation)?;
    let appended = log.append(batch, end);
    life.written(end, &stat_file(&handle.file)?);
    Ok(appended?)
}

/// Returns the attributes of `file` as readers see them, from those on disk, `stat`: a log has
/// whole lines only. A line that a crash cut off is set aside, once nobody writes any more.
pub(super) fn shown(engine: &Engine, file: &FileNode, stat: Stat) -> Result<Stat> {
    if stat.size == 0 || !file.is_message_log() {
        return Ok(stat);
    }
    let reader = file.reader()?;
    let size = message::whole(&reader, stat.size)?;
    if size < stat.size && repair(engine, file, &reader)? {
        return Ok(stat_file(&reader)?);
    }
    Ok(Stat { size, ..stat })
}

/// Repairs a torn log. Returns false if somebody may still be writing it.
fn repair(engine: &Engine, file: &FileNode, reader: &File) -> Result<bool> {
    // A lease can only be tested with a descriptor of its own, and before one exists that can
    // write.
    let probe = file.open(OFlags::RDONLY)?;
    if lease_of(&probe) != Lease::Free {
        return Ok(false);
    }
    let open = Arc::new(file.open(OFlags::RDWR)?);
    let Some(log) = LockedLog::now(&open)? else { return Ok(false) };
    let conversation = conversation_of(engine, file)?;
    log.repair(&conversation)?;
    tracing::warn!(conversation = %conversation.id(), "the message log was torn and has been repaired");
    let mut life = file.life();
    life.rewritten();
    life.left_as(&stat_file(reader)?);
    Ok(true)
}

/// Returns the conversation that the log `file` belongs to.
fn conversation_of(engine: &Engine, file: &FileNode) -> Result<Arc<Conversation>> {
    let link = file.link.get().ok_or(FsError::Stale)?;
    Ok(engine.conversation(&link.conversation().ok_or(FsError::Stale)?)?)
}
