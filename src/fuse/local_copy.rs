//! Copies that take the place of a sealed artifact's local file.
//!
//! The artifact stays what it was: its node, the nodes of its views and their texts. What counts as
//! such a copy is what the record says (see [`LocalFile`](ctxfs_core::model::LocalFile)); any other file
//! under the name is another one, whatever its bytes are.

use std::fs::File;

use rustix::fs::OFlags;

use crate::key::Key;
use crate::node::Link;
use crate::node::file::FileNode;
use crate::{FsError, Result, Shared, facts};
use ctxfs_engine::{Engine, FileId};
use ctxfs_store::Stat;

/// Has the node of an artifact go on with the file at `link`, of which the disk says `stat`, if
/// that is a copy which took its place. Otherwise the file is known by a node of its own.
pub(super) fn follow(fs: &Shared, link: &Link, stat: &Stat) {
    let is_known = || fs.nodes.find(&Key::Disk(FileId::of(stat))).is_some();
    if !stat.may_be_copy() || is_known() {
        return;
    }
    let Some((id, path)) = link.place() else { return };
    let Ok(original) = facts::original_at(&fs.engine, (&id, &path), stat) else { return };
    let Some(node) = fs.nodes.find(&Key::Disk(FileId::of(&original))) else { return };
    let Ok(file) = node.as_file() else { return };
    let before = file.id();
    if file.was(&original) && file.take_copy(stat) {
        fs.nodes.found_by_copy(&node, before);
    }
}

/// Opens the copy that has the name of `file`, for a view that is read without looking that name
/// up again. [`FsError::Stale`] where it has none.
pub(super) fn open(engine: &Engine, file: &FileNode) -> Result<File> {
    let link = file.link.get().ok_or(FsError::Stale)?;
    let dir = link.dir()?;
    let stat = dir.stat(&link.name).map_err(|_| FsError::Stale)?;
    if !file.was(&facts::original(engine, file, &stat)?) {
        return Err(FsError::Stale);
    }
    Ok(FileId::of(&stat).open(&dir, &link.name, OFlags::RDONLY)?)
}
