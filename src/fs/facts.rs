//! What is known of a file beside its bytes: the manifest's record, brought up to this moment.

use std::hash::DefaultHasher;
use std::hash::Hash as _;
use std::hash::Hasher as _;
use std::sync::Arc;

use crate::fs::FsError;
use crate::fs::Result;
use crate::fs::Shared;
use crate::fs::file::Writing;
use crate::fs::node::Node;
use crate::model::Component;
use crate::model::Record;
use crate::model::RelPath;
use crate::model::State;
use crate::store::Conversation;
use crate::store::Stat;
use crate::store::said_of;

impl Shared {
    /// The conversation of `id`; gone where somebody removed it meanwhile.
    pub(crate) fn conversation(&self, id: &Component) -> Result<Arc<Conversation>> {
        let conversation = self.store.conversation(id)?.ok_or(FsError::NotFound)?;
        let held = self.conversations.get(id);
        if !held.is_some_and(|held| Arc::ptr_eq(&held, &conversation)) {
            self.conversations.insert(id.clone(), Arc::clone(&conversation));
        }
        Ok(conversation)
    }

    /// What is known of `node`, whose disk says `stat`. Attributes of the file are not in it.
    pub(crate) fn record(&self, node: &Node, stat: &Stat) -> Result<Record> {
        let (id, path) = node.place().ok_or(FsError::Stale)?;
        let conversation = self.conversation(&id)?;
        let writing = node.as_file()?.writing();
        record_at(&writing, &conversation, &path, stat)
    }

    /// A number that changes with anything beside the bytes that a view shows, and with nothing
    /// else; sealing leaves it as it is.
    pub(crate) fn facts_version(&self, node: &Node, stat: &Stat) -> Result<u64> {
        let mut record = self.record(node, stat)?;
        // Sealing brings what the attributes say into the record.
        let said = node.as_file()?.reader().and_then(|file| Ok(said_of(&file)?));
        record.said.update(&said.unwrap_or_default());
        let mut hasher = DefaultHasher::new();
        node.place().hash(&mut hasher);
        record.generation.hash(&mut hasher);
        record.incomplete().hash(&mut hasher);
        serde_json::to_string(&record.said).unwrap_or_default().hash(&mut hasher);
        Ok(hasher.finish())
    }
}

/// As [`Shared::record`], while the file's writers are held.
pub(crate) fn record_at(
    writing: &Writing,
    conversation: &Conversation,
    path: &RelPath,
    stat: &Stat,
) -> Result<Record> {
    let mut known = conversation.record(path)?;
    if !writing.unsealed && known.as_ref().is_some_and(|record| record.state == State::Live) {
        known = conversation.recover(path)?.or(known);
    }
    let recorded = known.as_ref().map(|known| (known.generation, known.state == State::Live));
    let mut record = known.unwrap_or_else(|| Conversation::fresh_record(path, stat));
    if writing.unsealed {
        record.generation = writing.generation(recorded);
        record.state = State::Live;
    }
    if let Some(why) = &writing.trouble {
        record.state = State::Incomplete(why.clone());
    }
    Ok(record)
}
