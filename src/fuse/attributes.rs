//! Attributes of nodes, their cache lifetimes, and operations that change attributes: permissions,
//! owner, length and times. Of these changes, only a change of the length changes the content. Also
//! extended attributes: the provenance that writers set on an artifact, and any that users set.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustix::fs::{OFlags, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, XattrFlags};

use crate::attr::Inherited;
use crate::record::AttributeChange;
use crate::remote::Attribute;
use crate::{
    Attr, Caller, CallerAccess, ContextFs, DirNode, Entry, Fh, FileKind, FileNode, FsError, Ino,
    NewTime, Node, NodeKey, NodeKind, PromiseMark, Result, SealJob, SetAttr, Shared, TimedAttr,
    lookup, message_log, record, remote, write_once,
};
use ctxfs_core::model::{Component, Provenance};
use ctxfs_engine::{DoorFile as _, FileLife as _, Freed, Growth, PlannedWrite};
use ctxfs_store::{
    Dir, attribute, attributes, parse_attribute, provenance_of, remove_attribute, set_attribute,
    stat_file,
};

/// Cache lifetime of a directory's attributes. The kernel sees a change made through the mount at
/// once, and a change by another process after this time.
const DIR_TTL: Duration = Duration::from_secs(1);
/// Cache lifetime of a file's attributes if the kernel has no promise about them (see the module
/// `promises`). Each look-up returns fresh attributes, so this only covers operations that follow
/// at once, such as opening the file.
pub(super) const FILE_ATTR_TTL: Duration = Duration::from_millis(100);
/// Minimum age of a file's last change before the kernel gets a promise about the file. Another
/// change may soon follow a recent one.
const QUIET_TIME: Duration = Duration::from_millis(50);

pub(super) fn getattr(
    fs: &Arc<Shared>,
    ino: Ino,
    caller: Caller,
    done: impl FnOnce(Result<TimedAttr>) + Send + 'static,
) {
    let node = match fs.nodes.get(ino) {
        Ok(node) => node,
        Err(error) => return done(Err(error)),
    };
    let NodeKind::Computed(of) = &node.kind else {
        let entry = entry(fs, &node);
        return done(entry.map(|entry| TimedAttr { attr: entry.attr, ttl: entry.attr_ttl }));
    };
    let known = lookup::attr_of_computed(&node, of);
    // No access check is needed. A closed node shows no size, and the caller could read any other
    // node when it looked the node up. A known size never changes.
    if of.closed || !known.ttl.is_zero() {
        return done(Ok(known));
    }
    if let Err(error) = CallerAccess::new(fs, caller).check(of) {
        return done(Err(error));
    }
    let again = Arc::clone(&node);
    of.computed.text(&fs.engine, move |text| {
        done(text.map_err(FsError::from).and_then(|_| match &again.kind {
            NodeKind::Computed(of) => Ok(lookup::attr_of_computed(&again, of)),
            _ => Err(FsError::Stale),
        }));
    });
}

pub(super) fn entry(fs: &Shared, node: &Node) -> Result<Entry> {
    let is_computed = matches!(node.kind, NodeKind::ViewDir { .. });
    let timed = |attr, attr_ttl, entry_ttl| Entry { attr, attr_ttl, entry_ttl, is_computed };
    Ok(match &node.kind {
        NodeKind::Computed(of) => {
            // The kernel does not cache the name, so that it sees the next version at once.
            let TimedAttr { attr, ttl } = lookup::attr_of_computed(node, of);
            Entry { attr, attr_ttl: ttl, entry_ttl: Duration::ZERO, is_computed: true }
        }
        NodeKind::File(file) => {
            let (attr, lasts) = promised(fs, node, file)?;
            // While the kernel caches a name, it skips look-ups. With promises, the attributes may
            // therefore not outlast the promise.
            let attr_ttl = if fs.promises.are_given() { lasts } else { FILE_ATTR_TTL };
            timed(attr, attr_ttl, lasts)
        }
        NodeKind::Dir(_) | NodeKind::Control => timed(attr(fs, node)?, DIR_TTL, DIR_TTL),
        NodeKind::ViewDir { .. } => timed(attr(fs, node)?, DIR_TTL, Duration::ZERO),
    })
}

fn promised(fs: &Shared, node: &Node, file: &FileNode) -> Result<(Attr, Duration)> {
    let link = file.link.get();
    let mark = link.as_ref().and_then(|link| PromiseMark::of(&fs.promises, &link.parent));
    let attr = attr(fs, node)?;
    let lasts = match (link, mark) {
        (Some(link), Some(mark)) if is_at_rest(file, attr.ctime) && !node.is_message_log() => {
            mark.give(&link.name, node.ino)
        }
        _ => Duration::ZERO,
    };
    Ok((attr, lasts))
}

/// Returns true if no handle of this mount writes to `file`, the file is sealed and local, and its
/// last change is at least [`QUIET_TIME`] old.
pub(super) fn is_at_rest(file: &FileNode, changed: SystemTime) -> bool {
    let is_settled = changed.elapsed().is_ok_and(|age| age >= QUIET_TIME);
    is_settled && file.remote_stat().is_none() && {
        let life = file.life();
        !life.has_writers() && !life.is_unsealed()
    }
}

fn attr(fs: &Shared, node: &Node) -> Result<Attr> {
    Ok(match &node.kind {
        NodeKind::File(file) => {
            let (shown, _) = message_log::shown_with(&fs.engine, node, file.stat()?)?;
            Attr::of_disk(node.ino, &shown)
        }
        NodeKind::Dir(dir) => {
            let mut attr = Attr::of_disk(node.ino, &dir.stat()?);
            if node.is_root() {
                attr.perm = fs.options.root_mode;
            }
            attr
        }
        NodeKind::ViewDir { of, .. } => {
            check_name(fs, node, of)?;
            let stat = match &of.kind {
                NodeKind::Dir(dir) => dir.stat()?,
                _ => of.as_file()?.stat()?,
            };
            Attr::of_computed(node.ino, FileKind::Directory, 0, &Inherited::of(&stat))
        }
        NodeKind::Control => {
            let inherited = Inherited::of(&fs.top_stat()?);
            Attr::of_computed(node.ino, FileKind::Directory, 0, &inherited)
        }
        NodeKind::Computed(of) => lookup::attr_of_computed(node, of).attr,
    })
}

/// Fails with [`FsError::Stale`] if `node` is a directory of views and its file has been renamed
/// since the look-up. The kernel may use a promised name from its cache, and has then not looked up
/// the new name.
pub(super) fn check_name(fs: &Shared, node: &Node, of: &Node) -> Result<()> {
    match node.key {
        NodeKey::ViewDir(_, _, _, name)
            if fs.promises.are_given() && name != of.number_of_name() =>
        {
            Err(FsError::Stale)
        }
        _ => Ok(()),
    }
}

impl ContextFs {
    pub fn setattr(&self, ino: Ino, change: &SetAttr, fh: Option<Fh>) -> Result<TimedAttr> {
        let fs = &self.0;
        let node = fs.nodes.get(ino)?;
        match &node.kind {
            NodeKind::File(file) => set_file(fs, &node, file, change, fh)?,
            NodeKind::Dir(_) if change.size.is_some() => return Err(FsError::IsADirectory),
            NodeKind::Dir(dir) => set_dir(&node, dir, change)?,
            // A program that copies a directory sets its attributes at the end.
            NodeKind::ViewDir { .. } if leaves_all_but_times(&attr(fs, &node)?, change) => {}
            NodeKind::Computed(_) | NodeKind::ViewDir { .. } | NodeKind::Control => {
                return Err(FsError::Computed);
            }
        }
        fs.promises.end_about(&node);
        let entry = entry(fs, &node)?;
        Ok(TimedAttr { attr: entry.attr, ttl: entry.attr_ttl })
    }
}

/// Returns true if `change` leaves the mode, owner and size of a directory as they are.
fn leaves_all_but_times(attr: &Attr, change: &SetAttr) -> bool {
    change.size.is_none()
        && change.mode.is_none_or(|mode| mode & 0o7777 == u32::from(attr.perm))
        && change.uid.is_none_or(|uid| uid == attr.uid)
        && change.gid.is_none_or(|gid| gid == attr.gid)
}

fn set_file(
    fs: &Shared,
    node: &Arc<Node>,
    file: &FileNode,
    change: &SetAttr,
    fh: Option<Fh>,
) -> Result<()> {
    if change.size == Some(0) && remote::is_remote(file) {
        write_once::check(fs, file)?;
        remote::replace_by_empty(fs, node, file, || resize(fs, node, file, 0, fh))?;
    } else {
        remote::fetch(fs, node, file)?;
        if let Some(size) = change.size {
            resize(fs, node, file, size, fh)?;
        }
    }
    let Some(link) = file.link.get() else {
        return set_open(&*file.any_open().ok_or(FsError::Stale)?, change);
    };
    let dir = link.dir()?;
    // Take the lock before any change, because the operation may have to be retried. A resized file
    // needs no lock here: it is sealed again.
    let held = if change.size.is_none() { record::lock_sealed(fs, node)? } else { None };
    // A change of times here must not look like a change by another process.
    let mut life = file.life();
    let before = dir.stat(&link.name)?;
    life.noticed(&before, fs.engine.store().clock());
    set_named(&dir, &link.name, change)?;
    life.bytes.left_as(&dir.stat(&link.name)?);
    drop(life);
    let sets_time = change.mtime.is_some();
    let change = AttributeChange { before: &before, sets_time };
    held.map_or(Ok(()), |held| record::record_attributes(fs, held, (node, &change), None))
}

/// Truncates or extends a file. If no handle writes to it, the artifact becomes live for a moment
/// and is then sealed again.
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
    let write = PlannedWrite { file, open: &open, offset: Some(size), length: 0 };
    fs.engine.reserve(Growth::Write(write))?;
    let mut life = file.life();
    life.noticed(&stat_file(&open)?, fs.engine.store().clock());
    open.set_len(size)?;
    let closed = life.resized(&stat_file(&open)?);
    drop(life);
    if let Some(id) = file.charged_to() {
        fs.engine.freed(&id, Freed { is_live: true, ..Freed::default() });
    }
    if closed {
        drop(open);
        fs.sealer.submit(SealJob::Seal(Arc::clone(node)));
    }
    Ok(())
}

/// Truncates a file that `caller` has opened as `fh`, and clears its set-id bits unless the caller
/// is root. The kernel does not clear the bits in this case.
pub(super) fn empty(
    fs: &Shared,
    node: &Arc<Node>,
    file: &FileNode,
    (fh, caller): (Fh, Caller),
) -> Result<()> {
    resize(fs, node, file, 0, Some(fh))?;
    fs.promises.end_about(node);
    let handle = fs.handles.file(fh)?;
    let mode = stat_file(&handle.file)?.mode & 0o7777;
    let of_group = if mode & libc::S_IXGRP == 0 { 0 } else { libc::S_ISGID };
    let kept = mode & !(libc::S_ISUID | of_group);
    if caller.uid != 0 && kept != mode {
        let mut life = file.life();
        rustix::fs::fchmod(&*handle.file, rustix::fs::Mode::from_raw_mode(kept))?;
        life.bytes.left_as(&stat_file(&handle.file)?);
    }
    Ok(())
}

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

/// Sets the owner before the mode, because a change of owner clears the set-id bits and the mode
/// may set them again.
fn set_named(dir: &Dir, name: &OsStr, change: &SetAttr) -> Result<()> {
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

/// Converts a time that lies `before` the epoch. Seconds are negative; nanoseconds are never
/// negative and count forward from the second.
fn before_epoch(before: std::time::Duration) -> Timespec {
    let seconds = -i64::try_from(before.as_secs()).unwrap_or(i64::MAX);
    match before.subsec_nanos() {
        0 => Timespec { tv_sec: seconds, tv_nsec: 0 },
        nanos => Timespec { tv_sec: seconds - 1, tv_nsec: i64::from(1_000_000_000 - nanos) },
    }
}

/// The prefix of attributes that ctxfs interprets; see `store::parse_attribute`.
const OURS: &[u8] = b"user.ctx.";

impl ContextFs {
    /// Sets an extended attribute. Fails with EINVAL if ctxfs interprets attributes of this name
    /// and the value is invalid.
    pub fn setxattr(&self, ino: Ino, name: &OsStr, value: &[u8], flags: i32) -> Result<()> {
        let fs = &self.0;
        if !is_user(name) {
            return Err(FsError::Unsupported);
        }
        let (node, file) = attribute_file(fs, ino)?;
        let ours = name.as_bytes().starts_with(OURS);
        if ours && !parse_attribute(&name.to_string_lossy(), value, &mut Provenance::default()) {
            return Err(FsError::Invalid("an attribute of this name or value is not known"));
        }
        let flags = XattrFlags::from_bits_retain(flags as u32);
        let bytes = (name.len() + value.len()) as u64;
        let _room = fs.engine.reserve(Growth::Bytes(charged_to(&node).as_ref(), bytes))?;
        let value = match (fs.engine.options().stored_rules(), str::from_utf8(value)) {
            (Some(rules), Ok(text)) => &rules.mask_text(text).into_bytes(),
            _ => value,
        };
        change_attribute(fs, (&node, &file), || Ok(set_attribute(&file, name, value, flags)?))
    }

    pub fn getxattr(&self, ino: Ino, name: &OsStr) -> Result<Vec<u8>> {
        let fs = &self.0;
        // The kernel requests security.capability before every cached write, so this check comes
        // first. Of other kinds, `ls -l` asks for each name unless they are not supported.
        if !is_user(name) {
            let is_known = name == "security.capability";
            return Err(if is_known { FsError::NoAttribute } else { FsError::Unsupported });
        }
        if let Some(all) = remote_attributes(fs, ino)? {
            let found = all.into_iter().find(|(known, _)| known == name);
            return found.map(|(_, value)| value).ok_or(FsError::NoAttribute);
        }
        match attribute_file(fs, ino) {
            Ok((_, file)) => attribute(&file, name)?.ok_or(FsError::NoAttribute),
            Err(FsError::Computed) => Err(FsError::NoAttribute),
            Err(error) => Err(error),
        }
    }

    /// Returns the names of all extended attributes. A NUL ends each name.
    pub fn listxattr(&self, ino: Ino) -> Result<Vec<u8>> {
        let fs = &self.0;
        let names = attribute_names(fs, ino)?;
        let shown = names.iter().filter(|name| is_user(name));
        Ok(shown.flat_map(|name| name.as_bytes().iter().copied().chain([0])).collect())
    }

    pub fn removexattr(&self, ino: Ino, name: &OsStr) -> Result<()> {
        let fs = &self.0;
        let (node, file) = attribute_file(fs, ino)?;
        if !is_user(name) {
            return Err(FsError::NoAttribute);
        }
        change_attribute(fs, (&node, &file), || Ok(remove_attribute(&file, name)?))
    }
}

/// Calls `act`, which changes an attribute of `file`. If the file is a sealed artifact, then copies
/// the provenance from the attributes to the record.
fn change_attribute(
    fs: &Shared,
    (node, file): (&Arc<Node>, &File),
    act: impl FnOnce() -> Result<()>,
) -> Result<()> {
    // Take the lock before any change, because the operation may have to be retried.
    let held = record::lock_sealed(fs, node)?;
    let before = &stat_file(file)?;
    act()?;
    let recorded = held.map_or(Ok(()), |held| {
        let provenance = provenance_of(file)?;
        let change = AttributeChange { before, sets_time: false };
        record::record_attributes(fs, held, (node, &change), Some(&provenance))
    });
    fs.promises.end_about(node);
    recorded
}

fn attribute_names(fs: &Shared, ino: Ino) -> Result<Vec<OsString>> {
    if let Some(all) = remote_attributes(fs, ino)? {
        return Ok(all.into_iter().map(|(name, _)| name).collect());
    }
    match attribute_file(fs, ino) {
        Ok((_, file)) => Ok(attributes(&file)?),
        Err(FsError::Computed) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

fn remote_attributes(fs: &Shared, ino: Ino) -> Result<Option<Vec<Attribute>>> {
    match &fs.nodes.get(ino)?.kind {
        NodeKind::File(file) => remote::attributes(fs, file),
        _ => Ok(None),
    }
}

fn attribute_file(fs: &Shared, ino: Ino) -> Result<(Arc<Node>, File)> {
    let node = fs.nodes.get(ino)?;
    let file = match &node.kind {
        NodeKind::File(file) => match file.open(OFlags::RDONLY) {
            Ok(open) => open,
            Err(_) if remote::is_remote(file) => {
                // A change of an attribute needs the local file.
                remote::fetch(fs, &node, file)?;
                file.open(OFlags::RDONLY)?
            }
            Err(error) => file.any_open().ok_or(error)?.try_clone()?,
        },
        NodeKind::Dir(dir) => File::from(dir.open()?.try_clone()?.into_fd()),
        NodeKind::Computed(_) | NodeKind::ViewDir { .. } | NodeKind::Control => {
            return Err(FsError::Computed);
        }
    };
    Ok((node, file))
}

fn charged_to(node: &Node) -> Option<Component> {
    node.as_file().map_or_else(|_| node.conversation(), |file| file.charged_to())
}

fn is_user(name: &OsStr) -> bool {
    name.as_bytes().starts_with(b"user.")
}
