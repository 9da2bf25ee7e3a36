//! Conversations that were removed from all hosts.

use std::fs::File;
use std::io;
use std::sync::Arc;

use crate::remote::{Agreement, Home, MessagesAt, Notes, RemoteError, Sync, whole_file};
use ctxfs_core::model::Component;
use ctxfs_store::message::LockedLog;
use ctxfs_store::{Conversation, FileMark, Lease, PUBLISHED, Store, lease_of, stat_file};

impl Home {
    ///+ Returns true if a conversation is not in the store because it was removed here, or was empty
    ///+ at the last look. Another host may have created it again since. Creates nothing.
    pub fn is_gone(&self, store: &Store, id: &Component) -> Result<bool, RemoteError> {
        if store.context().stat(id.as_os_str()).is_ok() {
            return Ok(false);
        }
        let Some(notes) = self.known_conversation(id)? else { return Ok(false) };
        Ok(notes.is_over()? || self.is_removed(store, id)?)
    }
}

impl Sync<'_> {
    ///+ Removes a conversation that another host removed and that is empty, unless it has local
    ///+ content.
    pub(super) fn end_here(
        &self,
        conversation: &Conversation,
        notes: &Notes,
    ) -> Result<(), RemoteError> {
        let before = notes.agreement()?;
        let log = match conversation.log_file()? {
            // A program has the log open for writing.
            Some(log) if lease_of(&log) == Lease::Held => return Ok(()),
            Some(_) => Some(Arc::new(conversation.writable_log_file()?)),
            None => None,
        };
        let failed = |error: io::Error| conversation.log_error("lock", error);
        let _locked = log.as_ref().map(LockedLog::wait).transpose().map_err(failed)?;
        let has_own = |log: Arc<File>| {
            let mark = FileMark::of(&stat_file(&log)?);
            Ok(mark.size != before.messages.bytes_in(&mark) || !before.unshared.is_empty())
        };
        if log.clone().map(has_own).transpose().map_err(failed)?.unwrap_or_default() {
            return Ok(());
        }
        if self.store.remove_ended(conversation)? {
            self.forget_log(notes, &before)?;
        }
        Ok(())
    }

    ///+ Forgets the messages of a removed conversation: a new one of the same name has a log of its
    ///+ own.
    pub(super) fn forget_log(&self, notes: &Notes, before: &Agreement) -> Result<(), RemoteError> {
        notes.save(before, &before.without_log(MessagesAt::default()))?;
        notes.forget_shown()?;
        let id = notes.conversation();
        let removed = whole_file::remove(&self.home.messages(id)?, PUBLISHED);
        removed.map_err(RemoteError::at("forget the messages of", id.as_os_str().as_ref()))
    }
}
