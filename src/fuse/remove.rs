//! Removing files and directories.

use std::ffi::OsStr;
use std::sync::Arc;

use crate::node::dir::DirNode;
use crate::node::file::FileNode;
use crate::node::{Node, NodeKind};
use crate::recording::HeldRecord;
use crate::{FileKind, FsError, Ino, Result, Shared, far, lookup, recording, write_once};
use ctxfs_core::model::{Component, RelPath};
use ctxfs_engine::{RemovedContent, SourceDir as _, names};
use ctxfs_view::{Derived, readings};

pub(super) fn rmdir(fs: &Shared, parent: Ino, name: &OsStr) -> Result<()> {
    let parent = fs.nodes.get(parent)?;
    let dir = match &parent.kind {
        NodeKind::ViewDir { .. } => return Ok(()),
        _ => parent.as_dir()?,
    };
    let removed = if parent.is_root() {
        let id = Component::new(name)?;
        write_once::check_conversation(fs, &id)?;
        far::check_empty(fs, &id, None)?;
        fs.engine.remove_conversation(&id).map_err(FsError::from)
    } else if names::is_stores(&**dir, name) {
        Err(FsError::NotFound)
    } else {
        check_no_far(fs, dir, name).and_then(|()| Ok(dir.open()?.rmdir(name)?))
    };
    fs.promises.end_all();
    match removed {
        Err(FsError::Io(error)) if names::is_absent(&error) => {
            remove_computed(fs, &parent, dir, name, FileKind::Directory)
        }
        removed => removed,
    }
}

/// Fails if there are artifacts in the directory `name` whose bytes are not on this disk.
fn check_no_far(fs: &Shared, dir: &DirNode, name: &OsStr) -> Result<()> {
    let place = dir.place()?;
    let (Some(id), Ok(path)) = (place.conversation(), RelPath::below(place.path(), name)) else {
        return Ok(());
    };
    far::check_empty(fs, id, Some(&path))
}

pub(super) fn unlink(fs: &Shared, parent: Ino, name: &OsStr) -> Result<()> {
    let parent = fs.nodes.get(parent)?;
    let dir = match &parent.kind {
        NodeKind::ViewDir { .. } => return Ok(()),
        NodeKind::Control => return Err(FsError::Computed),
        _ => parent.as_dir()?,
    };
    let node = match lookup::find_real(fs, &parent, dir, name) {
        Ok(node) => node,
        Err(FsError::NotFound) => {
            return remove_computed(fs, &parent, dir, name, FileKind::File);
        }
        Err(error) => return Err(error),
    };
    let is_away = node.as_file().is_ok_and(|file| far::is_away(file));
    let removed = if is_away { unlink_far(fs, &node) } else { unlink_node(fs, &node, dir, name) };
    fs.promises.end(dir.id(), name);
    fs.nodes.forget(node.ino, 1);
    removed
}

/// Removes an artifact whose bytes are not on this disk.
fn unlink_far(fs: &Shared, node: &Arc<Node>) -> Result<()> {
    if fs.options.write_once {
        return Err(FsError::WriteOnce);
    }
    far::unlink(fs, node.as_file()?)
}

fn unlink_node(fs: &Shared, node: &Arc<Node>, dir: &DirNode, name: &OsStr) -> Result<()> {
    let (file, dir) = (node.as_file()?, dir.open()?);
    let leaves_trace = write_once::await_record(fs, node)?;
    let conversation = node.conversation();
    let Some(held) = recording::hold_record(fs, node)? else {
        let mut link = file.link.lock();
        dir.unlink(name)?;
        *link = None;
        drop(link);
        note_unlinked(fs, file, conversation);
        return Ok(());
    };
    let mut link = file.link.lock();
    let stat = dir.stat(name)?;
    let trace = if leaves_trace { Some(held.retire(&stat)?) } else { None };
    dir.unlink(name)?;
    *link = None;
    drop(link);
    note_unlinked(fs, file, conversation);
    let HeldRecord { conversation, path, manifest, .. } = &held;
    match trace {
        Some(record) => fs.engine.note_removed(conversation, stat.size, Some(record)),
        None => fs.engine.forget_artifact(conversation, manifest, path, stat.size)?,
    }
    held.release(fs);
    Ok(())
}

/// Notes that `file`, which was in `conversation`, has lost its name. While it is open, it takes
/// room.
pub(super) fn note_unlinked(fs: &Shared, file: &FileNode, conversation: Option<Component>) {
    let Some(id) = conversation else { return };
    let open = file.life().lost_name(id.clone());
    if !open.is_empty() {
        fs.engine.space.unlinked(&id, open);
    }
    fs.engine.space.freed(&id);
    fs.engine.changed(&id, None);
}

/// Removes a computed file or directory, which does nothing if it is of the right kind. Only the
/// summary of removed content can be removed for good.
fn remove_computed(
    fs: &Shared,
    parent: &Arc<Node>,
    dir: &Arc<DirNode>,
    name: &OsStr,
    kind: FileKind,
) -> Result<()> {
    let is_computed = names::computed_name(&**dir, parent.is_top(), name).is_some();
    if is_computed && kind == FileKind::File {
        return Ok(());
    }
    if names::is_search_dir(&**dir, name) {
        return match kind {
            FileKind::File => Err(FsError::IsADirectory),
            FileKind::Directory => Ok(()),
        };
    }
    let found = readings(name).find_map(|(stem, reading)| {
        let of = lookup::find_real(fs, parent, dir, stem);
        let missing = matches!(of, Err(FsError::NotFound));
        (!missing).then_some((of, reading.derived))
    });
    let Some((of, derived)) = found else {
        let removed = fs.engine.removed(&**dir, name)?.filter(|_| kind == FileKind::File);
        let removed = removed.ok_or(FsError::NotFound)?;
        if fs.options.write_once && removed.stays() {
            return Err(FsError::WriteOnce);
        }
        return forget_removed(fs, &removed);
    };
    let of = of?;
    fs.nodes.forget(of.ino, 1);
    check_view_kind(&of, &derived, kind)
}

/// Forgets removed content, and so removes its summary.
fn forget_removed(fs: &Shared, removed: &RemovedContent) -> Result<()> {
    let conversation = fs.engine.conversation(&removed.conversation)?;
    let manifest = fs.lock_manifest(&conversation)?;
    conversation.forget_locked(&manifest, &removed.path)?;
    drop(manifest);
    fs.compact(&conversation);
    Ok(())
}

/// Checks that a view of `of` exists and is of the right kind.
fn check_view_kind(of: &Node, derived: &Derived, kind: FileKind) -> Result<()> {
    match (derived, kind) {
        _ if of.as_file().is_err() => Err(FsError::NotFound),
        (Derived::File(_), FileKind::File) | (Derived::Dir(_), FileKind::Directory) => Ok(()),
        (Derived::File(_), FileKind::Directory) => Err(FsError::NotADirectory),
        (Derived::Dir(_), FileKind::File) => Err(FsError::IsADirectory),
    }
}
