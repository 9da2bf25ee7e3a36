//! Listings: the conversations that a door shows and the facts about them, the artifacts of a
//! conversation, and the counts.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::{Engine, Result, answers};
use ctxfs_core::model::{Component, Counts, Record, RelPath, Sums};
use ctxfs_store::{About, Conversation, Stat, StoreError, StoredArtifacts, UnreadPlaces, about};

/// A listing, and the entries that are missing from it.
#[derive(Debug)]
pub struct Listing<T> {
    pub rows: Vec<T>,
    /// The places that could not be read. Paths are relative to the directory of all conversations,
    /// or to the listed conversation.
    pub unread: UnreadPlaces,
}

/// A conversation in a listing.
///
/// - `about`: whose session it is
/// - `bytes`: the sum of the sizes of the artifacts, in bytes
/// - `modified`: the last change of an artifact, in milliseconds since the epoch. Without
///   artifacts, the last change of the conversation's directory.
/// - `last`: the record of the artifact that changed last
#[derive(Debug)]
pub struct ListedConversation {
    pub id: Component,
    pub about: About,
    pub artifacts: usize,
    pub bytes: u64,
    pub modified: i64,
    pub last: Option<Record>,
}

#[derive(Debug)]
pub struct ListedArtifact {
    pub path: RelPath,
    pub stat: Stat,
    /// The record. If the manifest has no record or the record cannot be read, it is derived from
    /// the file on disk.
    pub record: Record,
}

/// The counts of conversations, in total and by conversation.
///
/// - `sums`: the sums over all conversations
/// - `unread`: the conversations that could not be read, and are therefore not counted
#[derive(Debug, Default)]
pub struct ConversationCounts {
    pub sums: Sums,
    pub by_conversation: BTreeMap<Component, Counts>,
    pub unread: UnreadPlaces,
}

impl Engine {
    pub fn list_conversations(&self) -> Result<Listing<ListedConversation>> {
        let (mut rows, mut unread) = (Vec::new(), UnreadPlaces::default());
        for id in shown(self)? {
            let Some(conversation) = open(self, &id, &mut unread)? else { continue };
            let found = conversation.all_artifacts()?;
            unread.extend(found.unread.below(&id.to_text()));
            let newest = found.files.iter().max_by_key(|(_, stat)| stat.mtime);
            let modified = match newest {
                Some((_, stat)) => stat.mtime.as_millis(),
                None => conversation.dir().stat_self()?.mtime.as_millis(),
            };
            let last = newest.and_then(|(path, stat)| conversation.record_for(path, stat).ok());
            let last = last.map(|mut record| {
                self.secrets.mask_provenance(&mut record.provenance);
                record
            });
            let bytes = found.files.iter().map(|(_, stat)| stat.size).sum();
            let (about, artifacts) = (about_of(self, &conversation), found.files.len());
            rows.push(ListedConversation { id, about, artifacts, bytes, modified, last });
        }
        Ok(Listing { rows, unread })
    }

    /// Calls `row` with each artifact of the conversation `id`, and lists the results in no
    /// particular order. Holds one record at a time. First fetches the outputs that other hosts
    /// have published.
    pub fn list_artifacts<T>(
        &self,
        id: &Component,
        row: impl Fn(&ListedArtifact) -> T,
    ) -> Result<Listing<T>> {
        self.others().ask_for_outputs(id)?;
        self.list_known_artifacts(id, row)
    }

    /// Like [`Self::list_artifacts`], but without a request to other hosts, for a caller that lists
    /// many conversations.
    pub fn list_known_artifacts<T>(
        &self,
        id: &Component,
        row: impl Fn(&ListedArtifact) -> T,
    ) -> Result<Listing<T>> {
        let conversation = self.conversation(id)?;
        let StoredArtifacts { files, mut unread } = conversation.all_artifacts()?;
        let listed = files.into_iter().map(|(path, stat)| {
            let mut record = match conversation.record_for(&path, &stat) {
                Ok(record) => record,
                Err(error) => {
                    unread.pass_over(conversation.path(), error)?;
                    Conversation::fresh_record(&path, &stat)
                }
            };
            self.secrets.mask_provenance(&mut record.provenance);
            Ok(row(&ListedArtifact { path, stat, record }))
        });
        let rows = listed.collect::<Result<_>>()?;
        Ok(Listing { rows, unread })
    }

    /// Returns the records that are kept for removed and renamed artifacts of the conversation
    /// `id`, oldest removal first.
    pub fn list_traces(&self, id: &Component) -> Result<Vec<Record>> {
        let traces = self.conversation(id)?.manifest().traces()?;
        let mut traces: Vec<Record> = traces.collect::<std::result::Result<_, _>>()?;
        for record in &mut traces {
            self.secrets.mask_provenance(&mut record.provenance);
        }
        Ok(traces)
    }

    /// Returns the current counts of the conversation `only`, or, if it is `None`, of all
    /// conversations that this door shows. Skips conversations that do not exist.
    pub fn counts(&self, only: Option<&Component>) -> Result<ConversationCounts> {
        let ids = only.map_or_else(|| shown(self), |id| Ok(vec![id.clone()]))?;
        self.counting.save();
        let mut counts = ConversationCounts::default();
        for id in ids {
            let Some(conversation) = open(self, &id, &mut counts.unread)? else { continue };
            let mut own = Sums::default();
            let counted = conversation.counted();
            match counted.and_then(|all| Ok([all, answers::log::sums(&conversation)?].concat())) {
                Ok(mut counted) => {
                    for counts in &mut counted {
                        counts.tool = self.secrets.mask_text(std::mem::take(&mut counts.tool));
                    }
                    own.add(&counted);
                }
                Err(error) => self.store.pass_over(error, &mut counts.unread)?,
            }
            counts.sums.merge(&own);
            counts.by_conversation.insert(id, own.total);
        }
        Ok(counts)
    }
}

/// Returns the facts about a conversation as a whole, with secrets masked.
pub fn about_of(engine: &Engine, conversation: &Conversation) -> About {
    masked(about::of(conversation), |text| engine.secrets.mask_text(text))
}

/// Adds the facts that are not known yet of a conversation as a whole. If stored files are masked,
/// secrets in them are masked.
pub fn add_about(
    engine: &Engine,
    conversation: &Conversation,
    newer: About,
) -> std::result::Result<(), StoreError> {
    let stored = engine.secrets.stored();
    let mask = |text: String| stored.map_or(text.clone(), |found| found.rules.mask_text(&text));
    about::add(conversation, masked(newer, mask))
}

fn masked(about: About, mask: impl Fn(String) -> String) -> About {
    let About { directory, host, prompt } = about;
    About { directory: directory.map(&mask), host: host.map(&mask), prompt: prompt.map(&mask) }
}

fn shown(engine: &Engine) -> Result<Vec<Component>> {
    match &engine.options.only {
        Some(id) => Ok(vec![id.clone()]),
        None => Ok(engine.store.conversations()?),
    }
}

/// Returns the conversation `id`. If it cannot be read, adds it to `unread` and returns `None`.
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
