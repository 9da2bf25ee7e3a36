//! Creating directories, and the names that may be created in them.

use std::ffi::OsStr;
use std::sync::Arc;

use crate::node::dir::DirNode;
use crate::node::{Node, NodeKind};
use crate::{Caller, Entry, FsError, Ino, Result, Shared, far, getattr, lookup};
use ctxfs_core::model::{Component, MAX_DEPTH, NameError};
use ctxfs_engine::patience::allow_slow;
use ctxfs_engine::{Reservation, SourceDir as _, names};
use ctxfs_store::{BLOCK, Dir, FileType};
use ctxfs_view::readings;

pub(super) fn mkdir(
    fs: &Arc<Shared>,
    parent: Ino,
    name: &OsStr,
    mode: u32,
    caller: Caller,
) -> Result<Entry> {
    let parent = fs.nodes.get(parent)?;
    let dir = parent.as_dir()?;
    let id = Component::new(name)?;
    check_not_computed(fs, &parent, dir, name)?;
    if dir.depth()? >= MAX_DEPTH {
        return Err(NameError::TooDeep.into());
    }
    if parent.is_root() {
        // It is flushed to the disk.
        allow_slow()?;
    }
    let mode = if parent.is_root() { mode & 0o700 } else { mode };
    // A directory takes a block on most disks.
    let _room = match parent.conversation() {
        Some(conversation) => fs.engine.reserve_in(&conversation, BLOCK)?,
        None => Reservation::default(),
    };
    dir.open()?.mkdir(name, mode)?;
    if parent.is_root() {
        let store = &fs.engine.store;
        store.create_conversation(&id)?;
        store.sync_conversations()?;
    }
    give_to(dir, name, caller)?;
    let node = lookup::find_real(fs, &parent, dir, name)?;
    getattr::entry(fs, &node)
}

pub(super) fn fsync(fs: &Shared, ino: Ino) -> Result<()> {
    match &fs.nodes.get(ino)?.kind {
        NodeKind::Dir(dir) => Ok(dir.open()?.sync()?),
        _ => Ok(()),
    }
}

/// Returns the directory of `parent`. Fails if no file `name` may be created in it.
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

/// Fails with [`FsError::Computed`] if `name` is that of a computed file which no real file hides.
pub(super) fn check_not_computed(
    fs: &Shared,
    parent: &Node,
    dir: &DirNode,
    name: &OsStr,
) -> Result<()> {
    if names::is_stores(dir, name)
        || names::computed_name(dir, parent.is_top(), name).is_some()
        || names::is_search_dir(dir, name)
    {
        return Err(FsError::Computed);
    }
    let open = dir.open()?;
    let is_file = |stem: &OsStr| match open.stat(stem) {
        Ok(stat) => Some(stat.kind() == FileType::File),
        Err(_) => far::is_at(&fs.engine, dir, stem).then_some(true),
    };
    if parent.is_root() || readings(name).find_map(|(stem, _)| is_file(stem)) != Some(true) {
        return Ok(());
    }
    // A real file of this name hides the view and is an ordinary file.
    let hides = open.stat(name).is_ok() || far::is_at(&fs.engine, dir, name);
    if hides { Ok(()) } else { Err(FsError::Computed) }
}

/// Gives a new directory to the user who created it, if the mount serves several users.
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

/// Returns the group of what `caller` creates in `dir`: that of a set-gid directory goes down.
pub(super) fn group_in(dir: &Dir, caller: Caller) -> Result<u32> {
    let stat = dir.stat_self()?;
    Ok(if stat.mode & libc::S_ISGID == 0 { caller.gid } else { stat.gid })
}

/// Gives the directories of a new conversation to the user who created it.
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
