//! Listing: the conversations that a door shows, and the artifacts of one.

use std::collections::BTreeMap;

use crate::engine::Engine;
use crate::engine::Result;
use crate::model::Component;
use crate::model::Counts;
use crate::model::Record;
use crate::model::RelPath;
use crate::model::Sums;
use crate::store::Conversation;
use crate::store::FileType;
use crate::store::Stat;

/// A conversation of a listing.
#[derive(Debug)]
pub struct ListedConversation {
    /// Its id.
    pub id: Component,
    /// The number of its artifacts.
    pub artifacts: usize,
    /// The sum of their sizes, in bytes.
    pub bytes: u64,
    /// The last change of an artifact, in milliseconds since the epoch; without artifacts, that of
    /// the conversation's directory.
    pub modified: i64,
}

/// An artifact of a listing.
#[derive(Debug)]
pub struct ListedArtifact {
    /// Its path in the conversation.
    pub path: RelPath,
    /// The attributes that the disk has.
    pub stat: Stat,
    /// Its record; without one, a record of what the disk and its extended attributes say.
    pub record: Record,
}

/// The counts of conversations, of each and in all.
#[derive(Debug, Default)]
pub struct ConversationCounts {
    /// The sums over all of them.
    pub sums: Sums,
    /// The counts of each.
    pub by_conversation: BTreeMap<Component, Counts>,
}

/// Returns the ids of all conversations that the door shows.
pub(super) fn shown(engine: &Engine) -> Result<Vec<Component>> {
    match &engine.options.only {
        Some(id) => Ok(vec![id.clone()]),
        None => Ok(engine.store.conversations()?),
    }
}

/// Lists the conversations that the door shows, in the order of their ids.
pub(super) fn conversations(engine: &Engine) -> Result<Vec<ListedConversation>> {
    let mut listed = Vec::new();
    for id in shown(engine)? {
        let Some(conversation) = engine.store.conversation(&id)? else { continue };
        let present = present(&conversation)?;
        let newest = present.iter().map(|(_, stat)| stat.mtime.as_millis()).max();
        let modified = match newest {
            Some(newest) => newest,
            None => conversation.dir().stat_self()?.mtime.as_millis(),
        };
        let bytes = present.iter().map(|(_, stat)| stat.size).sum();
        listed.push(ListedConversation { id, artifacts: present.len(), bytes, modified });
    }
    Ok(listed)
}

/// Lists the artifacts of a conversation, in no order.
pub(super) fn artifacts(conversation: &Conversation) -> Result<Vec<ListedArtifact>> {
    let present = present(conversation)?.into_iter();
    let listed = present.map(|(path, stat)| {
        let record = conversation.record_for(&path, &stat)?;
        Ok(ListedArtifact { path, stat, record })
    });
    listed.collect()
}

/// Returns the artifacts of a conversation that are on disk, in no order, with their attributes.
pub(super) fn present(conversation: &Conversation) -> Result<Vec<(RelPath, Stat)>> {
    let paths = conversation.artifacts()?.into_iter();
    let present = paths.filter_map(|path| {
        let stat = conversation.dir().stat_at(&path).ok()?;
        (stat.kind() == FileType::File).then_some((path, stat))
    });
    Ok(present.collect())
}

/// Returns the counts of the conversations `ids`, up to now. Skips those that are gone.
pub(super) fn counts(engine: &Engine, ids: &[Component]) -> Result<ConversationCounts> {
    engine.counting.save(&engine.store);
    let mut counts = ConversationCounts::default();
    for id in ids {
        let Some(conversation) = engine.store.conversation(id)? else { continue };
        let mut own = Sums::default();
        own.add(&conversation.counted()?);
        counts.sums.merge(&own);
        counts.by_conversation.insert(id.clone(), own.total);
    }
    Ok(counts)
}
