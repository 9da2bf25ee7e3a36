//! The facts about a file beside its bytes, from the manifest and the disk.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use crate::{Result, Version};
use ctxfs_core::model::{ArtifactState, Component, Record, RelPath};
use ctxfs_store::{Conversation, ManifestLock, Stat};

/// The record of a file, and its origin.
#[derive(Debug)]
pub struct KnownRecord {
    /// The record.
    pub record: Record,
    /// True if the manifest has it; else it is made of what the disk says.
    pub recorded: bool,
}

impl KnownRecord {
    /// Returns the record of the file at `path`, of which the disk says `stat`.
    ///
    /// If the record says live and this process is not the writer (`is_written`), an artifact whose
    /// writer died is recovered first. A caller that has locked the `manifest` passes that.
    pub fn of(
        conversation: &Conversation,
        path: &RelPath,
        stat: &Stat,
        is_written: bool,
        manifest: Option<&ManifestLock>,
    ) -> Result<Self> {
        let mut known = conversation.record(path)?;
        let is_live = known.as_ref().is_some_and(|record| record.state == ArtifactState::Live);
        if !is_written && is_live {
            let recovered = match manifest {
                Some(held) => conversation.recover_locked(held, path),
                None => conversation.recover(path),
            };
            known = recovered?.or(known);
        }
        let recorded = known.is_some();
        let record = known.unwrap_or_else(|| Conversation::fresh_record(path, stat));
        Ok(Self { record, recorded })
    }
}

/// Returns a number that changes with the place of a file, with anything in its `record` that a
/// view shows, and with the other outputs of its name, and with nothing else.
pub fn facts_number(place: &(Component, RelPath), record: &Record, same_name: &[String]) -> u64 {
    let mut hasher = DefaultHasher::new();
    place.hash(&mut hasher);
    record.generation.hash(&mut hasher);
    record.incomplete().hash(&mut hasher);
    serde_json::to_string(&record.provenance).unwrap_or_default().hash(&mut hasher);
    // The number of most outputs stands in their records.
    if !same_name.is_empty() {
        same_name.hash(&mut hasher);
    }
    hasher.finish()
}

impl Version {
    /// Returns the version of a file of which the disk says `stat`, after so many `changes`, with
    /// the numbers of its facts and, where its times do not tell them, of its bytes.
    pub fn of_file(stat: &Stat, changes: u64, (facts, bytes): (u64, u64)) -> Self {
        Self {
            changes,
            size: stat.size,
            modified: stat.mtime.as_nanos(),
            changed: stat.ctime.as_nanos(),
            facts,
            bytes,
        }
    }
}
