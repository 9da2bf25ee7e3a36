//! The facts about a file beside its bytes: the manifest's record, brought up to date.

use std::hash::DefaultHasher;
use std::hash::Hash as _;
use std::hash::Hasher as _;
use std::time::SystemTime;

use crate::engine::Engine;
use crate::engine::Version;
use crate::fs::FsError;
use crate::fs::Result;
use crate::fs::known_facts::FactsBasis;
use crate::fs::life::Life;
use crate::fs::node::file::FileNode;
use crate::model::ArtifactState;
use crate::model::Component;
use crate::model::Record;
use crate::model::RelPath;
use crate::store::Conversation;
use crate::store::ManifestLock;
use crate::store::Stat;
use crate::store::provenance_of;

/// Returns the record of `file`, whose attributes on disk are `stat`. Leaves out what its extended
/// attributes say.
pub(crate) fn record(engine: &Engine, file: &FileNode, stat: &Stat) -> Result<Record> {
    let (id, path) = file.place().ok_or(FsError::Stale)?;
    let conversation = engine.conversation(&id)?;
    record_at(&file.life(), &conversation, &path, stat, None)
}

/// Returns the version of a file whose attributes on disk are `stat`, after so many `changes`.
pub(crate) fn version(
    engine: &Engine,
    file: &FileNode,
    stat: &Stat,
    changes: u64,
) -> Result<Version> {
    Ok(Version {
        changes,
        size: stat.size,
        modified: stat.mtime.as_nanos(),
        changed: stat.ctime.as_nanos(),
        facts: facts_version(engine, file, stat)?,
    })
}

/// Returns a number that changes with every fact beside the bytes that a view shows, and with
/// nothing else. Sealing does not change it.
///
/// The number of a file at rest is cached, so that finding its views again opens and parses
/// nothing.
pub(crate) fn facts_version(engine: &Engine, file: &FileNode, stat: &Stat) -> Result<u64> {
    let place = file.place().ok_or(FsError::Stale)?;
    let conversation = engine.conversation(&place.0)?;
    let recorded = conversation.manifest().position(&place.1)?;
    let basis = FactsBasis { place, recorded, changed: stat.ctime };
    let now = SystemTime::now();
    if let Some(version) = file.facts.known(&basis).filter(|_| file.life().is_at_rest()) {
        return Ok(version);
    }
    let mut record = record_at(&file.life(), &conversation, &basis.place.1, stat, None)?;
    let lasts = record.state != ArtifactState::Live && file.life().is_at_rest();
    // Sealing copies the provenance in the extended attributes to the record.
    let provenance = file.reader().and_then(|file| Ok(provenance_of(&file)?));
    record.provenance.update(&provenance.unwrap_or_default());
    let version = version_of(&basis.place, &record);
    if lasts {
        file.facts.keep(basis, version, now);
    }
    Ok(version)
}

fn version_of(place: &(Component, RelPath), record: &Record) -> u64 {
    let mut hasher = DefaultHasher::new();
    place.hash(&mut hasher);
    record.generation.hash(&mut hasher);
    record.incomplete().hash(&mut hasher);
    serde_json::to_string(&record.provenance).unwrap_or_default().hash(&mut hasher);
    hasher.finish()
}

/// As [`record`], for a caller that has locked the file's `life`, and passes the `manifest` if it
/// has locked that, too.
pub(crate) fn record_at(
    life: &Life,
    conversation: &Conversation,
    path: &RelPath,
    stat: &Stat,
    manifest: Option<&ManifestLock>,
) -> Result<Record> {
    let mut known = conversation.record(path)?;
    let is_live = known.as_ref().is_some_and(|record| record.state == ArtifactState::Live);
    if !life.is_unsealed() && is_live {
        let recovered = match manifest {
            Some(held) => conversation.recover_locked(held, path),
            None => conversation.recover(path),
        };
        known = recovered?.or(known);
    }
    let recorded = known.is_some();
    let record = known.unwrap_or_else(|| Conversation::fresh_record(path, stat));
    Ok(life.bring_up(record, recorded))
}
