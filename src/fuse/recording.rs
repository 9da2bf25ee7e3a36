//! Changing records, with the manifest locked first and then the places of files.
//!
//! The order matters: nothing is locked yet, and nothing done, when another process turns out to
//! have the manifest, and the whole operation is tried again later.

use std::slice;
use std::sync::Arc;
use std::time::SystemTime;

use crate::facts::record_at;
use crate::life::Life;
use crate::node::Node;
use crate::node::file::FileNode;
use crate::seal_queue::SealJob;
use crate::{FsError, Result, Shared};
use ctxfs_core::model::{Component, Provenance, Record, RelPath, Removal};
use ctxfs_engine::sync::RwLockReadGuard;
use ctxfs_store::{Conversation, ManifestLock, Stat};

/// The locked record of an artifact. Until this is dropped, nobody else changes the record, and no
/// file moves.
pub(crate) struct HeldRecord<'a> {
    pub(crate) conversation: Arc<Conversation>,
    pub(crate) path: RelPath,
    pub(crate) manifest: ManifestLock,
    places: RwLockReadGuard<'a, ()>,
}

impl HeldRecord<'_> {
    /// Records that somebody removes the artifact, of which the disk says `stat`. Returns its
    /// record until then.
    pub(crate) fn retire(&self, stat: &Stat) -> Result<Record> {
        let removal = Removal::unlinked(now_millis());
        Ok(self.conversation.retire_locked(&self.manifest, (&self.path, stat), removal)?)
    }

    /// Unlocks it, and has the manifest compacted if that is wasteful.
    pub(crate) fn release(self, fs: &Shared) {
        drop((self.places, self.manifest));
        fs.compact(&self.conversation);
    }
}

/// Locks the record of `node`. Returns `None` if that is no artifact. Fails with EAGAIN while
/// another process has locked the manifest.
pub(super) fn hold_record<'a>(fs: &'a Shared, node: &Node) -> Result<Option<HeldRecord<'a>>> {
    loop {
        let Some((id, _)) = artifact(node) else { return Ok(None) };
        let conversation = fs.engine.conversation(&id)?;
        let manifest = fs.lock_manifest(&conversation)?;
        let places = fs.places.read();
        // It may have moved while this waited for the manifest.
        if let Some((_, path)) = artifact(node).filter(|(now, _)| *now == id) {
            return Ok(Some(HeldRecord { conversation, path, manifest, places }));
        }
    }
}

/// Locks the record of `node`, as [`hold_record`] does, if it is a file that is sealed: its record
/// is to follow a change of attributes. What a live one has is recorded when it is sealed.
pub(super) fn hold_sealed<'a>(fs: &'a Shared, node: &Node) -> Result<Option<HeldRecord<'a>>> {
    match node.as_file() {
        Ok(file) if !file.life().is_unsealed() => hold_record(fs, node),
        _ => Ok(None),
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
    match hold_record(fs, node)? {
        Some(held) => record_held(fs, held, (node, None), change, done),
        None => Ok(()),
    }
}

/// A change of attributes of a file, and of nothing else.
pub(super) struct AttributeChange<'a> {
    /// The attributes before it.
    pub(super) before: &'a Stat,
    /// True if it sets the time of the last write.
    pub(super) sets_time: bool,
}

/// Has the record of an artifact that is sealed follow a change of attributes. If these say
/// something of it, that is added, and what was known of bytes that may be others now is found
/// out anew. A live one gets that when it is sealed. For a caller that has locked the record since
/// before the change.
pub(super) fn record_attributes(
    fs: &Shared,
    held: HeldRecord<'_>,
    (node, change): (&Arc<Node>, &AttributeChange<'_>),
    said: Option<&Provenance>,
) -> Result<()> {
    let mut is_lost = false;
    let update = |life: &mut Life, mut record: Record| {
        let is_known = record.analysis.is_some();
        match said {
            _ if life.is_unsealed() => return None,
            None => return is_known.then_some(record),
            Some(said) => record.provenance.update(said),
        }
        is_lost = !is_known;
        Some(record)
    };
    record_held(fs, held, (node, Some(change)), update, |_| ())?;
    if is_lost {
        fs.sealer.submit(SealJob::Analyse(Arc::clone(node)));
    }
    Ok(())
}

/// As [`record_as`], for a caller that has locked the record.
fn record_held(
    fs: &Shared,
    held: HeldRecord<'_>,
    (node, attributes): (&Node, Option<&AttributeChange<'_>>),
    change: impl FnOnce(&mut Life, Record) -> Option<Record>,
    done: impl FnOnce(&mut Life),
) -> Result<()> {
    let recorded = add(fs, &held, (node.as_file()?, attributes), change, done);
    held.release(fs);
    recorded
}

fn add(
    fs: &Shared,
    held: &HeldRecord<'_>,
    (file, attributes): (&FileNode, Option<&AttributeChange<'_>>),
    change: impl FnOnce(&mut Life, Record) -> Option<Record>,
    done: impl FnOnce(&mut Life),
) -> Result<()> {
    let link = file.link.lock();
    let Some(link) = link.as_ref() else { return Ok(()) };
    let dir = link.dir()?;
    let mut life = file.life();
    let stat = dir.stat(&link.name)?;
    if !file.is_at(&stat) {
        return Err(FsError::Stale);
    }
    life.noticed(&stat, fs.engine.store.clock());
    let manifest = Some(&held.manifest);
    let mut record = record_at(&life, &held.conversation, &held.path, &stat, manifest)?;
    if let Some(AttributeChange { before, sets_time }) = attributes {
        record = stat.with_new_attributes(before, *sets_time, record);
    }
    let (size, modified) = (stat.size, stat.mtime.as_nanos());
    // An analysis of other bytes must not come to tell of these.
    record.analysis =
        record.analysis.filter(|_| (record.size, record.modified) == (size, modified));
    (record.size, record.modified) = (size, modified);
    if let Some(record) = change(&mut life, record) {
        held.manifest.append(slice::from_ref(&record))?;
        done(&mut life);
    }
    Ok(())
}

/// Returns milliseconds since the epoch.
pub(super) fn now_millis() -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_millis()).unwrap_or(i64::MAX)
}

fn artifact(node: &Node) -> Option<(Component, RelPath)> {
    node.place().filter(|(_, path)| path.is_artifact())
}
