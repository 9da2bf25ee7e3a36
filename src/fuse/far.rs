//! Artifacts whose bytes are not on this disk: their nodes are those of files, and their bytes come
//! from elsewhere when somebody reads them.
//!
//! Nothing here waits on a thread that others need: what may take long is tried again elsewhere.

use std::ffi::{OsStr, OsString};
use std::sync::Arc;

use crate::handle::{Claimed, FarHandle, Handle};
use crate::node::dir::DirNode;
use crate::node::file::FileNode;
use crate::node::{Link, Node};
use crate::recording::now_millis;
use crate::seal_queue::SealJob;
use crate::{Caller, Fh, FsError, Opened, Pages, Result, Shared};
use ctxfs_core::model::{Component, RelPath};
use ctxfs_engine::patience::allow_slow;
use ctxfs_engine::{DirPlace, Engine, EngineError, OpenFile, SourceDir as _};
use ctxfs_store::{Conversation, FarArtifact, LEAST, Relocation, Rename, Stat, read_full_at};

/// An extended attribute: its name and its value.
pub(super) type Attribute = (OsString, Vec<u8>);

/// Returns true if the bytes of `file` are not on this disk: it was found so, and still has no
/// file.
pub(super) fn is_away(file: &FileNode) -> bool {
    file.far_stat().is_some() && !file.has_file()
}

/// Returns the conversation and the artifact that `file` is. [`FsError::Stale`] if it is none whose
/// bytes are elsewhere.
fn artifact(engine: &Engine, file: &FileNode) -> Result<(Component, FarArtifact)> {
    let (id, path) = file.place().ok_or(FsError::Stale)?;
    let far = engine.conversation(&id)?.far(&path)?;
    let is_it = |far: &FarArtifact| file.was(&far.stat) && !file.has_file();
    Ok((id, far.filter(is_it).ok_or(FsError::Stale)?))
}

/// Opens the bytes of `file`, wherever they are.
pub(super) fn open(engine: &Engine, file: &FileNode) -> Result<OpenFile> {
    let (id, far) = artifact(engine, file)?;
    Ok(engine.open_far(&id, &far))
}

/// Opens `file` for reading.
pub(super) fn open_to_read(
    fs: &Shared,
    node: &Arc<Node>,
    file: &FileNode,
    caller: Caller,
) -> Result<Opened> {
    allow_slow()?;
    let share = fs.claim(node, caller, 1)?;
    // Asked before: what comes meanwhile is found below, or given to it.
    let here = file.awaited();
    let OpenFile::Far(far) = open(&fs.engine, file)? else { return Err(FsError::Stale) };
    far.file()?;
    let handle = FarHandle { node: Arc::clone(node), far, here };
    let fh = fs.handles.insert(Handle::Far(Claimed::new(handle, share)));
    // The bytes may have come here since the last time, and have been changed.
    let pages = Pages::New;
    Ok(Opened { fh, file: None, writes: false, direct: false, pages, counts_mapped: false })
}

/// Reads on a thread that may wait. Returns fewer bytes than requested only at the end.
pub(super) fn read(fs: &Shared, fh: Fh, offset: u64, length: usize) -> Result<Vec<u8>> {
    let Handle::Far(open) = fs.handles.get(fh)? else { return Err(FsError::UnknownHandle(fh.0)) };
    let Some(here) = open.here() else {
        return Ok(open.far.file()?.content.bytes(offset, length)?);
    };
    let mut bytes = vec![0; length];
    let count = read_full_at(here, offset, &mut bytes)?;
    bytes.truncate(count);
    Ok(bytes)
}

/// Notes that nobody reads through `open` any more.
pub(super) fn reader_gone(open: Arc<Claimed<FarHandle>>) -> Result<()> {
    let node = Arc::clone(&open.node);
    // Closes the descriptor first, if it has one.
    drop(open);
    node.as_file()?.life().rest();
    Ok(())
}

/// Returns the extended attributes of `file`, if its bytes are elsewhere: these came with its
/// record.
pub(super) fn attributes(fs: &Shared, file: &FileNode) -> Result<Option<Vec<Attribute>>> {
    if !is_away(file) {
        return Ok(None);
    }
    allow_slow()?;
    let OpenFile::Far(far) = open(&fs.engine, file)? else { return Err(FsError::Stale) };
    Ok(Some(far.file()?.attributes.clone()))
}

/// Fetches all bytes of `file` to this disk, if they are elsewhere: somebody is to change it.
pub(super) fn bring_here(fs: &Shared, node: &Arc<Node>, file: &FileNode) -> Result<()> {
    if !is_away(file) {
        return Ok(());
    }
    allow_slow()?;
    let (id, far) = artifact(&fs.engine, file)?;
    let OpenFile::Far(open) = fs.engine.open_far(&id, &far) else { return Err(FsError::Stale) };
    let _room = fs.engine.reserve_in(&id, far.stat.size)?;
    let conversation = fs.engine.conversation(&id)?;
    let has_come = far.bring_here(&conversation, open.file()?)?;
    found_here(fs, (node, file), has_come.then_some((&conversation, &far.path))).map(drop)
}

/// Gives `file` an empty file on this disk, if its bytes are elsewhere: somebody is to write it
/// anew, and so nobody waits for them. Then does what he has come for; if that fails, it is sealed
/// as it is.
pub(super) fn begin_anew<T>(
    fs: &Shared,
    node: &Arc<Node>,
    file: &FileNode,
    act: impl FnOnce() -> Result<T>,
) -> Result<T> {
    if !is_away(file) {
        return act();
    }
    allow_slow()?;
    let stat = take_empty(fs, node, file)?;
    act().inspect_err(|_| {
        if file.life().resized(&stat) {
            fs.sealer.submit(SealJob::Seal(Arc::clone(node)));
        }
    })
}

fn take_empty(fs: &Shared, node: &Arc<Node>, file: &FileNode) -> Result<Stat> {
    let (id, far) = artifact(&fs.engine, file)?;
    let OpenFile::Far(open) = fs.engine.open_far(&id, &far) else { return Err(FsError::Stale) };
    // Those of most came with their records.
    let attributes = match open.file() {
        Ok(file) => file.attributes.clone(),
        Err(error) => {
            tracing::warn!(path = %far.path.to_text(), %error, "its attributes cannot be had");
            Vec::new()
        }
    };
    let _room = fs.engine.reserve_in(&id, LEAST)?;
    let conversation = fs.engine.conversation(&id)?;
    let has_begun = far.begin_empty(&conversation, attributes)?;
    found_here(fs, (node, file), has_begun.then_some((&conversation, &far.path)))
}

/// Has `file` go on with the file on this disk at `place`. Fails with [`FsError::Stale`] if it has
/// none.
fn found_here(
    fs: &Shared,
    (node, file): (&Arc<Node>, &FileNode),
    place: Option<(&Conversation, &RelPath)>,
) -> Result<Stat> {
    let (conversation, path) = place.ok_or(FsError::Stale)?;
    let stat = conversation.dir().stat_at(path)?;
    let before = file.id();
    if file.take_copy(&stat) {
        fs.nodes.found_by_copy(node, before);
    }
    Ok(stat)
}

/// Removes the artifact `file`, whose bytes are elsewhere: its record goes.
pub(super) fn unlink(fs: &Shared, file: &FileNode) -> Result<()> {
    let (id, far) = artifact(&fs.engine, file)?;
    let conversation = fs.engine.conversation(&id)?;
    let manifest = fs.lock_manifest(&conversation)?;
    fs.engine.forget_artifact(&conversation, &manifest, &far.path, far.stat.size)?;
    drop(manifest);
    *file.link.lock() = None;
    fs.compact(&conversation);
    Ok(())
}

/// Renames the artifact `file`, whose bytes are elsewhere, to a free name of its conversation: its
/// record follows. Returns false if that needs its bytes.
pub(super) fn rename(fs: &Shared, file: &FileNode, to: &Link) -> Result<bool> {
    let (id, far) = artifact(&fs.engine, file)?;
    let Some((other, path)) = to.place() else { return Ok(false) };
    if other != id || !path.is_artifact() {
        return Ok(false);
    }
    let conversation = fs.engine.conversation(&id)?;
    let origin = far.record.far.as_ref().map_or("", |far| &far.origin);
    // Whether somebody else has the manifest is known before anything is changed.
    drop(fs.lock_manifest(&conversation)?);
    let rename = Rename { from: &far.path, to: &path, at: now_millis() };
    match ctxfs_store::shared::rename_far(&conversation, rename, origin)? {
        Relocation::Done => {
            *file.link.lock() = Some(to.clone());
            fs.compact(&conversation);
            Ok(true)
        }
        Relocation::Taken => Ok(false),
        Relocation::Kept(_) => Err(FsError::Stale),
    }
}

/// Fails with [`FsError::NotEmpty`] if there are artifacts in a directory, not below, whose bytes
/// are elsewhere. With `path` `None`, asks for all of the conversation. Where the manifest cannot
/// be read, there are none.
pub(super) fn check_empty(fs: &Shared, id: &Component, path: Option<&RelPath>) -> Result<()> {
    let conversation = match fs.engine.conversation(id) {
        Err(EngineError::NotFound) => return Ok(()),
        conversation => conversation?,
    };
    if conversation.has_far(path).unwrap_or_default() { Err(FsError::NotEmpty) } else { Ok(()) }
}

/// Returns true if an artifact whose bytes are elsewhere has this name. For a caller who has found
/// that no file has it.
pub(super) fn is_at(engine: &Engine, dir: &DirNode, name: &OsStr) -> bool {
    let Ok(DirPlace::Below(id, below)) = dir.place() else { return false };
    let Ok(path) = RelPath::below(Some(&below), name) else { return false };
    let conversation = engine.conversation(&id);
    conversation.is_ok_and(|conversation| conversation.far(&path).is_ok_and(|far| far.is_some()))
}
