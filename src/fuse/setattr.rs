//! Changing attributes: permissions, owner, length and times. Only the length is content.

use std::fs::File;
use std::sync::Arc;
use std::time::SystemTime;

use rustix::fs::{OFlags, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT};

use crate::node::dir::DirNode;
use crate::node::file::FileNode;
use crate::node::{Node, NodeKind};
use crate::recording::AttributeChange;
use crate::seal_queue::SealJob;
use crate::{
    Caller, Fh, FsError, Ino, NewTime, Result, SetAttr, Shared, TimedAttr, far, getattr,
    message_log, recording, write_once,
};
use ctxfs_store::{Dir, stat_file};

/// Makes a change, and returns the attributes after it.
pub(super) fn setattr(
    fs: &Arc<Shared>,
    ino: Ino,
    change: &SetAttr,
    fh: Option<Fh>,
) -> Result<TimedAttr> {
    let node = fs.nodes.get(ino)?;
    match &node.kind {
        NodeKind::File(file) => set_file(fs, &node, file, change, fh)?,
        NodeKind::Dir(_) if change.size.is_some() => return Err(FsError::IsADirectory),
        NodeKind::Dir(dir) => set_dir(&node, dir, change)?,
        NodeKind::Computed(_) | NodeKind::ViewDir { .. } | NodeKind::Control => {
            return Err(FsError::Computed);
        }
    }
    if let Some(linked) = node.link() {
        fs.promises.end_about(linked);
    }
    let entry = getattr::entry(fs, &node)?;
    Ok(TimedAttr { attr: entry.attr, ttl: entry.attr_ttl })
}

fn set_file(
    fs: &Shared,
    node: &Arc<Node>,
    file: &FileNode,
    change: &SetAttr,
    fh: Option<Fh>,
) -> Result<()> {
    if change.size == Some(0) && far::is_away(file) {
        write_once::check(fs, file)?;
        far::begin_anew(fs, node, file, || resize(fs, node, file, 0, fh))?;
    } else {
        far::bring_here(fs, node, file)?;
        if let Some(size) = change.size {
            resize(fs, node, file, size, fh)?;
        }
    }
    let Some(link) = file.link.get() else {
        return set_open(&*file.any_open().ok_or(FsError::Stale)?, change);
    };
    let dir = link.dir()?;
    // Before anything is changed, as this may have to be tried again. What was resized is sealed anew.
    let held = if change.size.is_none() { recording::hold_sealed(fs, node)? } else { None };
    // A time that is set here must not look like a change by another process.
    let mut life = file.life();
    let before = dir.stat(&link.name)?;
    life.noticed(&before, fs.engine.store.clock());
    set_named(&dir, &link.name, change)?;
    life.left_as(&dir.stat(&link.name)?);
    drop(life);
    let sets_time = change.mtime.is_some();
    let change = AttributeChange { before: &before, sets_time };
    held.map_or(Ok(()), |held| recording::record_attributes(fs, held, (node, &change), None))
}

/// Cuts or extends a file. Without a handle that writes, this is a life of its own: the artifact is
/// live for a moment, then sealed again.
pub(super) fn resize(
    fs: &Shared,
    node: &Arc<Node>,
    file: &FileNode,
    size: u64,
    fh: Option<Fh>,
) -> Result<()> {
    if node.is_message_log() {
        let (shown, published) = message_log::shown_with(&fs.engine, node, file.stat()?)?;
        if size != shown.size {
            return Err(FsError::AppendOnly);
        }
        if published.is_some() {
            return Ok(());
        }
    }
    let open = open_to_resize(fs, file, fh)?;
    fs.engine.check_cap(&|| file.is_terminal_log(), &|| Ok(stat_file(&open)?.size), size)?;
    let mut life = file.life();
    life.noticed(&stat_file(&open)?, fs.engine.store.clock());
    open.set_len(size)?;
    let closed = life.resized(&stat_file(&open)?);
    drop(life);
    if let Some(id) = file.charged_to() {
        fs.engine.space.freed(&id);
    }
    if closed {
        drop(open);
        fs.sealer.submit(SealJob::Seal(Arc::clone(node)));
    }
    Ok(())
}

/// Cuts off a file that `caller` has opened as `fh` to be empty. Whoever is not root takes the
/// set-id bits from it, as by each change of its bytes: here the kernel does not do that.
pub(super) fn empty(
    fs: &Shared,
    node: &Arc<Node>,
    file: &FileNode,
    (fh, caller): (Fh, Caller),
) -> Result<()> {
    resize(fs, node, file, 0, Some(fh))?;
    fs.promises.end_about(&file.link);
    let handle = fs.handles.file(fh)?;
    let mode = stat_file(&handle.file)?.mode & 0o7777;
    let of_group = if mode & libc::S_IXGRP == 0 { 0 } else { libc::S_ISGID };
    let kept = mode & !(libc::S_ISUID | of_group);
    if caller.uid != 0 && kept != mode {
        let mut life = file.life();
        rustix::fs::fchmod(&*handle.file, rustix::fs::Mode::from_raw_mode(kept))?;
        life.left_as(&stat_file(&handle.file)?);
    }
    Ok(())
}

/// Returns a descriptor that can write: that of the handle `fh` if it can, or a new one.
fn open_to_resize(fs: &Shared, file: &FileNode, fh: Option<Fh>) -> Result<Arc<File>> {
    let handle = fh.and_then(|fh| fs.handles.file(fh).ok()).filter(|handle| handle.writes);
    if let Some(handle) = handle {
        return Ok(Arc::clone(&handle.file));
    }
    write_once::check(fs, file)?;
    Ok(Arc::new(file.open(OFlags::WRONLY)?))
}

fn set_dir(node: &Node, dir: &DirNode, change: &SetAttr) -> Result<()> {
    if node.is_root() {
        return Err(FsError::RootHoldsConversations);
    }
    let link = dir.link.get().ok_or(FsError::Stale)?;
    set_named(&*link.dir()?, &link.name, change)
}

/// Sets the owner first: a change of owner clears the set-id bits, which a mode may set again.
fn set_named(dir: &Dir, name: &std::ffi::OsStr, change: &SetAttr) -> Result<()> {
    if change.uid.is_some() || change.gid.is_some() {
        dir.chown(name, change.uid, change.gid)?;
    }
    if let Some(mode) = change.mode {
        dir.chmod(name, mode)?;
    }
    if let Some(times) = times(change) {
        dir.utimens(name, &times)?;
    }
    Ok(())
}

fn set_open(file: &File, change: &SetAttr) -> Result<()> {
    if change.uid.is_some() || change.gid.is_some() {
        let uid = change.uid.map(rustix::fs::Uid::from_raw);
        let gid = change.gid.map(rustix::fs::Gid::from_raw);
        rustix::fs::fchown(file, uid, gid)?;
    }
    if let Some(mode) = change.mode {
        rustix::fs::fchmod(file, rustix::fs::Mode::from_raw_mode(mode & 0o7777))?;
    }
    if let Some(times) = times(change) {
        rustix::fs::futimens(file, &times)?;
    }
    Ok(())
}

fn times(change: &SetAttr) -> Option<Timestamps> {
    let asked = change.atime.is_some() || change.mtime.is_some();
    asked.then(|| Timestamps {
        last_access: timespec(change.atime),
        last_modification: timespec(change.mtime),
    })
}

fn timespec(time: Option<NewTime>) -> Timespec {
    match time {
        None => Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        Some(NewTime::Now) => Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
        Some(NewTime::At(time)) => match time.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(after) => Timespec {
                tv_sec: i64::try_from(after.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: after.subsec_nanos().into(),
            },
            Err(before) => before_epoch(before.duration()),
        },
    }
}

/// Converts a time before the epoch: seconds count down from there, nanoseconds always up.
fn before_epoch(before: std::time::Duration) -> Timespec {
    let seconds = -i64::try_from(before.as_secs()).unwrap_or(i64::MAX);
    match before.subsec_nanos() {
        0 => Timespec { tv_sec: seconds, tv_nsec: 0 },
        nanos => Timespec { tv_sec: seconds - 1, tv_nsec: i64::from(1_000_000_000 - nanos) },
    }
}
