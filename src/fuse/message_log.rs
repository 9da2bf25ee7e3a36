//! The message log of a conversation: a file that accepts only messages and shows only whole lines.

use std::sync::Arc;

use crate::attr::STAT_BLOCK;
use crate::file_node::source;
use crate::handle::PendingLine;
use crate::node::SharedLogKey;
use crate::{FileHandle, FsError, Node, NodeKey, NodeLink, OpenMode, Result, Shared};
use ctxfs_core::model::Content as _;
use ctxfs_engine::sync::MutexGuard;
use ctxfs_engine::sync::atomic::Ordering::Relaxed;
use ctxfs_engine::{Engine, FileId};
use ctxfs_store::message::{Log, Published};
use ctxfs_store::{Artifact, Stat, message, stat_file};

/// Processes bytes written to the log. Appends whole lines as messages, and keeps the rest until
/// its newline arrives. Fails with ESTALE if the file is no longer the log, because the messages
/// would be lost.
pub(super) fn write(
    fs: &Shared,
    handle: &FileHandle,
    offset: u64,
    bytes: &[u8],
    mode: OpenMode,
    owner: Option<u64>,
) -> Result<()> {
    check_is_log(handle)?;
    let mut pending = pending_line(fs, handle)?;
    let shown = log(fs, handle)?.len();
    if !mode.appends() && offset != shown && pending.next != Some(offset) {
        return Err(FsError::AppendOnly);
    }
    let file = handle.node.as_file()?;
    let unfinished = &mut pending.unfinished;
    source(file).write_messages(&fs.engine, &handle.file, unfinished, bytes)?;
    pending.next = Some(offset + bytes.len() as u64);
    pending.owner = owner;
    Ok(())
}

/// Ends the last line when the process that wrote it closes the file. A process that merely
/// inherited the open file does not end the line when it closes the file.
pub(super) fn flush(fs: &Shared, handle: &FileHandle, owner: Option<u64>) -> Result<()> {
    let written = pending_line(fs, handle)?.owner;
    let is_another = written.zip(owner).is_some_and(|(written, closed)| written != closed);
    if is_another { Ok(()) } else { end(fs, handle, false) }
}

/// Ends the unfinished line. If the writer `is_gone` and the line is not a message, the line is
/// stored beside the log.
pub(super) fn end(fs: &Shared, handle: &FileHandle, is_gone: bool) -> Result<()> {
    let mut pending = pending_line(fs, handle)?;
    if !pending.unfinished.line.is_empty() {
        check_is_log(handle)?;
    }
    let log = source(handle.node.as_file()?);
    Ok(log.end_message(&fs.engine, &handle.file, &mut pending.unfinished, is_gone)?)
}

fn check_is_log(handle: &FileHandle) -> Result<()> {
    if handle.node.is_message_log() { Ok(()) } else { Err(FsError::Stale) }
}

/// Locks the unfinished line. Fails with EAGAIN while another request holds it, because that
/// request may be waiting for the disk.
fn pending_line<'a>(fs: &Shared, handle: &'a FileHandle) -> Result<MutexGuard<'a, PendingLine>> {
    if fs.ending.load(Relaxed) {
        return Ok(handle.line.lock());
    }
    handle.line.try_lock().ok_or(FsError::TryAgain("the line is being written"))
}

/// Returns the attributes of a file as readers see them. `stat` has the attributes on disk. A log
/// shows only whole lines, after the messages of other hosts. Also returns the messages of other
/// hosts.
pub(super) fn shown_with(
    engine: &Engine,
    node: &Node,
    stat: Stat,
) -> Result<(Stat, Option<Arc<Published>>)> {
    let file = node.as_file()?;
    if stat.is_far() && file.remote_stat() == Some(stat) {
        // Show a name and blocks for a remote artifact, although it has neither on the local disk.
        // `tar` and other programs assume holes in a file with fewer blocks than its size needs.
        return Ok((Stat { nlink: 1, blocks: stat.size.div_ceil(STAT_BLOCK), ..stat }, None));
    }
    if !file.is_message_log() {
        return Ok((stat, None));
    }
    let own = source(file).shown(engine, stat)?;
    let published = published(engine, node, &own)?;
    let Some(others) = &published else { return Ok((own, None)) };
    let size = others.shown_length(own.size);
    let blocks = own.blocks.max(size.div_ceil(STAT_BLOCK));
    Ok((Stat { size, blocks, ..own }, published))
}

/// Returns the messages of other hosts that come first in the log `node`. `own` has the log's
/// attributes on disk. A late message that belongs before older ones begins a new edition. If the
/// current messages are no longer of this node's edition, returns the last ones of that edition.
/// Returns `None` if the log has no messages of other hosts.
fn published(engine: &Engine, node: &Node, own: &Stat) -> Result<Option<Arc<Published>>> {
    let NodeKey::SharedLog(key) = &node.key else { return Ok(None) };
    if !node.is_message_log() {
        return Ok(None);
    }
    let conversation = node.conversation().ok_or(FsError::Stale)?;
    let others = engine.options().other_messages.as_ref();
    let now = others.map(|others| others.published(&conversation, own)).transpose()?;
    Ok(Some(key.follow(now.flatten())))
}

pub(super) fn log(fs: &Shared, handle: &FileHandle) -> Result<Log> {
    let stat = stat_file(&handle.file)?;
    let end = message::whole(&handle.file, stat.size)?;
    let published = published(&fs.engine, &handle.node, &stat)?;
    Ok(Log::new(Artifact::new(Arc::clone(&handle.file), end), published))
}

pub(super) fn key(engine: &Engine, link: &NodeLink, stat: &Stat) -> Result<NodeKey> {
    let id = FileId::of(stat);
    let Some(others) = &engine.options().other_messages else { return Ok(NodeKey::Disk(id)) };
    if !link.parent.as_dir()?.has_log(&link.name) {
        return Ok(NodeKey::Disk(id));
    }
    let conversation = link.conversation().ok_or(FsError::Stale)?;
    let published = others.published(&conversation, stat)?;
    let shared = |published| NodeKey::SharedLog(Arc::new(SharedLogKey::new(id, published)));
    Ok(published.map_or(NodeKey::Disk(id), shared))
}
