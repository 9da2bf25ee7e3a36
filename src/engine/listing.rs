//! Listing: the conversations that a door shows, and the artifacts of one.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::{Engine, Result, answers};
use ctxfs_core::model::{Component, Counts, Record, RelPath, Sums};
use ctxfs_store::{Conversation, Stat, StoredArtifacts, UnreadPlaces};
use ctxfs_view::ClosedToReader;

/// A listing, and what it is without.
#[derive(Debug)]
pub struct Listing<T> {
    /// The rows.
    pub rows: Vec<T>,
    /// The artifacts that the reader may not read.
    pub closed: ClosedToReader,
    /// The places that could not be read: below the directory of all conversations, or in the
    /// conversation.
    pub unread: UnreadPlaces,
}

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
    /// The conversations that could not be read, which count for nothing.
    pub unread: UnreadPlaces,
}

/// Returns the ids of all conversations that the door shows.
pub(super) fn shown(engine: &Engine) -> Result<Vec<Component>> {
    match &engine.options.only {
        Some(id) => Ok(vec![id.clone()]),
        None => Ok(engine.store.conversations()?),
    }
}

/// Lists the conversations that the door shows, in the order of their ids.
pub(super) fn conversations(engine: &Engine) -> Result<Listing<ListedConversation>> {
    let (mut rows, mut unread) = (Vec::new(), UnreadPlaces::default());
    for id in shown(engine)? {
        let Some(conversation) = open(engine, &id, &mut unread)? else { continue };
        let found = conversation.all_artifacts()?;
        unread.extend(found.unread.below(&id.to_text()));
        let newest = found.files.iter().map(|(_, stat)| stat.mtime.as_millis()).max();
        let modified = match newest {
            Some(newest) => newest,
            None => conversation.dir().stat_self()?.mtime.as_millis(),
        };
        let bytes = found.files.iter().map(|(_, stat)| stat.size).sum();
        rows.push(ListedConversation { id, artifacts: found.files.len(), bytes, modified });
    }
    Ok(Listing { rows, closed: ClosedToReader::default(), unread })
}

/// Returns the conversation `id`, or `None` if it is gone or cannot be read, which is added to
/// `unread`.
fn open(
    engine: &Engine,
    id: &Component,
    unread: &mut UnreadPlaces,
) -> Result<Option<Arc<Conversation>>> {
    match engine.store.conversation(id) {
        Ok(found) => Ok(found),
        Err(error) => Ok(engine.store.pass_over(error, unread).map(|()| None)?),
    }
}

/// Lists what `row` makes of each artifact of a conversation, in no order. What is recorded of one
/// whose record cannot be read is what the disk has.
pub(super) fn artifacts<T>(
    engine: &Engine,
    conversation: &Conversation,
    row: impl Fn(&ListedArtifact) -> T,
) -> Result<Listing<T>> {
    let StoredArtifacts { files, mut unread } = conversation.all_artifacts()?;
    let listed = files.into_iter().map(|(path, stat)| {
        let mut record = match conversation.record_for(&path, &stat) {
            Ok(record) => record,
            Err(error) => {
                conversation.pass_over(error, &mut unread)?;
                Conversation::fresh_record(&path, &stat)
            }
        };
        engine.secrets.mask_provenance(&mut record.provenance);
        Ok(row(&ListedArtifact { path, stat, record }))
    });
    let rows = listed.collect::<Result<_>>()?;
    Ok(Listing { rows, closed: ClosedToReader::default(), unread })
}

/// Returns the counts of the conversations `ids`, up to now. Skips those that are gone.
pub(super) fn counts(engine: &Engine, ids: &[Component]) -> Result<ConversationCounts> {
    engine.counting.save(engine);
    let mut counts = ConversationCounts::default();
    for id in ids {
        let Some(conversation) = open(engine, id, &mut counts.unread)? else { continue };
        let mut own = Sums::default();
        let counted = conversation.counted();
        match counted.and_then(|all| Ok([all, answers::counted(&conversation)?].concat())) {
            Ok(mut counted) => {
                for counts in &mut counted {
                    counts.tool = engine.secrets.mask_text(std::mem::take(&mut counts.tool));
                }
                own.add(&counted);
            }
            Err(error) => engine.store.pass_over(error, &mut counts.unread)?,
        }
        counts.sums.merge(&own);
        counts.by_conversation.insert(id.clone(), own.total);
    }
    Ok(counts)
}
