//! The facts about a file beside its bytes: the manifest's record, brought up to date.

use std::fs::File;
use std::sync::Arc;

use crate::known_facts::FactsBasis;
use crate::life::Life;
use crate::node::file::FileNode;
use crate::{FsError, Result};
use ctxfs_core::model::{ArtifactState, Component, Record, RelPath};
use ctxfs_engine::{Engine, KnownRecord, Version, facts_number, same_name, unsettled, view_sizes};
use ctxfs_store::{Conversation, ManifestLock, Stat, provenance_of};

/// Returns the record of `file`, whose attributes on disk are `stat`. Leaves out what its extended
/// attributes say.
pub(crate) fn record(engine: &Engine, file: &FileNode, stat: &Stat) -> Result<Record> {
    let (id, path) = file.place().ok_or(FsError::Stale)?;
    let conversation = engine.conversation(&id)?;
    record_at(&file.life(), &conversation, &path, stat, None)
}

/// Returns the version of a file whose attributes on disk are `stat`, after so many `changes`.
/// Calls `open` if only its bytes can tell.
pub(crate) fn version(
    engine: &Engine,
    file: &FileNode,
    stat: &Stat,
    changes: u64,
    open: impl FnOnce() -> Result<Arc<File>>,
) -> Result<Version> {
    let facts = facts_version(engine, file, stat)?;
    let stat = &original(engine, file, stat)?;
    let bytes = unsettled::number(engine, stat, || Ok(open()?))?;
    Ok(Version::of_file(stat, changes, (facts, bytes)))
}

/// Returns the attributes of the file that `file` was when it was sealed, if the disk has a copy
/// under its name now, of which it says `stat`; else `stat`.
pub(crate) fn original(engine: &Engine, file: &FileNode, stat: &Stat) -> Result<Stat> {
    if !stat.may_be_copy() || !file.life().is_at_rest() {
        return Ok(*stat);
    }
    let (id, path) = file.place().ok_or(FsError::Stale)?;
    original_at(engine, (&id, &path), stat)
}

/// As [`original`], for the file at `path` of a conversation.
pub(crate) fn original_at(
    engine: &Engine,
    (id, path): (&Component, &RelPath),
    stat: &Stat,
) -> Result<Stat> {
    let record = engine.conversation(id)?.record(path)?;
    Ok(record.map_or(*stat, |record| stat.original(&record)))
}

/// Returns the version at which `file` is now: between two writes.
pub(crate) fn present_version(engine: &Engine, file: &FileNode) -> Result<(Version, Stat)> {
    let (changes, stat) = {
        let link = file.link.get().ok_or(FsError::NotFound)?;
        let dir = link.dir()?;
        let life = file.life();
        let stat = match dir.stat(&link.name) {
            Ok(stat) => stat,
            Err(error) => stat_elsewhere(engine, file)?.map_or_else(
                // It may have come meanwhile.
                || dir.stat(&link.name).map_err(|_| error),
                Ok,
            )?,
        };
        (life.changes(), stat)
    };
    Ok((version(engine, file, &stat, changes, || file.reader())?, stat))
}

/// Returns the attributes of `file`, which has no file under its name, if its bytes are elsewhere.
/// [`FsError::Stale`] if they are those of another artifact: the kernel then looks the name up
/// again.
fn stat_elsewhere(engine: &Engine, file: &FileNode) -> Result<Option<Stat>> {
    if let Some(far) = file.far_stat() {
        return Ok(Some(far));
    }
    let (id, path) = file.place().ok_or(FsError::Stale)?;
    let Some(far) = engine.conversation(&id)?.far(&path)? else { return Ok(None) };
    if !file.was(&far.stat) {
        return Err(FsError::Stale);
    }
    file.found_as(&far.stat);
    Ok(Some(far.stat))
}

/// Returns a number that changes with every fact beside the bytes that a view shows, and with
/// nothing else. Sealing does not change it.
///
/// The number of a file at rest is cached, so that finding its views again opens and parses
/// nothing.
pub(crate) fn facts_version(engine: &Engine, file: &FileNode, stat: &Stat) -> Result<u64> {
    let place = file.place().ok_or(FsError::Stale)?;
    let conversation = engine.conversation(&place.0)?;
    // Asked before the record is looked for: if sealing ends in between, what is known is of the
    // record before.
    let is_at_rest = file.life().is_at_rest();
    let recorded = conversation.manifest().position(&place.1)?;
    let same_name = same_name::others_of(engine, &place.0, &place.1)?;
    let basis = FactsBasis::new(&place, &same_name, recorded, stat.ctime);
    if let Some(version) = file.facts.known(basis).filter(|_| is_at_rest) {
        return Ok(version);
    }
    // Asked before the facts are read: they may change right after.
    let lasts = !engine.store.clock().is_recent(stat);
    let changes = file.life().changes();
    let mut record = record_at(&file.life(), &conversation, &place.1, stat, None)?;
    let is_sealed = record.state != ArtifactState::Live && file.life().is_at_rest();
    // Sealing copies the provenance in the extended attributes to the record.
    let provenance = match file.reader().and_then(|file| Ok(provenance_of(&file)?)) {
        Err(error) if error.must_wait() => return Err(error),
        provenance => provenance.unwrap_or_default(),
    };
    record.provenance.update(&provenance);
    let version = facts_number(&place, &record, &same_name);
    if lasts && is_sealed {
        let sizes = record.view_sizes.as_ref().filter(|sizes| {
            sizes.basis == view_sizes::basis(engine, &place, (&record, version), stat)
        });
        file.sizes.keep(Version::of_file(stat, changes, (version, 0)), sizes);
        file.facts.keep(basis, version);
    }
    Ok(version)
}

/// As [`record`], for a caller that has locked the file's `life`, and, where it has locked the
/// `manifest`, that too.
pub(crate) fn record_at(
    life: &Life,
    conversation: &Conversation,
    path: &RelPath,
    stat: &Stat,
    manifest: Option<&ManifestLock>,
) -> Result<Record> {
    let known = KnownRecord::of(conversation, path, stat, life.is_unsealed(), manifest)?;
    Ok(life.bring_up(known.record, known.recorded))
}
