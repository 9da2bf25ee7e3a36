//! The message log of a conversation: a file that accepts messages only and shows whole lines only.

use std::sync::Arc;

use crate::engine::Engine;
use crate::engine::messages;
use crate::engine::patience::allow_slow;
use crate::engine::sync::MutexGuard;
use crate::fs::FsError;
use crate::fs::OpenMode;
use crate::fs::Result;
use crate::fs::Shared;
use crate::fs::handle::FileHandle;
use crate::fs::handle::PendingLine;
use crate::fs::node::file::FileNode;
use crate::message;
use crate::message::Batch;
use crate::message::LockedLog;
use crate::store::Conversation;
use crate::store::Stat;
use crate::store::stat_file;

/// Takes bytes that were written to the log: whole lines are messages and are appended, and what
/// follows them waits for its end.
pub(super) fn write(
    fs: &Shared,
    handle: &FileHandle,
    offset: u64,
    bytes: &[u8],
    mode: OpenMode,
    owner: Option<u64>,
) -> Result<()> {
    let mut pending = pending_line(fs, handle)?;
    let shown = message::whole(&handle.file, stat_file(&handle.file)?.size)?;
    if !mode.appends() && offset != shown && pending.next != Some(offset) {
        return Err(FsError::AppendOnly);
    }
    let file = handle.node.as_file()?;
    let conversation = conversation_of(&fs.engine, file)?;
    let append = |batch: &Batch| append(fs, handle, batch, &conversation);
    fs.engine.take_messages(&conversation, &mut pending.unfinished, bytes, append)?;
    pending.next = Some(offset + bytes.len() as u64);
    pending.owner = owner;
    Ok(())
}

/// Ends the last line when the process that wrote it closes the file. Another process that
/// inherited the open file does not end the line by closing it.
pub(super) fn flush(fs: &Shared, handle: &FileHandle, owner: Option<u64>) -> Result<()> {
    let written = pending_line(fs, handle)?.owner;
    let is_another = written.zip(owner).is_some_and(|(written, closed)| written != closed);
    if is_another { Ok(()) } else { finish(fs, handle) }
}

/// Appends a last line that lacks nothing but its newline. Fails with EINVAL if it is not a
/// message.
fn finish(fs: &Shared, handle: &FileHandle) -> Result<()> {
    let mut pending = pending_line(fs, handle)?;
    if pending.unfinished.is_empty() {
        return Ok(());
    }
    let conversation = conversation_of(&fs.engine, handle.node.as_file()?)?;
    let append = |batch: &Batch| append(fs, handle, batch, &conversation);
    fs.engine.finish_messages(&conversation, &mut pending.unfinished, append)
}

/// Ends a handle that is gone. A last line that is not a message is kept beside the log.
pub(super) fn leave(fs: &Shared, handle: &FileHandle) -> Result<()> {
    let mut pending = pending_line(fs, handle)?;
    if pending.unfinished.is_empty() {
        return Ok(());
    }
    let conversation = conversation_of(&fs.engine, handle.node.as_file()?)?;
    let append = |batch: &Batch| append(fs, handle, batch, &conversation);
    let line = &mut pending.unfinished;
    fs.engine.leave_messages(&conversation, line, append, FsError::comes_back)
}

/// Locks the line that is not ended. Fails with EAGAIN where somebody else has it, who may be
/// waiting for the disk.
fn pending_line<'a>(fs: &Shared, handle: &'a FileHandle) -> Result<MutexGuard<'a, PendingLine>> {
    if fs.is_ending() {
        return Ok(handle.line.lock());
    }
    handle.line.try_lock().ok_or(FsError::Held("the line is being written"))
}

/// Appends messages. Fails with EAGAIN while another process holds the log, unless the mount has
/// ended.
fn append(
    fs: &Shared,
    handle: &FileHandle,
    batch: &Batch,
    conversation: &Conversation,
) -> Result<()> {
    let file = handle.node.as_file()?;
    let log = if fs.is_ending() {
        LockedLog::wait(&handle.file)?
    } else {
        LockedLog::now(&handle.file)?.ok_or(FsError::Held("another process holds the log"))?
    };
    if log.is_torn()? {
        allow_slow()?;
    }
    let mut life = file.life();
    life.noticed(&stat_file(&handle.file)?, fs.engine.store.clock());
    let end = log.repair(conversation)?;
    let appended = log.append(batch, end);
    life.written(end, &stat_file(&handle.file)?);
    Ok(appended?)
}

/// Returns the attributes of `file`, of which the disk says `stat`, as readers see it: a log has
/// whole lines only.
pub(super) fn shown(engine: &Engine, file: &FileNode, stat: Stat) -> Result<Stat> {
    Ok(messages::shown(engine, file, stat, || Ok(file.reader()?))?)
}

/// Returns the conversation that the log `file` belongs to.
fn conversation_of(engine: &Engine, file: &FileNode) -> Result<Arc<Conversation>> {
    let link = file.link.get().ok_or(FsError::Stale)?;
    Ok(engine.conversation(&link.conversation().ok_or(FsError::Stale)?)?)
}
