//! Removing: conversations, and the records of artifacts whose file a person removed.

use crate::engine::Engine;
use crate::engine::Result;
use crate::model::Component;
use crate::model::RelPath;
use crate::store::Conversation;
use crate::store::ManifestLock;

impl Engine {
    /// Removes a conversation in which nothing is left but the store's own files; ENOTEMPTY
    /// otherwise.
    pub(crate) fn remove_conversation(&self, id: &Component) -> Result<()> {
        self.conversations.remove(id);
        self.counting.forget(id);
        Ok(self.store.remove_conversation(id)?)
    }

    /// Forgets the artifact at `path`, whose file of `bytes` bytes was removed, for a caller that
    /// holds the manifest.
    pub(crate) fn forget_artifact(
        &self,
        conversation: &Conversation,
        manifest: &ManifestLock,
        path: &RelPath,
        bytes: u64,
    ) -> Result<()> {
        self.space.freed(conversation.id());
        let record = conversation.forget_locked(manifest, path)?;
        self.counting.deleted(conversation.id(), bytes, record);
        Ok(())
    }
}
