//! The message log of a conversation: a file that takes messages only, and shows whole lines only.

mod keeper;

use std::ffi::OsStr;
use std::fs::File;
use std::sync::Arc;
use std::sync::PoisonError;

use rustix::fs::OFlags;

use crate::fs::FsError;
use crate::fs::OpenMode;
use crate::fs::Result;
use crate::fs::Shared;
use crate::fs::body::Body;
use crate::fs::body::Spool;
use crate::fs::handle::FileHandle;
use crate::fs::messages::keeper::Keeper;
use crate::fs::node::Linked;
use crate::fs::node::Node;
use crate::fs::sync::Mutex;
use crate::fs::sync::MutexGuard;
use crate::message;
use crate::message::AppendContext;
use crate::message::Batch;
use crate::message::LockedLog;
use crate::message::UnfinishedLine;
use crate::store::Artifact;
use crate::store::Conversation;
use crate::store::HISTORY;
use crate::store::Lease;
use crate::store::MESSAGES;
use crate::store::Stat;
use crate::store::lease_of;
use crate::store::stat_file;
use crate::view::Rendered;

/// What has been written through one handle and is not in the log.
#[derive(Debug, Default)]
pub(crate) struct Writer(Mutex<Written>);

#[derive(Debug, Default)]
struct Written {
    unfinished: UnfinishedLine,
    /// Where the handle's next byte would be in a file that keeps what it is given.
    next: Option<u64>,
    /// The table of open files by which it was written last.
    owner: Option<u64>,
}

impl Writer {
    fn lock(&self) -> MutexGuard<'_, Written> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nothing of it is unfinished.
    pub(crate) fn is_done(&self) -> bool {
        self.lock().unfinished.is_empty()
    }
}

/// Whether `name` in the directory `parent` is that of a log.
pub(crate) fn is_message_log(parent: &Node, name: &OsStr) -> bool {
    name == MESSAGES && is_history(parent)
}

/// Whether it is the directory of a conversation's messages.
pub(crate) fn is_history(dir: &Node) -> bool {
    let link = dir.link().and_then(Linked::get);
    dir.as_dir().is_ok()
        && link.is_some_and(|link| link.name == HISTORY && link.parent.is_conversation())
}

impl Node {
    /// Whether it is the message log of a conversation.
    pub(crate) fn is_message_log(&self) -> bool {
        let Some(linked) = self.link().filter(|_| self.as_file().is_ok()) else { return false };
        let parent = {
            let link = linked.lock();
            link.as_ref().filter(|link| link.name == MESSAGES).map(|link| Arc::clone(&link.parent))
        };
        parent.is_some_and(|parent| is_history(&parent))
    }
}

impl Shared {
    /// Takes bytes that were written to the log: whole lines are messages and are appended, what
    /// follows them waits for its end.
    pub(crate) fn write_log(
        &self,
        handle: &FileHandle,
        offset: u64,
        bytes: &[u8],
        mode: OpenMode,
        owner: Option<u64>,
    ) -> Result<()> {
        let mut written = handle.log.lock();
        let shown = message::whole(&handle.file, stat_file(&handle.file)?.size)?;
        let appends = mode.flags & libc::O_APPEND != 0;
        if !appends && offset != shown && written.next != Some(offset) {
            return Err(FsError::AppendOnly);
        }
        let conversation = self.log_of(&handle.node)?;
        self.room_on_disk(bytes.len() as u64)?;
        let host = Keeper { shared: self, conversation: &conversation };
        let desk = AppendContext { conversation: &conversation, host: &host };
        let append = |batch: &Batch| Self::append_to_log(handle, batch, &conversation);
        Batch::take(&mut written.unfinished, bytes, &desk, append)?;
        written.next = Some(offset + bytes.len() as u64);
        written.owner = owner;
        Ok(())
    }

    /// Ends the last line, when the process closes the file that has written it. A process that has
    /// got the open file from another one, and closes it, says nothing about that one's line.
    pub(crate) fn flush_log(&self, handle: &FileHandle, owner: Option<u64>) -> Result<()> {
        let written = handle.log.lock().owner;
        let is_another = written.zip(owner).is_some_and(|(written, closed)| written != closed);
        if is_another { Ok(()) } else { self.finish_log(handle) }
    }

    /// Appends a last line that lacks nothing but its newline; EINVAL where it is no message.
    fn finish_log(&self, handle: &FileHandle) -> Result<()> {
        let mut written = handle.log.lock();
        if written.unfinished.is_empty() {
            return Ok(());
        }
        let conversation = self.log_of(&handle.node)?;
        let host = Keeper { shared: self, conversation: &conversation };
        let desk = AppendContext { conversation: &conversation, host: &host };
        let append = |batch: &Batch| Self::append_to_log(handle, batch, &conversation);
        Batch::finish(&mut written.unfinished, &desk, append)
    }

    /// The handle is gone: what cannot be a message is kept beside the log.
    pub(crate) fn leave_log(&self, handle: &FileHandle) -> Result<()> {
        if handle.log.is_done() || self.finish_log(handle).is_ok() {
            return Ok(());
        }
        let conversation = self.log_of(&handle.node)?;
        let line = handle.log.lock().unfinished.take()?;
        tracing::warn!(conversation = %conversation.id(), "an unfinished message is set aside");
        Ok(message::set_aside(&line, &conversation)?)
    }

    /// Whoever holds the log may be another process: nothing here is locked while it is waited for.
    fn append_to_log(
        handle: &FileHandle,
        batch: &Batch,
        conversation: &Conversation,
    ) -> Result<()> {
        let file = handle.node.as_file()?;
        let log = LockedLog::wait(&handle.file)?;
        let mut writing = file.writing();
        writing.meet(&stat_file(&handle.file)?);
        let end = log.repair(conversation)?;
        let appended = log.append(batch, end);
        writing.wrote(end, &stat_file(&handle.file)?);
        Ok(appended?)
    }

    /// As a reader sees the file `node`, of which the disk says `stat`: a log has whole lines only.
    /// What a crash cut off is set aside, once nobody writes any more.
    pub(crate) fn shown(&self, node: &Node, stat: Stat) -> Result<Stat> {
        if stat.size == 0 || !node.is_message_log() {
            return Ok(stat);
        }
        let file = node.as_file()?.reader()?;
        let size = message::whole(&file, stat.size)?;
        if size < stat.size && self.repair_log(node, &file)? {
            return Ok(stat_file(&file)?);
        }
        Ok(Stat { size, ..stat })
    }

    /// Whether the log was torn, and is no longer.
    fn repair_log(&self, node: &Node, reader: &File) -> Result<bool> {
        // Only a descriptor of its own can ask, and only before there is one that can write.
        let probe = node.as_file()?.open(OFlags::RDONLY)?;
        if lease_of(&probe) != Lease::Free {
            return Ok(false);
        }
        let open = Arc::new(node.as_file()?.open(OFlags::RDWR)?);
        let Some(log) = LockedLog::now(&open)? else { return Ok(false) };
        let conversation = self.log_of(node)?;
        log.repair(&conversation)?;
        tracing::warn!(conversation = %conversation.id(), "the message log was torn, and is mended");
        let mut writing = node.as_file()?.writing();
        writing.rewritten();
        writing.leave(&stat_file(reader)?);
        Ok(true)
    }

    /// The messages of the conversation's log as one JSON array; of its first `size` bytes, if it
    /// is still the file of the number `disk`.
    pub(crate) fn render_messages(&self, history: &Node, size: u64, disk: u64) -> Result<Body> {
        let file = Arc::new(history.as_dir()?.dir.open_file(MESSAGES.as_ref(), OFlags::RDONLY)?);
        let stat = stat_file(&file)?;
        if stat.ino != disk || stat.size < size {
            return Err(FsError::Stale);
        }
        let room = |length| self.room_for_result(length);
        let spool = Spool::new(&self.cache, &room);
        let log = Artifact::new(file, size);
        message::array(log, &mut &spool)?;
        Ok(spool.finish(Rendered { notice: None, whole: true }, None)?)
    }

    /// The conversation whose log `node` is.
    fn log_of(&self, node: &Node) -> Result<Arc<Conversation>> {
        self.conversation(&node.conversation().ok_or(FsError::Stale)?)
    }
}
