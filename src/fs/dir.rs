//! Creating directories, and the names that may be created in them.

use std::ffi::OsStr;
use std::sync::Arc;

use crate::engine::names;
use crate::fs::Caller;
use crate::fs::Entry;
use crate::fs::FsError;
use crate::fs::Ino;
use crate::fs::Result;
use crate::fs::Shared;
use crate::fs::getattr;
use crate::fs::lookup;
use crate::fs::node::DirNode;
use crate::fs::node::Node;
use crate::fs::node::NodeKind;
use crate::model::Component;
use crate::store::Dir;
use crate::store::FileType;
use crate::view::readings;

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
    check_not_computed(&parent, dir, name)?;
    let mode = if parent.is_root() { mode & 0o700 } else { mode };
    dir.dir.mkdir(name, mode)?;
    if parent.is_root() {
        fs.engine.store.create_conversation(&id)?;
    }
    give_to(dir, name, caller)?;
    let node = lookup::find_real(fs, &parent, dir, name)?;
    getattr::entry(fs, &node)
}

pub(super) fn fsync(fs: &Shared, ino: Ino) -> Result<()> {
    match &fs.nodes.get(ino)?.kind {
        NodeKind::Dir(dir) => Ok(dir.dir.sync()?),
        _ => Ok(()),
    }
}

/// Returns the directory of `parent`. Fails if no file `name` may be created in it.
pub(super) fn writable<'a>(parent: &'a Arc<Node>, name: &OsStr) -> Result<&'a Arc<DirNode>> {
    let dir = parent.as_dir()?;
    Component::new(name)?;
    if parent.is_root() {
        return Err(FsError::RootHoldsConversations);
    }
    check_not_computed(parent, dir, name)?;
    Ok(dir)
}

/// Fails with [`FsError::Computed`] if `name` is that of a computed file which no real file hides.
pub(super) fn check_not_computed(parent: &Node, dir: &DirNode, name: &OsStr) -> Result<()> {
    if names::is_stores(dir, name)
        || names::computed_name(dir, parent.is_top(), name).is_some()
        || names::is_search_dir(dir, name)
    {
        return Err(FsError::Computed);
    }
    match readings(name).find_map(|(stem, _)| dir.dir.stat(stem).ok()) {
        Some(stat) if stat.kind() == FileType::File && !parent.is_root() => {}
        _ => return Ok(()),
    }
    // A real file of this name hides the view and is an ordinary file.
    if dir.dir.stat(name).is_ok() { Ok(()) } else { Err(FsError::Computed) }
}

/// Gives a new directory to the user who created it, if the mount serves several users.
fn give_to(dir: &DirNode, name: &OsStr, caller: Caller) -> Result<()> {
    if rustix::process::geteuid().is_root() && (caller.uid, caller.gid) != (0, 0) {
        let made = dir.dir.open_dir(name)?;
        dir.dir.chown(name, Some(caller.uid), Some(caller.gid))?;
        give_tree_to(&made, caller)?;
    }
    Ok(())
}

/// Gives the directories of a new conversation to the user who created it.
fn give_tree_to(dir: &Dir, caller: Caller) -> Result<()> {
    for entry in dir.entries()? {
        dir.chown(&entry.name, Some(caller.uid), Some(caller.gid))?;
        if entry.kind == FileType::Directory {
            give_tree_to(&dir.open_dir(&entry.name)?, caller)?;
        }
    }
    Ok(())
}
