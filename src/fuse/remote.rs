//! Artifacts whose bytes are not in the local file that the first look-up found: the bytes are in
//! the bucket, or a copy has replaced the file.
//!
//! An artifact in the bucket has a file node, and its bytes are fetched when they are read. No
//! function here blocks a worker: slow operations fail with [`EngineError::Slow`] and are retried
//! on another thread.
//!
//! A copy of a sealed artifact keeps the artifact's node, the nodes of its views and their texts.
//! The record decides whether a file is such a copy (see
//! [`LocalFile`](ctxfs_core::model::LocalFile)). Any other file with that name is a different
//! artifact, even if its bytes are the same.

use std::ffi::OsString;
use std::sync::Arc;

use crate::handle::RemoteHandle;
use crate::record::now_millis;
use crate::{
    Caller, Claimed, Fh, FileNode, FsError, Handle, Node, NodeKey, NodeLink, Opened, Pages, Result,
    SealJob, Shared,
};
use ctxfs_core::model::{Component, RelPath};
use ctxfs_engine::patience::allow_slow;
use ctxfs_engine::{DoorFile as _, Engine, EngineError, FileId, Freed, Growth, RemoteFile};
use ctxfs_store::{Conversation, FarArtifact, LEAST, Rename, RenameOutcome, Stat, read_full_at};

pub(super) type Attribute = (OsString, Vec<u8>);

/// Returns true if the bytes of `file` are only in the bucket: its last look-up found a remote
/// artifact, and no file on disk has its name now.
pub(super) fn is_remote(file: &FileNode) -> bool {
    file.remote_stat().is_some() && !file.has_file()
}

/// Returns the conversation and the record of a remote artifact. Fails with [`FsError::Stale`] if
/// `file` is not remote.
fn artifact(engine: &Engine, file: &FileNode) -> Result<(Arc<Conversation>, FarArtifact)> {
    let (id, path) = file.place().ok_or(FsError::Stale)?;
    let conversation = engine.conversation(&id)?;
    let far = conversation.far(&path)?;
    let is_it = |far: &FarArtifact| file.was(&far.stat) && !file.has_file();
    Ok((conversation, far.filter(is_it).ok_or(FsError::Stale)?))
}

fn open(engine: &Engine, file: &FileNode) -> Result<Arc<RemoteFile>> {
    let (conversation, far) = artifact(engine, file)?;
    Ok(RemoteFile::open(engine.options(), conversation.id(), &far))
}

pub(super) fn open_to_read(
    fs: &Shared,
    node: &Arc<Node>,
    file: &FileNode,
    caller: Caller,
) -> Result<Opened> {
    allow_slow()?;
    let share = fs.claim(node, caller, 1)?;
    // Taken before the open. If the file is fetched in the meantime, the fetched file is found
    // below or stored there.
    let local = file.pending();
    let far = open(&fs.engine, file)?;
    far.file()?;
    let handle = RemoteHandle { node: Arc::clone(node), far, local };
    let fh = fs.handles.insert(Handle::Remote(Claimed::new(handle, share)));
    // The bytes may have been fetched and changed since the last open.
    Ok(Opened::without_file(fh, Pages::New))
}

/// Reads bytes on a thread for slow work. Returns fewer bytes than `length` only at the end of the
/// file.
pub(super) fn read(fs: &Shared, fh: Fh, offset: u64, length: usize) -> Result<Vec<u8>> {
    let Handle::Remote(open) = fs.handles.get(fh)? else {
        return Err(FsError::UnknownHandle(fh.0));
    };
    let Some(here) = open.local.get() else {
        return Ok(open.far.file()?.content.bytes(offset, length)?);
    };
    let mut bytes = vec![0; length];
    let count = read_full_at(here, offset, &mut bytes)?;
    bytes.truncate(count);
    Ok(bytes)
}

/// Returns the extended attributes of a remote artifact, which came with its record. Returns `None`
/// if `file` is not remote.
pub(super) fn attributes(fs: &Shared, file: &FileNode) -> Result<Option<Vec<Attribute>>> {
    if !is_remote(file) {
        return Ok(None);
    }
    allow_slow()?;
    let far = open(&fs.engine, file)?;
    Ok(Some(far.file()?.attributes.clone()))
}

pub(super) fn fetch(fs: &Shared, node: &Arc<Node>, file: &FileNode) -> Result<()> {
    if !is_remote(file) {
        return Ok(());
    }
    allow_slow()?;
    let (conversation, far) = artifact(&fs.engine, file)?;
    let open = RemoteFile::open(fs.engine.options(), conversation.id(), &far);
    let _room = fs.engine.reserve(Growth::Bytes(Some(conversation.id()), far.stat.size))?;
    let has_come = far.bring_here(&conversation, open.file()?)?;
    use_local_file(fs, (node, file), has_come.then_some((&conversation, &far.path))).map(drop)
}

/// Replaces a remote artifact by an empty local file without fetching its bytes. Then calls `act`,
/// which opens or truncates the file. If `act` fails, the empty file is sealed.
pub(super) fn replace_by_empty<T>(
    fs: &Shared,
    node: &Arc<Node>,
    file: &FileNode,
    act: impl FnOnce() -> Result<T>,
) -> Result<T> {
    if !is_remote(file) {
        return act();
    }
    allow_slow()?;
    let stat = begin_empty(fs, node, file)?;
    act().inspect_err(|_| {
        if file.life().resized(&stat) {
            fs.sealer.submit(SealJob::Seal(Arc::clone(node)));
        }
    })
}

fn begin_empty(fs: &Shared, node: &Arc<Node>, file: &FileNode) -> Result<Stat> {
    let (conversation, far) = artifact(&fs.engine, file)?;
    let open = RemoteFile::open(fs.engine.options(), conversation.id(), &far);
    // For most artifacts, the attributes came with the record.
    let attributes = match open.file() {
        Ok(file) => file.attributes.clone(),
        Err(error) => {
            tracing::warn!(path = %far.path.to_text(), %error, "its attributes cannot be fetched");
            Vec::new()
        }
    };
    let _room = fs.engine.reserve(Growth::Bytes(Some(conversation.id()), LEAST))?;
    let has_begun = far.begin_empty(&conversation, attributes)?;
    use_local_file(fs, (node, file), has_begun.then_some((&conversation, &far.path)))
}

/// Makes `file` use the local file at `place`. Fails with [`FsError::Stale`] if `place` is `None`.
fn use_local_file(
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

pub(super) fn unlink(fs: &Shared, file: &FileNode) -> Result<()> {
    let (conversation, far) = artifact(&fs.engine, file)?;
    let manifest = fs.lock_manifest(&conversation)?;
    let record = conversation.forget_locked(&manifest, &far.path)?;
    let output = Some((far.stat.size, record));
    fs.engine.freed(conversation.id(), Freed { output, ..Freed::default() });
    drop(manifest);
    *file.link.lock() = None;
    fs.compact(&conversation);
    Ok(())
}

/// Renames a remote artifact to a free name in its conversation by changing only its record.
/// Returns false if the rename needs the bytes of the artifact.
pub(super) fn rename(fs: &Shared, file: &FileNode, to: &NodeLink) -> Result<bool> {
    let (conversation, far) = artifact(&fs.engine, file)?;
    let Some((other, path)) = to.place() else { return Ok(false) };
    if other != *conversation.id() || !path.is_artifact() {
        return Ok(false);
    }
    let origin = far.record.far.as_ref().map_or("", |far| &far.origin);
    // Fails before any change if another process holds the manifest lock.
    drop(fs.lock_manifest(&conversation)?);
    let rename = Rename { from: &far.path, to: &path, at: now_millis() };
    match ctxfs_store::shared::rename_far(&conversation, rename, origin)? {
        RenameOutcome::Done => {
            *file.link.lock() = Some(to.clone());
            fs.compact(&conversation);
            Ok(true)
        }
        RenameOutcome::Taken => Ok(false),
        RenameOutcome::Kept(_) => Err(FsError::Stale),
    }
}

/// Fails with [`FsError::NotEmpty`] if the directory `path` directly contains remote artifacts. If
/// `path` is `None`, fails if the conversation contains any. An unreadable manifest counts as
/// empty.
pub(super) fn check_empty(fs: &Shared, id: &Component, path: Option<&RelPath>) -> Result<()> {
    let conversation = match fs.engine.conversation(id) {
        Err(EngineError::NotFound) => return Ok(()),
        conversation => conversation?,
    };
    if conversation.has_far(path).unwrap_or_default() { Err(FsError::NotEmpty) } else { Ok(()) }
}

/// If the file at `link` is a copy that replaced a sealed artifact, makes the artifact's node use
/// the copy. Does nothing for any other file, which gets its own node.
pub(super) fn follow_copy(fs: &Shared, link: &NodeLink, stat: &Stat) {
    let is_known = || fs.nodes.find(&NodeKey::Disk(FileId::of(stat))).is_some();
    if !stat.may_be_copy() || is_known() {
        return;
    }
    let Some((id, path)) = link.place() else { return };
    let record = fs.engine.conversation(&id).and_then(|found| Ok(found.record(&path)?));
    let Ok(record) = record else { return };
    let original = record.map_or(*stat, |record| stat.original(&record));
    let Some(node) = fs.nodes.find(&NodeKey::Disk(FileId::of(&original))) else { return };
    let Ok(file) = node.as_file() else { return };
    let before = file.id();
    if file.was(&original) && file.take_copy(stat) {
        fs.nodes.found_by_copy(&node, before);
    }
}
