//! Changing records, with the manifest locked first and then the places of files.
//!
//! The order matters: a thread that waits for another process to unlock a manifest, even for a
//! process that has been stopped, holds nothing that a view or a rename needs.

use std::slice;
use std::sync::Arc;

use crate::engine::FileId;
use crate::engine::sync::RwLockReadGuard;
use crate::engine::sync::lock_manifest;
use crate::fs::FsError;
use crate::fs::Result;
use crate::fs::Shared;
use crate::fs::facts::record_at;
use crate::fs::life::Life;
use crate::fs::node::Node;
use crate::fs::node::file::FileNode;
use crate::model::Component;
use crate::model::Record;
use crate::model::RelPath;
use crate::store::Conversation;
use crate::store::ManifestLock;

/// The locked record of an artifact. Until this is dropped, nobody else changes the record, and no
/// file moves.
pub(crate) struct HeldRecord<'a> {
    pub(crate) conversation: Arc<Conversation>,
    pub(crate) path: RelPath,
    pub(crate) manifest: ManifestLock,
    places: RwLockReadGuard<'a, ()>,
}

impl HeldRecord<'_> {
    /// Unlocks it, and compacts the manifest if that is wasteful.
    pub(crate) fn release(self) {
        drop((self.places, self.manifest));
        self.conversation.manifest().compact_if_wasteful();
    }
}

/// Locks the record of `node`. Returns `None` if that is no artifact.
pub(super) fn hold_record<'a>(fs: &'a Shared, node: &Node) -> Result<Option<HeldRecord<'a>>> {
    loop {
        let Some((id, _)) = artifact(node) else { return Ok(None) };
        let conversation = fs.engine.conversation(&id)?;
        let manifest = lock_manifest(&conversation)?;
        let places = fs.places.read();
        // It may have moved while this waited for the manifest.
        if let Some((_, path)) = artifact(node).filter(|(now, _)| *now == id) {
            return Ok(Some(HeldRecord { conversation, path, manifest, places }));
        }
    }
}

/// Appends the record that `change` makes of the artifact's record, with its place and its life
/// locked: a rename, a removal or an opening comes either before or after. Then calls `done`, with
/// both still locked, unless there was nothing to append or the disk failed.
pub(super) fn record_as(
    fs: &Shared,
    node: &Node,
    change: impl FnOnce(&mut Life, Record) -> Option<Record>,
    done: impl FnOnce(&mut Life),
) -> Result<()> {
    let Some(held) = hold_record(fs, node)? else { return Ok(()) };
    let recorded = add(&held, node.as_file()?, change, done);
    held.release();
    recorded
}

fn add(
    held: &HeldRecord<'_>,
    file: &FileNode,
    change: impl FnOnce(&mut Life, Record) -> Option<Record>,
    done: impl FnOnce(&mut Life),
) -> Result<()> {
    let link = file.link.lock();
    let Some(link) = link.as_ref() else { return Ok(()) };
    let mut life = file.life();
    let stat = link.dir()?.stat(&link.name)?;
    if FileId::of(&stat) != file.id {
        return Err(FsError::Stale);
    }
    life.noticed(&stat);
    let manifest = Some(&held.manifest);
    let mut record = record_at(&life, &held.conversation, &held.path, &stat, manifest)?;
    record.size = stat.size;
    record.modified = stat.mtime.as_nanos();
    if let Some(record) = change(&mut life, record) {
        held.manifest.append(slice::from_ref(&record))?;
        done(&mut life);
    }
    Ok(())
}

fn artifact(node: &Node) -> Option<(Component, RelPath)> {
    node.place().filter(|(_, path)| path.is_artifact())
}
