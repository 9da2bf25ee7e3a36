
use std::collections::HashSet;

use crate::remote::mark::shared_path;
use crate::replica::{Entry, FileKey};
use ctxfs_core::model::{Record, Removal};
use ctxfs_store::{Conversation, StoreError, UnreadPlaces};

///+ Artifacts of a conversation that retention removed.
pub(super) struct Swept {
    ///+ Keys of removed files, whatever their path was at the agreement.
    files: HashSet<FileKey>,
    paths: HashSet<String>,
}

impl Swept {
    ///+ Reads the manifest. Adds unreadable places to `unread`.
    pub(super) fn of(
        conversation: &Conversation,
        unread: &mut UnreadPlaces,
    ) -> Result<Self, StoreError> {
        let mut swept = Self { files: HashSet::new(), paths: HashSet::new() };
        if let Err(error) = swept.read(conversation) {
            conversation.pass_over(error, unread)?;
        }
        Ok(swept)
    }

    pub(super) fn has(&self, entry: &Entry) -> bool {
        self.files.contains(&entry.key) || self.paths.contains(&entry.path)
    }

    fn read(&mut self, conversation: &Conversation) -> Result<(), StoreError> {
        for record in conversation.records()? {
            self.add(record?);
        }
        Ok(())
    }

    fn add(&mut self, record: Record) {
        let is_swept =
            |removal: &Removal| removal.rule != Removal::UNLINK && removal.rule != Removal::RENAME;
        if !record.removed.as_ref().is_some_and(is_swept) || shared_path(&record.path).is_none() {
            return;
        }
        if let Some((inode, born)) = record.file.and_then(|file| Some((file.ino, file.born?))) {
            self.files.insert(FileKey::Here { inode, born });
        }
        self.paths.insert(record.path);
    }
}
