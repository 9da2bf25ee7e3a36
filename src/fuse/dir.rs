//! Creating directories, removing files and directories, and checking new names.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::sync::Arc;

use crate::record::LockedRecord;
use crate::standard::path_in;
use crate::{
    Caller, ContextFs, DirNode, Entry, FileKind, FileNode, FsError, Ino, Node, NodeKind, Result,
    Shared, attributes, lookup, record, remote, write_once,
};
use ctxfs_core::model::{Component, MAX_DEPTH, NameError, RelPath};
use ctxfs_engine::patience::allow_slow;
use ctxfs_engine::{Freed, Growth, RemovedContent, SourceDir as _, SpecialName};
use ctxfs_store::{BLOCK, Dir, DirEntry, FileType, is_standard_name};
use ctxfs_view::Derived;

impl ContextFs {
    /// Creates a directory. In the root, this creates a conversation and the directories inside it.
    /// Each of these can then be created once more.
    pub fn mkdir(&self, parent: Ino, name: &OsStr, mode: u32, caller: Caller) -> Result<Entry> {
        let fs = &self.0;
        let parent = fs.nodes.get(parent)?;
        let dir = parent.as_dir()?;
        let id = Component::new(name)?;
        check_not_computed(fs, &parent, dir, name)?;
        if dir.depth()? >= MAX_DEPTH {
            return Err(NameError::TooDeep.into());
        }
        if parent.is_root() {
            // Creating a conversation flushes it to the disk.
            allow_slow()?;
        }
        let mode = if parent.is_root() { mode & 0o700 } else { mode };
        // On most disks, a directory takes one block.
        let _room = fs.engine.reserve(Growth::Bytes(parent.conversation().as_ref(), BLOCK))?;
        let made = dir.open()?.mkdir(name, mode);
        let path = path_in(&dir.place()?, name);
        let awaited = path.filter(|(id, path)| fs.new_conversations.take((id, path)));
        match made {
            Err(error) if awaited.is_some() && error.kind() == ErrorKind::AlreadyExists => {
                let open = dir.open()?;
                if open.stat(name)?.kind() != FileType::Directory {
                    return Err(FsError::Exists);
                }
                open.chmod(name, mode)?;
            }
            made => made?,
        }
        if let Some((id, _)) = awaited {
            // Those that the client removed, as `mv` does, are made again.
            fs.engine.store().create_conversation(&id)?;
        }
        if parent.is_root() {
            fs.new_conversations.add(id.clone());
            let store = fs.engine.store();
            store.create_conversation(&id)?;
            store.sync_conversations()?;
        }
        give_to(dir, name, caller)?;
        let node = lookup::find_real(fs, &parent, dir, name)?;
        attributes::entry(fs, &node)
    }

    /// Removes a file. Removing a computed file succeeds without an effect, but fails if the thread
    /// `tid` tries it again at once; see `copies::RemovedViews`.
    pub fn unlink(&self, parent: Ino, name: &OsStr, tid: u32) -> Result<()> {
        let fs = &self.0;
        let parent = fs.nodes.get(parent)?;
        let dir = match &parent.kind {
            NodeKind::ViewDir { .. } => return Ok(()),
            NodeKind::Control => return Err(FsError::Computed),
            _ => parent.as_dir()?,
        };
        let node = match lookup::find_real(fs, &parent, dir, name) {
            Ok(node) => node,
            Err(FsError::NotFound) => {
                remove_computed(fs, &parent, dir, name, FileKind::File)?;
                return fs.removed_views.note(fs, (&parent, dir, name), tid);
            }
            Err(error) => return Err(error),
        };
        let removed = match node.as_file() {
            Ok(file) if !remote::is_remote(file) => unlink_node(fs, &node, dir, name),
            Ok(_) if fs.engine.options().write_once => Err(FsError::WriteOnce),
            Ok(file) => remote::unlink(fs, file),
            Err(error) => Err(error),
        };
        fs.promises.end(dir.id, name);
        fs.nodes.forget(node.ino, 1);
        removed
    }

    /// Removes an empty directory. A conversation that contains directories but no files counts as
    /// empty, and so does a standard directory of a new conversation that contains only such ones:
    /// `mv` removes it before it makes its own. Removing a directory of views succeeds without an effect.
    pub fn rmdir(&self, parent: Ino, name: &OsStr) -> Result<()> {
        let fs = &self.0;
        let parent = fs.nodes.get(parent)?;
        let dir = match &parent.kind {
            NodeKind::ViewDir { .. } => return Ok(()),
            _ => parent.as_dir()?,
        };
        let removed = if parent.is_root() {
            let id = Component::new(name)?;
            write_once::check_conversation(fs, &id)?;
            remote::check_empty(fs, &id, None)?;
            fs.engine.remove_conversation(&id).map_err(FsError::from)
        } else if let Some(SpecialName::Bookkeeping) =
            fs.engine.special_name(&**dir, parent.is_top(), name)?
        {
            Err(FsError::NotFound)
        } else {
            remove_unused(fs, dir, name)?;
            check_no_remote(fs, dir, name).and_then(|()| Ok(dir.open()?.rmdir(name)?))
        };
        fs.promises.end_all();
        match removed {
            Err(error) if error.is_absent() => {
                remove_computed(fs, &parent, dir, name, FileKind::Directory)
            }
            removed => removed,
        }
    }
}

/// Removes the standard directories in the standard directory `name`, unless a client has made one
/// of them or put anything there.
fn remove_unused(fs: &Shared, dir: &DirNode, name: &OsStr) -> Result<()> {
    let awaits = |id: &_, path: &_| fs.new_conversations.awaits((id, path));
    let path = is_standard_name(name).then(|| path_in(&dir.place().ok()?, name)).flatten();
    let Some((id, path)) = path.filter(|(id, path)| awaits(id, path)) else { return Ok(()) };
    let Ok(outer) = dir.open()?.open_dir(name) else { return Ok(()) };
    let inner = outer.entries()?;
    let is_unused = |entry: &DirEntry| {
        RelPath::below(Some(&path), &entry.name).is_ok_and(|inner| awaits(&id, &inner))
            && outer
                .open_dir(&entry.name)
                .and_then(|inner| inner.entries())
                .is_ok_and(|left| left.is_empty())
    };
    if inner.iter().all(is_unused) {
        inner.iter().try_for_each(|entry| outer.rmdir(&entry.name))?;
    }
    Ok(())
}

pub(super) fn fsync(fs: &Shared, ino: Ino) -> Result<()> {
    match &fs.nodes.get(ino)?.kind {
        NodeKind::Dir(dir) => Ok(dir.open()?.sync()?),
        _ => Ok(()),
    }
}

pub(super) fn writable<'a>(
    fs: &Shared,
    parent: &'a Arc<Node>,
    name: &OsStr,
) -> Result<&'a Arc<DirNode>> {
    let dir = parent.as_dir()?;
    Component::new(name)?;
    if parent.is_root() {
        return Err(FsError::RootHoldsConversations);
    }
    check_not_computed(fs, parent, dir, name)?;
    Ok(dir)
}

/// Fails with [`FsError::Computed`] if `name` is the name of a computed file. Succeeds if a real
/// file with that name hides the computed one.
pub(super) fn check_not_computed(
    fs: &Shared,
    parent: &Node,
    dir: &DirNode,
    name: &OsStr,
) -> Result<()> {
    match fs.engine.special_name(dir, parent.is_top(), name)? {
        None | Some(SpecialName::Removed(_)) => Ok(()),
        // A real file with this name hides the view, so it is treated as an ordinary file.
        Some(SpecialName::View(_)) if fs.engine.stat(dir, name).is_ok() => Ok(()),
        Some(_) => Err(FsError::Computed),
    }
}

fn give_to(dir: &DirNode, name: &OsStr, caller: Caller) -> Result<()> {
    if rustix::process::geteuid().is_root() && (caller.uid, caller.gid) != (0, 0) {
        let dir = dir.open()?;
        let made = dir.open_dir(name)?;
        let owner = Caller { gid: group_in(&dir, caller)?, ..caller };
        dir.chown(name, Some(owner.uid), Some(owner.gid))?;
        give_tree_to(made, owner)?;
    }
    Ok(())
}

pub(super) fn group_in(dir: &Dir, caller: Caller) -> Result<u32> {
    let stat = dir.stat_self()?;
    Ok(if stat.mode & libc::S_ISGID == 0 { caller.gid } else { stat.gid })
}

fn give_tree_to(dir: Dir, caller: Caller) -> Result<()> {
    let mut left = vec![dir];
    while let Some(dir) = left.pop() {
        for entry in dir.entries()? {
            dir.chown(&entry.name, Some(caller.uid), Some(caller.gid))?;
            if entry.kind == FileType::Directory {
                left.push(dir.open_dir(&entry.name)?);
            }
        }
    }
    Ok(())
}

fn check_no_remote(fs: &Shared, dir: &DirNode, name: &OsStr) -> Result<()> {
    let place = dir.place()?;
    let (Some(id), Ok(path)) = (place.conversation(), RelPath::below(place.path(), name)) else {
        return Ok(());
    };
    remote::check_empty(fs, id, Some(&path))
}

fn unlink_node(fs: &Shared, node: &Arc<Node>, dir: &DirNode, name: &OsStr) -> Result<()> {
    let (file, dir) = (node.as_file()?, dir.open()?);
    let leaves_trace = write_once::await_record(fs, node)?;
    let conversation = node.conversation();
    let held = record::lock_record(fs, node)?;
    let mut link = file.link.lock();
    let stat = dir.stat(name)?;
    let trace = match &held {
        Some(held) if leaves_trace => Some(held.retire(&stat)?),
        _ => None,
    };
    dir.unlink(name)?;
    *link = None;
    drop(link);
    note_unlinked(fs, file, conversation);
    let Some(held) = held else { return Ok(()) };
    let LockedRecord { conversation, path, manifest, .. } = &held;
    let record = match trace {
        Some(trace) => Some(trace),
        None => conversation.forget_locked(manifest, path)?,
    };
    let output = Some((stat.size, record));
    fs.engine.freed(conversation.id(), Freed { output, ..Freed::default() });
    held.release(fs);
    Ok(())
}

pub(super) fn note_unlinked(fs: &Shared, file: &FileNode, conversation: Option<Component>) {
    let Some(id) = conversation else { return };
    let open = file.life().lost_name(id.clone());
    fs.engine.freed(&id, Freed { open, ..Freed::default() });
}

/// Removes the computed file or directory `name`. `kind` is the kind that the caller removes.
///
/// A computed file or directory cannot be removed. If it is of the kind `kind`, the call succeeds
/// without an effect, and otherwise it fails. The only exception is the summary of removed content,
/// which is really removed.
fn remove_computed(
    fs: &Shared,
    parent: &Arc<Node>,
    dir: &Arc<DirNode>,
    name: &OsStr,
    kind: FileKind,
) -> Result<()> {
    use SpecialName::{Computed, Removed, Searches, View};
    match (fs.engine.special_name(&**dir, parent.is_top(), name)?, kind) {
        (Some(Computed(_) | View(Derived::File(_))), FileKind::File)
        | (Some(Searches(_) | View(Derived::Dir(_))), FileKind::Directory) => Ok(()),
        (Some(Searches(_) | View(Derived::Dir(_))), FileKind::File) => Err(FsError::IsADirectory),
        (Some(View(Derived::File(_))), FileKind::Directory) => Err(FsError::NotADirectory),
        (Some(Removed(removed)), FileKind::File) => {
            if fs.engine.options().write_once && removed.stays() {
                return Err(FsError::WriteOnce);
            }
            forget_removed(fs, &removed)
        }
        _ => Err(FsError::NotFound),
    }
}

fn forget_removed(fs: &Shared, removed: &RemovedContent) -> Result<()> {
    let conversation = fs.engine.conversation(&removed.conversation)?;
    let manifest = fs.lock_manifest(&conversation)?;
    conversation.forget_locked(&manifest, &removed.path)?;
    drop(manifest);
    fs.compact(&conversation);
    Ok(())
}
