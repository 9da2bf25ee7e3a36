//! Appending to the message log of a conversation, for a door without handles.

use std::fs::File;
use std::sync::Arc;

use crate::{Engine, EngineError, Result, UnfinishedMessage, messages};
use ctxfs_core::model::Component;
use ctxfs_store::message::{Batch, LockedLog};
use ctxfs_store::{Conversation, stat_file};

/// A writer of messages. It holds the log's lock only while it appends whole lines.
pub struct MessageWriter {
    engine: Arc<Engine>,
    conversation: Arc<Conversation>,
    log: Arc<File>,
    unfinished: UnfinishedMessage,
}

impl MessageWriter {
    /// Opens the log of the conversation `id`, and creates it if it is missing.
    pub fn open(engine: &Arc<Engine>, id: &Component) -> Result<Self> {
        let conversation = engine.conversation(id)?;
        let log = Arc::new(conversation.writable_log_file()?);
        let unfinished = UnfinishedMessage::default();
        Ok(Self { engine: Arc::clone(engine), conversation, log, unfinished })
    }

    /// Takes bytes that go on where the last ones stopped, and appends the messages that they
    /// complete: all of them, or none.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let Self { engine, conversation, log, unfinished } = self;
        let append = |batch: &Batch| append(engine, log, conversation, batch);
        messages::take(engine, conversation, unfinished, bytes, append)
    }

    /// Ends the last line, and brings the log to the disk. A line that is no message is set aside,
    /// beside the log, and is an error.
    pub fn finish(mut self) -> Result<()> {
        let Self { engine, conversation, log, unfinished } = &mut self;
        let append = |batch: &Batch| append(engine, log, conversation, batch);
        match messages::finish(engine, conversation, unfinished, append) {
            Ok(()) => Ok(log.sync_data()?),
            Err(error) => {
                messages::set_aside(engine, conversation, unfinished)?;
                Err(error)
            }
        }
    }
}

/// Appends messages to the log, once no other process holds it.
fn append(
    engine: &Engine,
    log: &Arc<File>,
    conversation: &Conversation,
    batch: &Batch,
) -> Result<()> {
    let file = log;
    let log = LockedLog::wait(file)?;
    if stat_file(file)?.nlink == 0 {
        // The conversation was removed meanwhile.
        return Err(EngineError::Stale);
    }
    let end = log.repair(conversation)?;
    log.append(batch, end)?;
    engine.changed(conversation.id(), None);
    Ok(())
}

impl std::fmt::Debug for MessageWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MessageWriter")
            .field("conversation", &self.conversation)
            .finish_non_exhaustive()
    }
}
